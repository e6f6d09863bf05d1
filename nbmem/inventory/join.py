"""Names and scan brought together, by storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Parameter

from nbmem.heap.graphs import GRADIENT as GRADIENT_OF
from nbmem.heap.storages import accelerator_runs, gradient_of, is_nested, is_pinned
from nbmem.inventory.graphs import join_name, label_storages
from nbmem.inventory.modules import Homes, ModuleNames
from nbmem.inventory.names import Names
from nbmem.inventory.parts import parts_of
from nbmem.inventory.paths import NAMELESS, Step, is_private
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
    PRIVATE,
    SAVED,
    UNKNOWN,
    Row,
)
from nbmem.inventory.sharing import with_shares
from nbmem.inventory.trail import OPTIMIZER, STATE
from nbmem.records import Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import HeapScan, StorageTable
    from nbmem.inventory.trail import Link, Trail

OriginOf = Callable[[int], tuple[int | None, int | None, int | None]]
Shown = tuple[tuple[Row, str], ...]
"""The rows of a tensor's storages, with the word of each part."""


class Join:
    """Fills one row for each storage; holds tensors, so it must not outlive the inventory."""

    def __init__(self, table: StorageTable, scan: HeapScan, trail: Trail) -> None:
        self.notes: list[Note] = []
        self._table = table
        self._scan = scan
        self._trail = trail
        self._entries = scan.entries
        self._rows: dict[int, Row] = {}
        self._pieces: dict[int, torch.Tensor] = {}
        """Parts that were read: a nested tensor's have a Python object ever after."""
        self._modules = ModuleNames(trail)
        self._homes = Homes(scan.graph, self._modules)

    # -- what has a name ---------------------------------------------------------------------

    def take_trail(self, names: Names) -> None:
        """Takes up the named tensors; a storage has all names of all tensors that share it."""
        trail = self._trail
        self._modules.learn(names)
        rows_of = [self._show(thing, True) for thing in trail.tensors]
        plain = [not (n.within or n.cached or n.tensor or n.private) for n in trail.nodes]
        plain.append(True)  # of NAMELESS, which is -1
        for link, name in zip(trail.links, names.texts):  # noqa: B905  may be fewer
            step = link.step
            if plain[link.node] and step in _SIMPLE and not is_private(step, link.key):
                category, rank, module = OF_STEP[step], FIRST, None
            else:
                category, rank, module = self._facts_of(link)
            for row, word in rows_of[link.tensor]:
                row.add_name(f"{name} ({word})" if word else name, rank)
                leads = step in _LEADING and rank < PRIVATE
                if leads and row.best is trail.tensors[link.tensor]:
                    row.lead_with(name)
                if category < row.category:
                    row.category = category
                row.module = row.module or module
        for index, more in trail.more.items():
            for row, _ in rows_of[index]:
                row.more += more

    def _facts_of(self, link: Link) -> tuple[int, int, str | None]:
        """Returns what the storage is for, the rank of the name, and the module."""
        in_state = link.node != NAMELESS and self._trail.nodes[link.node].within == STATE
        kind = self._trail.step_of_wrapper(link)
        category = OPTIMIZER_STATE if in_state else OF_STEP[kind]
        placed = in_state or kind in _OF_MODULE
        module = self._modules.of_link(link) if placed else None
        return category, self._rank_of(link, in_state), module

    def _rank_of(self, link: Link, in_state: bool) -> int:
        trail = self._trail
        if link.step is Step.GRADIENT:
            owner = self._rank_of(trail.links[link.key], False)
            return LAST if owner == LAST else owner + OF_GRADIENT
        if trail.is_output(link):
            return LAST
        if in_state or link.step is Step.STATE:
            return OF_STATE + PRIVATE * trail.is_private(link)
        return PRIVATE if trail.is_private(link) or trail.within(link) == OPTIMIZER else FIRST

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
        self._take_graphs()

    def _take_graphs(self) -> None:
        graph, entries, told = self._scan.graph, self._entries, set[int]()
        for index, node in enumerate(graph.nodes):
            kept = node.saved
            if node.hooks and not told.issuperset(node.hooks):
                kept = graph.kept(index)
                told.update(node.hooks)
            for attribute, tensor in kept:
                ref = entries.get(id(tensor))
                shown = self._rows_of(tensor) if ref is None else ((self._row(ref.serial), ""),)
                for row, _ in shown:
                    if row.saved_at is None:
                        row.saved_at = (index, attribute)
                    if row.best is None or not row.best_named:
                        row.show(tensor, False)
                if attribute == "variable" and issubclass(type(tensor), Parameter):
                    self._mark(tensor, PARAMETER)
                elif attribute.endswith(GRADIENT_OF):
                    self._mark(tensor, GRADIENT)

    def name_saved(self, roots: list[tuple[int, str]], deadline: float) -> None:
        """Names what only graphs keep after the named tensors that the graphs belong to.

        What several graphs keep is told with the first.

        Args:
            roots: where the graphs of named tensors begin, and these tensors' names.
            deadline: of `time.perf_counter`.
        """
        graph, told = self._scan.graph, set[int]()
        for root, name in roots:
            if root in told:
                continue
            wanted = self._nameless_in(graph.reach(root, told))
            if wanted:
                self._name_graph(root, name, wanted, deadline)
            if wanted and time.perf_counter() > deadline:
                sentence = (
                    f"Names incomplete: budget reached before all that {name} keeps was named"
                )
                self.notes.append(Note("names", "budget", sentence))
                return

    def _nameless_in(self, indices: list[int]) -> set[int]:
        """Returns the serials of what these nodes keep that has no name yet."""
        graph, rows, entries = self._scan.graph, self._rows, self._entries
        wanted: set[int] = set()
        for index in indices:
            for _, tensor in graph.kept(index):
                ref = entries.get(id(tensor))
                if ref is None:
                    wanted.update(n for n, _ in self._serials_of(tensor) if rows[n].lacks_name)
                elif rows[ref.serial].lacks_name:
                    wanted.add(ref.serial)
        return wanted

    def _name_graph(self, root: int, name: str, wanted: set[int], deadline: float) -> None:
        graph, homes = self._scan.graph, self._homes
        for label in label_storages(graph, root, wanted, self._serials_of, homes, deadline):
            row = self._rows[label.serial]
            row.add_name(join_name(name, label.text), OF_GRAPH)
            row.saved_at = (label.node, label.attribute)

    # -- records -----------------------------------------------------------------------------

    def let_go(self) -> None:
        """Tells by what operation each row was saved, then lets go of all but the rows."""
        for row in self._rows.values():
            if row.saved_at is not None and row.category == UNKNOWN:
                node, attribute = row.saved_at
                row.category, row.module = SAVED, self._homes.of(node).module
                row.saved_by = f"{self._scan.graph.nodes[node].kind}.{attribute}"
        self._scan.graph.clear()
        self._trail.clear()

    def write_records(self, origin_of: OriginOf) -> list[StorageRecord]:
        """Returns the records of all storages that live; to be called last."""
        rows, refs = self._rows, self._table.list_all()
        groups = self._table.groups()
        with_pinned, records = accelerator_runs(), list[StorageRecord]()
        for ref in refs:
            row = rows.pop(ref.serial, None) or Row()
            record = row.write(ref, origin_of(ref.serial))
            records.append(_with_pinned(record, row.best) if with_pinned else record)
        records, notes = with_shares(records, groups)
        self.notes += notes
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

    def _take_gradient(self, tensor: torch.Tensor) -> None:
        gradient = gradient_of(tensor)
        if gradient is not None:
            self._mark(gradient, GRADIENT)

    def _mark(self, tensor: torch.Tensor, category: int) -> None:
        for row, _ in self._rows_of(tensor):
            row.is_for(category)


_LEADING = frozenset((Step.VARIABLE, Step.PARAMETER))
"""The first of these stands before variables that are only views of it."""
_SIMPLE = frozenset(Step) - {
    Step.OUTPUT,
    Step.PARAMETER,
    Step.BUFFER,
    Step.GRADIENT,
    Step.STATE,
}
_OF_MODULE = frozenset((Step.PARAMETER, Step.BUFFER, Step.GRADIENT, Step.STATE))


def _with_pinned(record: StorageRecord, best: torch.Tensor | None) -> StorageRecord:
    if record.device != "cpu" or best is None or not is_pinned(best):
        return record
    return replace(record, pinned=True)
