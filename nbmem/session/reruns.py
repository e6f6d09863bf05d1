"""The same cell run again: which run made what is alive now, and what that adds up to."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate
from statistics import median_low
from typing import TYPE_CHECKING

from nbmem.leaks import CellRuns
from nbmem.origins import CellRun, Origins
from nbmem.records import Copies, RunTrend, StorageRecord
from nbmem.render.names import pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KEPT = 20
"""Runs whose sums are kept."""
_LAST = 6
"""Runs that tell the growth."""
_COPIES = 24
_HOLDERS = 3
_SOURCE = 120
_GRAPH = " → graph"
NO_NAME = "no name"
_PASSING = re.compile(r"_{1,3}(?!\w)")


class RunBook:
    """How often each cell ran, and what its runs had kept alive at the end of each."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._runs: dict[int, int] = {}
        self._kept: dict[int, dict[str, deque[tuple[int, int]]]] = {}
        self._listed: dict[int, deque[int]] = {}
        self._counts: dict[int, int | None] = {}

    def begin(self, identity: str) -> CellRun:
        """Returns the run that begins now of the cell with this identity."""
        cell = self._numbers.setdefault(identity, len(self._numbers) + 1)
        self._runs[cell] = self._runs.get(cell, 0) + 1
        return CellRun(cell, self._runs[cell])

    def all(self) -> list[CellRuns]:
        """Returns of each cell that ran more than once how it grew."""
        return [
            CellRuns(cell, latest, self._growth(cell))
            for cell, latest in self._runs.items()
            if latest > 1
        ]

    def _growth(self, cell: int) -> dict[str, int]:
        kept = self._kept.get(cell, {})
        return {device: growth_of(list(runs)) for device, runs in kept.items() if len(runs) > 1}

    def swap_count(self, now: CellRun, count: int | None) -> int | None:
        """Notes the n of a run's `[n]`; returns that of the run before."""
        before = self._counts.get(now.cell)
        self._counts[now.cell] = count
        return before

    def enter(self, now: CellRun, kept: dict[str, int]) -> dict[str, tuple[tuple[int, int], ...]]:
        """Notes what a run ended with; returns (run, bytes) of all runs kept, oldest first."""
        points = self._kept.setdefault(now.cell, {})
        listed = self._listed.setdefault(now.cell, deque(maxlen=_KEPT))
        for device, size in kept.items():
            if device not in points:  # nothing was on it: each run listed what it left anywhere
                points[device] = deque(((run, 0) for run in listed), maxlen=_KEPT)
            points[device].append((now.run, size))
        listed.append(now.run)
        return {device: tuple(points[device]) for device in kept}


@dataclass(slots=True)
class _Group:
    """Copies under one name or line, as they are summed up."""

    what: str
    device: str
    source: str = ""
    newer: int = 0
    older: int = 0
    newer_count: int = 0
    older_count: int = 0
    holders: set[str] | None = None

    def add(self, storage: StorageRecord, *, is_older: bool) -> None:
        if not is_older:
            self.newer += storage.bytes
            self.newer_count += 1
            return
        self.older += storage.bytes
        self.older_count += 1
        if self.holders is None:  # a cell may make a hundred thousand names
            self.holders = set()
        self.holders.update(map(stem_of, storage.names))

    def tell(self) -> Copies:
        return Copies(
            what=self.what,
            device=self.device,
            newer=self.newer,
            older=self.older,
            newer_count=self.newer_count,
            older_count=self.older_count,
            held_by=_shortest(self.holders or ()),
            source=self.source,
        )


class Rerun:
    """Sums up, at the end of a run, what all runs of its cell left alive.

    Args:
        now: the run that ended.
        devices: those that are told; what is on others is left out.
        source: the cell's lines.
    """

    def __init__(self, now: CellRun, devices: Iterable[str], source: Sequence[str] = ()) -> None:
        self._now = now
        self._source = source
        self._kept = dict.fromkeys(devices, 0)
        self._older = dict.fromkeys(self._kept, 0)
        self._by_name: dict[tuple[str, str], _Group] = {}
        self._by_line: dict[tuple[str, int], _Group] = {}

    def take(self, storages: Iterable[StorageRecord], origins: Origins) -> None:
        """Takes up those of the storages that runs of the cell made."""
        for storage in storages:
            origin = origins.find(storage.key)
            run = None if origin is None else origin.run_of(self._now.cell)
            if origin is None or run is None or storage.device not in self._kept:
                continue
            is_older = run != self._now.run
            self._kept[storage.device] += storage.bytes
            self._older[storage.device] += storage.bytes if is_older else 0
            self._named(storage.device, origin.made_as or NO_NAME).add(storage, is_older=is_older)
            if origin.line is not None:
                self._at(storage.device, origin.line).add(storage, is_older=is_older)

    def _named(self, device: str, name: str) -> _Group:
        group = self._by_name.get((device, name))
        if group is None:
            group = self._by_name[device, name] = _Group(name, device)
        return group

    def _at(self, device: str, line: int) -> _Group:
        group = self._by_line.get((device, line))
        if group is None:
            text = _text_of(self._source, line)
            group = self._by_line[device, line] = _Group(str(line), device, text)
        return group

    def tell(self, book: RunBook) -> RunTrend | None:
        """Returns the trend, None for a first run; notes the run in the book of earlier ones."""
        points = book.enter(self._now, self._kept)
        if self._now.run < 2:
            return None
        return RunTrend(
            runs=self._now.run,
            older=self._older,
            growth_per_run={d: growth_of(runs) for d, runs in points.items() if len(runs) > 1},
            kept={device: tuple(size for _, size in runs) for device, runs in points.items()},
            by_name=_largest(self._by_name.values()),
            by_line=_largest(self._by_line.values()),
        )


def growth_of(points: Sequence[tuple[int, int]]) -> int:
    """Returns by how many bytes a run grew for good, over the last runs, given as (run, bytes).

    What later went back does not count, so to and fro is no growth; of what remains the median
    step from run to run is told, so a step that comes once is none either.

    >>> growth_of([(1, 100), (2, 200), (3, 300)])
    100
    >>> growth_of([(1, 100), (2, 900), (3, 900)])
    0
    """
    last = points[-_LAST:]
    runs = [run for run, _ in last]
    remained = list(accumulate((size for _, size in reversed(last)), min))[::-1]
    steps = [(remained[n] - remained[n - 1]) / (runs[n] - runs[n - 1]) for n in range(1, len(last))]
    return round(median_low(steps))


def made_as(storage: StorageRecord) -> str:
    """Returns the pattern of the storage's first name; what a graph keeps has its root's."""
    return pattern_of(stem_of(storage.names[0])) if storage.names else ""


def stem_of(name: str) -> str:
    """Returns the name that a graph hangs on, or the name itself."""
    return name.partition(_GRAPH)[0]


def _shortest(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the shortest name of each pattern: `losses[0]` speaks for `losses[1]` as well.

    `_` and its like come last: the next output that is shown moves them on.
    """
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (bool(_PASSING.match(name)), len(name), name)):
        found.setdefault(pattern_of(name), name)
    return tuple(found.values())[:_HOLDERS]


def _largest(groups: Iterable[_Group]) -> tuple[Copies, ...]:
    largest = nsmallest(_COPIES, groups, key=lambda g: (-g.older, -g.newer, g.device, g.what))
    return tuple(group.tell() for group in largest)


def _text_of(source: Sequence[str], line: int) -> str:
    return source[line - 1].strip()[:_SOURCE] if 0 < line <= len(source) else ""
