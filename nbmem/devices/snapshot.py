"""The caching allocator's blocks: where each one lies, and whether it is in use.

torch documents the layout at `torch.cuda.memory._snapshot()`. It is read here from the C function
below that, which takes the segments without the history's events: these can be millions. Reading
asks the driver nothing. Where the user records the allocator's history, torch itself adds one
event (`snapshot`) to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from nbmem.devices.protocols import CounterUnavailableError

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
    segments = _take_segments(take)
    own = (segment for segment in segments if segment.get("device", index) == index)
    return tuple(block for segment in own for block in _blocks_of(segment))


def allocator_backend(type_: str) -> str:
    """Returns `native`, `cudaMallocAsync` or `pluggable`: `torch.cuda.get_allocator_backend()`."""
    ask = getattr(torch._C, f"_{type_}_getAllocatorBackend", None)
    return "native" if ask is None else str(ask())


def _take_segments(take: Any) -> list[dict[str, Any]]:
    """Returns the segments, without the history's events where this torch can leave them out."""
    try:
        snapshot = take((0, 0, False))
    except (TypeError, RuntimeError):  # an older one knows only pools, or nothing, as argument
        snapshot = take(None)
    segments: list[dict[str, Any]] = snapshot["segments"]
    return segments


def _blocks_of(segment: dict[str, Any]) -> list[Block]:
    address = int(segment["address"])
    blocks = []
    for block in segment["blocks"]:
        address = int(block.get("address", address))
        blocks.append(_block(segment, block, address))
        address += int(block["size"])
    return blocks


def _block(segment: dict[str, Any], block: dict[str, Any], address: int) -> Block:
    size, state = int(block["size"]), _STATES[block["state"]]
    requested = block.get("requested_size")
    return Block(
        address=address,
        size=size,
        requested=None if requested is None or state == "free" else min(int(requested), size),
        state=state,
        stream=int(segment.get("stream", 0)),
        pool="small" if segment.get("segment_type") == "small" else "large",
        private=tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0),
        expandable=bool(segment.get("is_expandable", False)),
        stack=tuple(map(_frame, block.get("frames") or ())),
    )


def _frame(frame: dict[str, Any]) -> str:
    return f"{frame['filename']}:{frame['line']} {frame['name']}"
