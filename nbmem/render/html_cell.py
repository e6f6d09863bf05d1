"""The report of a cell for a notebook: the same in the same order as for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.html_parts import escape, tag
from nbmem.render.module_tables import module_rows
from nbmem.render.names import nameless_alone, words_of
from nbmem.render.story import tell
from nbmem.units import Units, column_unit, format_count

if TYPE_CHECKING:
    from nbmem.records import CellRecord, StorageRecord
    from nbmem.render.groups import Names, Row
    from nbmem.render.module_tables import ModuleRow
    from nbmem.render.story import DeviceStory, Story

_HELD, _CHANGED, _PEAK = parts.NEUTRAL, "#0072B2", "#6BB3DE"
"""Colours of the parts of a bar: grey was there, blue is the cell's, light blue came and went."""
_QUIET_CELL = f"{parts.CELL};{parts.QUIET};text-align:left"
_MOST_MODULES = 12
_MOST_LISTED = 40
"""Each listed storage is half a kilobyte in the saved notebook."""


def cell_report_html(record: CellRecord, *, units: Units = "IEC", rows: int = 6) -> str:
    """Returns the report of `record` as HTML with inline styles, at most 720 px wide."""
    story = tell(record, units, rows)
    inner = [_heading(record, story)]
    if story.refused:
        inner.append(tag("div", f"{_word('memory')}{escape(story.refused)}"))
    inner += [_device(device, story, units) for device in story.devices]
    inner += [tag("div", f"{_word(word)}{escape(text)}") for word, text in story.elsewhere]
    if story.host:
        inner.append(tag("div", f"host {escape(story.host)}"))
    inner.append(parts.sentences(story.notes))
    return parts.frame("".join(inner), _sentence(story))


def _sentence(story: Story) -> str:
    """Returns the report in one sentence."""
    cell = f"Cell {story.cell} {story.title}" if story.cell else story.title
    said = [f"{cell}: {', '.join(story.facts)}"]
    said += [story.refused] if story.refused else []
    for device in story.devices:
        said.append(f"{device.device} {device.quiet or _figures(device)}")
    said += [f"{word} {text}" for word, text in story.elsewhere]
    return "; ".join(said)


def _figures(device: DeviceStory) -> str:
    share = f", {device.share}" if device.share else ""
    change = f", {device.change}" if device.change else ""
    return f"peak {device.peak}{share}, start {device.start}, end {device.end}{change}"


def _heading(record: CellRecord, story: Story) -> str:
    left = f"{tag('b', escape(story.cell))} " if story.cell else ""
    left += parts.name(story.title, 56)
    facts = escape(" · ".join(story.facts))
    style = "" if story.failed else parts.QUIET
    right = tag("span", tag("b", facts) if story.failed else facts, style, **_error(record))
    return tag(
        "div",
        tag("span", left, "overflow-wrap:anywhere") + right,
        "display:flex;justify-content:space-between;gap:16px;flex-wrap:wrap",
    )


def _error(record: CellRecord) -> dict[str, str]:
    return {} if record.error is None else {"title": record.error[:300]}


def _device(device: DeviceStory, story: Story, units: Units) -> str:
    several = len(story.devices) > 1 or bool(story.elsewhere)
    if device.quiet is not None:
        sentence = f"{device.device}: {device.quiet}" if several else device.quiet
        return tag("div", escape(sentence), parts.QUIET)
    inner = [tag("div", tag("b", escape(device.device)), "margin-top:6px")] if several else []
    inner += [_bar(device), _key_figures(device)]
    if device.stayed:
        inner.append(tag("div", f"{_word('stayed')}{escape(device.stayed)}", "margin-top:6px"))
        inner.append(_rows(device.rows, units))
        inner.append(_saved_by_module(device.created, units))
        inner.append(_all_storages(device.created, units))
    inner += [tag("div", f"{_word(word)}{escape(text)}") for word, text in device.facts]
    return "".join(inner)


def _word(word: str) -> str:
    return f"{tag('span', escape(word), parts.QUIET)} "


def _bar(device: DeviceStory) -> str:
    if device.bar is None:
        return ""
    bar = device.bar
    pieces = [(bar.held, _HELD), (bar.changed, _CHANGED), (bar.peak, _PEAK)]
    return parts.bar(pieces, _figures(device))


