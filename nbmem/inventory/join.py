"""Names and scan brought together, by storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter

from nbmem.heap.storages import is_nested, is_quantized, untyped_storage
from nbmem.inventory.gradients import gradient_of
from nbmem.inventory.graphs import join_name, label_storages
from nbmem.inventory.parts import parts_of
from nbmem.inventory.paths import Step
from nbmem.inventory.rows import GRADIENT, OF_STEP, OPTIMIZER_STATE, PARAMETER, UNKNOWN, Row
from nbmem.inventory.trail import STATE
from nbmem.records import Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import HeapScan, SavedTensor, StorageTable
    from nbmem.inventory.trail import Trail

OriginOf = Callable[[int], tuple[int | None, int | None]]


class Join:
    """Fills one row for each storage; holds tensors, so it must not outlive the inventory."""

    def __init__(self, table: StorageTable) -> None:
        self.notes: list[Note] = []
        self._table = table
        self._rows: dict[int, Row] = {}
        self._pieces: dict[int, torch.Tensor] = {}
        """Parts that were read: a nested tensor's have a Python object ever after."""

    def take_trail(self, trail: Trail, names: list[str]) -> None:
        """Takes up the named tensors; a storage has all names of all tensors that share it."""
        rows_of = [self._show(thing, True) for thing in trail.tensors]
        in_state = [node.within == STATE for node in trail.nodes] + [False]  # NAMELESS is last
        for (tensor, node, step, _), name in zip(trail.links, names):  # noqa: B905  may be fewer
            category = OPTIMIZER_STATE if in_state[node] else OF_STEP[step]
            for row, word in rows_of[tensor]:
                row.add_name(f"{name} ({word})" if word else name)
                if step is Step.VARIABLE and row.best is trail.tensors[tensor]:
                    row.lead_with(name)
                if category < row.category:
                    row.category = category
        for index, more in trail.more.items():
            for row, _ in rows_of[index]:
                row.more += more

    def take_scan(self, scan: HeapScan, trail: Trail) -> None:
        """Takes up the tensors without a name, and what graphs keep."""
        named = trail.ids()
        unnamed = [tensor for tensor in scan.tensors if id(tensor) not in named]
        for tensor in unnamed:
            if is_nested(tensor):
                self._show(tensor, False)
        for tensor in unnamed:
            if not is_nested(tensor) and id(tensor) not in self._pieces:
                self._show(tensor, False)
                self._take_gradient(tensor)
        for saved in scan.saved:
            for part in parts_of(saved.tensor):
                row = self._row_of(part.storage)
                if row is not None:
                    row.saved = True
                    row.show(part.tensor, False)
            self._take_saved_leaf(saved)

    def name_saved(
        self, scan: HeapScan, roots: list[tuple[torch.Tensor, str | None]], deadline: float
    ) -> None:
        """Names what only a graph keeps after the named tensor that the graph belongs to."""
        for root, rows in sorted(self._unnamed_by_root(scan).items()):
            tensor, name = roots[root]
            if name is None:
                continue
            unnamed = [address for address, row in rows.items() if not row.names]
            labels, complete = label_storages(tensor, unnamed, deadline)
            for address, label in labels:
                rows[address].add_name(join_name(name, label))
            if not complete and time.perf_counter() > deadline:
                sentence = "names incomplete: budget reached before all graphs were walked"
                self.notes.append(Note("names", "budget", sentence))
                return

    def _unnamed_by_root(self, scan: HeapScan) -> dict[int, dict[int, Row]]:
        """Returns, for each tensor with a graph, what that keeps without a name, by address."""
        found: dict[int, dict[int, Row]] = {}
        for saved in scan.saved:
            if saved.root is None:
                continue
            for part in parts_of(saved.tensor):
                row = self._row_of(part.storage)
                if row is not None and not row.names:
                    found.setdefault(saved.root, {})[part.storage._cdata] = row
        return found

    def write_records(self, origin_of: OriginOf) -> list[StorageRecord]:
        """Returns the records of all storages that live."""
        rows, unseen = self._rows, Row()
        return [
            rows.get(ref.serial, unseen).write(ref, origin_of(ref.serial))
            for ref in self._table.live()
        ]

    def _show(self, thing: Any, named: bool) -> tuple[tuple[Row, str], ...]:
        """Takes up what Python holds; returns the rows of its storages with the parts' words."""
        kind = type(thing)
        if (kind is Tensor or kind is Parameter) and not (is_nested(thing) or is_quantized(thing)):
            try:
                row = self._row_of(untyped_storage(thing))
            except RuntimeError:  # sparse or opaque
                row = None
            if row is not None:
                row.take(thing, named, PARAMETER if kind is Parameter else UNKNOWN)
                return ((row, ""),)
        return self._show_parts(thing, named)

    def _show_parts(self, thing: Any, named: bool) -> tuple[tuple[Row, str], ...]:
        category = PARAMETER if issubclass(type(thing), Parameter) else UNKNOWN
        shown = []
        for storage, word, tensor in parts_of(thing):
            row = self._row_of(storage)
            if row is not None:
                row.take(tensor, named, category)
                shown.append((row, word))
            if word and tensor is not None:
                self._pieces[id(tensor)] = tensor
        return tuple(shown)

    def _row_of(self, storage: torch.UntypedStorage) -> Row | None:
        ref = self._table.note(storage)
        if ref is None:
            return None
        row = self._rows.get(ref.serial)
        if row is None:
            row = self._rows[ref.serial] = Row()
        return row

    def _take_saved_leaf(self, saved: SavedTensor) -> None:
        if saved.attribute != "variable":
            return
        if issubclass(type(saved.tensor), Parameter):
            self._mark(saved.tensor, PARAMETER)
        self._take_gradient(saved.tensor)

    def _take_gradient(self, tensor: torch.Tensor) -> None:
        gradient = gradient_of(tensor)
        if gradient is not None:
            self._mark(gradient, GRADIENT)

    def _mark(self, tensor: torch.Tensor, category: int) -> None:
        for part in parts_of(tensor):
            row = self._row_of(part.storage)
            if row is not None:
                row.is_for(category)
