"""What the allocator's history says of blocks: who allocated them, and the user's own labels.

    addresses ──> torch's traceback of each, where it has that and few are asked for ─┐
              └─> the snapshot's blocks, one of which an address lies in ─────────────┴──> stacks
    the history's events ──> labels

The history is the user's (`torch.cuda.memory._record_memory_history`): it is never turned on here.
A label (`torch.cuda.memory._set_memory_metadata`) is an event's, not a block's. Events are many,
and torch can't hand out a part of them: they are read only after a label was given.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nbmem.devices.protocols import CounterUnavailableError
from nbmem.devices.snapshot import read_blocks, stack_of, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from nbmem.devices.allocator import Allocator
    from nbmem.devices.snapshot import Block

Stack = tuple[str, ...]
"""`file:line function`, innermost first."""
MOST_EVENTS = 50_000
"""Events that are read for labels: each takes some 40 us and 1 KiB for the moment."""
_BLOCKS_PER_TRACEBACK = 6
"""Blocks that a snapshot tells in the time that torch takes for one traceback."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What the history has of one allocation."""

    stack: Stack = ()
    """Empty if it was allocated before the history was turned on."""
    label: str = ""
    """The user's own; empty if there is none, or if `labels_of` can't tell."""


def has_history(allocator: Allocator) -> bool:
    """Returns whether the user has the allocator's history on."""
    enabled = getattr(torch._C, f"_{allocator.type}_isHistoryEnabled", None)
    return enabled is not None and allocator.started() and bool(enabled())


def allocations_at(
    allocator: Allocator, index: int, addresses: Collection[int]
) -> dict[int, Allocation]:
    """Returns what the history has of the memory at each address; empty while it is off."""
    if not addresses or not has_history(allocator):
        return {}
    stacks, labels = _stacks_at(allocator, index, addresses), dict[int, str]()
    with suppress(CounterUnavailableError):  # said with the ledger
        labels = labels_of(allocator, index)
    return {each: Allocation(stacks.get(each, ()), labels.get(each, "")) for each in addresses}


def _stacks_at(allocator: Allocator, index: int, addresses: Collection[int]) -> dict[int, Stack]:
    found: dict[int, Stack] = {}
    ask = getattr(torch._C, f"_{allocator.type}_allocationTraceback", None)
    if ask is not None and _are_few(allocator, index, len(addresses)):
        told = ((address, stack_of(ask(address) or ())) for address in addresses)
        found = {address: stack for address, stack in told if stack}
    left = [address for address in addresses if address not in found]
    if left:  # within a block, or allocated before the history was turned on
        found |= stacks_in(read_blocks(allocator.type, index), left)
    return found


def _are_few(allocator: Allocator, index: int, asked: int) -> bool:
    live = allocator.raw_stats(index).get("allocation", {}).get("all", {}).get("current", 0)
    return asked * _BLOCKS_PER_TRACEBACK <= int(live)


def stacks_in(blocks: Iterable[Block], addresses: Iterable[int]) -> dict[int, Stack]:
    """Returns the stacks of the live blocks in which addresses lie, where they have one."""
    told = sorted((b for b in blocks if b.stack and b.state == "live"), key=lambda b: b.address)
    starts = [block.address for block in told]
    found = {}
    for address in addresses:
        number = bisect_right(starts, address) - 1
        if number >= 0 and address < told[number].address + told[number].size:
            found[address] = told[number].stack
    return found


def labels_of(allocator: Allocator, index: int) -> dict[int, str]:
    """Returns the user's labels of live blocks by address; empty if none are known to be given.

    Raises:
        CounterUnavailableError: the history may have more events than are read.
    """
    if not allocator.is_labelled() or not has_history(allocator):
        return {}
    take = getattr(torch._C, f"_{allocator.type}_memorySnapshot", None)
    if take is None:
        return {}
    if _events(allocator) > MOST_EVENTS:
        raise CounterUnavailableError(
            f"Your labels are not shown: the history may have more than {MOST_EVENTS:,} events. "
            f"torch.{allocator.type}.memory._snapshot()['device_traces'] has all that it kept."
        )
    traces = take_snapshot(take, events=True).get("device_traces", [])
    return labels_in(traces[index]) if index < len(traces) else {}


def labels_in(events: Iterable[Any]) -> dict[int, str]:
    """Returns the label of each address that was allocated and not freed, where it has one."""
    labels: dict[int, str] = {}
    for event in events:
        if event.get("action") == "alloc":
            labels[event["addr"]] = str(event.get("user_metadata") or "")
        elif event.get("action") == "free_completed":
            labels.pop(event["addr"], None)
    return {address: label for address, label in labels.items() if label}


def _events(allocator: Allocator) -> int:
    """Returns the most events that the history can have, of all devices."""
    most = 0
    for index in range(int(allocator.module.device_count())):
        stats = allocator.raw_stats(index)
        for what, made, freed in (("allocation", 1, 2), ("segment", 1, 1)):
            told = stats.get(what, {}).get("all", {})
            most += made * told.get("allocated", 0) + freed * told.get("freed", 0)
    return most
