"""Which record first showed a storage: serial numbers to plain facts.

Written by `session`, handed to other rooms as an argument. A storage's serial is never used
again, so an entry can outlive its storage without lying; `forget_others` keeps the book small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class CellRun(NamedTuple):
    """One run of one cell."""

    cell: int
    """Number of the cell in the session."""
    run: int
    """It was the n-th run of that cell."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The record that first showed a storage; storages of one line and one name share one."""

    serial: int
    """Serial of the cell record."""
    execution_count: int | None
    """The n of the cell's `[n]`."""
    made_as: str = ""
    """Pattern of the first name that it had at the end of that record; empty where it had none."""
    line: int | None = None
    """Line of the cell that made it; None where nobody saw."""
    runs: tuple[CellRun, ...] = ()
    """The runs in which it was made: that of the cell, then those of the cells around it."""
    in_order: bool = False
    """Storages of the record were seen as they were made, so that serials follow that order: a scan
    of the heap gives them in none."""

    def run_of(self, cell: int) -> int | None:
        """Returns in which run of that cell it was made; None: in none."""
        for made_in in self.runs:
            if made_in.cell == cell:
                return made_in.run
        return None


class Origins:
    """Who made which storage; keyed by the storage's serial."""

    def __init__(self) -> None:
        self._by_key: dict[int, Origin] = {}
        self.entered = 0
        """How often something was entered."""

    def __len__(self) -> int:
        return len(self._by_key)

    def enter(self, keys: Iterable[int], origin: Origin) -> None:
        """Notes `origin` for each storage that has none yet: the first cell to show it made it."""
        self.entered += 1
        for key in keys:
            self._by_key.setdefault(key, origin)

    def find(self, key: int) -> Origin | None:
        """Returns who first showed the storage, or None if it was there before any record."""
        return self._by_key.get(key)

    def cell_of(self, key: int) -> tuple[int | None, int | None, int | None]:
        """Returns (execution count, record serial, line) of the cell that made a storage.

        Each is None where it is unknown.
        """
        origin = self._by_key.get(key)
        if origin is None:
            return None, None, None
        return origin.execution_count, origin.serial, origin.line

    def forget_others(self, live: Iterable[int]) -> None:
        """Keeps only the storages that still live."""
        book = self._by_key
        self._by_key = {key: book[key] for key in live if key in book}
