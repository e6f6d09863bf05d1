"""The panel's body of core ipywidgets alone, for pages that load no third-party widget."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ipywidgets import HTML, Layout, SelectMultiple, VBox

from nbmem.panel.columns import cell_table, shorten, storage_name
from nbmem.panel.words import FONT
from nbmem.render.palette import letter_of
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.columns import TableData
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import StorageRecord
    from nbmem.units import Units

MOST_CELLS = 30
MOST_STORAGES = 200


class PlainBody:
    """A table of cells as HTML, and a list of live storages to choose from."""

    def __init__(self, *, on_choice: Callable[[], None]) -> None:
        self._cells = HTML()
        self._tensors = SelectMultiple(
            rows=8,
            layout=Layout(width="auto"),
            tooltip="Live tensors; hold Ctrl to choose several",
        )
        self._more = HTML()
        self.history = VBox([self._cells])
        self.alive = VBox([self._tensors, self._more])
        self._tensors.observe(lambda _change: on_choice(), "value")

    @property
    def chosen(self) -> list[int]:
        """Keys of the chosen storages."""
        return list(self._tensors.value)

    def show(self, snapshot: Snapshot) -> None:
        """Draws `snapshot`."""
        cells = cell_table(snapshot.records[-MOST_CELLS:], snapshot.device, snapshot.units)
        self._cells.value = f'<div style="max-height:170px;overflow:auto">{table_html(cells)}</div>'
        storages = snapshot.storages()
        listed = storages[:MOST_STORAGES]
        options = tuple((option_text(s, snapshot.units), s.key) for s in listed)
        if options != self._tensors.options:
            chosen = set(self.chosen)
            self._tensors.options = options
            self._tensors.value = [key for _text, key in options if key in chosen]
        self._more.value = escape(_more_text(len(storages)))


def _more_text(count: int) -> str:
    if count == 0:
        return "No tensor is alive. Make one and press ⟳, or run a cell with %%gpumem."
    if count > MOST_STORAGES:
        return f"{count - MOST_STORAGES:,} smaller ones are not listed."
    return ""


def option_text(storage: StorageRecord, units: Units) -> str:
    """Returns one line of the list: size, letter, name."""
    size = format_bytes(storage.bytes, units)
    return f"{size:>9}  {letter_of(storage.category)}  {shorten(storage_name(storage), 60)}"


def table_html(data: TableData) -> str:
    """Returns a table as HTML, inline styles only, every text escaped."""
    if not data.keys:
        return f'<div style="{FONT}line-height:24px">{escape(data.empty)}</div>'
    head = "".join(_cell("th", column.label, column.kind) for column in data.columns)
    rows = "".join(
        "<tr>"
        + "".join(_cell("td", column.text[row], column.kind) for column in data.columns)
        + "</tr>"
        for row in range(len(data.keys))
    )
    style = f"{FONT}border-collapse:collapse;table-layout:auto;width:100%;line-height:20px;"
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>{rows}</tbody>"
    return f'<table style="{style}">{head}{body}</table>'


def _cell(tag: str, text: str, kind: str) -> str:
    align = "right" if kind == "figure" else "left"
    style = f"text-align:{align};padding:0 6px;font-variant-numeric:tabular-nums;"
    style += (
        "width:50%;overflow-wrap:anywhere;" if kind in ("name", "text") else "white-space:nowrap;"
    )
    weight = "font-weight:600;" if tag == "th" else ""
    return f'<{tag} style="{style}{weight}">{escape(text)}</{tag}>'