def _key_figures(device: DeviceStory) -> str:
    """Returns start, end and peak in a row, each with the square of its part of the bar."""
    share = f" {tag('span', escape(device.share), parts.QUIET)}" if device.share else ""
    squares = ["", "", ""]
    if device.bar is not None:
        squares = [f"{parts.swatch(colour)} " for colour in (_PEAK, _HELD, _CHANGED)]
    said = [
        f"{squares[0]}{_word('peak')}{tag('b', escape(device.peak))}{share}",
        f"{squares[1]}{_word('start')}{escape(device.start)} → {_word('end')}{escape(device.end)}",
    ]
    if device.change:
        square = squares[2] if device.bar is not None and device.bar.changed > 0 else ""
        said.append(f"{square}{escape(device.change)}")
    spans = "".join(tag("span", text, "white-space:nowrap") for text in said)
    return tag("div", spans, "display:flex;flex-wrap:wrap;column-gap:18px")


def _rows(rows: tuple[Row, ...], units: Units) -> str:
    unit = column_unit([row.bytes for row in rows], units)
    return parts.table(
        parts.row(
            [
                tag("td", f"{escape(unit.format(row.bytes))} {unit.suffix}", parts.FIGURE),
                tag("td", _kind(row.category), f"{parts.CELL};white-space:nowrap;text-align:left"),
                tag("td", _names(row), f"{parts.CELL};text-align:left;overflow-wrap:anywhere"),
            ]
        )
        for row in rows
    )


def _kind(category: str) -> str:
    return f"{parts.chip(category)} {escape(category)}"


def _names(row: Row) -> str:
    shown = ", ".join(parts.name(each.text, 48) for each in row.names[:2])
    if len(row.names) == 1:
        return shown + _detail(row.names[0])
    rest = row.count - sum(each.count for each in row.names[:2])
    return shown + (tag("span", f" and {rest:,} more", parts.QUIET) if rest else "")


def _detail(names: Names) -> str:
    text = format_count(names.count, "storage") if names.count > 1 else names.detail
    return f" {tag('span', escape(text), parts.QUIET)}" if text else ""


def _saved_by_module(created: tuple[StorageRecord, ...], units: Units) -> str:
    """Returns what graphs keep as a tree of modules, folded away; nothing where it is of one."""
    saved = [storage for storage in created if storage.category == "saved for backward"]
    if len({storage.module for storage in saved}) < 2:
        return ""
    lines = module_rows(saved, _MOST_MODULES)
    unit = column_unit([line.bytes for line in lines], units)
    rows = [
        parts.row(
            [
                tag("td", f"{escape(unit.format(line.bytes))} {unit.suffix}", parts.FIGURE),
                tag("td", _module(line), f"{parts.CELL};text-align:left"),
                tag("td", escape(format_count(line.count, "storage")), _QUIET_CELL),
            ]
        )
        for line in lines
    ]
    return _folded("saved for backward, by module", parts.table(rows))


def _module(line: ModuleRow) -> str:
    return tag("span", parts.name(line.label, 48), f"margin-left:{1.2 * min(line.depth, 6):g}em")


def _folded(summary: str, inner: str) -> str:
    opener = tag("summary", escape(summary), f"cursor:pointer;{parts.QUIET}")
    return tag("details", opener + inner)


def _all_storages(created: tuple[StorageRecord, ...], units: Units) -> str:
    """Returns the single storages, folded away; nothing where the rows above say it all."""
    if len(created) < 3:
        return ""
    shown = created[:_MOST_LISTED]
    unit = column_unit([storage.bytes for storage in shown], units)
    rows = [
        parts.row(
            [
                tag("td", f"{escape(unit.format(s.bytes))} {unit.suffix}", parts.FIGURE),
                tag("td", parts.chip(s.category), parts.CELL),
                tag("td", _one_name(s), f"{parts.CELL};text-align:left"),
                tag(
                    "td",
                    escape(words_of(s.shape, s.dtype)),
                    _QUIET_CELL,
                ),
            ]
        )
        for s in shown
    ]
    left = len(created) - len(shown)
    more = parts.sentences([f"{format_count(left, 'smaller storage')} not shown."] if left else [])
    return _folded(f"all {len(created):,} storages", parts.table(rows) + more)


def _one_name(storage: StorageRecord) -> str:
    if storage.stands_for > 1:
        return format_count(storage.stands_for, "small storage")
    return parts.name(storage.names[0]) if storage.names else escape(nameless_alone(storage))
