"""Parking: memory moved from an accelerator to pinned CPU memory, and brought back.

    names ──> reached ──> trip: what moves, what is refused ──> move ──> report
                           ^                                     │
                           └── lot: who is parked, weakly <──────┘

What can't be moved stays where it is and is told with the reason. The rest moves together, or,
where memory runs out, none of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch

from nbmem.heap import scan_heap
from nbmem.heap.pinned import pinned_block, pinned_total
from nbmem.reclaim.lot import ParkingLot
from nbmem.reclaim.moves import HOST, Load, MoveError, move, requires_grad
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.trips import Trip, place_of, plan_parking, plan_return
from nbmem.records import Note, ReclaimReport
from nbmem.units import format_bytes

_OldStorage = tuple[weakref.ref[torch.UntypedStorage], int, str]


def park(
    holdings: Holdings, lot: ParkingLot, names: Sequence[str], *, dry_run: bool = False
) -> ReclaimReport:
    """Moves what these names lead to from accelerators to pinned CPU memory.

    Args:
        holdings: what an act may touch.
        lot: where what was moved is remembered.
        names: variables, or what an inventory prints for anything below one.
        dry_run: only the plan.
    """
    return _go(holdings, lot, plan_parking(holdings, lot, names), dry_run)


def unpark(
    holdings: Holdings, lot: ParkingLot, names: Sequence[str] = (), *, dry_run: bool = False
) -> ReclaimReport:
    """Brings what is parked back to where it came from; without names, all of it.

    Args:
        holdings: what an act may touch.
        lot: what is parked.
        names: names of now that lead to it, or those under which it was parked.
        dry_run: only the plan.
    """
    return _go(holdings, lot, plan_return(holdings, lot, names), dry_run)


def _go(holdings: Holdings, lot: ParkingLot, trip: Trip, dry_run: bool) -> ReclaimReport:
    try:
        devices, planned = trip.devices(), trip.sentences()
        counts, before = _bytes_on(holdings, lot, devices)
        promised = sum(load.bytes * (1 if load.target == HOST else -1) for load in trip.loads)
        old = [(weakref.ref(load.storage), load.bytes, load.source) for load in trip.loads]
        done = bool(trip.loads) and not dry_run and _move(lot, trip)
    finally:
        trip.clear()
    return ReclaimReport(
        act=trip.act,
        planned=planned,
        dropped=planned if done else (),
        refused=tuple(trip.refused),
        bytes_before=before,
        bytes_after=None if dry_run else _bytes_on(holdings, lot, devices)[1],
        counts=counts,
        still_held=_still_held(old) if done else (),
        notes=(*trip.notes, *(_kept_pinned(old) if done else ())),
        promised=promised if planned else None,
    )


def _move(lot: ParkingLot, trip: Trip) -> bool:
    """Returns whether all of it was moved; else nothing was, and the trip says why."""
    lenders = [(load, load.storage) for load in trip.loads if _may_be_shown(load)]
    try:
        move(trip.loads, lot.carrier)
    except MoveError as error:
        trip.refuse(_failure(trip, error))
        return False
    for load, storage in lenders:
        lot.lend(storage, _lenders_of(load))
        trip.notes.append(Note("park", "lent", _lent(load)))
    lot.take(trip.entries)
    lot.put(load for load in trip.loads if load.target == HOST)
    return True


def _may_be_shown(load: Load) -> bool:
    """Returns whether `.numpy()` was called: an array would show memory that was let go."""
    return load.source == HOST and not load.storage.resizable() and bool(_lenders_of(load))


def _lenders_of(load: Load) -> list[torch.Tensor]:
    """Returns the tensors that an array may hold: torch makes none of one that needs a gradient."""
    return [tensor for tensor in load.tensors if not requires_grad(tensor)]


def _lent(load: Load) -> str:
    return (
        f"{format_bytes(load.bytes)} of {load.name} stay in main memory too until its tensors go: "
        "`.numpy()` was called while it was parked, and an array may show them"
    )


def _failure(trip: Trip, error: MoveError) -> str:
    size = format_bytes(sum(load.bytes for load in trip.loads))
    places = " and ".join(dict.fromkeys(place_of(load.target) for load in trip.loads))
    as_before = "nothing was moved, everything is as it was"
    if not error.out_of_memory:
        return f"torch could not move {size} to {places} ({error}): {as_before}"
    if trip.act == "unpark":
        return (
            f"{places} has no room for {size}: {as_before} and still parked; free some first "
            "(`%gpumem tensors` tells what takes it), or unpark less at a time"
        )
    return f"{places} has no room for {size}: {as_before}; park less at a time"


def _still_held(old: Iterable[_OldStorage]) -> tuple[str, ...]:
    left = [size for ref, size, source in old if source != HOST and ref() is not None]
    if not left:
        return ()
    return (f"{format_bytes(sum(left))} live on where they were: something took hold of them",)


def _kept_pinned(old: Iterable[_OldStorage]) -> tuple[Note, ...]:
    """Returns what torch keeps of the pinned memory that was let go; nothing is given back here."""
    gone = sum(pinned_block(size) for ref, size, source in old if source == HOST and ref() is None)
    kept = min(gone, pinned_total() or 0)
    if not kept:
        return ()
    sentence = (
        f"torch keeps the {format_bytes(kept)} of pinned CPU memory that it lay in for later: "
        "`%gpumem reclaim --pinned` gives them back to the system"
    )
    return (Note("park", "pinned", sentence),)


def _bytes_on(
    holdings: Holdings, lot: ParkingLot, devices: Sequence[str]
) -> tuple[str, int | None]:
    """Returns what the bytes count, and the bytes: the allocators' where they tell."""
    if not devices:
        return "nothing was moved", None
    told = [lot.carrier.allocated(device) for device in devices]
    known = [size for size in told if size is not None]
    if len(known) == len(told):
        return f"allocated on {', '.join(devices)}", sum(known)
    with scan_heap(holdings.table):  # of what was made since the last
        seen = sum(holdings.table.bytes_on(device) for device in devices)
    return f"torch storages on {', '.join(devices)}", seen
