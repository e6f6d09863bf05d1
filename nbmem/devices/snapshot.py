"""The caching allocator's blocks: where each one lies, and whether it is in use.

    segment: total_size = the sizes of its blocks
             allocated_size = of those that are live
             active_size = of those that are live or wait for a stream
             requested_size = what was asked for in these

torch documents the layout at `torch.cuda.memory._snapshot()`. It is read here from the C function
below that, which takes the segments without the history's events: these can be millions. Reading
asks the driver nothing. Where the user records the allocator's history, torch itself adds one
event (`snapshot`) to it. Snapshots that were saved are read too, of torch 1.11 and newer: torch up
to 2.0 has a `history` in each block instead of `frames`, and no address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from nbmem.devices.protocols import CounterUnavailableError

Segment = Mapping[str, Any]
Snapshot = Mapping[str, Any] | Sequence[Segment]
"""What torch gives: with a history beside the segments, or the segments alone."""
State = Literal["live", "waiting", "free"]

_STATES: dict[str, State] = {
    "active_allocated": "live",
    "active_awaiting_free": "waiting",  # as torch documents it
    "active_pending_free": "waiting",  # as torch writes it
    "inactive": "free",
}
_NO_BLOCKS = {
    "cudaMallocAsync": "The cudaMallocAsync backend leaves its blocks to the driver, "
    "so what no tensor shows can't be listed.",
    "pluggable": "The allocator that was plugged in tells nothing of its blocks, "
    "so what no tensor shows can't be listed.",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the caching allocator."""

    address: int
    size: int
    requested: int | None
    """What was asked for; None where this torch does not keep it, or the block is free."""
    state: State
    stream: int
    """The stream that it was allocated for: 0 is the default stream."""
    pool: Literal["large", "small"]
    private: bool
    """It belongs to a pool of its own: a CUDA graph's, or a `torch.cuda.MemPool`."""
    expandable: bool
    stack: tuple[str, ...]
    """`file:line function`, innermost first; empty unless the allocator's history was on."""
    pool_id: tuple[int, int] = (0, 0)
    """`segment_pool_id`: of the private pool, or (0, 0)."""


@dataclass(frozen=True, slots=True)
class BlockSums:
    """What blocks add up to, by the names that a segment has for it."""

    reserved: int
    """`total_size`."""
    allocated: int
    """`allocated_size`: live blocks."""
    active: int
    """`active_size`: live blocks, and those that wait for a stream."""
    requested: int | None
    """`requested_size`: asked for in active blocks; None where this torch does not keep it."""
    private: int
    """Of `reserved`: in pools of CUDA graphs and of `torch.cuda.MemPool`."""


def read_blocks(type_: str, index: int) -> tuple[Block, ...]:
    """Returns every block on torch's device `index`, by segment and address.

    Raises:
        CounterUnavailableError: this allocator does not tell its blocks; the message says why.
    """
    backend = allocator_backend(type_)
    if backend in _NO_BLOCKS:
        raise CounterUnavailableError(_NO_BLOCKS[backend])
    take = getattr(torch._C, f"_{type_}_memorySnapshot", None)
    if take is None:
        raise CounterUnavailableError(f"torch does not list the blocks of {type_} devices.")
    return blocks_in(take_snapshot(take), index)


def blocks_in(snapshot: Snapshot, index: int | None = None) -> tuple[Block, ...]:
    """Returns every block of a snapshot, by segment and address.

    Args:
        snapshot: what `torch.cuda.memory._snapshot()` gave, or only its segments
            (`torch.cuda.memory_snapshot()`).
        index: the device whose blocks are wanted; None for all. Segments that name no device are
            anybody's.

    Raises:
        ValueError: it has a state of blocks that is not known here, or lacks what each snapshot of
            torch 1.11 and newer has.
    """
    try:
        return _blocks_of_device(snapshot, index)
    except KeyError as error:
        raise ValueError(
            f"torch's snapshot has a segment or a block without {error}, which nbmem needs."
        ) from error


def _blocks_of_device(snapshot: Snapshot, index: int | None) -> tuple[Block, ...]:
    own = (
        segment
        for segment in _segments_of(snapshot)
        if index is None or segment.get("device", index) == index
    )
    return tuple(block for segment in own for block in _blocks_of(segment))


def devices_in(snapshot: Snapshot) -> tuple[int, ...]:
    """Returns the numbers of the devices that have segments in a snapshot."""
    return tuple(sorted({int(segment.get("device", 0)) for segment in _segments_of(snapshot)}))


def sum_blocks(blocks: Iterable[Block]) -> BlockSums:
    """Returns what blocks add up to; of all blocks of a device, what its segments say."""
    reserved = allocated = active = requested = private = 0
    is_known = True
    for block in blocks:
        reserved += block.size
        private += block.size if block.private else 0
        allocated += block.size if block.state == "live" else 0
        if block.state != "free":
            active += block.size
            requested += block.requested or 0
            is_known &= block.requested is not None
    return BlockSums(reserved, allocated, active, requested if is_known else None, private)


def allocator_backend(type_: str) -> str:
    """Returns `native`, `cudaMallocAsync` or `pluggable`: `torch.cuda.get_allocator_backend()`."""
    ask = getattr(torch._C, f"_{type_}_getAllocatorBackend", None)
    return "native" if ask is None else str(ask())


def take_snapshot(take: Any, *, events: bool = False) -> Any:
    """Returns a snapshot, without the history's events if this torch can leave them out."""
    try:
        snapshot: Snapshot = take((0, 0, events))
    except (TypeError, RuntimeError):  # an older one knows only pools, or nothing, as argument
        snapshot = take(None)
    return snapshot


def _segments_of(snapshot: Snapshot) -> Sequence[Segment]:
    if isinstance(snapshot, Mapping):
        segments: Sequence[Segment] = snapshot["segments"]
        return segments
    return snapshot


def _blocks_of(segment: Segment) -> list[Block]:
    address = int(segment["address"])
    blocks = []
    for block in segment["blocks"]:
        address = int(block.get("address", address))
        blocks.append(_block(segment, block, address))
        address += int(block["size"])
    return blocks


def _block(segment: Segment, block: Mapping[str, Any], address: int) -> Block:
    size, state = int(block["size"]), _STATES.get(block["state"])
    if state is None:
        raise ValueError(
            f"torch's allocator has blocks that are {block['state']!r}, which nbmem does not know."
        )
    last: Mapping[str, Any]  # of torch up to 2.0, where the newest stands first
    last = next(iter(block.get("history") or ()), {})
    requested = block.get("requested_size", last.get("real_size"))
    frames = block.get("frames") or (last.get("frames") if state != "free" else None)
    return Block(
        address=address,
        size=size,
        requested=None if requested is None or state == "free" else min(int(requested), size),
        state=state,
        stream=int(segment.get("stream", 0)),
        pool="small" if segment.get("segment_type") == "small" else "large",
        private=_pool_id(segment) != (0, 0),
        expandable=bool(segment.get("is_expandable", False)),
        stack=stack_of(frames or ()),
        pool_id=_pool_id(segment),
    )


def _pool_id(segment: Segment) -> tuple[int, int]:
    first, second = segment.get("segment_pool_id") or (0, 0)
    return int(first), int(second)


def stack_of(frames: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns `file:line function` of each frame, in the order in which torch tells them."""
    return tuple(map(_frame, frames))


def _frame(frame: Mapping[str, Any]) -> str:
    """Returns `file:line function`; what a frame does not tell is `??`, as torch itself writes."""
    return f"{frame.get('filename') or '??'}:{frame.get('line') or 0} {frame.get('name') or '??'}"
