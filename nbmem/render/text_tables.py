"""Tables and acts for a terminal."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from nbmem.render.names import clean, pad, shorten_middle, shorten_name, width_of
from nbmem.render.palette import letter_of
from nbmem.render.tables import history_table, status_table
from nbmem.units import Units, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, DeviceReading, ReclaimReport
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


def reclaim_text(report: ReclaimReport, *, units: Units = "IEC") -> str:
    """Returns what came back in one line, then what was refused and what is still held."""
    lines = [_freed(report, units)]
    lines += [f"  {clean(text)}" for text in (*report.refused, *report.still_held)]
    lines += [f"  {clean(note.sentence)}" for note in report.notes]
    return "\n".join(lines)


def _freed(report: ReclaimReport, units: Units) -> str:
    counts = clean(report.counts)
    if report.freed is None:
        return f"{clean(report.act)} is done; how much came back is unknown ({counts})."
    before, after = report.bytes_before, report.bytes_after
    if report.freed == 0:
        return f"Nothing came back: {format_bytes(after, units)} as before, {counts}."
    way = f"{_first_of_range(before, after, units)} → {format_bytes(after, units)}"
    if report.freed < 0:
        return f"Nothing came back: {way}, {counts}, made meanwhile."
    return f"Freed {format_bytes(report.freed, units)} ({way}, {counts})."


def _first_of_range(before: int | None, after: int | None, units: Units) -> str:
    """Returns `before` without its unit where `after` has the same."""
    first, last = format_bytes(before, units), format_bytes(after, units)
    figure, _, unit = first.partition(" ")
    return figure if unit == last.partition(" ")[2] else first


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
    columns = _that_fit(columns, width)
    widths = [_natural(column) for column in columns]
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for index, column in enumerate(columns):
        if column.elastic and over > 0:
            kept = max(widths[index] - over, min(_NARROWEST, widths[index]))
            over -= widths[index] - kept
            widths[index] = kept
    rows = zip(*(column.texts for column in columns), strict=True)
    lines = [_row(cells, columns, widths) for cells in (*_headings(columns), *rows)]
    if foot:
        lines.insert(-foot, "─" * (sum(widths) + len(_GAP) * (len(widths) - 1)))
    return lines


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
