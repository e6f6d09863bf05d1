"""The table of storages: what was seen and still lives, and the bytes that it adds up to."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

import torch

from nbmem.heap.entries import DeviceTotal, StorageRef, covered_by, older_than, range_of
from nbmem.heap.overlaps import Overlaps
from nbmem.heap.windows import Group, Listing, TableWindow, add, count

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from nbmem.heap.ranges import Cluster


class StorageTable:
    """Every storage that was seen and still lives, each once; bytes are bytes of memory.

    Where storages overlap (`ranges`), what they have in common is counted once, for as long as one
    of them lives.

    A storage's death appends its reference to a queue, from C and on whatever thread; the queue is
    drained before anything is entered or read. So totals and peaks are exact, and an address that
    is used again is never mistaken for the storage that had it before.

    No lock is taken, since a lock that is held while the collector runs a user's finalizer can
    deadlock: totals change in single steps with no call in between, which the GIL makes atomic. An
    entry's bytes change in the same step, so that an interrupt between two lines leaves sums that
    are right, and whoever notes the storage again goes on from there. What concerns storages that
    overlap takes more steps: see `overlaps`; after an interrupt, `mend` makes it anew.
    """

    def __init__(self) -> None:
        self.next_serial = 1
        """The serial that the next new storage gets."""
        self._entries: dict[int, StorageRef] = {}
        self._dead: deque[StorageRef] = deque()
        self._bury: Callable[[weakref.ref[torch.UntypedStorage]], None] = self._dead.append  # type: ignore[assignment]
        self._totals: dict[str, DeviceTotal] = {}
        self._total_of: dict[torch.device, DeviceTotal | None] = {}
        self._windows: tuple[TableWindow, ...] = ()
        self._older_than = 0
        self._overlaps = Overlaps(self._entries, self._totals)
        self.parts_seen = False
        """A sparse tensor was seen: from then on, one changed in place may have new storages."""
        self.looked_up: dict[int, weakref.ref[torch.Tensor]] = {}
        """Tensors whose Python object exists only since the heap scan read them from a graph."""

    def note(self, storage: torch.UntypedStorage) -> StorageRef | None:
        """Returns the entry of `storage`, entered now or with its size seen again.

        None where the storage has no bytes of its own: meta, fake, a wrapper's.
        """
        if self._dead:
            self._drain()
        entry = self._entries.get(storage._cdata)
        if entry is None or entry() is not storage:
            return self._enter(storage)
        try:
            begin = storage.data_ptr()
        except RuntimeError:  # torch took its memory away
            begin = 0
        if storage.nbytes() != entry.bytes or begin != entry.begin:
            self._overlaps.settle(
                self._overlaps.move, entry, begin, storage.nbytes(), storage.resizable()
            )
        return entry

    def find(self, storage: torch.UntypedStorage) -> StorageRef | None:
        """Returns the entry of `storage`, or None where it was never noted."""
        if self._dead:
            self._drain()
        entry = self._entries.get(storage._cdata)
        return entry if entry is not None and entry() is storage else None

    def live(self) -> list[StorageRef]:
        """Returns the entries of all storages that live, oldest first."""
        self._drain()
        return sorted(self._entries.values(), key=_serial)

    def list_all(self, *, anew: bool = True) -> list[StorageRef]:
        """Returns `live()`, at a moment that windows with an `on_listing` take for their end.

        Bytes listed, `freed` and `resized` belong together, whatever is collected meanwhile.

        Args:
            anew: look for all that overlaps anew.
        """
        for _ in range(_TRIES):
            self._drain()
            newest, entries = self.next_serial, list(self._entries.values())
            if anew:
                self._overlaps.look_at_all(entries)
            for window in self._windows:
                if window.on_listing is not None:
                    self._take_listing(window, entries)
                    window.on_listing()
            if not self._dead and newest == self.next_serial:
                break
        return sorted(entries, key=_serial)

    def groups(self) -> list[Group]:
        """Returns the storages that share memory, as the table knows them: nothing is drained."""
        clusters = [c for total in list(self._totals.values()) for _, _, c in total.ranges.spans]
        return [_group(cluster) for cluster in clusters if len(cluster.members) > 1]

    def devices(self) -> list[str]:
        """Returns the devices on which a storage was ever seen."""
        return list(self._totals)

    def bytes_on(self, device: str) -> int:
        """Returns the bytes of the live storages on `device` that were seen."""
        self._drain()
        total = self._totals.get(device)
        return total.current if total else 0

    def peak_on(self, device: str) -> int:
        """Returns the largest `bytes_on(device)` since the last `reset_peak(device)`."""
        self._drain()
        total = self._totals.get(device)
        return total.peak if total else 0

    def bytes_freed(self, entries: Iterable[StorageRef]) -> int:
        """Returns the bytes that no living storage covers any more once these die."""
        self._drain()
        return _lost_with(entries)

    def mend(self) -> None:
        """Finds deaths that an interrupt kept from being entered, and sums overlaps anew."""
        self._drain()
        for entry in list(self._entries.values()):
            if entry() is None:
                self._take_off(entry)
        if self._overlaps.any:
            self._overlaps.look_at_all(list(self._entries.values()))

    def glance(self, device: str) -> tuple[int, int]:
        """Returns (`bytes_on`, `peak_on`) for a thread that only looks: nothing is drained.

        Between two operations of the thread that is followed they are exact.
        """
        total = self._totals.get(device)
        if total is None:
            return 0, 0
        dead = [entry for entry in self._dead.copy() if entry.total is total]
        return total.current - _lost_with(dead), total.peak

    def reset_peak(self, device: str) -> None:
        """Makes the present bytes the high-water mark of `device`."""
        self._drain()
        total = self._totals.get(device)
        if total:
            total.peak = total.current

    def open_window(self) -> TableWindow:
        """Returns a window that counts, from now on, what becomes of the storages known now."""
        window = TableWindow(self)
        self.add_window(window)
        return window

    def add_window(self, window: TableWindow) -> None:
        """Opens a window that was made a moment ago."""
        self._drain()
        window.first_serial, window.before = self.next_serial, self.sizes()
        self._set_windows((*self._windows, window))

    def sizes(self) -> dict[str, int]:
        """Returns `bytes_on` of each device as the table was last looked at; nothing is drained."""
        return {total.device: total.current for total in list(self._totals.values())}

    def _restart_window(self, window: TableWindow) -> bool:
        self._drain()
        if (window.first_serial, window.before) == (self.next_serial, self.sizes()):
            return False
        window.first_serial, window.before = self.next_serial, self.sizes()
        window.freed.clear()
        window.resized.clear()
        self._set_windows(self._windows)
        return True

    def _close_window(self, window: TableWindow) -> None:
        self._drain()
        if window.end_serial is None:
            window.end_serial = self.next_serial
        if window in self._windows:
            self._set_windows(tuple(other for other in self._windows if other is not window))

    def _set_windows(self, windows: tuple[TableWindow, ...]) -> None:
        self._windows = self._overlaps.windows = windows
        self._older_than = max((window.first_serial for window in windows), default=0)

    def _enter(self, storage: torch.UntypedStorage) -> StorageRef | None:
        device = storage.device
        try:
            total = self._total_of[device]
        except KeyError:
            total = self._learn_device(device)
        if total is None:
            return None
        try:
            begin = storage.data_ptr()
        except RuntimeError:  # a wrapper's: it has a size and no memory
            return None
        entry = StorageRef(storage, self._bury)
        entry.address = address = storage._cdata
        entry.begin = entry.bytes = 0
        entry.total = total
        entry.serial = self.next_serial  # for a reader on another thread; the right one comes below
        size, owned = storage.nbytes(), storage.resizable()
        known = self._entries.setdefault(address, entry)
        if known is not entry and not self._take_over(known, entry, storage):
            return known
        serial, ranges = self.next_serial, total.ranges
        entry.serial, self.next_serial = serial, serial + 1
        if not owned or (ranges.spans and ranges.overlaps(begin, begin + size)):
            entry.begin, entry.bytes = begin, size
            self._overlaps.settle(self._overlaps.join, entry, owned)
            return entry
        current, peak = total.current + size, total.peak
        if current > peak:
            peak = current
        entry.begin, entry.bytes, total.current, total.peak = begin, size, current, peak
        return entry

    def _take_over(
        self, known: StorageRef, entry: StorageRef, storage: torch.UntypedStorage
    ) -> bool:
        """Returns whether `entry` now stands where `known` stood at the same address.

        Either a finalizer or another thread noted the same storage just now, or `known` is dead
        and another thread has taken it from the queue and not yet removed it.
        """
        if known() is storage:
            return False
        self._take_off(known)
        self._entries[entry.address] = entry
        entry.total.ranges.displace(entry)
        return True

    def _learn_device(self, device: torch.device) -> DeviceTotal | None:
        total = None
        if device.type != "meta":
            name = "cpu" if device.type == "cpu" else str(device)
            total = self._totals.setdefault(name, DeviceTotal(name))
        return self._total_of.setdefault(device, total)

    def _drain(self) -> None:
        dead, overlaps = self._dead, self._overlaps
        shared: list[StorageRef] | None = None
        while dead:
            try:
                entry = dead.popleft()
            except IndexError:  # another thread took the last one
                break
            if overlaps.any and id(entry) in entry.total.ranges.cluster_of:
                shared = [] if shared is None else shared
                shared.append(entry)
            else:
                self._take_off(entry)
        if shared is not None:
            overlaps.settle(overlaps.leave, shared)
            for entry in shared:
                self._remove(entry)
        elif overlaps.events:
            overlaps.settle()

    def _take_off(self, entry: StorageRef) -> None:
        """Takes a dead storage's bytes off, whoever has begun to: each byte goes once."""
        total, size = entry.total, entry.bytes
        if self._overlaps.any and id(entry) in total.ranges.cluster_of:
            self._overlaps.settle(self._overlaps.leave, [entry])
        else:
            entry.bytes, total.current = 0, total.current - size
            if size and entry.serial < self._older_than:
                count(self._windows, "freed", entry, size)
        self._remove(entry)

    def _remove(self, entry: StorageRef) -> None:
        if self._entries.get(entry.address) is entry:
            del self._entries[entry.address]

    def _take_listing(self, window: TableWindow, entries: Collection[StorageRef]) -> None:
        groups, first = tuple(self.groups()), window.first_serial
        shared = {serial for group in groups for serial, _, _ in group}
        older = dict.fromkeys(self._totals, 0)
        for entry in entries:
            if entry.serial < first and entry.serial not in shared:
                older[entry.total.device] += entry.bytes
        for total in list(self._totals.values()):
            for _, _, cluster in total.ranges.spans:
                if len(cluster.members) > 1:
                    members = cluster.members.values()
                    older[total.device] += covered_by(older_than(members, first))
        freed, resized = dict(window.freed), dict(window.resized)
        for device, size in older.items():
            # What an interrupt kept from being counted as freed or resized.
            told = window.before.get(device, 0) - freed.get(device, 0) + resized.get(device, 0)
            if told != size:
                add(freed if told > size else resized, device, abs(told - size))
        window.listing = Listing(self.next_serial, self.sizes(), freed, resized, groups)


def _group(cluster: Cluster) -> Group:
    return tuple((entry.serial, *range_of(entry)) for entry in list(cluster.members.values()))


def _lost_with(entries: Iterable[StorageRef]) -> int:
    dying = {id(entry): entry for entry in entries}
    lost, clusters = 0, {}
    for key, entry in dying.items():
        cluster = entry.total.ranges.cluster_of.get(key)
        if cluster is None:
            lost += entry.bytes
        else:
            clusters[id(cluster)] = cluster
    for cluster in clusters.values():
        members = list(cluster.members.items())
        left = (entry for key, entry in members if key not in dying)
        lost += covered_by(entry for _, entry in members) - covered_by(left)
    return lost


_TRIES = 3
"""So often everything is listed anew where something died or was made meanwhile."""


def _serial(entry: StorageRef) -> int:
    return entry.serial
