"""What one allocator says of itself at one moment: its counters, and its blocks beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.devices.protocols import reading_failed
from nbmem.devices.snapshot import Block, allocator_backend, read_blocks, sum_blocks
from nbmem.devices.workspaces import workspace_sizes

if TYPE_CHECKING:
    from nbmem.devices.allocator import Allocator, Stats
    from nbmem.records import Note

_ATTEMPTS = 3
"""Another thread may allocate between the two readings: they are taken anew until they agree."""


@dataclass(frozen=True, slots=True)
class AllocatorState:
    """Counters of `torch.cuda.memory_stats()`, each None where the allocator does not keep it."""

    allocated: int | None
    requested: int | None
    """Asked for in live blocks and in those that wait for a stream."""
    active: int | None
    reserved: int | None
    inactive_split: int | None
    """Free bytes in segments that are in use (`inactive_split_bytes`), which can't be given back;
    torch leaves expandable segments out."""
    blocks: tuple[Block, ...] | None
    """None where the allocator does not list them."""
    backend: str = "native"
    started: bool = True
    workspaces: frozenset[int] = frozenset()
    """Sizes of the library workspaces that torch makes."""
    notes: tuple[Note, ...] = ()


NOT_STARTED = AllocatorState(0, 0, 0, 0, 0, blocks=(), started=False)


def read_state(allocator: Allocator, index: int) -> AllocatorState:
    """Returns counters and blocks of torch's device `index`, of one moment if that can be had."""
    if not allocator.started() and allocator.silence() is None:
        return NOT_STARTED
    for _ in range(_ATTEMPTS):
        state = _read_once(allocator, index)
        if state.blocks is None or sum_blocks(state.blocks).allocated == state.allocated:
            break
    return state


def _read_once(allocator: Allocator, index: int) -> AllocatorState:
    device, notes = f"{allocator.type}:{index}", []
    stats: Stats = {}
    blocks = None
    try:
        stats = allocator.raw_stats(index)
    except Exception as error:  # an allocator that was plugged in need not count
        notes.append(reading_failed(device, "allocated", error))
    try:
        blocks = read_blocks(allocator.type, index)
    except Exception as error:
        notes.append(reading_failed(device, "blocks", error))
    backend = allocator_backend(allocator.type)
    kept = backend == "native"  # others report what they do not keep as 0
    return AllocatorState(
        allocated=_current(stats, "allocated_bytes"),
        requested=_current(stats, "requested_bytes") if kept else None,
        active=_current(stats, "active_bytes") if kept else None,
        reserved=_current(stats, "reserved_bytes"),
        inactive_split=_current(stats, "inactive_split_bytes") if kept else None,
        blocks=blocks,
        backend=backend,
        workspaces=workspace_sizes(allocator.type),
        notes=tuple(notes),
    )


def _current(stats: Stats, name: str) -> int | None:
    figure = stats.get(name, {}).get("all", {}).get("current")
    return None if figure is None else int(figure)
