"""Storages told in a few rows: by category, names of one pattern as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.names import clean, nameless, pattern_of, says_something, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import StorageRecord

SHORT = {"saved for backward": "saved"}
"""Categories whose name is long for a column."""
_GRAPH = " → graph"
_TINY = 0.01
"""Share of all that is shown below which a name of the user's gets no row of its own, if there
are several."""


@dataclass(frozen=True, slots=True)
class Names:
    """Storages whose names follow one pattern."""

    text: str
    count: int
    bytes: int
    detail: str
    """dtype and shape where it is one storage."""


@dataclass(frozen=True, slots=True)
class Row:
    """Storages of one category: all of them, or those of the user's that share a name."""

    category: str
    bytes: int
    count: int
    names: tuple[Names, ...]
    """Largest first; never empty."""


def rows_of(storages: Sequence[StorageRecord], most: int) -> list[Row]:
    """Returns at most `most` rows, largest first: their bytes are those of all `storages`.

    Each category is one row, but what is plainly the user's own gets a row a name as far as there
    is room, since there every name says something. What has neither a name nor bytes is in none.
    """
    kinds: dict[str, list[StorageRecord]] = {}
    for storage in filter(says_something, storages):
        kinds.setdefault(storage.category, []).append(storage)
    rows = [_row(kind, _group(held)) for kind, held in kinds.items() if kind != "user"]
    least = _TINY * sum(storage.bytes for storage in storages)
    single, rest = _user_rows(_group(kinds.get("user", ())), max(1, most - len(rows)), least)
    rows = sorted(rows + single, key=lambda row: (-row.bytes, _order(row.category))) + rest
    return rows if len(rows) <= most else [*rows[: most - 1], _rest(rows[most - 1 :])]


def _user_rows(groups: list[Names], most: int, least: float) -> tuple[list[Row], list[Row]]:
    """Returns rows of one name each, and the row that sums the others: it comes last.

    Several that have less than `least` bytes each share that row, whatever room there is.
    """
    large = sum(group.bytes >= least for group in groups)
    shown = len(groups) if large >= len(groups) - 1 else large
    if shown > most or (shown == most and shown < len(groups)):
        shown = most - 1
    single = [_row("user", [group]) for group in groups[:shown]]
    return single, [_row("user", groups[shown:])] if shown < len(groups) else []


def _row(category: str, names: Iterable[Names]) -> Row:
    held = tuple(names)
    return Row(category, sum(n.bytes for n in held), sum(n.count for n in held), held)


def _rest(rows: list[Row]) -> Row:
    words = " and ".join(dict.fromkeys(row.category for row in rows))
    size, count = sum(row.bytes for row in rows), sum(row.count for row in rows)
    return Row("others", size, count, (Names(words, count, size, ""),))


def _order(category: str) -> int:
    return CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES)


def _group(storages: Iterable[StorageRecord]) -> list[Names]:
    patterns: dict[str, list[StorageRecord]] = {}
    for storage in storages:
        patterns.setdefault(_pattern(storage), []).append(storage)
    groups = [_names(pattern, held) for pattern, held in patterns.items()]
    # A sum of small storages has no name to show, so it never stands for its category.
    return sorted(groups, key=lambda group: (group.text == "small ones", -group.bytes))


def _pattern(storage: StorageRecord) -> str:
    if storage.names:
        return pattern_of(_whole_graph(clean(storage.names[0])))
    return "small ones" if storage.stands_for > 1 else nameless(storage)


def _whole_graph(name: str) -> str:
    """What one graph saved is told together: what counts is the name that keeps the graph."""
    root, arrow, _ = name.partition(_GRAPH)
    return f"{root}{arrow}"


def _names(pattern: str, storages: list[StorageRecord]) -> Names:
    size = sum(storage.bytes for storage in storages)
    count = sum(storage.stands_for for storage in storages)
    if count > 1:
        return Names(pattern, count, size, "")
    (only,) = storages
    text = _whole_graph(clean(only.names[0])) if only.names else pattern
    return Names(text, 1, size, words_of(only.shape, clean(only.dtype)))
