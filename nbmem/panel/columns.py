"""What every table of the panel is made of: columns of texts for people, numbers for sorting."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from nbmem.records import CATEGORIES
from nbmem.render.names import clean, shorten_middle
from nbmem.render.palette import colour_of, ink_of, letter_of
from nbmem.units import column_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbmem.panel.jumps import CellPlace
    from nbmem.units import Units

LONGEST_TEXT = 120
"""Characters of a name that are sent to the page; a longer one loses its middle."""
ELASTIC = "minmax(0, 1fr)"

PALETTE: list[list[str]] = [
    [letter_of(word), colour_of(word), ink_of(word), word] for word in CATEGORIES
]

Parts = list[list[float]]
"""Of a bar: index into the palette and percent of the bar's room, for each part."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; lists have one entry a row."""

    label: str
    tip: str
    kind: str
    """`name`, `text`, `figure`, `quiet`, `letter` or `bar`."""
    width: str
    """A CSS grid track."""
    text: list[str]
    sort: list[float | None] | None = None
    """Numbers to sort by, the largest first; None: by text."""
    id: str = ""
    """What the kernel sorts by; empty: the column can't be sorted by."""
    short: str | None = None
    """The label where there is little room; the letters of `letter` need none."""
    narrow: str | None = None
    """The track where there is little room, if another."""
    wide: bool = False
    """Shown only where there is room."""
    alarm: list[bool] | None = None
    bars: list[Parts] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asked of a table: which rows, how grouped, in which order."""

    filter: str = ""
    by: str = ""
    """One of `totals.GROUPINGS`; empty: each storage is a row."""
    sort: str = ""
    """Id of a column; empty: the order in which the rows were told."""
    turn: int = 1
    """−1: the other way round."""


@dataclass(frozen=True, slots=True)
class TableData:
    """All that a table shows."""

    columns: list[Column]
    keys: list[int]
    tips: list[str]
    """What a row says when pointed at."""
    empty: str
    """The sentence where there are no rows."""
    trouble: str = ""
    """Why the filter makes no sense; then there are no rows either."""
    unlisted: str = ""
    """The sentence about rows that were not sent."""
    complete: bool = True
    """False where rows were left out, or put in order, by the kernel."""
    asked: Asked = field(default_factory=Asked)
    parents: list[int] | None = None
    """Key of the row that each row is a part of, 0 for none; None where no rows are groups."""
    opened: list[int] | None = None
    """Keys of groups whose parts are rows too."""
    palette: list[list[str]] = field(default_factory=lambda: list(PALETTE))
    """Letter, colour, ink and word of each category."""
    places: list[CellPlace | None] | None = None
    """The cell of each row, for pages that can go there; None where rows are of no cell."""

    def head(self) -> dict[str, Any]:
        """Returns what is said once, as a dict that `json.dumps` takes."""
        told = shallow_dict(self)
        columns = [_split(column)[0] for column in self.columns]
        rows = {name: told.pop(name) for name in _ROWS}
        of_cells = any(rows["places"] or ())
        told |= {"of_cells": of_cells, "asked": shallow_dict(self.asked)}
        return {**told, "columns": columns}

    def lists(self) -> dict[str, list[Any]]:
        """Returns what has an entry a row, but for the keys: a column's as `0.text`."""
        lists = {name: getattr(self, name) for name in _ROWS if name != "keys"}
        for index, column in enumerate(self.columns):
            lists |= {f"{index}.{name}": values for name, values in _split(column)[1].items()}
        return {name: values for name, values in lists.items() if values is not None}


_ROWS = ("keys", "tips", "parents", "places")
_CELLS = ("text", "sort", "alarm", "bars")


def _split(column: Column) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what a column says once, and its lists."""
    told = shallow_dict(column)
    return told, {name: told.pop(name) for name in _CELLS}


def shallow_dict(record: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass; unlike `asdict` it copies no list."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def one_line(text: str, most: int = LONGEST_TEXT) -> str:
    """Returns `text` fit for one line; of a long one the middle becomes `…`, never the end."""
    return shorten_middle(clean(text), most)


@dataclass(frozen=True, slots=True)
class Figures:
    """Texts of one column, and their common unit."""

    unit: str
    texts: list[str]


def figures(sizes: Iterable[int | None], units: Units, *, signed: bool = False) -> Figures:
    """Returns one column's sizes as texts in one unit."""
    known = list(sizes)
    unit = column_unit(known, units)
    return Figures(unit.suffix, [unit.format(size, signed=signed) for size in known])


def track(texts: Iterable[str], least: int = 4) -> str:
    """Returns the grid track that is as wide as the widest of `texts`."""
    return f"{max(map(len, texts), default=least) + 1}ch"


def floats(values: Iterable[int | None]) -> list[float | None]:
    """Returns numbers to sort by."""
    return [None if value is None else float(value) for value in values]


def badge_column(categories: Sequence[str], tip: str = "What it is for") -> Column:
    """Returns the letters of `categories`; an empty one has none."""
    letters = [letter_of(word) if word else "" for word in categories]
    return Column("kind", tip, "letter", "5ch", letters, id="category", short="", narrow="20px")


def bar_parts(by_category: Mapping[str, int], most: int) -> Parts:
    """Returns a bar whose length is its share of `most` bytes."""
    if most <= 0:
        return []
    order = {word: index for index, word in enumerate(CATEGORIES)}
    unknown = order["unknown"]
    return [
        [order.get(word, unknown), round(100 * size / most, 2)]
        for word, size in by_category.items()
        if size > 0
    ]
