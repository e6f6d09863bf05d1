"""Private pools of a device: their bytes add up, and the remedies fit who keeps them."""

import pytest

from nbmem.devices.snapshot import Block, blocks_in
from nbmem.ledger.blocks import join_blocks
from nbmem.ledger.pools import pools_of
from nbmem.records import DeviceLedger, PoolMemory, PoolOwner
from nbmem.render.ledger_words import tell_device

LAST = "`torch.cuda.empty_cache()`"


def block(address, size, state="live", pool=(0, 1)):
    asked = None if state == "free" else size
    private = pool != (0, 0)
    return Block(address, size, asked, state, 0, "large", private, False, (), pool)


def told(blocks, owners=(), workspaces=()):
    (pool,) = pools_of(blocks, join_blocks(blocks, ()), frozenset(workspaces), lambda: owners)
    return pool


def test_bytes_are_told_by_pool_largest_first_and_shared_memory_is_in_none():
    blocks = [
        block(0, 100),
        block(100, 50, "free"),
        block(200, 7, "waiting"),
        block(300, 1000, pool=(0, 0)),
        block(2000, 500, "free", pool=(4, 0)),
    ]
    pools = pools_of(blocks, join_blocks(blocks, ()), frozenset(), dict)
    figures = [(p.pool, p.reserved, p.allocated, p.cached) for p in pools]
    assert [((4, 0), 500, 0, 500), ((0, 1), 157, 100, 50)] == figures


def test_nobody_is_asked_for_where_there_is_no_private_pool():
    def fail():
        raise AssertionError("the heap was searched")

    assert () == pools_of([block(0, 100, pool=(0, 0))], None, frozenset(), fail)


@pytest.mark.parametrize(
    ("owners", "live", "remedy"),
    [
        ([], False, LAST),
        ([], True, f"drop the tensors in it, then {LAST}"),
        ([("MemPool", "p")], False, f"`del p`, then {LAST}"),
        ([("CUDA graph", "g")], True, f"`g.reset()`, drop the tensors in it, then {LAST}"),
        ([("graphed callable", "f")], False, f"`del f`, `gc.collect()`, then {LAST}"),
        ([("torch.compile", None)], False, f"`torch.compiler.reset()`, then {LAST}"),
        ([("CUDA graph", "g"), ("CUDA graph", None)], False, ""),
        ([("CUDA graph", "err → train() → local 'g'")], False, ""),
    ],
)
def test_the_remedy_fits_who_keeps_the_pool(owners, live, remedy):
    blocks = [block(0, 100, "live" if live else "free")]
    known = {(0, 1): tuple(PoolOwner(*owner) for owner in owners)}
    assert remedy == told(blocks, known).remedy


def test_workspaces_that_outlive_a_graph_are_given_back_too():
    pool = told([block(0, 8192), block(8192, 100, "free")], {}, workspaces={8192})
    assert (8192, 8192) == (pool.allocated, pool.workspaces)
    assert f"`torch._C._cuda_clearCublasWorkspaces()`, then {LAST}" == pool.remedy


def test_a_snapshot_tells_the_pool_of_each_block():
    segments = [
        {"address": 0, "blocks": [{"size": 512, "state": "inactive"}], "segment_pool_id": (0, 3)},
        {"address": 512, "blocks": [{"size": 512, "state": "inactive"}]},
    ]
    found = [(each.pool_id, each.private) for each in blocks_in(segments)]
    assert [((0, 3), True), ((0, 0), False)] == found


def test_names_of_owners_are_printed_clean_and_the_rest_is_counted():
    owners = tuple(PoolOwner("CUDA graph", f"g{n}\n\x1b[31m") for n in range(5))
    rows = (
        PoolMemory((0, 1), 2048, 1024, 0, 1024, owners, ""),
        PoolMemory((0, 2), 1024, 0, 0, 1024, (), ""),
        PoolMemory((0, 3), 512, 512, 0, 0, (PoolOwner("MemPool", None),), ""),
        PoolMemory((0, 4), 512, 512, 512, 0, (), ""),
    )
    (table,) = tell_device(
        DeviceLedger("cuda:0", "accelerator", None, (), pools=rows), "IEC"
    ).tables
    (kept,) = [column.texts for column in table.columns if column.heading == "kept by"]
    assert "\n" not in kept[0]
    assert "\x1b" not in kept[0]
    assert kept[0].endswith(", 2 more")
    assert "nobody any more" == kept[1]
    assert ("a MemPool without a name", "nobody any more but workspaces in it") == kept[2:]
