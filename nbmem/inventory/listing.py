"""The inventory: the trail of names joined with the scan of the heap, each storage once."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch

from nbmem.heap import StorageTable, scan_heap
from nbmem.heap.storages import bare_torch
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.join import Join, OriginOf
from nbmem.inventory.names import Names, write_names
from nbmem.inventory.paths import NAMELESS
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk
from nbmem.records import Inventory

_BASE: Any = torch._C.TensorBase
_grad_fn_of = _BASE.grad_fn.__get__


def no_origin(_serial: int) -> tuple[None, None]:
    """Returns that nothing is known of where the storage came from."""
    return None, None


def take_inventory(
    table: StorageTable,
    namespace: Mapping[str, object],
    *,
    output_cache: Mapping[str, object] | None = None,
    origin_of: OriginOf = no_origin,
    budget: float = 0.5,
    now: float,
) -> Inventory:
    """Returns everything alive at this moment, each storage once, largest first.

    The bytes add up to `table.bytes_on(device)`, on CUDA to `requested_bytes.all.current` of what
    torch's tensors own.

    Args:
        table: takes up what the scan finds.
        namespace: the user's variables.
        output_cache: `Out[3]`, `_` and the like; their names come after the variables'.
        origin_of: (execution count, record serial) of the cell that made a storage, by its serial.
        budget: seconds for walking names and naming graphs; where they do not suffice, a note
            says so, and what has no name yet is listed without one.
        now: seconds since the epoch.
    """
    with _collector_at_rest():
        started = time.perf_counter()
        with bare_torch():
            trail = NameWalk(budget).run(namespace, output_cache or {})
            left = budget - (time.perf_counter() - started)
            try:
                return _list_all(table, trail, origin_of, left, now)
            finally:
                trail.clear()


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """The walk's own objects would start a collection, which would free what is being listed."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _list_all(
    table: StorageTable, trail: Trail, origin_of: OriginOf, left: float, now: float
) -> Inventory:
    reach_gradients(trail)
    roots = _find_roots(trail)
    with scan_heap(table, first=[root for root, _ in roots]) as scan:
        names = write_names(trail)
        join = Join(table, scan, trail, names)
        join.take_trail()
        join.take_scan()
        deadline = time.perf_counter() + left
        join.name_saved([_name_of(place, trail, names) for _, place in roots], deadline)
        records = join.write_records(origin_of)
        notes = (*scan.notes, *trail.notes, *join.notes)
    records.sort(key=attrgetter("bytes"), reverse=True)  # ties stay in the order of their keys
    return Inventory(tuple(records), now, notes)


def _name_of(place: tuple[int | None, int], trail: Trail, names: Names) -> str | None:
    """Returns the shortest name of a tensor that has a graph, or of a bare node."""
    tensor, node = place
    return names.of_node(node) if tensor is None else names.of_link(trail.first_link(tensor))


def _find_roots(trail: Trail) -> list[tuple[Any, tuple[int | None, int]]]:
    """Returns the named tensors that have a graph and the bare nodes, each with its place.

    A place is the tensor's index, or None and the index of the trail's node.
    """
    roots, storage = [], torch.UntypedStorage
    for index, thing in enumerate(trail.tensors):
        if issubclass(type(thing), storage):
            continue
        try:
            if _grad_fn_of(thing) is not None:
                roots.append((thing, (index, NAMELESS)))
        except RuntimeError:  # a view whose base was changed in place
            continue
    return roots + [(node, (None, place)) for node, place in trail.graphs]
