"""What the colours and marks of the chart mean, as HTML with inline styles only."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nbmem.panel.jumps import jump_html
from nbmem.records import CATEGORIES
from nbmem.render.palette import HATCHES, NEUTRAL, colour_of, ink_of, letter_of
from nbmem.render.scale import chartable
from nbmem.render.stacks import REST, Shown, rest_word, stack_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.panel.jumps import CellPlace
    from nbmem.records import CellRecord

_STYLE = (
    "display:flex;flex-wrap:wrap;gap:0 10px;line-height:18px;min-height:18px;"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-ui-font-size0,11px);color:var(--jp-ui-font-color2,GrayText);"
)
_BOX = (
    "display:inline-block;width:13px;height:13px;line-height:13px;"
    "text-align:center;font-size:9px;font-weight:600;"
)
_SWATCH = "display:inline-block;width:10px;height:13px;"
_CHIP = (
    "display:inline-flex;vertical-align:-2px;margin-right:3px;border-radius:2px;overflow:hidden;"
)


_LINES = "repeating-linear-gradient({}deg,transparent 0 3px,{} 3px 4px)"
_ANGLES = {
    "horizontal_line": (0,),
    "vertical_line": (90,),
    "right_diagonal_line": (135,),
    "left_diagonal_line": (45,),
    "cross": (0, 90),
}


def _hatch(category: str) -> str:
    """Returns a box with the pattern that the category's part of a bar has."""
    ink = f"{ink_of(category)}60"
    if HATCHES[category] == "blank":
        return ""
    lines = [_LINES.format(angle, ink) for angle in _ANGLES.get(HATCHES[category], ())]
    if not lines:
        lines = [f"radial-gradient({ink} 1px,transparent 1.5px) 0 0/4px 4px"]
    return f'<span style="{_SWATCH}background:{",".join(lines)} {colour_of(category)}"></span>'


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
        _chip(
            letter_of(category), colour_of(category), ink_of(category), category, _hatch(category)
        )
        for category in CATEGORIES
        if category in seen
    ]
    spans = "".join(f'<span style="white-space:nowrap">{chip}</span>' for chip in chips)
    return f'<div style="{_STYLE}">{spans}</div>'


def detail_html(sentence: str, place: CellPlace | None = None) -> str:
    """Returns the line about the chosen cell, escaped; as high with words as without."""
    sentence = sentence or "Choose a bar or a row to read the whole of it."
    link = f'<span style="float:right">{jump_html(place)}</span>' if place is not None else ""
    style = f"{_STYLE}min-height:36px;margin-top:2px;overflow-wrap:anywhere;"
    return f'<div style="{style}">{link}{escape(sentence)}</div>'


def _chip(letter: str, colour: str, ink: str, word: str, hatch: str = "") -> str:
    style = f"{_BOX}background:{colour};color:{ink}"
    box = f'<span style="{style}">{escape(letter) or "&nbsp;"}</span>{hatch}'
    return f'<span style="{_CHIP}">{box}</span>{escape(word)}'
