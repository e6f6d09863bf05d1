"""The inventory: the trail of names joined with the scan of the heap, each storage once."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import torch

from nbmem.heap import HeapScan, StorageTable, scan_heap
from nbmem.heap.storages import bare_torch, begins_graph
from nbmem.heap.surroundings import undone_by_interrupt
from nbmem.inventory.again import NameMark, mark_scan, recall, remember
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.join import Join, OriginOf
from nbmem.inventory.names import Names, write_names
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk
from nbmem.records import Inventory


def no_origin(_serial: int) -> tuple[None, None, None]:
    """Returns that nothing is known of where the storage came from."""
    return None, None, None


@undone_by_interrupt
def take_inventory(
    table: StorageTable,
    namespace: Mapping[str, object],
    *,
    output_cache: Mapping[str, object] | None = None,
    origin_of: OriginOf = no_origin,
    origins: object = None,
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
        origin_of: (execution count, record serial, line) of the cell that made a storage, by its
            serial.
        origins: another value whenever `origin_of` may answer otherwise than before.
        budget: seconds for walking names; naming what graphs keep may take as long again, and as
            long as finding it took. Where that does not suffice, a note says so, and what has no
            name yet is listed without one.
        now: seconds since the epoch.
    """
    outputs, started = output_cache or {}, time.perf_counter()
    with _collector_at_rest(), bare_torch(), scan_heap(table) as scan:
        graph_budget = max(budget, time.perf_counter() - started)
        found, named = mark_scan(table, scan), list[int | None]()

        def mark_names() -> int | None:
            named.append(NameMark().take(namespace, outputs))
            return named[0]

        known = recall(table, found, mark_names, origin_of, origins, now)
        if known is None:
            # Before the walk: what another thread changes meanwhile must not be in the mark.
            if not named:
                mark_names()
            trail = NameWalk(budget).run(namespace, outputs)
            try:
                known, whole = _take_anew(table, scan, trail, origin_of, graph_budget, now)
            finally:
                trail.clear()
            found = found if whole else None
        remember(table, found, named[0], origins, known)
        return known


def _take_anew(
    table: StorageTable,
    scan: HeapScan,
    trail: Trail,
    origin_of: OriginOf,
    graph_budget: float,
    now: float,
) -> tuple[Inventory, bool]:
    """Returns the inventory, and whether the marks tell all that it was made from."""
    reach_gradients(trail)
    known = scan.entries
    unseen = [thing for thing in trail.tensors if id(thing) not in known]
    first = [node for node, _ in trail.graphs] + _with_graph(unseen, scan)
    if first:
        with scan_heap(table, first=first) as wider:
            return _list_all(table, wider, trail, origin_of, graph_budget, now), False
    inventory = _list_all(table, scan, trail, origin_of, graph_budget, now)
    cut = any(note.code == "budget" for note in inventory.notes)
    return inventory, not (unseen or cut)


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
    table: StorageTable,
    scan: HeapScan,
    trail: Trail,
    origin_of: OriginOf,
    graph_budget: float,
    now: float,
) -> Inventory:
    names = write_names(trail)
    roots = _find_roots(trail, scan, names)
    trail.forget_search()
    scan.graph.forget_search()
    join = Join(table, scan, trail)
    join.take_trail(names)
    names.clear()
    trail.forget_ways()
    join.take_scan()
    join.name_saved(roots, time.perf_counter() + graph_budget)
    notes = [*scan.notes, *trail.notes]
    join.let_go()
    records = join.write_records(origin_of)
    notes += join.notes
    records.sort(key=attrgetter("bytes"), reverse=True)  # ties stay in the order of their keys
    return Inventory(tuple(records), now, tuple(notes))


def _with_graph(things: list[Any], scan: HeapScan) -> list[Any]:
    """Returns the tensors whose graph the scan did not meet: frozen ones, which no scan finds."""
    tensors = [thing for thing in things if not issubclass(type(thing), torch.UntypedStorage)]
    return [t for t in tensors if scan.graph.root_of(t) is None and begins_graph(t)]


def _find_roots(trail: Trail, scan: HeapScan, names: Names) -> list[tuple[int, str]]:
    """Returns where the graphs of named tensors and bare nodes begin, with their names."""
    root_of, texts, roots = scan.graph.root_of, names.texts, list[tuple[int, str]]()
    for index, thing in enumerate(trail.tensors):
        root = root_of(thing)
        if root is not None:
            link = trail.first_link(index)
            if link < len(texts):
                roots.append((root, texts[link]))
    nodes = zip(scan.roots, trail.graphs, strict=False)  # frozen tensors follow the nodes
    return roots + [(root, names.of_node(place)) for root, (_, place) in nodes if root is not None]
