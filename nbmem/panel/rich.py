"""The panel's body with the two anywidgets: the Bokeh chart and the virtualised tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import HTML, VBox

from nbmem.panel.chart import Chart
from nbmem.panel.columns import TableData, cell_sentence, cell_table, shorten, storage_table
from nbmem.panel.legend import detail_html, legend_html
from nbmem.panel.table import Table
from nbmem.render.chart import chart_data
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import StorageRecord

MOST_ROWS = 500
"""Live storages sent to the page; the filter asks the kernel about the rest."""

NO_CELLS = "Run a cell with %%gpumem, or switch on %gpumem on: each measured cell is a bar here."


class RichBody:
    """Chart, table of cells, table of live storages."""

    def __init__(self, *, on_choice: Callable[[], None], on_hello: Callable[[], None]) -> None:
        self._snapshot: Snapshot | None = None
        self._filter = ""
        self._on_hello = on_hello
        self.legend = HTML()
        self.chart = Chart(on_hello=on_hello, label="Allocated bytes by cell", empty=NO_CELLS)
        self.cells = Table(on_hello=on_hello, label="Cells", visible_rows=5)
        self.tensors = Table(
            on_hello=on_hello,
            on_filter=self._filter_by,
            label="Live tensors",
            visible_rows=8,
            multiple=True,
            filterable=True,
        )
        self.detail = HTML()
        self.history = VBox([self.chart, self.legend, self.cells, self.detail])
        self.alive = VBox([self.tensors])
        self.tensors.observe(lambda _change: on_choice(), "selected")
        self.cells.observe(self._cell_chosen, "selected")
        self.chart.observe(self._bar_chosen, "selected")

    @property
    def chosen(self) -> list[int]:
        """Keys of the chosen storages."""
        return list(self.tensors.selected)

    def show(self, snapshot: Snapshot) -> None:
        """Draws `snapshot`; what is drawn already is not sent again."""
        before, self._snapshot = self._snapshot, snapshot
        if before is None or _history_of(before) != _history_of(snapshot):
            self._show_history(snapshot)
        if before is None or _alive_in(before) != _alive_in(snapshot):
            self._show_tensors(snapshot)

    def _show_history(self, snapshot: Snapshot) -> None:
        units, device, records = snapshot.units, snapshot.device, snapshot.records
        self.chart.show(chart_data(records, device, units))
        self.legend.value = legend_html(records, device)
        self.cells.show(cell_table(records, device, units))
        self._show_detail()

    def _show_tensors(self, snapshot: Snapshot) -> None:
        alive = {storage.key for storage in snapshot.storages()}
        if not alive.issuperset(self.tensors.selected):
            self.tensors.selected = [key for key in self.tensors.selected if key in alive]
        self.tensors.show(largest_table(snapshot, self._filter))

    def _filter_by(self, text: str) -> None:
        self._filter = text
        if self._snapshot is not None:
            self._show_tensors(self._snapshot)

    def _cell_chosen(self, change: Any) -> None:
        serial = change["new"][0] if change["new"] else None
        self._show_detail()
        if self.chart.selected != serial:
            self.chart.selected = serial

    def _show_detail(self) -> None:
        serial = self.cells.selected[0] if self.cells.selected else None
        sentence = "" if self._snapshot is None else chosen_cell(serial, self._snapshot)
        self.detail.value = detail_html(sentence)

    def _bar_chosen(self, change: Any) -> None:
        keys = [] if change["new"] is None else [change["new"]]
        if self.cells.selected != keys:
            self.cells.selected = keys


def _history_of(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.records, snapshot.device, snapshot.units


def _alive_in(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.storages(), snapshot.units


def matches(storage: StorageRecord, words: list[str]) -> bool:
    """Returns whether every one of the lower-case `words` is in the storage's texts."""
    made_by = "" if storage.created_by is None else f"[{storage.created_by}]"
    shape = ", ".join(map(str, storage.shape))
    parts = [*storage.names, storage.category, storage.dtype, f"[{shape}]", storage.device, made_by]
    text = " ".join(parts).lower()
    return all(word in text for word in words)


def largest_table(snapshot: Snapshot, text: str) -> TableData:
    """Returns the table of the largest storages, with a sentence about those left out.

    Where some are left out, those that match `text` are looked for in all of them.
    """
    storages = snapshot.storages()
    if len(storages) <= MOST_ROWS:
        return storage_table(storages, snapshot.units)
    words = text.lower().split()
    found = [storage for storage in storages if matches(storage, words)] if words else storages
    listed, rest = found[:MOST_ROWS], found[MOST_ROWS:]
    size = format_bytes(sum(storage.bytes for storage in rest), snapshot.units)
    unlisted = f"{len(rest):,} smaller, {size} together: filter to see them"
    if not rest:
        unlisted = f"{len(listed):,} match “{shorten(text, 30)}” of {len(storages):,}"
    return storage_table(listed, snapshot.units, unlisted=unlisted)


def chosen_cell(serial: int | None, snapshot: Snapshot) -> str:
    """Returns the sentence about the chosen cell; empty where none is."""
    for record in snapshot.records:
        if record.serial == serial:
            return cell_sentence(record, snapshot.device, snapshot.units)
    return ""
