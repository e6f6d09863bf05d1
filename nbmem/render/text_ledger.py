"""The ledger for a terminal: sums whose figures stand under each other, to be added up."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from nbmem.render.ledger_words import legend_of, sentences_of, tell_device
from nbmem.render.names import pad, shorten_middle, width_of
from nbmem.render.text_tables import table_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import Ledger
    from nbmem.render.ledger_words import DeviceWords, SumLine, SumWords
    from nbmem.units import Units

_GAP = 2
_INDENT = 4
"""Columns before a label: two of margin, the mark and a space."""
_NARROWEST_LABEL = 17
_LONGEST_LABEL = 120
_NARROWEST_EQUALS = 24
NOTHING = "No device can be read: import torch, then run %gpumem ledger."


def ledger_text(ledger: Ledger, *, units: Units = "IEC", width: int = 78) -> str:
    """Returns the sums of each device in lines of at most `width` columns."""
    width = max(width, 30)
    devices = [tell_device(device, units) for device in ledger.devices]
    parts = ["\n".join(_device(device, width)) for device in devices] or [NOTHING]
    sentences = (*legend_of(devices), *sentences_of(ledger.notes))
    parts += ["\n".join(_wrapped(sentences, width))] if sentences else []
    return "\n\n".join(parts)


def _device(device: DeviceWords, width: int) -> list[str]:
    lines = [shorten_middle(device.title, width)]
    grid = _grid(device.sums, width)
    for told in device.sums:
        lines += ["", *_sum(told, grid, width)]
    for table in device.tables:
        lines += ["", table_text(table, width)]
    if device.notes:
        lines += ["", *_wrapped(device.notes, width)]
    return lines


@dataclass(frozen=True, slots=True)
class _Grid:
    """Widths that all sums of a device share; 0 leaves a column out."""

    label: int
    count: int
    size: int
    exact: int
    equals: int


def _grid(sums: Sequence[SumWords], width: int) -> _Grid:
    lines = [line for told in sums for line in (*told.lines, told.total)]
    label = max([width_of(line.label) for line in lines], default=0)
    label = max([label, *(width_of(told.heading) - _INDENT for told in sums)])
    count = _widest(lines, "count", "count")
    size = max([_widest(lines, "size", ""), *(width_of(told.unit) for told in sums)])
    exact = _widest(lines, "exact", "bytes")
    room = width - _INDENT - _column(size)
    exact = exact if room - _column(exact) >= _NARROWEST_LABEL else 0
    room -= _column(exact)
    count = count if room - _column(count) >= min(label, 30) else 0
    room -= _column(count)
    label = min(label, room)
    left = room - label - _GAP
    equals = min(_widest(lines, "equals", ""), left) if left >= _NARROWEST_EQUALS else 0
    return _Grid(label, count, size, exact, equals)


def _widest(lines: Sequence[SumLine], field: str, heading: str) -> int:
    widest = max([width_of(getattr(line, field)) for line in lines], default=0)
    return max(widest, width_of(heading)) if widest else 0


def _column(width: int) -> int:
    return width + _GAP if width else 0


def _sum(told: SumWords, grid: _Grid, width: int) -> list[str]:
    heading = shorten_middle(told.heading, grid.label + _INDENT)
    every = (*told.lines, told.total)
    count = "count" if any(line.count for line in every) else ""
    same = "the same as" if grid.equals and any(line.equals for line in every) else ""
    lines = [_row(pad(heading, grid.label + _INDENT), (count, told.unit, "bytes"), same, grid)]
    lines += [row for line in told.lines for row in _line(line, grid)]
    figures = _column(grid.size) + _column(grid.exact)
    start = _INDENT + grid.label + _column(grid.count)
    if told.lines:
        lines.append(" " * (start + _GAP) + "─" * (figures - _GAP))
    lines += _line(told.total, grid)
    then = " " * _INDENT
    equals = "" if grid.equals else told.total.equals
    lines += _wrapped([" · ".join(filter(None, (told.verdict, equals)))], width, then)
    return lines + _wrapped(told.notes, width, then)


def _line(line: SumLine, grid: _Grid) -> list[str]:
    """Returns a line of the sum; a label that is too long goes on below its figures."""
    depth = " " * (len(line.label) - len(line.label.lstrip(" ")))
    label = shorten_middle(line.label.strip(), _LONGEST_LABEL)
    first, *others = wrap(label, grid.label, initial_indent=depth, subsequent_indent=depth) or [""]
    if any(width_of(part) > grid.label for part in (first, *others)):  # wide letters
        first, others = shorten_middle(depth + label, grid.label), []
    left = f"  {pad(line.mark, 1)} {pad(first, grid.label)}"
    figures = (line.count, line.size, line.exact)
    return [_row(left, figures, line.equals, grid), *(" " * _INDENT + part for part in others)]


def _row(left: str, figures: tuple[str, str, str], equals: str, grid: _Grid) -> str:
    widths = (grid.count, grid.size, grid.exact)
    cells = [
        pad(text, width, right=True) for text, width in zip(figures, widths, strict=True) if width
    ]
    if grid.equals:
        cells.append(shorten_middle(equals, grid.equals))
    return (" " * _GAP).join([left, *cells]).rstrip()


def _wrapped(sentences: Iterable[str], width: int, indent: str = "") -> list[str]:
    return [
        line
        for sentence in sentences
        for line in wrap(
            sentence,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    ]
