"""What judging knows of one moment: the storages, who made them and when, and what is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from nbmem.origins import Origin
    from nbmem.records import StorageRecord


@dataclass(frozen=True, slots=True)
class CellRuns:
    """What running one cell again and again adds up to."""

    cell: int
    """Number of the cell in the session, as in `CellRun.cell`."""
    latest: int
    """Its newest run is the n-th."""
    growth: Mapping[str, int] = field(default_factory=dict)
    """Per device: bytes that each run adds for good, as in `RunTrend.growth_per_run`."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The facts that all findings of one judgement share.

    It also keeps which storages are taken, so that no byte is told twice.
    """

    records: Mapping[int, StorageRecord]
    """Every storage alive, by key."""
    origin_of: Callable[[int], Origin | None]
    runs: Mapping[int, CellRuns]
    """By number of the cell."""
    last_count: int | None
    """Execution count of the last cell that ran."""
    last_serials: Collection[int]
    """Records of that cell, and of the one that runs now."""
    made_anew: Collection[tuple[int, str]] = ()
    """(cell, name) of all that the newest runs of cells made and that is alive."""
    taken: set[int] = field(default_factory=set)

    def free(self, keys: Iterable[int]) -> tuple[int, ...]:
        """Returns those of the storages that are alive and in no finding yet, in order of keys."""
        return tuple(sorted(k for k in set(keys) if k in self.records and k not in self.taken))

    def take(self, keys: Iterable[int]) -> tuple[int, ...]:
        """Returns the same, and no later finding gets them."""
        free = self.free(keys)
        self.taken.update(free)
        return free

    def size(self, keys: Iterable[int]) -> int:
        """Returns the bytes of storages."""
        return sum(self.records[key].bytes for key in keys)

    def is_recent(self, key: int) -> bool | None:
        """Returns whether the last cell that ran made a storage, or the one that runs now.

        None where nobody knows who made it.
        """
        origin = self.origin_of(key)
        if origin is None:
            return None
        if origin.serial in self.last_serials:
            return True
        if origin.execution_count is None or self.last_count is None:
            return False if self.last_serials else None
        return origin.execution_count >= self.last_count

    def run_of(self, key: int, cell: int) -> int | None:
        """Returns in which run of a cell a storage was made; None: in none."""
        origin = self.origin_of(key)
        return None if origin is None else origin.run_of(cell)


def find_made_anew(
    keys: Iterable[int],
    origin_of: Callable[[int], Origin | None],
    runs: Mapping[int, CellRuns],
) -> frozenset[tuple[int, str]]:
    """Returns (cell, name) of those of the storages that the newest run of a cell made."""
    return frozenset(
        (run.cell, origin.made_as)
        for key in keys
        if (origin := origin_of(key)) is not None and origin.made_as
        for run in origin.runs
        if run.cell in runs and run.run == runs[run.cell].latest
    )
