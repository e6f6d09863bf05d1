"""The ledger for a notebook: a bar a sum, and the lines that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.html_parts import escape, tag
from nbmem.render.html_tables import table_inner
from nbmem.render.ledger_words import legend_of, sentences_of, tell_device
from nbmem.render.text_ledger import NOTHING

if TYPE_CHECKING:
    from nbmem.records import Ledger
    from nbmem.render.ledger_words import DeviceWords, SumLine, SumWords
    from nbmem.units import Units

_LEFT = f"{parts.CELL};text-align:left"
_LABEL = f"{_LEFT};padding-left:20px;text-indent:-20px"
_WIDTHS = {"label": "37%", "count": "6%", "size": "9%", "exact": "18%", "equals": "30%"}
"""The same in every sum, so that their figures stand below each other."""
_TOTAL = "border-top:1px solid rgba(128,128,128,0.8);font-weight:bold"
_PART = 1.2
"""Em by which a line stands further right for each line that it is a part of."""


def ledger_html(ledger: Ledger, *, units: Units = "IEC") -> str:
    """Returns the sums of each device as HTML with inline styles, at most 720 px wide."""
    devices = [tell_device(device, units) for device in ledger.devices]
    inner = [_device(device) for device in devices] or [tag("div", escape(NOTHING))]
    inner.append(parts.sentences((*legend_of(devices), *sentences_of(ledger.notes))))
    return parts.frame("".join(inner), _sentence(devices))


def _sentence(devices: list[DeviceWords]) -> str:
    """Returns the ledger in one sentence."""
    said = [
        f"{device.title}: "
        + "; ".join(f"{told.total.label} {told.total.exact} bytes" for told in device.sums)
        for device in devices
    ]
    return ". ".join(said) or NOTHING


def _device(device: DeviceWords) -> str:
    inner = [tag("b", escape(device.title))]
    inner += [_sum(told) for told in device.sums]
    inner += [tag("div", table_inner(table), "margin-top:10px") for table in device.tables]
    inner.append(parts.sentences(device.notes))
    return tag("div", "".join(inner), "margin-bottom:10px")


def _sum(told: SumWords) -> str:
    pieces = [(line.share, line.colour) for line in told.lines if line.colour]
    sentence = f"{told.heading}: {told.total.size} {told.unit}, {told.verdict}"
    rows = [_headings(told), *(_line(line) for line in told.lines)]
    rows.append(_line(told.total, total=True))
    inner = [
        parts.bar(pieces, sentence) if pieces else "",
        parts.table(rows, "width:100%;table-layout:fixed"),
        tag("div", escape(told.verdict), parts.QUIET),
        parts.sentences(told.notes),
    ]
    return tag("div", "".join(inner), "margin-top:10px")


def _headings(told: SumWords) -> str:
    counted = any(line.count for line in told.lines)
    same = any(line.equals for line in (*told.lines, told.total))
    words = {"label": told.heading, "count": "count" if counted else "", "size": told.unit}
    words |= {"exact": "bytes", "equals": "the same as" if same else ""}
    return parts.row(
        tag("th", escape(words[name]), f"{_heading(name)};width:{width}", scope="col")
        for name, width in _WIDTHS.items()
    )


def _heading(name: str) -> str:
    style = _LEFT if name in ("label", "equals") else parts.FIGURE
    return f"{style};font-weight:normal" + ("" if name == "label" else f";{parts.QUIET}")


def _line(line: SumLine, *, total: bool = False) -> str:
    rule = _TOTAL if total else f"border-top:{parts.RULE}"
    cells = [tag("td", _mark(line) + _label(line), f"{_LABEL};{rule}")]
    figures = (line.count, line.size, line.exact)
    cells += [tag("td", escape(text), f"{parts.FIGURE};{rule}") for text in figures]
    style = f"{_LEFT};{rule};font-weight:normal;font-size:11px;overflow-wrap:anywhere;{parts.QUIET}"
    cells.append(tag("td", parts.name(line.equals, 60) if line.equals else "", style))
    return parts.row(cells)


def _label(line: SumLine) -> str:
    text = line.label.lstrip(" ")
    depth = (len(line.label) - len(text)) // 2
    if line.mark and not line.category:
        text = f"{line.mark} {text}"
    return tag("span", escape(text), f"margin-left:{depth * _PART:g}em" if depth else "")


def _mark(line: SumLine) -> str:
    """Returns the category's letter, or the square that says which part of the bar is meant."""
    if line.category:
        return f"{parts.chip(line.category)} "
    square = parts.swatch(line.colour or "transparent")
    return (
        tag("span", square, "display:inline-block;width:16px;text-align:center;text-indent:0") + " "
    )
