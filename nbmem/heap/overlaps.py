"""What becomes of storages that overlap, counted: one thing at a time, without a lock to wait for.

What concerns such storages takes several steps, between which another thread, or a finalizer that
the collector runs, may enter or free one. So events queue up: whoever comes first does all of them,
and the others go on.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.entries import DeviceTotal, StorageRef, covered_by, older_than, range_of
from nbmem.heap.ranges import Ranges, covered
from nbmem.heap.windows import add, count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from nbmem.heap.windows import TableWindow


class Overlaps:
    """The part of a table that knows which storages overlap.

    Args:
        entries: every storage, by the table's keys.
        totals: every device that was seen, by its name.
    """

    def __init__(
        self, entries: Mapping[int, StorageRef], totals: Mapping[str, DeviceTotal]
    ) -> None:
        self.any = False
        """Some storage's memory was handed to torch, so that others may lie over it."""
        self.windows: tuple[TableWindow, ...] = ()
        """The open ones."""
        self.events: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        """What waits to be counted."""
        self._entries = entries
        self._totals = totals
        self._turn = threading.Lock()

    def settle(self, act: Callable[..., None] | None = None, *arguments: Any) -> None:
        """Does what has queued up and this, unless somebody is at it: then it is done there."""
        if act is not None:
            self.events.append((act, arguments))
        while self.events and self._turn.acquire(blocking=False):
            try:
                self._work()
            finally:
                self._turn.release()

    def _work(self) -> None:
        while self.events:
            act, arguments = self.events.popleft()
            # An interrupt may have torn what is known of overlaps; `look_at_all` makes it anew.
            with contextlib.suppress(LookupError):
                act(*arguments)

    def join(self, entry: StorageRef, owned: bool) -> None:
        """Takes up a new storage; `owned`: its memory is of torch's allocator."""
        total, ranges = entry.total, entry.total.ranges
        counted = id(entry) in ranges.cluster_of  # taken up meanwhile, as one that is counted
        if counted or not entry.bytes or not entry.begin or entry() is None:
            total.grow(entry.bytes)
        else:
            self.any = True
            total.grow(ranges.join(entry, self._entries, owned=owned))

    def leave(self, dead: Collection[StorageRef]) -> None:
        """Lets go of storages that overlapped others."""
        for total in {id(entry.total): entry.total for entry in dead}.values():
            gone = {id(entry): entry for entry in dead if entry.total is total}
            for window in self.windows:
                if any(entry.serial < window.first_serial for entry in gone.values()):
                    lost = _lost(total.ranges, gone, window.first_serial)
                    add(window.freed, total.device, lost)
            total.current -= total.ranges.leave(gone.values())
            for entry in gone.values():
                entry.bytes = 0  # their death is entered

    def move(self, entry: StorageRef, begin: int, size: int, owned: bool) -> None:
        """Takes up that a storage has another size, or another address."""
        total, ranges = entry.total, entry.total.ranges
        shared = id(entry) in ranges.cluster_of
        grown = size - entry.bytes
        if not shared and not (begin and size and ranges.overlaps(begin, begin + size)):
            ranges.displace(entry)
            current, peak = total.current + grown, total.peak
            if current > peak:
                peak = current
            entry.begin, entry.bytes, total.current, total.peak = begin, size, current, peak
            count(self.windows, "resized", entry, grown)
            return
        near = {id(entry): entry} | (dict(ranges.cluster_of[id(entry)].members) if shared else {})
        was = entry.begin, entry.begin + entry.bytes
        grown = -ranges.leave([entry]) if shared else -entry.bytes
        entry.begin, entry.bytes = begin, size
        ranges.displace(entry)
        grown += ranges.join(entry, self._entries, owned=owned) if begin and size else size
        total.grow(grown)
        if id(entry) in ranges.cluster_of:
            near |= ranges.cluster_of[id(entry)].members
        others = [other for other in near.values() if other is not entry]
        for window in self.windows:
            if entry.serial < window.first_serial:
                older = [range_of(o) for o in older_than(others, window.first_serial)]
                changed = covered([*older, range_of(entry)]) - covered([*older, was])
                add(window.resized, total.device, changed)

    def look_at_all(self, entries: Collection[StorageRef]) -> None:
        """Reads every address anew: a storage may have moved, or share what it only copies later.

        Totals are then those of what is listed, whatever an interrupt or a thread got between.
        """
        if not self._turn.acquire(timeout=_PATIENCE):
            self._turn = threading.Lock()  # an interrupt came between taking and giving it back
            self._turn.acquire()
        turn = self._turn
        try:
            self._work()
            known = {name: total.current for name, total in self._totals.items()}
            placed: dict[str, list[StorageRef]] = {}
            handed, sums = set[int](), dict[str, int]()
            for entry in entries:
                device = entry.total.device
                storage = entry()
                if storage is not None:
                    entry.begin, entry.bytes = begin_of(storage), storage.nbytes()
                    if not storage.resizable():
                        handed.add(id(entry))
                elif id(entry) in entry.total.ranges.cluster_of:
                    handed.add(id(entry))
                if entry.begin and entry.bytes:
                    placed.setdefault(device, []).append(entry)
                else:
                    add(sums, device, entry.bytes)
            newest = max((entry.serial for entry in entries), default=-1)
            for name, total in list(self._totals.items()):
                size = total.ranges.rebuild(placed.get(name, ()), handed, newest)
                total.grow(size + sums.get(name, 0) - known.get(name, 0))
            self.any = any(total.ranges.spans for total in list(self._totals.values()))
        finally:
            turn.release()


_PATIENCE = 0.2
"""Seconds after which who counts overlaps must be done: it takes microseconds."""


def begin_of(storage: torch.UntypedStorage) -> int:
    """Returns the address of a storage's first byte; 0 where torch took its memory away."""
    try:
        return storage.data_ptr()
    except RuntimeError:
        return 0


def _lost(ranges: Ranges, gone: dict[int, StorageRef], first_serial: int) -> int:
    """Returns the bytes that storages older than a serial cover less when some of all go."""
    lost = 0
    for cluster in {id(c): c for key in gone if (c := ranges.cluster_of.get(key))}.values():
        cover = cluster.cover
        if cover is not None and cover.serial < first_serial and id(cover) not in gone:
            continue
        older = older_than(cluster.members.values(), first_serial)
        lost += covered_by(older) - covered_by(e for e in older if id(e) not in gone)
    return lost
