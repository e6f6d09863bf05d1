"""Any storages over any blocks: each byte of a live block is counted exactly once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nbmem.devices.snapshot import Block
from nbmem.ledger.blocks import join_blocks
from nbmem.ledger.found import FoundStorage
from nbmem.ledger.unclaimed import block_rows, unclaimed_lines
from nbmem.records import CATEGORIES

# Hypothesis times the collector by a callback that stays: so it comes before any test begins.
given(st.none())(lambda nothing: None)()

SPAN = 64
"""Addresses 0 to 63, so that most storages meet a block and many meet each other."""


@st.composite
def laid_out(draw):
    """Blocks side by side, some with gaps between them."""
    blocks, at = [], draw(st.integers(1, 4))
    while at < SPAN:
        size = draw(st.integers(1, 12))
        state = draw(st.sampled_from(["live", "live", "live", "waiting", "free"]))
        asked = draw(st.none() | st.integers(0, size)) if state != "free" else None
        private = draw(st.booleans())
        blocks.append(Block(at, size, asked, state, 0, "large", private, False, ()))
        at += size + draw(st.sampled_from([0, 0, 3]))
    return draw(st.permutations(blocks))


storages = st.lists(
    st.builds(
        FoundStorage,
        st.sampled_from(CATEGORIES),
        st.integers(0, 20),
        st.none() | st.integers(1, SPAN),
    ),
    max_size=12,
)


def bytes_asked_for(blocks):
    asked = {}
    for number, block in enumerate(blocks):
        if block.state == "live":
            size = block.size if block.requested is None else block.requested
            asked |= dict.fromkeys(range(block.address, block.address + size), number)
    return asked


@settings(deadline=None)
@given(laid_out(), storages)
def test_every_byte_of_a_live_block_is_counted_once_and_for_the_first_category(blocks, found):
    asked = bytes_asked_for(blocks)
    owner = {}
    for storage in sorted(found, key=lambda one: CATEGORIES.index(one.category)):
        for byte in range(storage.bytes if storage.address else 0):
            owner.setdefault(storage.address + byte, storage.category)
    expected = dict.fromkeys((one.category for one in found), 0)
    for byte in asked:
        if byte in owner:
            expected[owner[byte]] += 1
    join = join_blocks(blocks, found)
    told = {}
    for category, size in join.claimed:
        told[category] = told.get(category, 0) + size
    for storage in join.outside:
        told.setdefault(storage.category, 0)
    assert expected == told
    left = [byte for byte in asked if byte not in owner]
    assert len(left) == sum(part.bytes for part in join.unclaimed)
    live = sum(block.size for block in blocks if block.state == "live")
    assert live - len(asked) == join.rounding
    assert live == join.live == sum(told.values()) + len(left) + join.rounding


@settings(deadline=None)
@given(laid_out(), storages)
def test_the_rows_and_the_lines_of_blocks_without_a_tensor_have_the_same_bytes(blocks, found):
    join = join_blocks(blocks, found)
    rows = block_rows(join, frozenset(), {})
    lines = unclaimed_lines(join.unclaimed, frozenset(), "")
    without = {part.block.address: part for part in join.unclaimed}
    whole = sum(
        part.block.size if part.bytes == (part.block.requested or part.block.size) else part.bytes
        for part in without.values()
    )
    assert whole == sum(row.bytes for row in rows if row.state == "live")
    assert sum(part.bytes for part in join.unclaimed) == sum(line.bytes for line in lines)
    assert sum(line.count for line in lines) == sum(r.count for r in rows if r.state == "live")
    waiting = sum(block.size for block in blocks if block.state == "waiting")
    assert waiting == sum(row.bytes for row in rows if row.state == "waits for a stream")
    assert sorted((row.bytes for row in rows), reverse=True) == [row.bytes for row in rows]
