"""Tables for a terminal."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from nbmem.render.names import pad, shorten_middle, shorten_name, width_of
from nbmem.render.palette import letter_of
from nbmem.render.tables import history_table, status_table
from nbmem.units import Units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, DeviceReading
    from nbmem.render.tables import Column, Table

_GAP = "  "
_NARROWEST = 12
_LONGEST = 48
"""Columns that a text that is not elastic may take."""


def history_table_text(
    records: Sequence[CellRecord], *, units: Units = "IEC", width: int = 78
) -> str:
    """Returns the table of cells: one unit a column, figures at the right."""
    return table_text(history_table(records, units), width)


def status_text(readings: Sequence[DeviceReading], *, units: Units = "IEC", width: int = 78) -> str:
    """Returns each device's counters with what they count; unknown is `?`, its reason after."""
    return table_text(status_table(readings, units), width)


def table_text(table: Table, width: int) -> str:
    """Returns a table in lines of at most `width` columns where its elastic column allows it."""
    lines = wrap(table.title, width) if table.columns else []
    if table.columns:
        lines += _grid(table.columns, width, table.foot)
    for sentence in (*_legend(table), *table.after):
        lines += wrap(sentence, width) if width_of(sentence) > width else [sentence]
    return "\n".join(lines)


def _legend(table: Table) -> list[str]:
    said = " · ".join(f"{letter_of(category)} {category}" for category in table.legend)
    return [said] if said else []


def _grid(columns: tuple[Column, ...], width: int, foot: int) -> list[str]:
    headings, rows = grid_lines(columns, width)
    lines = [*headings, *rows]
    if foot:
        widths = _widths(_that_fit(columns, width), width)
        lines.insert(-foot, "─" * (sum(widths) + len(_GAP) * (len(widths) - 1)))
    return lines


def grid_lines(columns: tuple[Column, ...], width: int) -> tuple[list[str], list[str]]:
    """Returns the headings and the rows of columns that share `width`."""
    columns = _that_fit(columns, width)
    widths = _widths(columns, width)
    rows = zip(*(column.texts for column in columns), strict=True)
    headings, lines = (
        [_row(cells, columns, widths) for cells in each] for each in (_headings(columns), rows)
    )
    return headings, lines


def _widths(columns: tuple[Column, ...], width: int) -> list[int]:
    widths = [_natural(column) for column in columns]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for index, column in enumerate(columns):
        if column.elastic and over > 0:
            kept = max(widths[index] - over, min(_NARROWEST, widths[index]))
            over -= widths[index] - kept
            widths[index] = kept
    return widths


def _that_fit(columns: tuple[Column, ...], width: int) -> tuple[Column, ...]:
    """Returns the columns with as many spare ones, or their narrower form, as there is room for."""
    for spare in [column for column in columns if column.spare]:
        narrower = spare.narrower
        if narrower is not None and _least(columns) > width:
            columns = tuple(narrower if column is spare else column for column in columns)
        if _least(columns) > width:
            columns = tuple(c for c in columns if c is not spare and c is not narrower)
    return columns


def _least(columns: tuple[Column, ...]) -> int:
    widths = [min(_natural(c), c.least) if c.elastic else _natural(c) for c in columns]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _natural(column: Column) -> int:
    widest = max(map(width_of, (column.heading, column.unit, *column.texts)))
    return widest if column.elastic else min(widest, _LONGEST)


def _headings(columns: tuple[Column, ...]) -> list[tuple[str, ...]]:
    """Returns the line of headings, and one of units where there are any."""
    lines = [tuple(column.heading for column in columns), tuple(column.unit for column in columns)]
    return lines if any(lines[1]) else lines[:1]


def _shorten(cell: str, column: Column, width: int) -> str:
    return (shorten_name if column.code else shorten_middle)(cell, width)


def _row(cells: Sequence[str], columns: tuple[Column, ...], widths: list[int]) -> str:
    parts = [
        pad(_shorten(cell, column, width), width, right=column.figures)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return _GAP.join(parts).rstrip()
