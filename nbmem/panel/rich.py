"""The panel's body with the two anywidgets: the Bokeh chart and the virtualised tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipywidgets import HTML, VBox

from nbmem.panel.cell_columns import cell_table
from nbmem.panel.chart import Chart
from nbmem.panel.chosen import chosen_html
from nbmem.panel.crumbs import Crumbs
from nbmem.panel.jumps import CellPlaces, place_of
from nbmem.panel.leak_columns import leak_table
from nbmem.panel.legend import legend_html
from nbmem.panel.live import GROUP_CHOICES
from nbmem.panel.live_columns import live_table
from nbmem.panel.modules import module_table
from nbmem.panel.table import Table
from nbmem.render.chart import chart_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.columns import Asked
    from nbmem.panel.leaks import LeakList
    from nbmem.panel.live import LiveList
    from nbmem.panel.modules import ModuleWalk
    from nbmem.panel.snapshot import Snapshot

NO_CELLS = "Run a cell with %%gpumem, or switch on %gpumem on: each measured cell is a bar here."


class RichBody:
    """Chart, table of cells, table of live storages, table of modules, table of leaks."""

    def __init__(
        self,
        live: LiveList,
        walk: ModuleWalk,
        found: LeakList,
        *,
        on_choice: Callable[[], None],
        on_leaks: Callable[[], None],
        on_hello: Callable[[], None],
    ) -> None:
        self._live, self._walk, self._found = live, walk, found
        self._on_choice, self._on_leaks = on_choice, on_leaks
        self._snapshot: Snapshot | None = None
        self._drawn: dict[str, object] = {}
        self.legend = HTML()
        self.chart = Chart(on_hello=on_hello, label="Allocated bytes by cell", empty=NO_CELLS)
        self.cells = Table(on_hello=on_hello, label="Cells", visible_rows=5)
        self.tensors = Table(
            on_hello=on_hello,
            on_ask=self._ask,
            on_turn=self._turn,
            label="Live tensors",
            visible_rows=8,
            roomy_rows=13,
            multiple=True,
            filterable=True,
            groupings=[list(choice) for choice in GROUP_CHOICES],
        )
        self.tree = Table(on_hello=on_hello, label="Modules", visible_rows=6, fits=True)
        self.leak_rows = Table(
            on_hello=on_hello, label="Leaks", visible_rows=5, fits=True, multiple=True, tells=False
        )
        self._crumbs = Crumbs(self._enter)
        self.detail = HTML()
        self.history = VBox([self.chart, self.legend, self.cells, self.detail])
        self.alive = VBox([self.tensors])
        self.modules = VBox([self._crumbs.widget, self.tree])
        self.leaks = VBox([self.leak_rows])
        self.tensors.observe(self._rows_chosen, "selected")
        self.cells.observe(self._cell_chosen, "selected")
        self.chart.observe(self._bar_chosen, "selected")
        self.tree.observe(self._module_chosen, "selected")
        self.leak_rows.observe(self._leaks_chosen, "selected")

    # Drawing: what is drawn already is not sent again.

    def show_history(self, snapshot: Snapshot) -> None:
        """Draws chart, legend and table of cells."""
        self._snapshot = snapshot
        facts = (snapshot.records, snapshot.device, snapshot.units, snapshot.shown)
        if self._is_drawn("history", facts):
            return
        units, device, records = snapshot.units, snapshot.device, snapshot.records
        places = {record.serial: place_of(record) for record in records}
        bars = chart_data(records, device, units, snapshot.shown)
        rows = cell_table(records, device, units)
        legend = legend_html(records, device, snapshot.shown)
        self.chart.show(bars, places)  # all is made before the first is sent: the page waits once
        self.legend.value = legend
        self.cells.show(rows)
        self._show_detail()

    def show_alive(self, snapshot: Snapshot) -> None:
        """Draws the table of live storages."""
        self._snapshot = snapshot
        if not self._is_drawn("alive", (snapshot.storages(), snapshot.units)):
            self._show_tensors(snapshot)

    def show_modules(self, snapshot: Snapshot) -> None:
        """Draws the level of the tree of modules where the user stands."""
        self._snapshot = snapshot
        if not self._is_drawn("modules", (snapshot.storages(), snapshot.units)):
            self._show_level(snapshot)

    def show_leaks(self, snapshot: Snapshot) -> None:
        """Draws the table of leaks; where there is none, no table."""
        found = self._found
        self.leaks.layout.display = None if found.leaks else "none"
        cells = CellPlaces(snapshot.records)
        self.leak_rows.show(leak_table(found.keys, found.leaks, snapshot.units, cells))
        if self.leak_rows.selected != found.rows:
            self.leak_rows.selected = found.rows

    def _is_drawn(self, part: str, facts: object) -> bool:
        drawn = part in self._drawn and self._drawn[part] == facts
        self._drawn[part] = facts
        return drawn

    # Live storages.

    def _show_tensors(self, snapshot: Snapshot) -> None:
        cells = CellPlaces(snapshot.records)
        self.tensors.show(live_table(self._live, snapshot.units, cells))
        if self.tensors.selected != self._live.rows:
            self.tensors.selected = self._live.rows

    def _ask(self, asked: Asked) -> None:
        self._live.ask(asked)
        self._redraw_tensors()

    def _turn(self, key: int) -> None:
        self._live.turn_open(key)
        self._redraw_tensors()

    def _redraw_tensors(self) -> None:
        if self._snapshot is not None:
            self._show_tensors(self._snapshot)

    def _rows_chosen(self, change: Any) -> None:
        self._live.choose(change["new"])
        self._on_choice()

    # Leaks.

    def _leaks_chosen(self, change: Any) -> None:
        self._found.choose(change["new"])
        self._on_leaks()

    # Modules.

    def _show_level(self, snapshot: Snapshot) -> None:
        level = self._walk.level(snapshot.units)
        self._paths = {row.key: row.enters for row in level.rows if row.enters}
        self._crumbs.show(level.crumbs)
        self.tree.show(module_table(level, snapshot.units))

    def _enter(self, path: str) -> None:
        self._walk.enter(path)
        if self._snapshot is not None:
            self._show_level(self._snapshot)

    def _module_chosen(self, change: Any) -> None:
        path = self._paths.get(change["new"][0]) if change["new"] else None
        if change["new"]:
            self.tree.selected = []
        if path is not None:
            self._enter(path)

    # Cells.

    def choose_cell(self, serial: int) -> None:
        """Chooses the row and the bar of a record."""
        self.cells.selected = [serial]

    def _cell_chosen(self, change: Any) -> None:
        serial = change["new"][0] if change["new"] else None
        self._show_detail()
        if self.chart.selected != serial:
            self.chart.selected = serial

    def _show_detail(self) -> None:
        serial = self.cells.selected[0] if self.cells.selected else None
        self.detail.value = chosen_html(serial, self._snapshot)

    def _bar_chosen(self, change: Any) -> None:
        keys = [] if change["new"] is None else [change["new"]]
        if self.cells.selected != keys:
            self.cells.selected = keys
