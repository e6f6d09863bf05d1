"""Tables for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.html_parts import escape, tag
from nbmem.render.mixtures import HEADING
from nbmem.render.tables import history_table, status_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, DeviceReading
    from nbmem.render.tables import Column, Table
    from nbmem.units import Units

_STEP = 1.2
"""Em by which a line of a tree stands further right than the line above it."""


def history_table_html(records: Sequence[CellRecord], *, units: Units = "IEC") -> str:
    """Returns the table of cells: one unit a column, figures at the right."""
    return table_html(history_table(records, units))


def status_html(readings: Sequence[DeviceReading], *, units: Units = "IEC") -> str:
    """Returns each device's counters with what they count; unknown is `?`, its reason after."""
    return table_html(status_table(readings, units))


def table_html(table: Table) -> str:
    """Returns a table with its title before and its sentences after it."""
    return parts.frame(table_inner(table), table.title)


def table_inner(table: Table) -> str:
    """Returns the same without the frame that a whole output has."""
    inner = [tag("b", escape(table.title))] if table.columns else []
    if table.columns:
        rows = list(zip(*(column.texts for column in table.columns), strict=True))
        lines = [_row(cells, table, n) for n, cells in enumerate(rows)]
        inner.append(parts.table([_headings(table.columns), *lines], "margin-top:4px"))
    inner += [_legend(table), parts.sentences(table.after)]
    return "".join(inner)


def _legend(table: Table) -> str:
    said = [f"{parts.chip(kind)} {tag('span', escape(kind), parts.QUIET)}" for kind in table.legend]
    spans = "".join(tag("span", each, "white-space:nowrap") for each in said)
    style = "display:flex;flex-wrap:wrap;column-gap:14px;margin-top:4px"
    return tag("div", spans, style) if said else ""


def _headings(columns: tuple[Column, ...]) -> str:
    return parts.row(
        tag(
            "th",
            escape(f"{c.heading} {c.unit}".rstrip()),
            f"{_style(c)};font-weight:normal;{parts.QUIET}",
            scope="col",
        )
        for c in columns
    )


def _style(column: Column) -> str:
    if column.figures:
        return parts.FIGURE
    wrapping = "" if column.elastic and column.heading != "status" else ";white-space:nowrap"
    return f"{parts.CELL};text-align:left{wrapping}"


def _row(cells: tuple[str, ...], table: Table, number: int) -> str:
    first_of_foot = table.foot and number == len(table.columns[0].texts) - table.foot
    rule = "1px solid rgba(128,128,128,0.8)" if first_of_foot else parts.RULE
    return parts.row(
        tag("td", _text(text, column, table, number), f"{_style(column)};border-top:{rule}")
        for text, column in zip(cells, table.columns, strict=True)
    )


def _text(text: str, column: Column, table: Table, number: int) -> str:
    if table.categories and not column.heading:
        return parts.chip(table.categories[number]) if text else ""
    if table.mixtures and column.heading == HEADING:
        largest = max(sum(mixture.values()) for mixture in table.mixtures)
        return parts.mixture(table.mixtures[number], largest)
    shown = text.lstrip(" ")
    inner = parts.name(shown, 48) if column.code else escape(shown)
    depth = (len(text) - len(shown)) / 2
    return tag("span", inner, f"margin-left:{depth * _STEP:g}em") if depth else inner
