"""The allocator's blocks joined with the storages found, block by block.

A storage usually fills what was asked for in one block. It may also be a part of it (C++ code that
hands out slices of one allocation), share it with another storage (DLPack, copy on write), or lie
in none (memory of another process or library): each byte of a block is counted once, for the first
category that has it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.devices.snapshot import Block
    from nbmem.ledger.found import FoundStorage


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A block, or what is left of one, that no storage found has."""

    block: Block
    bytes: int
    """Of what was asked for; all of it, or what the storages in it leave."""


@dataclass(slots=True)
class BlockJoin:
    """What each live block is for.

    Claimed + unclaimed + `rounding` = the bytes of all live blocks.
    """

    claimed: list[tuple[str, int]] = field(default_factory=list)
    """Category and bytes of each storage that lies in live blocks."""
    unclaimed: list[Unclaimed] = field(default_factory=list)
    waiting: list[Block] = field(default_factory=list)
    """Blocks whose tensor is gone and which another stream may still use."""
    rounding: int = 0
    """Bytes of live blocks beyond what was asked for."""
    live: int = 0
    free: int = 0
    free_private: int = 0
    """Of `free`: in private pools, where only their owner can use it."""
    shared: int = 0
    """Bytes that more than one storage has."""
    outside: list[FoundStorage] = field(default_factory=list)
    """Storages in no live block."""

    @property
    def held(self) -> int:
        """Bytes of blocks that wait for a stream."""
        return sum(block.size for block in self.waiting)


def join_blocks(blocks: Iterable[Block], storages: Iterable[FoundStorage]) -> BlockJoin:
    """Returns what the blocks of one device are for."""
    join = BlockJoin()
    live = sorted(_sort_out(blocks, join), key=lambda block: block.address)
    spans = _place(storages, live, join)
    for number, block in enumerate(live):
        asked = asked_for(block)
        join.live += block.size
        join.rounding += block.size - asked
        left = _left_of(asked, spans.get(number, ()))
        if left:
            join.unclaimed.append(Unclaimed(block, left))
    return join


def asked_for(block: Block) -> int:
    """Returns the bytes asked for in a block; all of it where the allocator does not keep that."""
    return block.size if block.requested is None else block.requested


def _sort_out(blocks: Iterable[Block], join: BlockJoin) -> list[Block]:
    """Returns the live blocks; the others are counted."""
    live = []
    for block in blocks:
        if block.state == "live":
            live.append(block)
        elif block.state == "waiting":
            join.waiting.append(block)
        else:
            join.free += block.size
            join.free_private += block.size if block.private else 0
    return live


Span = tuple[int, int]
"""Begin and end within a block, in bytes from its address."""


def _place(
    storages: Iterable[FoundStorage], live: Sequence[Block], join: BlockJoin
) -> dict[int, list[Span]]:
    """Returns the spans of each block that storages have, by the block's place in `live`."""
    starts = [block.address for block in live]
    spans: dict[int, list[Span]] = {}
    for storage in sorted(storages, key=lambda found: CATEGORIES.index(found.category)):
        if not storage.bytes:
            join.claimed.append((storage.category, 0))
        elif inside := _inside(storage, live, starts):
            new = sum(_cover(spans.setdefault(number, []), span) for number, span in inside)
            join.claimed.append((storage.category, new))
            join.shared += sum(end - begin for _, (begin, end) in inside) - new
        else:
            join.outside.append(storage)
    return spans


def _inside(
    storage: FoundStorage, live: Sequence[Block], starts: Sequence[int]
) -> list[tuple[int, Span]]:
    """Returns the blocks that the storage lies in, each by its place in `live`."""
    if storage.address is None:
        return []
    end = storage.address + storage.bytes
    found = []
    number = max(0, bisect_right(starts, storage.address) - 1)
    while number < len(live) and starts[number] < end:
        start = starts[number]
        span = max(0, storage.address - start), min(asked_for(live[number]), end - start)
        if span[0] < span[1]:
            found.append((number, span))
        number += 1
    return found


def _cover(spans: list[Span], new: Span) -> int:
    """Adds a span to those of a block; returns the bytes that none of them had."""
    fresh = [new]
    for begin, end in spans:
        fresh = [
            part
            for left, right in fresh
            for part in ((left, min(right, begin)), (max(left, end), right))
            if part[0] < part[1]
        ]
    spans.extend(fresh)
    return sum(end - begin for begin, end in fresh)


def _left_of(asked: int, spans: Iterable[Span]) -> int:
    return asked - sum(end - begin for begin, end in spans)
