"""The list of live storages as asked for: filtered, grouped, sorted, opened and chosen.

What is chosen are storages. A group's row has a negative key; choosing it chooses the storages
that the group has at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from nbmem.panel.columns import Asked
from nbmem.totals import (
    GROUPINGS,
    SORTINGS,
    filter_storages,
    group_storages,
    parse_filter,
    sort_storages,
)
from nbmem.totals.order import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import StorageRecord
    from nbmem.totals import Group

GROUP_CHOICES = [("", "each tensor"), *((by, f"by {by}") for by in GROUPINGS)]
"""What can be asked for as `Asked.by`, and its words."""
MOST_PARTS = 200
"""Storages of one opened group that are rows."""


class Line(NamedTuple):  # there may be 100,000 of them: a dataclass takes ten times as long
    """One row: a storage, or a group of them."""

    key: int
    """The storage's, or a negative number that stands for the group."""
    storage: StorageRecord | None
    group: Group | None
    parent: int = 0
    """Key of the group whose part it is; 0: of none."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The rows that were asked for, in their order."""

    listed: list[Line]
    total: int
    """Bytes of all storages, whether they match or not."""
    count: int
    """All storages."""
    matching: int
    """Those that match the filter."""
    hidden: int = 0
    """Parts of opened groups that are no rows."""
    trouble: str = ""
    """Why the filter makes no sense."""


class LiveList:
    """What the user asked of the list of live storages, and chose in it."""

    def __init__(self) -> None:
        self.asked = Asked()
        self.opened: set[int] = set()
        self._storages: Sequence[StorageRecord] = ()
        self._rows: dict[tuple[str, str], int] = {}
        self._groups: dict[int, Group] = {}
        self._chosen: dict[int, frozenset[int]] = {}

    def ask(self, asked: Asked) -> None:
        """Notes what is wanted from now on; another grouping or filter ends chosen groups."""
        if asked.by not in GROUPINGS:
            asked = replace(asked, by="")
        if (asked.by, asked.filter) != (self.asked.by, self.asked.filter):
            self._chosen = {key: held for key, held in self._chosen.items() if key > 0}
        self.asked = asked

    def follow(self, storages: Sequence[StorageRecord]) -> None:
        """Takes what is alive now; what is gone is no longer chosen."""
        self._storages = storages
        alive = {storage.key for storage in storages}
        left = {key: held & alive for key, held in self._chosen.items()}
        self._chosen = {key: held for key, held in left.items() if held}

    def lines(self) -> Lines:
        """Returns the rows of all storages that match, groups and sorted as asked."""
        total, count = sum(s.bytes for s in self._storages), len(self._storages)
        try:
            found = self._matching()
        except ValueError as error:
            return Lines([], total, count, 0, trouble=str(error))
        if not self.asked.by:
            listed = [Line(each.key, each, None) for each in self._sorted(found)]
            return Lines(listed, total, count, len(found))
        listed, hidden = self._grouped(found)
        return Lines(listed, total, count, len(found), hidden)

    def _matching(self) -> Sequence[StorageRecord]:
        text = self.asked.filter.strip()
        return filter_storages(self._storages, text) if text else self._storages

    def all_lines(self) -> Lines:
        """Returns every storage as a row, the largest first, whatever was asked."""
        listed = [Line(each.key, each, None) for each in sort_storages(self._storages)]
        size = sum(each.bytes for each in self._storages)
        return Lines(listed, size, len(listed), len(listed))

    def _sorted(self, storages: Iterable[StorageRecord]) -> list[StorageRecord]:
        by = self.asked.sort if self.asked.sort in SORTINGS else "size"
        made = sort_storages(storages, by)
        return made[::-1] if self.asked.turn < 0 else made

    def _grouped(self, found: Sequence[StorageRecord]) -> tuple[list[Line], int]:
        listed, hidden, self._groups = [], 0, {}
        for group in self._in_order(group_storages(found, self.asked.by)):
            key = self._rows.setdefault((self.asked.by, group.key), -1 - len(self._rows))
            self._groups[key] = group
            listed.append(Line(key, None, group))
            if key in self.opened:
                parts = self._sorted(group.storages)
                hidden += len(parts[MOST_PARTS:])
                listed += [Line(each.key, each, None, key) for each in parts[:MOST_PARTS]]
        return listed, hidden

    def _in_order(self, groups: Sequence[Group]) -> list[Group]:
        ordered = list(groups)  # the largest first, as they come
        if self.asked.sort == "name":
            ordered.sort(key=lambda group: natural(group.key))
        elif self.asked.sort == "count":
            ordered.sort(key=lambda group: -group.count)
        return ordered[::-1] if self.asked.turn < 0 else ordered

    # Choosing and opening.

    def turn_open(self, key: int) -> None:
        """Opens a closed group, closes an open one."""
        self.opened ^= {key}

    def choose(self, keys: Iterable[int]) -> None:
        """Takes the keys of the rows that are chosen now."""
        wanted = list(keys)
        self._chosen = {key: self._chosen.get(key) or self._held(key) for key in wanted}

    def _held(self, key: int) -> frozenset[int]:
        if key >= 0:
            return frozenset({key})
        group = self._groups.get(key)
        return frozenset(s.key for s in group.storages) if group is not None else frozenset()

    @property
    def rows(self) -> list[int]:
        """Keys of the rows that are chosen."""
        return [key for key, held in self._chosen.items() if held]

    @property
    def chosen(self) -> list[int]:
        """Keys of the storages that are chosen."""
        return list(dict.fromkeys(key for held in self._chosen.values() for key in sorted(held)))


def is_plain(text: str) -> bool:
    """Returns whether a filter is words alone, which a page can look for by itself."""
    try:
        parse_filter(text)
    except ValueError:
        return False
    return not any(sign in text for sign in "=<>!")
