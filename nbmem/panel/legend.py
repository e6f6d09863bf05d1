"""What the colours and marks of the chart mean, as HTML with inline styles only."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.palette import NEUTRAL, colour_of, ink_of, letter_of
from nbmem.render.scale import chartable
from nbmem.render.stacks import REST, Shown, rest_word, stack_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord

_STYLE = (
    "display:flex;flex-wrap:wrap;gap:0 10px;line-height:18px;min-height:18px;"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-ui-font-size0,11px);color:var(--jp-ui-font-color2,GrayText);"
)
_BOX = (
    "display:inline-block;width:13px;height:13px;line-height:13px;border-radius:2px;"
    "text-align:center;font-size:9px;font-weight:600;margin-right:3px;"
)


def legend_html(records: Sequence[CellRecord], device: str, shown: Shown = "alive") -> str:
    """Returns the legend: the mark of the peak, the grey rest, and the categories that occur."""
    cells = chartable(records, device)
    if not cells:
        return f'<div style="{_STYLE}"></div>'
    seen: set[str] = set()
    rests: dict[str, None] = {}
    for record in cells:
        stack = stack_of(record, device, shown)
        seen.update(stack)
        if REST in stack:
            rests[rest_word(record, device, shown)] = None
    chips = ["▲ peak", *(_chip("", NEUTRAL + "99", "inherit", word) for word in rests)]
    chips += [
        _chip(letter_of(category), colour_of(category), ink_of(category), category)
        for category in CATEGORIES
        if category in seen
    ]
    spans = "".join(f'<span style="white-space:nowrap">{chip}</span>' for chip in chips)
    return f'<div style="{_STYLE}">{spans}</div>'


def detail_html(sentence: str) -> str:
    """Returns the line about the chosen cell, escaped; as high with words as without."""
    sentence = sentence or "Choose a bar or a row to read the whole of it."
    style = f"{_STYLE}min-height:36px;margin-top:2px;overflow-wrap:anywhere;"
    return f'<div style="{style}">{escape(sentence)}</div>'


def _chip(letter: str, colour: str, ink: str, word: str) -> str:
    box = f'<span style="{_BOX}background:{colour};color:{ink}">{escape(letter) or "&nbsp;"}</span>'
    return f"{box}{escape(word)}"
