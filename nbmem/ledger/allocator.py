"""The first sum of an accelerator: what is allocated, and what for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.ledger.found import category_lines
from nbmem.ledger.unclaimed import unclaimed_lines
from nbmem.records import LedgerLine, LedgerSum, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.devices.insides import AllocatorState
    from nbmem.ledger.blocks import BlockJoin
    from nbmem.ledger.calls import Calls
    from nbmem.ledger.found import FoundStorage

ROUNDING = "rounding to whole blocks"


def allocated_sum(
    state: AllocatorState, join: BlockJoin | None, found: Sequence[FoundStorage], calls: Calls
) -> LedgerSum:
    """Returns storages + blocks without a tensor + rounding = allocated.

    Args:
        state: the allocator's counters.
        join: its blocks joined with the storages; None where it lists none.
        found: the storages, for where it does not.
        calls: what the lines equal.
    """
    total = LedgerLine("allocated", "allocated", state.allocated, equals=calls.allocated)
    if join is None:
        lines, notes = _lines_by_counters(state, found, calls)
    else:
        lines, notes = _lines_by_block(state, join, calls)
    return LedgerSum("allocated", tuple(lines), total, (*state.notes, *notes))


def _lines_by_block(
    state: AllocatorState, join: BlockJoin, calls: Calls
) -> tuple[list[LedgerLine], list[Note]]:
    rounding = LedgerLine("rounding", ROUNDING, join.rounding, equals=_rounding(calls))
    lines = [
        *category_lines(join.claimed),
        *unclaimed_lines(join.unclaimed, state.workspaces, f"block by block: {calls.snapshot}"),
        rounding,
    ]
    return lines, _join_notes(state, join)


def _rounding(calls: Calls) -> str:
    """What counts as requested includes blocks that wait for a stream: so does active."""
    return f"{calls.minus('active_bytes', 'requested_bytes')}, of live blocks"


def _join_notes(state: AllocatorState, join: BlockJoin) -> list[Note]:
    notes = []
    if join.shared:
        sentence = f"{join.shared:,} bytes belong to more than one storage; they are counted once."
        notes.append(Note("allocated", "shared", sentence))
    if join.outside:
        size = sum(storage.bytes for storage in join.outside)
        number = len(join.outside)
        lie = "1 storage lies" if number == 1 else f"{number:,} storages lie"
        sentence = (
            f"{lie} in memory that is not this allocator's but another library's or process's: "
            f"{size:,} bytes, which are not in this sum."
        )
        notes.append(Note("allocated", "outside", sentence))
    if state.allocated is not None and state.allocated != join.live:
        notes.append(_MOVING)
    return notes


_MOVING = Note(
    "allocated",
    "moving",
    "Another thread allocated or freed while this was read: counters and blocks disagree.",
)


def _lines_by_counters(
    state: AllocatorState, found: Sequence[FoundStorage], calls: Calls
) -> tuple[list[LedgerLine], list[Note]]:
    lines = category_lines((storage.category, storage.bytes) for storage in found)
    notes = []
    rounding = _counted_rounding(state)
    if rounding is None:
        notes.append(_NO_ROUNDING)
    else:
        lines.append(LedgerLine("rounding", ROUNDING, rounding, equals=_rounding(calls)))
    label = "not found" if rounding is not None else "not found, and rounding"
    lines.append(LedgerLine("not found", label, _rest(state.allocated, lines), derived=True))
    return lines, notes


def _counted_rounding(state: AllocatorState) -> int | None:
    """Returns rounding by the counters: of live blocks, where none waits for a stream."""
    if state.active is None or state.requested is None or state.active != state.allocated:
        return None
    return state.active - state.requested


_NO_ROUNDING = Note(
    "rounding",
    "not_told",
    "This allocator does not tell what was asked for in its live blocks: rounding is part of "
    "what was not found.",
)


def _rest(total: int | None, lines: Sequence[LedgerLine]) -> int | None:
    return None if total is None else total - sum(line.bytes or 0 for line in lines)
