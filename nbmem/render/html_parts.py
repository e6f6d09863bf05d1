"""Pieces of HTML that survive an untrusted notebook: inline styles, no class, script or picture.

Text enters a page only through `escape`. Nothing sets the colour of text or page, so that the
same report reads on white and on black.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from nbmem.render.names import clean, shorten_middle
from nbmem.render.palette import NEUTRAL, colour_of, ink_of, letter_of
from nbmem.units import format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WIDEST = 720
_LONGEST = 64
"""Columns of a name; a longer one loses its middle and has the whole in its `title`."""
_LONGEST_TITLE = 400
_MIXTURE = 120
"""Pixels of the longest bar of categories in a table."""
RULE = "1px solid rgba(128,128,128,0.25)"
CELL = "padding:2px 10px 2px 0;border:0;background:transparent;vertical-align:baseline"
FIGURE = f"{CELL};text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
QUIET = "opacity:0.7"


def escape(text: str) -> str:
    """Returns any text as HTML text, on one line, also right within quotes."""
    return html.escape(clean(text), quote=True)


def tag(name: str, inner: str, style: str = "", **attributes: str) -> str:
    """Returns an element; `inner` is HTML already, attribute values are escaped here."""
    given = {"style": style} if style else {}
    pairs = given | {key.replace("_", "-"): value for key, value in attributes.items()}
    opening = "".join(f' {key}="{escape(value)}"' for key, value in pairs.items())
    return f"<{name}{opening}>{inner}</{name}>"


def name(text: str, longest: int = _LONGEST) -> str:
    """Returns a name in its own type; of a long one the middle goes, the whole is in `title`."""
    shown = clean(text)
    short = shorten_middle(shown, longest)
    style = "font-family:monospace"
    if short == shown:
        return tag("span", escape(short), style)
    return tag("span", escape(short), style, title=shorten_middle(shown, _LONGEST_TITLE))


def chip(category: str) -> str:
    """Returns a category's letter on its colour."""
    style = (
        "display:inline-block;width:16px;text-align:center;text-indent:0;border-radius:3px;font-size:11px;"
        f"line-height:16px;background:{colour_of(category)};color:{ink_of(category)}"
    )
    return tag("span", letter_of(category), style, title=category)


def swatch(colour: str) -> str:
    """Returns the little square that says which part of a bar is meant."""
    style = f"display:inline-block;width:9px;height:9px;border-radius:2px;background:{colour}"
    return tag("span", "", style, aria_hidden="true")


def bar(parts: Iterable[tuple[float, str]], sentence: str) -> str:
    """Returns a bar of parts, each a share from 0 to 1 and a colour; `sentence` says it."""
    pieces = "".join(
        tag("div", "", f"width:{share * 100:.2f}%;background:{colour}")
        for share, colour in parts
        if share > 0
    )
    style = (
        "display:flex;height:10px;margin:6px 0;border-radius:3px;overflow:hidden;"
        "background:rgba(128,128,128,0.25)"
    )
    return tag("div", pieces, style, role="img", aria_label=sentence, title=sentence)


def mixture(sizes: Mapping[str, int], largest: int) -> str:
    """Returns a small bar of categories: the row that has `largest` bytes fills its column."""
    whole = sum(sizes.values())
    if not whole or not largest:
        return ""
    said = ", ".join(f"{kind} {format_share(size, whole)}" for kind, size in sizes.items())
    pieces = "".join(
        tag("div", "", f"width:{100 * size / whole:.2f}%;background:{colour_of(kind)}")
        for kind, size in sizes.items()
    )
    width = max(2, round(_MIXTURE * whole / largest))
    style = f"display:inline-flex;width:{width}px;height:10px;border-radius:2px;overflow:hidden"
    return tag("div", pieces, style, role="img", aria_label=said, title=said)


def frame(inner: str, sentence: str) -> str:
    """Returns a whole report around `inner`; `sentence` is what a screen reader says first."""
    style = f"max-width:{WIDEST}px;font-size:13px;line-height:1.5;color:inherit;text-align:left"
    return tag("div", inner, style, role="group", aria_label=sentence)


def table(rows: Iterable[str], style: str = "") -> str:
    """Returns a table without lines of its own around finished rows."""
    plain = "border-collapse:collapse;border:0;margin:0;background:transparent;font-size:13px"
    return tag("table", tag("tbody", "".join(rows)), f"{plain};{style}".rstrip(";"))


def row(cells: Iterable[str], **attributes: str) -> str:
    """Returns a table row; front ends that stripe rows are asked not to."""
    return tag("tr", "".join(cells), "background:transparent", **attributes)


def sentences(texts: Iterable[str]) -> str:
    """Returns sentences one below the other, fainter than the rest."""
    return "".join(tag("div", escape(text), QUIET) for text in texts)


__all__ = [
    "CELL",
    "FIGURE",
    "NEUTRAL",
    "QUIET",
    "RULE",
    "bar",
    "chip",
    "escape",
    "frame",
    "mixture",
    "name",
    "row",
    "sentences",
    "swatch",
    "table",
    "tag",
]
