"""The ledger in a panel's width: each sum as a bar and its lines, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.words import FONT, QUIET
from nbmem.render.html_parts import NEUTRAL, RULE, bar, chip, escape, swatch, tag
from nbmem.render.ledger_words import legend_of, sentences_of, tell_device
from nbmem.render.names import shorten_middle
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.records import Ledger
    from nbmem.render.ledger_words import DeviceWords, SumLine, SumWords
    from nbmem.render.tables import Column, Table
    from nbmem.units import Units

NOT_TAKEN = "There is no ledger yet: press ⟳ to take it."
NOTHING = "No device can be read: import torch, then press ⟳."
_LINE = "display:flex;gap:6px;align-items:baseline;padding:1px 0"
_MARK = "flex:0 0 16px;text-align:center"
_WORDS = "flex:1 1 0;min-width:0;overflow-wrap:anywhere"
_FIGURE = "flex:none;white-space:nowrap;text-align:right;font-variant-numeric:tabular-nums"


def ledger_aside(ledger: Ledger | None, units: Units) -> str:
    """Returns whether the sums close: `closes`, `12.0 MiB not explained`."""
    if ledger is None:
        return ""
    sums = [each for device in ledger.devices for each in device.sums]
    if not sums:
        return ""
    if any(each.remainder is None for each in sums):
        return "a figure is unknown"
    missing = sum(abs(each.remainder or 0) for each in sums)
    return f"{format_bytes(missing, units)} not explained" if missing else "closes"


def ledger_html(ledger: Ledger | None, units: Units) -> str:
    """Returns the sums of every device, the blocks without an owner and the processes."""
    if ledger is None:
        return tag("div", escape(NOT_TAKEN), f"{FONT}line-height:24px;")
    told = [tell_device(each, units) for each in ledger.devices]
    inner = "".join(_device(words, first=n == 0) for n, words in enumerate(told))
    foot = _sentences((*legend_of(told), *sentences_of(ledger.notes)))
    return tag("div", (inner or escape(NOTHING)) + foot, f"{FONT}line-height:18px;max-width:560px;")


def _device(words: DeviceWords, *, first: bool) -> str:
    parts = [tag("div", escape(words.title), f"font-weight:600;margin-top:{0 if first else 12}px")]
    parts += [_sum(each) for each in words.sums]
    parts += [_table(table) for table in words.tables]
    return "".join(parts) + _sentences(words.notes)


def _sum(told: SumWords) -> str:
    sentence = ", ".join(f"{line.label.strip()} {line.size} {told.unit}" for line in told.lines)
    shares = [(line.share, line.colour) for line in told.lines if line.colour]
    head = _row("", escape(told.heading), f"{told.total.size} {told.unit}", told.total, bold=True)
    lines = [_line(line) for line in told.lines]
    foot = _sentences([told.verdict, *told.notes])
    return tag("div", head + bar(shares, sentence) + "".join(lines) + foot, "margin:6px 0 10px")


def _line(line: SumLine) -> str:
    depth = (len(line.label) - len(line.label.lstrip())) // 2
    derived = f"{line.mark} " if line.mark and not line.category else ""
    words = escape(derived + line.label.strip())
    if line.count:
        words += tag("span", f" · {escape(line.count)}", QUIET)
    return _row(_mark(line), words, line.size, line, depth=depth)


def _mark(line: SumLine) -> str:
    if line.category:
        return chip(line.category)
    return swatch(line.colour) if line.colour else ""


def _row(
    mark: str, words: str, size: str, line: SumLine, *, depth: int = 0, bold: bool = False
) -> str:
    """Returns a line; mark and words are HTML already. What it equals is its tip."""
    tip = " · ".join(filter(None, [f"{line.exact} B", line.equals]))
    first = "" if bold else tag("span", mark, f"{_MARK};margin-left:{16 * depth}px")
    cells = first + tag("span", words, _WORDS) + tag("span", escape(size), _FIGURE)
    weight = f";font-weight:600;border-top:{RULE};padding-top:4px" if bold else ""
    faint = ";opacity:.8" if depth else ""
    return tag("div", cells, f"{_LINE}{weight}{faint}", title=tip)


def _table(table: Table) -> str:
    """Returns a table as rows of its own: the first column is the figure, the rest are words."""
    size, *others = [column for column in table.columns if column.heading != "bytes"]
    rows = []
    for n, figure in enumerate(size.texts):
        told = [_fact(column, n) for column in others if column.texts[n]]
        words = " · ".join(shorten_middle(text, 60) for text in told).replace("× · ", "× ")
        cells = tag("span", escape(words), _WORDS, title=" · ".join(told))
        cells += tag("span", escape(f"{figure} {size.unit}"), _FIGURE)
        rows.append(tag("div", cells, _LINE, role="listitem"))
    head = tag(
        "div",
        escape(table.title),
        f"font-weight:600;border-top:1px solid {NEUTRAL}40;padding-top:4px",
    )
    return tag(
        "div",
        head + tag("div", "".join(rows), role="list") + _sentences(table.after),
        "margin:6px 0",
    )


def _fact(column: Column, row: int) -> str:
    text = column.texts[row]
    if column.heading == "count":
        return f"{text} ×"
    return f"{column.heading} {text}" if column.figures else text


def _sentences(texts: Iterable[str]) -> str:
    return "".join(tag("div", escape(text), f"{QUIET}overflow-wrap:anywhere") for text in texts)
