"""Names and scan brought together, by storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter

from nbmem.heap.storages import accelerator_runs, is_nested, is_pinned
from nbmem.inventory.gradients import gradient_of
from nbmem.inventory.graphs import join_name, label_storages
from nbmem.inventory.modules import Homes, ModuleNames
from nbmem.inventory.names import Names
from nbmem.inventory.parts import parts_of
from nbmem.inventory.paths import NAMELESS, Step
from nbmem.inventory.rows import (
    FIRST,
    GRADIENT,
    LAST,
    OF_GRADIENT,
    OF_GRAPH,
    OF_STATE,
    OF_STEP,
    OPTIMIZER_STATE,
    PARAMETER,
    UNKNOWN,
    Row,
)
from nbmem.inventory.trail import STATE
from nbmem.records import Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import HeapScan, StorageTable
    from nbmem.inventory.trail import Link, Trail

OriginOf = Callable[[int], tuple[int | None, int | None]]
Shown = tuple[tuple[Row, str], ...]
"""The rows of a tensor's storages, with the word of each part."""


class Join:
    """Fills one row for each storage; holds tensors, so it must not outlive the inventory."""

    def __init__(self, table: StorageTable, scan: HeapScan, trail: Trail, names: Names) -> None:
        self.notes: list[Note] = []
        self._table = table
        self._scan = scan
        self._trail = trail
        self._names = names
        self._entries = scan.entries
        self._rows: dict[int, Row] = {}
        self._pieces: dict[int, torch.Tensor] = {}
        """Parts that were read: a nested tensor's have a Python object ever after."""
        self._modules = ModuleNames(trail, names)
        self._homes = Homes(scan.graph, self._modules)

    # -- what has a name ---------------------------------------------------------------------

    def take_trail(self) -> None:
        """Takes up the named tensors; a storage has all names of all tensors that share it."""
        trail = self._trail
        rows_of = [self._show(thing, True) for thing in trail.tensors]
        for link, name in zip(trail.links, self._names.texts):  # noqa: B905  may be fewer
            self._take_link(link, name, rows_of[link[0]])
        for index, more in trail.more.items():
            for row, _ in rows_of[index]:
                row.more += more

    def _take_link(self, link: Link, name: str, shown: Shown) -> None:
        tensor, node, step, _ = link
        in_state = node != NAMELESS and self._trail.nodes[node].within == STATE
        kind = self._trail.step_of_wrapper(link)
        category = OPTIMIZER_STATE if in_state else OF_STEP[kind]
        rank = self._rank_of(link, in_state)
        for row, word in shown:
            row.add_name(f"{name} ({word})" if word else name, rank)
            if step is Step.VARIABLE and row.best is self._trail.tensors[tensor]:
                row.lead_with(name)
            if category < row.category:
                row.category = category
            if row.module is None and (in_state or kind in _OF_MODULE):
                row.module = self._modules.of_link(link)

    def _rank_of(self, link: Link, in_state: bool) -> int:
        if link.step is Step.GRADIENT:
            return max(OF_GRADIENT, self._rank_of(self._trail.links[link.key], False))
        if self._trail.is_output(link):
            return LAST
        return OF_STATE if in_state or link.step is Step.STATE else FIRST

    # -- what has none -----------------------------------------------------------------------

    def take_scan(self) -> None:
        """Takes up the tensors without a name, and what graphs keep."""
        named = self._trail.ids()
        unnamed = [tensor for tensor in self._scan.tensors if id(tensor) not in named]
        nested = [tensor for tensor in unnamed if is_nested(tensor)]
        for tensor in nested:
            self._show(tensor, False)
        for tensor in unnamed:
            if id(tensor) not in self._pieces and not (nested and is_nested(tensor)):
                self._show(tensor, False)
                self._take_gradient(tensor)
        for node, attribute, tensor in self._scan.graph.saved():
            for row, _ in self._rows_of(tensor):
                row.saved_by = row.saved_by or f"{node.kind}.{attribute}"
                row.show(tensor, False)
            if attribute == "variable":
                self._take_saved_leaf(tensor)

    def name_saved(self, roots: list[str | None], deadline: float) -> None:
        """Names what only graphs keep after the named tensors that the graphs belong to.

        Args:
            roots: the names of the scan's `first`.
            deadline: of `time.perf_counter`.
        """
        for number, wanted in self._wanted_by_root().items():
            root, name = self._scan.roots[number], roots[number]
            if root is None or name is None:
                continue
            rank = OF_GRAPH
            labels = label_storages(
                self._scan.graph, root, wanted, self._serials_of, self._homes, deadline
            )
            for serial, node, label in labels:
                row = self._rows[serial]
                row.add_name(join_name(name, label), rank)
                row.saved_in = self._homes.of(node).module
                row.saved_by = label.partition(" ")[2].partition(" ")[0]
            if wanted and time.perf_counter() > deadline:
                sentence = "names incomplete: budget reached before all graphs were walked"
                self.notes.append(Note("names", "budget", sentence))
                return

    def place_saved(self) -> None:
        """Tells the modules of what graphs keep that no name leads to."""
        graph = self._scan.graph
        for index, node in enumerate(graph.nodes):
            for attribute, tensor in node.saved:
                for row, _ in self._rows_of(tensor):
                    mine = row.saved_by == f"{node.kind}.{attribute}"
                    if mine and row.lacks_name and row.saved_in is None:
                        row.saved_in = self._homes.of(index).module

    def _wanted_by_root(self) -> dict[int, set[int]]:
        """Returns, for each of the scan's `first`, the serials that its graph keeps without a name.

        What several graphs keep is told with the first.
        """
        graph, told, claimed = self._scan.graph, set[int](), set[int]()
        wanted: dict[int, set[int]] = {}
        for number, root in enumerate(self._scan.roots):
            if root is None or root in told:
                continue
            for index in graph.reach(root, told):
                for tensor in graph.kept(index):
                    for serial, _ in self._serials_of(tensor):
                        if serial not in claimed and self._rows[serial].lacks_name:
                            claimed.add(serial)
                            wanted.setdefault(number, set()).add(serial)
        return wanted

    # -- records -----------------------------------------------------------------------------

    def write_records(self, origin_of: OriginOf) -> list[StorageRecord]:
        """Returns the records of all storages that live."""
        rows, unseen, runs = self._rows, Row(), accelerator_runs()
        records = []
        for ref in self._table.live():
            row = rows.get(ref.serial, unseen)
            pinned = runs and ref.device == "cpu" and row.best is not None and is_pinned(row.best)
            records.append(row.write(ref, origin_of(ref.serial), pinned))
        return records

    # -- rows --------------------------------------------------------------------------------

    def _show(self, thing: Any, named: bool) -> Shown:
        """Takes up what Python holds; returns the rows of its storages with the parts' words."""
        category = PARAMETER if issubclass(type(thing), Parameter) else UNKNOWN
        ref = self._entries.get(id(thing))
        if ref is not None:
            row = self._row(ref.serial)
            row.take(thing, named, category)
            return ((row, ""),)
        return self._show_parts(thing, named, category)

    def _show_parts(self, thing: Any, named: bool, category: int) -> Shown:
        shown = []
        for storage, word, tensor in parts_of(thing):
            ref = self._table.note(storage)
            if ref is not None:
                row = self._row(ref.serial)
                row.take(tensor, named, category)
                shown.append((row, word))
            if word and tensor is not None:
                self._pieces[id(tensor)] = tensor
        return tuple(shown)

    def _serials_of(self, tensor: torch.Tensor) -> tuple[tuple[int, str], ...]:
        ref = self._entries.get(id(tensor))
        if ref is not None:
            return ((ref.serial, ""),)
        refs = [(self._table.note(part.storage), part.word) for part in parts_of(tensor)]
        return tuple((ref.serial, word) for ref, word in refs if ref is not None)

    def _rows_of(self, tensor: torch.Tensor) -> Shown:
        return tuple((self._row(serial), word) for serial, word in self._serials_of(tensor))

    def _row(self, serial: int) -> Row:
        row = self._rows.get(serial)
        if row is None:
            row = self._rows[serial] = Row()
        return row

    def _take_saved_leaf(self, leaf: torch.Tensor) -> None:
        if issubclass(type(leaf), Parameter):
            self._mark(leaf, PARAMETER)
        self._take_gradient(leaf)

    def _take_gradient(self, tensor: torch.Tensor) -> None:
        gradient = gradient_of(tensor)
        if gradient is not None:
            self._mark(gradient, GRADIENT)

    def _mark(self, tensor: torch.Tensor, category: int) -> None:
        for row, _ in self._rows_of(tensor):
            row.is_for(category)


_OF_MODULE = frozenset((Step.PARAMETER, Step.BUFFER, Step.GRADIENT, Step.STATE))
