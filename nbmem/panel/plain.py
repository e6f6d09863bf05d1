"""The panel's body of core ipywidgets alone, for pages that load no third-party widget."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ipywidgets import HTML, Box, Dropdown, Layout, SelectMultiple, Text, VBox

from nbmem.panel.cell_columns import cell_table, newest_first
from nbmem.panel.chosen import chosen_html
from nbmem.panel.columns import Asked, one_line
from nbmem.panel.crumbs import Crumbs
from nbmem.panel.html_table import table_html
from nbmem.panel.leak_columns import option_text as leak_text
from nbmem.panel.legend import legend_html
from nbmem.panel.live import GROUP_CHOICES, Lines, LiveList
from nbmem.panel.live_columns import NOTHING, storage_name, storage_tip
from nbmem.panel.modules import module_table
from nbmem.panel.words import quiet_html
from nbmem.render.palette import letter_of
from nbmem.render.scale import cell_label, cell_title
from nbmem.totals import SORTINGS
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.leaks import LeakList
    from nbmem.panel.live import Line
    from nbmem.panel.modules import ModuleWalk
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import CellRecord, StorageRecord
    from nbmem.totals import Group
    from nbmem.units import Units

MOST_CELLS = 30
MOST_ROWS = 200
_STAY = "look into …"
_NO_CELL = "all figures of …"
_HINT = "Choose rows to free what they hold: Ctrl-click for several, Shift-click for a range."


class PlainBody:
    """A table of cells as HTML; lists of live storages, modules and leaks to choose from."""

    def __init__(
        self,
        live: LiveList,
        walk: ModuleWalk,
        found: LeakList,
        *,
        on_choice: Callable[[], None],
        on_leaks: Callable[[], None],
    ) -> None:
        self._live, self._walk, self._found = live, walk, found
        self._on_choice, self._on_leaks = on_choice, on_leaks
        self._snapshot: Snapshot | None = None
        self._drawing = False
        self._cells, self._detail = HTML(), HTML()
        self._cell: int | None = None
        self._which = Dropdown(options=[(_NO_CELL, None)], layout=Layout(width="auto"))
        self._which.tooltip = "Cell to read all figures of"
        self._which.observe(self._cell_chosen, "value")
        self._build_list()
        self._crumbs = Crumbs(self._enter)
        self._tree = HTML()
        self._inside = Dropdown(options=[(_STAY, "")], layout=Layout(width="auto"))
        self._inside.tooltip = "Module to look into"
        self._inside.observe(self._module_chosen, "value")
        tip = "Leaks; hold Ctrl to choose several"
        self._leak_rows = SelectMultiple(rows=5, layout=Layout(width="auto"), tooltip=tip)
        self._leak_rows.observe(self._leaks_chosen, "value")
        for rows in (self._tensors, self._leak_rows):
            rows.add_class("nbmem-rows")
        self.leaks = VBox([self._leak_rows])
        self.history = VBox([self._cells, self._which, self._detail])
        self.alive = VBox([self._wanted, self._tensors, self._more, self._told])
        self.modules = VBox([self._crumbs.widget, self._tree, self._inside])

    def _build_list(self) -> None:
        narrow = Layout(width="auto", min_width="80px", flex="1 1 90px")
        self._filter = Text(placeholder="filter: name, [cell], size>1MiB …", layout=narrow)
        self._filter.tooltip, self._filter.continuous_update = "Filter live tensors", False
        asked = self._live.asked
        self._filter.value = asked.filter
        groups = [(words, by) for by, words in GROUP_CHOICES]
        self._by = Dropdown(options=groups, layout=narrow, tooltip="Group live tensors")
        self._by.value = asked.by
        sorts = [(f"{word} first" if word == "size" else f"sort by {word}", word)
                 for word in SORTINGS]  # fmt: skip
        self._sort = Dropdown(options=sorts, layout=narrow, tooltip="Order of live tensors")
        self._sort.value = asked.sort if asked.sort in SORTINGS else SORTINGS[0]
        self._wanted = Box(
            [self._filter, self._by, self._sort],
            layout=Layout(display="flex", flex_flow="row wrap"),
        )
        self._tensors = SelectMultiple(
            rows=8,
            layout=Layout(width="auto"),
            tooltip="Live tensors; hold Ctrl to choose several",
        )
        self._more, self._told = HTML(), HTML()
        for widget in (self._filter, self._by, self._sort):
            widget.observe(self._ask, "value")
        self._tensors.observe(self._rows_chosen, "value")

    # Drawing.

    def show_history(self, snapshot: Snapshot) -> None:
        """Draws the table of cells, with what their bars would be made of."""
        records = snapshot.records[-MOST_CELLS:]
        cells = cell_table(records, snapshot.device, snapshot.units, snapshot.shown)
        inner = table_html(cells, narrow=True, jumps=True)
        legend = legend_html(records, snapshot.device, snapshot.shown)
        older = len(snapshot.records) - len(records)
        more = (
            quiet_html(f"{older:,} older are not listed: see `%gpumem history`.") if older else ""
        )
        box = f'<div style="max-height:260px;overflow:auto">{inner}</div>'
        self._cells.value = f"{box}{more}{legend}"
        self._snapshot = snapshot
        options = [(cell_text(record), record.serial) for record in newest_first(records)]
        self._drawing = True
        try:
            self._which.options = [(_NO_CELL, None), *options]
        finally:
            self._drawing = False
        self._show_cell()

    def choose_cell(self, serial: int | None) -> None:
        """Shows all figures of a record below the table; None: of none."""
        self._cell = serial
        self._show_cell()

    def _show_cell(self) -> None:
        self._drawing = True
        try:
            listed = {serial for _text, serial in self._which.options}
            self._which.value = self._cell if self._cell in listed else None
        finally:
            self._drawing = False
        self._detail.value = "" if self._cell is None else chosen_html(self._cell, self._snapshot)

    def _cell_chosen(self, change: Any) -> None:
        if not self._drawing:
            self.choose_cell(change["new"])

    def show_alive(self, snapshot: Snapshot) -> None:
        """Draws the list of live storages."""
        self._snapshot = snapshot
        lines = self._live.lines()
        options = [
            (option_text(line, snapshot.units), line.key) for line in lines.listed[:MOST_ROWS]
        ]
        self._drawing = True
        try:
            if tuple(options) != self._tensors.options:
                self._tensors.options = options
            listed = {key for _text, key in options}
            self._tensors.value = [key for key in self._live.rows if key in listed]
        finally:
            self._drawing = False
        self._more.value = escape(_more_text(lines))
        self._tell_chosen()

    def _tell_chosen(self) -> None:
        """Says of one chosen storage all that is known, of several how many they are."""
        snapshot = self._snapshot
        chosen = [] if snapshot is None else snapshot.storages(self._live.chosen)
        told = _HINT
        if snapshot is not None and len(chosen) == 1:
            told = " · ".join(storage_tip(chosen[0], snapshot.units).split("\n"))
        elif snapshot is not None and chosen:
            size = format_bytes(sum(each.bytes for each in chosen), snapshot.units)
            told = f"{format_count(len(chosen), 'storage')} chosen, {size}"
        self._told.value = quiet_html(told if self._tensors.options else "")

    def show_modules(self, snapshot: Snapshot) -> None:
        """Draws the level of the tree of modules where the user stands."""
        self._snapshot = snapshot
        level = self._walk.level(snapshot.units)
        self._crumbs.show(level.crumbs)
        table = table_html(module_table(level, snapshot.units))
        self._tree.value = f'<div style="max-height:220px;overflow:auto">{table}</div>'
        inside = [(one_line(row.label, 40), row.enters) for row in level.rows if row.enters]
        self._drawing = True
        try:
            self._inside.options = [(_STAY, ""), *inside]
            self._inside.value = ""
        finally:
            self._drawing = False
        self._inside.layout.display = None if inside else "none"

    def show_leaks(self, snapshot: Snapshot) -> None:
        """Draws the list of leaks; where there is none, no list."""
        found = self._found
        self.leaks.layout.display = None if found.leaks else "none"
        rows = zip(found.leaks[:MOST_ROWS], found.keys, strict=False)
        options = [(leak_text(leak, snapshot.units), key) for leak, key in rows]
        self._drawing = True
        try:
            if tuple(options) != self._leak_rows.options:
                self._leak_rows.options = options
            self._leak_rows.value = [key for key in found.rows if key in found.keys[:MOST_ROWS]]
        finally:
            self._drawing = False

    # What the user does.

    def _leaks_chosen(self, change: Any) -> None:
        if not self._drawing:
            self._found.choose(change["new"])
            self._on_leaks()

    def _ask(self, _change: Any) -> None:
        self._live.ask(Asked(self._filter.value, self._by.value, self._sort.value))
        if self._snapshot is not None:
            self.show_alive(self._snapshot)
        self._on_choice()

    def _rows_chosen(self, change: Any) -> None:
        if not self._drawing:
            self._live.choose(change["new"])
            self._tell_chosen()
            self._on_choice()

    def _enter(self, path: str) -> None:
        self._walk.enter(path)
        if self._snapshot is not None:
            self.show_modules(self._snapshot)

    def _module_chosen(self, change: Any) -> None:
        if change["new"] and not self._drawing:
            self._enter(change["new"])


def _more_text(lines: Lines) -> str:
    if lines.trouble:
        return lines.trouble
    if lines.count == 0:
        return NOTHING
    if lines.matching == 0:
        return "Nothing matches the filter."
    rest = len(lines.listed) - MOST_ROWS
    return f"{rest:,} more are not listed: filter to see them." if rest > 0 else ""


def cell_text(record: CellRecord) -> str:
    """Returns a cell as a choice: `[7] train`."""
    return f"{cell_label(record)} {one_line(cell_title(record), 50)}".strip()


def option_text(line: Line, units: Units) -> str:
    """Returns one line of the list: size, letter or count, name."""
    if line.group is not None:
        return _group_text(line.group, units)
    return "" if line.storage is None else _storage_text(line.storage, units)


def _storage_text(storage: StorageRecord, units: Units) -> str:
    size = format_bytes(storage.bytes, units)
    return f"{size:>9}  {letter_of(storage.category)}  {one_line(storage_name(storage), 60)}"


def _group_text(group: Group, units: Units) -> str:
    size, count = format_bytes(group.bytes, units), format_count(group.count, "storage")
    return f"{size:>9}  {one_line(group.key, 60)} · {count}"
