"""The leaks found last: their rows, and which of them are chosen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.records import Leak, LeakReport


class LeakList:
    """Plain facts. A leak keeps its row's key from one search to the next, though it may grow."""

    def __init__(self) -> None:
        self.report: LeakReport | None = None
        """None until somebody opened the section."""
        self._keys: dict[tuple[object, ...], int] = {}
        self._rows: dict[int, Leak] = {}
        self._chosen: list[int] = []

    def follow(self, report: LeakReport) -> None:
        """Takes what was found now; what is gone is no longer chosen."""
        self.report = report
        self._rows = {}
        again: Counter[tuple[object, ...]] = Counter()
        for leak in report.leaks:
            place = (leak.kind, leak.holder, leak.cuts or leak.path_text, leak.device)
            again[place] += 1
            key = self._keys.setdefault((*place, again[place]), 1 + len(self._keys))
            self._rows[key] = leak
        self._chosen = [key for key in self._chosen if key in self._rows]

    def choose(self, keys: Iterable[int]) -> None:
        """Takes the keys of the rows that are chosen now."""
        self._chosen = [key for key in keys if key in self._rows]

    @property
    def keys(self) -> list[int]:
        """Keys of all rows, the largest leak first."""
        return list(self._rows)

    @property
    def leaks(self) -> list[Leak]:
        """The leaks in the order of their rows."""
        return list(self._rows.values())

    @property
    def rows(self) -> list[int]:
        """Keys of the rows that are chosen."""
        return list(self._chosen)

    @property
    def chosen(self) -> list[Leak]:
        """The leaks that are chosen."""
        return [self._rows[key] for key in self._chosen]

    @property
    def costless(self) -> list[Leak]:
        """Those that go with "all that costs nothing"."""
        return [leak for leak in self.takeable if not leak.cost]

    @property
    def takeable(self) -> list[Leak]:
        """Those that go with "all"."""
        return [leak for leak in self.leaks if leak.reclaimable and not leak.on_request]


def size_of(leaks: Iterable[Leak]) -> int:
    """Returns the bytes of leaks; no two of a report share a storage."""
    return sum(leak.bytes for leak in leaks)
