"""The acts that need no leak, each with the bytes before and after."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbmem.heap import StorageRef, scan_heap
from nbmem.heap.pinned import pinned_block, pinned_total, spans_of
from nbmem.heap.storages import is_pinned
from nbmem.reclaim.names import Holdings, drop_output, drop_variable, find_entry
from nbmem.reclaim.plan import DropPlan, make_plan
from nbmem.records import ReclaimReport
from nbmem.units import format_bytes

_NO_ACCELERATOR = "there is no accelerator here: on the CPU torch keeps no cache to empty"


def plan_drop(holdings: Holdings, keys: Sequence[int]) -> ReclaimReport:
    """Returns what `drop_storages` would do to these storages (serials); nothing is dropped."""
    plan = make_plan(holdings, keys)
    devices = _devices_of(plan.targets)
    size = holdings.table.bytes_freed(plan.targets)
    before = _bytes_by_scan(holdings, devices)
    return ReclaimReport(
        act="del",
        planned=plan.sentences(),
        dropped=(),
        refused=tuple(dict.fromkeys(plan.refused)),
        bytes_before=before,
        bytes_after=before - size if plan.sentences() and not plan.refused else None,
        counts=_counts(devices),
    )


def drop_storages(holdings: Holdings, keys: Sequence[int]) -> ReclaimReport:
    """Drops the user's names of these storages (serials), output-cache copies included.

    Each name is looked at again right before: one that leads elsewhere by now is left alone.
    """
    plan = make_plan(holdings, keys)
    devices = _devices_of(plan.targets)
    before = _bytes_by_scan(holdings, devices)
    dropped = _drop(holdings, plan)
    return ReclaimReport(
        act="del",
        planned=plan.sentences(),
        dropped=tuple(dropped),
        refused=tuple(dict.fromkeys(plan.refused)),
        bytes_before=before,
        bytes_after=_storage_bytes(holdings, devices),
        counts=_counts(devices),
        still_held=_still_held(holdings, plan),
    )


def _drop(holdings: Holdings, plan: DropPlan) -> list[str]:
    for name in plan.variables:
        drop_variable(holdings.shell, name)
    names = holdings.names()
    for place in plan.entries.values():
        if entry := find_entry(names, place.steps):
            entry[0].pop(entry[1])
    if holdings.shell is not None and plan.outputs:
        copies = holdings.outputs()
        drop_output(holdings.shell, [copies[name] for name in plan.outputs if name in copies])
    return [*plan.variables, *plan.entries, *plan.outputs]


def _still_held(holdings: Holdings, plan: DropPlan) -> tuple[str, ...]:
    left = [ref for ref in plan.targets if ref.serial not in plan.kept and ref() is not None]
    if not left:
        return ()
    size = format_bytes(holdings.table.bytes_freed(left))
    these = "the storage" if len(left) == 1 else f"{len(left)} storages"
    return (
        f"{size} of {these} live on: something else holds them, such as a"
        " graph, an object or garbage that `gc.collect()` frees",
    )


def collect_garbage(holdings: Holdings) -> ReclaimReport:
    """Runs `gc.collect()`: frees what only cycles of garbage held."""
    return _measured(holdings, "gc.collect()", "collect cycles of garbage", gc.collect)


def empty_cache(holdings: Holdings) -> ReclaimReport:
    """Gives cached blocks back to the driver; live tensors are untouched."""
    readings = [r for r in holdings.read_devices() if r.kind == "accelerator"]
    if not readings:
        return ReclaimReport("empty cache", (), (), (_NO_ACCELERATOR,), None, None, "reserved")
    before = _sum(reading.reserved for reading in readings)
    try:
        torch.accelerator.empty_cache()
    except RuntimeError as error:  # an allocator that torch can't ask, or one that can't do it now
        refusal = f"torch could not empty the cache of {readings[0].device} ({_first_line(error)})"
        return ReclaimReport("empty cache", (), (), (refusal,), before, before, "reserved")
    after = _sum(r.reserved for r in holdings.read_devices() if r.kind == "accelerator")
    done = ("give cached blocks back to the driver",)
    counts = "reserved on " + ", ".join(reading.device for reading in readings)
    return ReclaimReport("empty cache", done, done, (), before, after, counts)


def empty_pinned(holdings: Holdings, *, dry_run: bool = False) -> ReclaimReport:
    """Gives pinned host memory that torch keeps for later back to the system.

    Tensors stay as they are, parked ones too. The bytes are `pinned_total()`.

    Args:
        holdings: for what is in use.
        dry_run: only the plan, whose promise leaves out what lives in pinned memory.
    """
    before = pinned_total()
    act, counts = "empty pinned cache", "pinned by torch"
    if not before:
        refusal = _NO_PINNED if before == 0 else _PINNED_UNKNOWN
        return ReclaimReport(act, (), (), (refusal,), before, before, counts)
    promised = max(0, before - _pinned_in_use(holdings))
    planned = ("give pinned memory that nothing uses back to the system",) if promised else ()
    if dry_run:
        refused = () if planned else (_PINNED_IN_USE,)
        return ReclaimReport(act, planned, (), refused, before, None, counts, promised=promised)
    refused = () if _empty_pinned_cache() else (_PINNED_STAYS,)
    after = pinned_total()
    if after == before and not refused:
        refused = (_PINNED_IN_USE,)
    done = () if refused else planned
    return ReclaimReport(act, planned, done, refused, before, after, counts, promised=promised)


_NO_PINNED = "torch has pinned no memory in this process"
_PINNED_UNKNOWN = "this torch does not count pinned memory, so nothing was done"
_PINNED_IN_USE = "all pinned memory is in use"
_PINNED_STAYS = "this torch has no call that gives pinned memory back"


def _pinned_in_use(holdings: Holdings) -> int:
    """Returns the bytes of the pinned blocks in which tensors live."""
    with scan_heap(holdings.table) as scan:
        refs = {
            ref.serial: ref
            for tensor in scan.tensors
            if (ref := scan.entries.get(id(tensor))) is not None
            and ref.device == "cpu"
            and is_pinned(tensor)
        }
        spans = spans_of(storage for ref in refs.values() if (storage := ref()) is not None)
    return sum(pinned_block(end - begin) for begin, end in spans)


def _empty_pinned_cache() -> bool:
    """Gives cached pinned blocks back to the system; returns False if this torch has no such call.

    Blocks that a copy may still read or write stay.
    """
    for name in ("_accelerator_emptyHostCache", "_host_emptyCache"):
        empty = getattr(torch._C, name, None)
        if empty is not None:
            empty()
            return True
    return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _measured(holdings: Holdings, act: str, words: str, do: Callable[[], Any]) -> ReclaimReport:
    with scan_heap(holdings.table):  # garbage is seen before it goes
        pass
    devices = sorted({ref.device for ref in holdings.table.live()}) or ["cpu"]
    before = _storage_bytes(holdings, devices)
    do()
    after = _storage_bytes(holdings, devices)
    return ReclaimReport(act, (words,), (words,), (), before, after, _counts(devices))


def _devices_of(targets: Sequence[StorageRef]) -> list[str]:
    return sorted({ref.device for ref in targets})


def _bytes_by_scan(holdings: Holdings, devices: Sequence[str]) -> int:
    """Returns the bytes of all storages, those included that were made since the last scan."""
    with scan_heap(holdings.table):
        return _storage_bytes(holdings, devices)


def _storage_bytes(holdings: Holdings, devices: Sequence[str]) -> int:
    return sum(holdings.table.bytes_on(device) for device in devices)


def _counts(devices: Sequence[str]) -> str:
    return "torch storages on " + (", ".join(devices) or "no device")


def _sum(values: Any) -> int | None:
    known = list(values)
    return None if any(value is None for value in known) else sum(known)
