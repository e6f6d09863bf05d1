"""Rows with sentences below each: what leaks, holders and acts are told in."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.html_parts import escape, tag
from nbmem.render.names import shorten_middle, width_of
from nbmem.render.tables import Column
from nbmem.render.text_tables import grid_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST = 600
"""Columns of one sentence or line of code; a longer one loses its middle."""
_NAME = 76
_WORD = 5
"""Columns of the word that begins a line, at least: `costs`."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One line below a row."""

    text: str
    word: str = ""
    """What the line begins with: `costs`."""
    code: bool = False
    """To be pasted, or a way to a tensor: set in its own type."""
    whole: bool = False
    """To be pasted: never broken, however long."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A title, columns of equal length, lines below each row, and sentences at the end."""

    title: str
    lead: str = ""
    """The sentence that says it all, before the rows."""
    columns: tuple[Column, ...] = ()
    details: tuple[tuple[Detail, ...], ...] = ()
    """Of each row."""
    after: tuple[str, ...] = ()
    below: str = ""
    """Heading of the column under whose texts HTML sets the lines of a row."""


def details_of(*told: tuple[str, str, bool]) -> tuple[Detail, ...]:
    """Returns lines of word, text, and whether it is code; those without text are left out."""
    return tuple(Detail(text, word, code) for word, text, code in told if text)


# Text.


def listing_text(listing: Listing, width: int) -> str:
    """Returns a listing in lines of at most `width` columns."""
    lines = [
        each for text in (listing.title, listing.lead) for each in wrapped(text, width) if text
    ]
    if listing.columns and listing.columns[0].texts:
        headings, rows = grid_lines(listing.columns, width)
        indent = " " * (width_of(max(listing.columns[0].texts, key=width_of)) + 2)
        lines += headings
        for row, details in zip(rows, listing.details, strict=True):
            lines += [row, *details_text(details, width, indent)]
    return "\n".join([*lines, *(each for text in listing.after for each in wrapped(text, width))])


def details_text(details: Iterable[Detail], width: int, indent: str) -> list[str]:
    """Returns the lines, their words in a column of their own."""
    told = list(details)
    room = max([_WORD, *(width_of(each.word) for each in told)]) + 2
    lines = []
    for each in told:
        word = f"{each.word:<{room}}" if each.word else ""
        if each.whole:
            lines.append(indent + word + shorten_middle(each.text, _LONGEST))
        else:
            lines += wrapped(each.text, width, indent + word, indent + " " * len(word))
    return lines


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Returns a sentence, a name or code in lines of at most `width` columns."""
    text = shorten_middle(text, _LONGEST)
    if width_of(first + text) <= width:
        return [first + text]
    lines = wrap(text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False)
    if all(width_of(line) <= width for line in lines):
        return lines
    return [(first + shorten_middle(text, width - width_of(first))).rstrip()]  # wide letters


# HTML.


def listing_html(listing: Listing) -> str:
    """Returns the listing without the frame that a whole output has."""
    inner = [tag("b", escape(listing.title))]
    inner += [tag("div", escape(listing.lead))] if listing.lead else []
    columns = listing.columns
    if columns and columns[0].texts:
        texts = zip(*(column.texts for column in columns), strict=True)
        rows = [
            _row(cells, listing, details)
            for cells, details in zip(texts, listing.details, strict=True)
        ]
        inner.append(parts.table([_headings(columns), *rows], "margin-top:4px"))
    return "".join([*inner, parts.sentences(listing.after)])


def _headings(columns: Sequence[Column]) -> str:
    style = f"font-weight:normal;{parts.QUIET}"
    return parts.row(
        tag("th", escape(f"{c.heading} {c.unit}".rstrip()), f"{_style(c)};{style}", scope="col")
        for c in columns
    )


def _style(column: Column) -> str:
    if column.figures:
        return parts.FIGURE
    wrapping = "overflow-wrap:anywhere" if column.elastic else "white-space:nowrap"
    return f"{parts.CELL};text-align:left;{wrapping}"


def _row(cells: Sequence[str], listing: Listing, details: Iterable[Detail]) -> str:
    below = details_html(details)
    texts = [
        parts.name(text, _NAME) if column.code and text else escape(text)
        for text, column in zip(cells, listing.columns, strict=True)
    ]
    return parts.row(
        tag(
            "td",
            text + (below if column.heading == listing.below else ""),
            f"{_style(column)};border-top:{parts.RULE}",
        )
        for text, column in zip(texts, listing.columns, strict=True)
    )


def details_html(details: Iterable[Detail]) -> str:
    """Returns the lines below each other; their words are fainter."""
    return "".join(tag("div", _word(each.word) + _text(each), _LINE) for each in details)


def details_table(details: Iterable[Detail]) -> str:
    """Returns the lines with their words in a column of their own."""
    style = f"{parts.CELL};text-align:left"
    return parts.table(
        parts.row(
            [
                tag("td", escape(each.word.strip()), f"{style};white-space:nowrap;{parts.QUIET}"),
                tag("td", _text(each), f"{style};overflow-wrap:anywhere"),
            ]
        )
        for each in details
    )


_LINE = "overflow-wrap:anywhere;white-space:normal"


def _word(word: str) -> str:
    return f"{tag('span', escape(word), parts.QUIET)} " if word else ""


def _text(detail: Detail) -> str:
    text = shorten_middle(detail.text, _LONGEST)
    if not detail.code:
        return escape(text)
    blanks = ";white-space:pre-wrap" if detail.whole else ""
    return tag("span", escape(text), f"font-family:monospace{blanks}")
