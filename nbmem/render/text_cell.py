"""The report of a cell for a terminal."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from nbmem.render.groups import SHORT
from nbmem.render.names import pad, shorten_middle, width_of
from nbmem.render.story import tell
from nbmem.units import Units, column_unit

if TYPE_CHECKING:
    from nbmem.records import CellRecord
    from nbmem.render.groups import Names, Row
    from nbmem.render.story import Bar, DeviceStory, Story

_INDENT = "  "
_WORD = 8
"""Columns of the word that begins a line: `stayed  `."""
_GREY, _PLAIN = "\x1b[90m", "\x1b[0m"


def cell_report_text(
    record: CellRecord,
    *,
    units: Units = "IEC",
    width: int = 78,
    rows: int = 6,
    color: bool = False,
) -> str:
    """Returns the report of `record` in lines of at most `width` columns.

    With `color`, notes are grey by an ANSI escape; without it there is no escape in the text.
    """
    story = tell(record, units, rows)
    width = max(width, 30)
    lines = [_heading(story, width)]
    if story.refused:
        lines += _line("memory", story.refused, width)
    for device in story.devices:
        lines += _device(device, story, units, width)
    for word, sentence in story.elsewhere:
        lines += _line(word, sentence, width)
    if story.host:
        lines += _line("host", story.host, width)
    for note in story.notes:
        lines += [f"{_GREY}{line}{_PLAIN}" if color else line for line in _note(note, width)]
    return "\n".join(line.rstrip() if not color else line for line in lines)


def _heading(story: Story, width: int) -> str:
    facts = " · ".join(story.facts)
    cell = f"{story.cell} " if story.cell else ""
    room = width - width_of(cell) - width_of(facts) - 2
    if room < min(12, width_of(story.title)):
        title = shorten_middle(story.title, width - width_of(cell))
        return f"{cell}{title}\n{_INDENT}{shorten_middle(facts, width - 2)}"
    left = f"{cell}{shorten_middle(story.title, room)}"
    return pad(left, width - width_of(facts)) + facts


def _device(device: DeviceStory, story: Story, units: Units, width: int) -> list[str]:
    several = len(story.devices) > 1 or bool(story.elsewhere)
    if device.quiet is not None:
        sentence = f"{device.device}: {device.quiet}" if several else device.quiet
        return _wrapped(sentence, width, _INDENT, _INDENT)
    lines = [f"{_INDENT}{device.device}"] if several else []
    lines += _peak(device, width)
    way = f"{device.start}  →  end {device.end}"
    change = f"   {device.change}" if device.change else ""
    lines += _line("start", way + change, width, figure=device.start)
    if device.stayed:
        lines += _line("stayed", device.stayed, width)
        lines += _rows(device.rows, units, width)
    for word, sentence in device.facts:
        lines += _line(word, sentence, width)
    return lines


def _peak(device: DeviceStory, width: int) -> list[str]:
    figure = pad(device.peak, 9, right=True)
    start = f"{_INDENT}{pad('peak', _WORD - 1)}{figure}"
    room = width - width_of(start) - width_of(device.share) - 5
    if device.bar is None or room < 8:
        then = _INDENT + " " * _WORD
        return _wrapped(device.share, width, f"{start}  ", then) if device.share else [start]
    return [f"{start}  ▕{_bar(device.bar, min(room, 32))}▏ {device.share}"]


def _bar(bar: Bar, width: int) -> str:
    """Returns held, changed and peak as dark, middle and light blocks, the rest as dots."""
    ends = (bar.held, bar.held + bar.changed, bar.held + bar.changed + bar.peak)
    marks = [round(end * width) for end in ends]
    if marks[-1] == 0 and ends[-1] > 0:  # what is there is seen, however little it is
        marks = [int(end > 0) for end in ends]
    dark, middle, light = marks[0], marks[1] - marks[0], marks[2] - marks[1]
    return "█" * dark + "▓" * middle + "▒" * light + "░" * (width - marks[2])


def _line(word: str, sentence: str, width: int, *, figure: str = "") -> list[str]:
    # The figure of `start` stands under that of `peak`.
    gap = " " * max(0, 8 - width_of(figure)) if figure else ""
    first = f"{_INDENT}{pad(word, _WORD)}{gap}"
    return _wrapped(sentence, width, first, _INDENT + " " * _WORD)


def _wrapped(sentence: str, width: int, first: str, then: str) -> list[str]:
    if width_of(first + sentence) <= width:
        return [first + sentence]
    return wrap(
        sentence,
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_on_hyphens=False,
    )


def _rows(rows: tuple[Row, ...], units: Units, width: int) -> list[str]:
    unit = column_unit([row.bytes for row in rows], units)
    figures = [f"{unit.format(row.bytes)} {unit.suffix}" for row in rows]
    kinds = [SHORT.get(row.category, row.category) for row in rows]
    left, middle = max(map(width_of, figures)), max(map(width_of, kinds))
    indent = max(_WORD + 1 - left, 0) + len(_INDENT)
    room = width - indent - left - middle - 4
    if room < 12:  # too narrow for three columns: the names stand without their kind
        middle, room, kinds = 0, width - indent - left - 2, ["" for _ in rows]
    gap = "  " if middle else ""
    return [
        f"{' ' * indent}{pad(figure, left, right=True)}  {pad(kind, middle)}{gap}"
        f"{fit_names(row.names, room)}"
        for figure, kind, row in zip(figures, kinds, rows, strict=True)
    ]


def fit_names(names: tuple[Names, ...], room: int) -> str:
    """Returns as many names as fit into `room` columns, and how many storages have others."""
    if len(names) == 1:
        return _fit_one(names[0], room)
    count = sum(name.count for name in names)
    best = ""
    for shown in range(1, len(names) + 1):
        rest = count - sum(name.count for name in names[:shown])
        text = ", ".join(name.text for name in names[:shown])
        text += f" and {rest:,} more" if rest else ""
        if best and width_of(text) > room:
            break
        best = text
    if width_of(best) <= room:
        return best
    tail = f" and {count - names[0].count:,} more"
    return f"{shorten_middle(names[0].text, max(room - width_of(tail), 4))}{tail}"


def _fit_one(name: Names, room: int) -> str:
    detail = f"{name.count:,} storages" if name.count > 1 else name.detail
    if not detail or width_of(detail) + 10 > room:
        return shorten_middle(name.text, room)
    return f"{shorten_middle(name.text, room - width_of(detail) - 2)}  {detail}"


def _note(note: str, width: int) -> list[str]:
    return _wrapped(note, width, _INDENT, _INDENT)
