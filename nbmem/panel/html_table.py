"""A table as HTML that needs no script and no style sheet: the plain panel, and the saved copy."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nbmem.panel.jumps import jump_html
from nbmem.panel.words import FONT
from nbmem.render.palette import NEUTRAL

if TYPE_CHECKING:
    from nbmem.panel.columns import Column, Parts, TableData


def table_html(data: TableData, *, narrow: bool = False, jumps: bool = False) -> str:
    """Returns a table as HTML, inline styles only, every text escaped.

    `narrow` leaves out what the panel's own table shows only where there is room; with `jumps` a
    row has a button that goes to its cell, which a page shows that knows where cells are.
    """
    if not data.keys:
        return f'<div style="{FONT}line-height:24px">{escape(data.empty)}</div>'
    columns = [column for column in data.columns if not (narrow and column.wide)]
    labels = [column.short if narrow and column.short else column.label for column in columns]
    head = "".join(
        _cell("th", label, column.kind) for label, column in zip(labels, columns, strict=True)
    )
    rows = "".join(
        f'<tr title="{escape(data.tips[row])}">'
        + "".join(_body_cell(data, column, row) for column in columns)
        + (_jump_cell(data, row) if jumps else "")
        + "</tr>"
        for row in range(len(data.keys))
    )
    style = f"{FONT}border-collapse:collapse;table-layout:auto;width:100%;line-height:20px;"
    head, body = f"<thead><tr>{head}</tr></thead>", f"<tbody>{rows}</tbody>"
    return f'<table style="{style}">{head}{body}</table>'


def _jump_cell(data: TableData, row: int) -> str:
    return f'<td style="padding:0">{jump_html(data.places[row])}</td>' if data.places else ""


def _body_cell(data: TableData, column: Column, row: int) -> str:
    if column.bars is None:
        return _cell("td", column.text[row], column.kind)
    bar = _bar_html(data, column.bars[row])
    if column.kind == "bar":
        return f'<td style="width:40%;padding:0 6px">{bar}</td>'
    return _cell("td", column.text[row], column.kind, bar if column.bars[row] else "")


def _bar_html(data: TableData, parts: Parts) -> str:
    spans = "".join(
        f'<span style="flex:none;width:{share:.2f}%;background:{data.palette[int(word)][1]}"'
        f' title="{escape(data.palette[int(word)][3])}"></span>'
        for word, share in parts
    )
    style = f"display:flex;height:10px;min-width:60px;background:{NEUTRAL}22;overflow:hidden"
    return f'<div style="{style}">{spans}</div>'


def _cell(tag: str, text: str, kind: str, below: str = "") -> str:
    align = "right" if kind == "figure" else "left"
    style = (
        f"text-align:{align};vertical-align:top;padding:0 6px;font-variant-numeric:tabular-nums;"
    )
    style += (
        "width:50%;min-width:80px;overflow-wrap:anywhere;white-space:pre-line;"
        if kind in ("name", "text")
        else "white-space:nowrap;"
    )
    weight = "font-weight:600;" if tag == "th" else ""
    return f'<{tag} style="{style}{weight}">{escape(text)}{below}</{tag}>'
