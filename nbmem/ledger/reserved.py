"""The second sum of an accelerator: what its allocator reserved, and how much of it is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import LedgerLine, LedgerSum, Note

if TYPE_CHECKING:
    from nbmem.devices.insides import AllocatorState
    from nbmem.ledger.blocks import BlockJoin
    from nbmem.ledger.calls import Calls


def reserved_sum(state: AllocatorState, join: BlockJoin | None, calls: Calls) -> LedgerSum:
    """Returns allocated + waiting for streams + cached = reserved.

    Args:
        state: the allocator's counters.
        join: its blocks, of which what waits and what is cached are the sums; None where it lists
            none: then what is cached is derived.
        calls: what the lines equal.
    """
    total = LedgerLine("reserved", "reserved", state.reserved, equals=calls.reserved)
    used = LedgerLine("allocated", "allocated", state.allocated, equals=calls.allocated)
    beyond = _by_counters(state, calls) if join is None else _by_block(join, calls)
    parts, notes = _parts_of_cached(state, join, calls)
    silent = tuple(note for note in state.notes if note.field == "allocated")
    return LedgerSum("reserved", (used, *beyond, *parts), total, (*silent, *notes))


def _by_block(join: BlockJoin, calls: Calls) -> list[LedgerLine]:
    return [
        _waiting(join.held, len(join.waiting), calls),
        LedgerLine("cached", _CACHED, join.free, equals=_cached(calls)),
    ]


def _by_counters(state: AllocatorState, calls: Calls) -> list[LedgerLine]:
    if state.reserved is None or state.allocated is None:
        return [LedgerLine("cached", _CACHED, None, derived=True)]
    if state.active is None:
        label = "cached, or freed and waiting for streams"
        return [LedgerLine("cached", label, state.reserved - state.allocated, derived=True)]
    return [
        _waiting(state.active - state.allocated, None, calls),
        LedgerLine(
            "cached", _CACHED, state.reserved - state.active, derived=True, equals=_cached(calls)
        ),
    ]


_CACHED = "cached, free to use"


def _cached(calls: Calls) -> str:
    return calls.minus("reserved_bytes", "active_bytes")


def _waiting(size: int, count: int | None, calls: Calls) -> LedgerLine:
    equals = calls.minus("active_bytes", "allocated_bytes")
    return LedgerLine("waiting", "freed, waiting for streams", size, count, equals=equals)


def _parts_of_cached(
    state: AllocatorState, join: BlockJoin | None, calls: Calls
) -> tuple[list[LedgerLine], tuple[Note, ...]]:
    """Returns what of the cached bytes is not simply free, and why it may be too little."""
    parts = []
    if state.inactive_split is not None:
        label, equals = "fragmented", calls.stat("inactive_split_bytes")
        size = state.inactive_split
        parts.append(LedgerLine("fragmented", label, size, equals=equals, part_of="cached"))
    if join is not None and join.free_private:
        label = "in private pools"
        equals = f"block by block: {calls.snapshot}"
        parts.append(
            LedgerLine("private", label, join.free_private, equals=equals, part_of="cached")
        )
    expandable = any(block.expandable for block in state.blocks or ())
    return parts, (_EXPANDABLE,) if expandable else ()


_EXPANDABLE = Note(
    "fragmented",
    "expandable_segments",
    "torch counts no fragments in expandable segments: it can give whole free pages of them back.",
)
