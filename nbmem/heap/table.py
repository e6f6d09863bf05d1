"""The table of storages: what was seen and still lives, and the bytes that it adds up to."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.ranges import Ranges, covered
from nbmem.heap.windows import Group, Listing, TableWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


class DeviceTotal:
    """Bytes that the live storages of one device cover, and their high-water mark."""

    __slots__ = ("current", "device", "peak", "ranges")

    def __init__(self, device: str) -> None:
        self.device = device
        self.current = 0
        self.peak = 0
        self.ranges = Ranges()

    def grow(self, size: int) -> None:
        """Adds bytes; fewer than 0 are taken away."""
        self.current = current = self.current + size
        if current > self.peak:
            self.peak = current


class StorageRef(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage that knows the storage's last seen size.

    Calling it gives the storage, or None once it is dead.
    """

    __slots__ = ("address", "begin", "bytes", "serial", "total")

    address: int
    """Of the C++ storage; used again by a later storage once this one is dead."""
    begin: int
    """Of its first byte on the device, when the table last looked; 0 where it has none."""
    bytes: int
    """`storage.nbytes()` when the table last saw it."""
    serial: int
    """Number given by the table, in the order of first sight; never reused."""
    total: DeviceTotal

    @property
    def device(self) -> str:
        """The device in torch's words: `cpu`, `cuda:0`."""
        return self.total.device


class StorageTable:
    """Every storage that was seen and still lives, each once; bytes are bytes of memory.

    Where storages overlap (`ranges`), what they have in common is counted once, for as long as one
    of them lives.

    A storage's death appends its reference to a queue, from C and on whatever thread; the queue is
    drained before anything is entered or read. So totals and peaks are exact, and an address that
    is used again is never mistaken for the storage that had it before.

    No lock is taken, since a lock that is held while the collector runs a user's finalizer can
    deadlock: totals change in single steps with no call in between, which the GIL makes atomic.
    What concerns storages that overlap takes more steps: such events queue up, and whoever comes
    first does them all, the others go on.
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
        self._events: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._turn = threading.Lock()
        self._shares = False
        """Some storage's memory was handed to torch, so that others may lie over it."""
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
            self._settle(self._move, entry, begin, storage.nbytes(), storage.resizable())
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
                self._look_at_all(entries)
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
        return [_group(cluster.members.values()) for cluster in clusters if len(cluster.members) > 1]

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

    def glance(self, device: str) -> tuple[int, int]:
        """Returns (`bytes_on`, `peak_on`) for a thread that only looks: nothing is drained.

        Between two operations of the thread that is followed they are exact.
        """
        total = self._totals.get(device)
        if total is None:
            return 0, 0
        dead = [entry for entry in self._dead.copy() if entry.total is total]
        gone, cluster_of = 0, total.ranges.cluster_of
        clusters = {id(c): c for e in dead if (c := cluster_of.get(id(e))) is not None}
        for cluster in clusters.values():
            members = list(cluster.members.values())
            gone += _covered(members) - _covered(e for e in members if e not in dead)
        alone = sum(entry.bytes for entry in dead if id(entry) not in cluster_of)
        return total.current - gone - alone, total.peak

    def reset_peak(self, device: str) -> None:
        """Makes the present bytes the high-water mark of `device`."""
        self._drain()
        total = self._totals.get(device)
        if total:
            total.peak = total.current

    def open_window(self) -> TableWindow:
        """Returns a window that counts, from now on, what becomes of the storages known now."""
        self._drain()
        window = TableWindow(self, self._sizes())
        self._set_windows((*self._windows, window))
        return window

    def _sizes(self) -> dict[str, int]:
        return {total.device: total.current for total in list(self._totals.values())}

    def _restart_window(self, window: TableWindow) -> bool:
        self._drain()
        if (window.first_serial, window.before) == (self.next_serial, self._sizes()):
            return False
        window.first_serial, window.before = self.next_serial, self._sizes()
        window.freed.clear()
        window.resized.clear()
        self._set_windows(self._windows)
        return True

    def _close_window(self, window: TableWindow) -> None:
        self._drain()
        if window.end_serial is None:
            window.end_serial = self.next_serial
            self._set_windows(tuple(other for other in self._windows if other is not window))

    def _set_windows(self, windows: tuple[TableWindow, ...]) -> None:
        self._windows = windows
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
        entry.begin = begin
        entry.bytes = size = storage.nbytes()
        entry.total = total
        entry.serial = self.next_serial  # for a reader on another thread; the right one comes below
        known = self._entries.setdefault(address, entry)
        if known is not entry and not self._take_over(known, entry, storage):
            return known
        entry.serial = serial = self.next_serial
        self.next_serial = serial + 1
        ranges = total.ranges
        if not storage.resizable() or (ranges.spans and ranges.overlaps(begin, begin + size)):
            self._settle(self._join, entry, storage.resizable())
            return entry
        total.current = current = total.current + size
        if current > total.peak:
            total.peak = current
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
        dead, entries = self._dead, self._entries
        shared: list[StorageRef] | None = None
        while dead:
            try:
                entry = dead.popleft()
            except IndexError:  # another thread took the last one
                break
            if entry.address in entries and entries[entry.address] is entry:
                del entries[entry.address]
            if self._shares and id(entry) in entry.total.ranges.cluster_of:
                shared = [] if shared is None else shared
                shared.append(entry)
                continue
            entry.total.current -= entry.bytes
            if entry.serial < self._older_than:
                self._count("freed", entry, entry.bytes)
        if shared is not None:
            self._settle(self._leave, shared)
        elif self._events:
            self._settle()

    def _count(self, what: str, entry: StorageRef, size: int) -> None:
        device = entry.total.device
        for window in self._windows:
            if entry.serial < window.first_serial:
                _add(getattr(window, what), device, size)

    # -- storages that overlap ---------------------------------------------------------------

    def _settle(self, act: Callable[..., None] | None = None, *arguments: Any) -> None:
        """Does what has queued up and this, unless somebody is at it: then it is done there."""
        if act is not None:
            self._events.append((act, arguments))
        while self._events and self._turn.acquire(blocking=False):
            try:
                while self._events:
                    act, arguments = self._events.popleft()
                    act(*arguments)
            finally:
                self._turn.release()

    def _join(self, entry: StorageRef, owned: bool) -> None:
        total, ranges = entry.total, entry.total.ranges
        if id(entry) in ranges.cluster_of:  # taken up meanwhile as one that is counted
            total.grow(entry.bytes)
        elif not entry.bytes or not entry.begin or entry() is None:
            total.grow(entry.bytes)
        else:
            self._shares = True
            total.grow(ranges.join(entry, self._entries, owned=owned))

    def _leave(self, dead: Collection[StorageRef]) -> None:
        for total in {id(entry.total): entry.total for entry in dead}.values():
            gone = {id(entry): entry for entry in dead if entry.total is total}
            for window in self._windows:
                if any(entry.serial < window.first_serial for entry in gone.values()):
                    lost = _lost(total.ranges, gone, window.first_serial)
                    _add(window.freed, total.device, lost)
            total.current -= total.ranges.leave(gone.values())

    def _move(self, entry: StorageRef, begin: int, size: int, owned: bool) -> None:
        """Takes up that a storage has another size, or another address."""
        total, ranges = entry.total, entry.total.ranges
        shared = id(entry) in ranges.cluster_of
        grown = size - entry.bytes
        if not shared and not (begin and size and ranges.overlaps(begin, begin + size)):
            entry.begin, entry.bytes = begin, size
            ranges.displace(entry)
            total.grow(grown)
            self._count("resized", entry, grown)
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
        for window in self._windows:
            if entry.serial < window.first_serial:
                older = [_range_of(o) for o in others if o.serial < window.first_serial]
                changed = covered([*older, _range_of(entry)]) - covered([*older, was])
                _add(window.resized, total.device, changed)

    # -- listing -----------------------------------------------------------------------------

    def _look_at_all(self, entries: Collection[StorageRef]) -> None:
        """Reads every address anew: a storage may have moved, or share what it only copies later.

        Totals are then those of what is listed, whatever an interrupt or a thread got between.
        """
        if not self._turn.acquire(blocking=False):
            return
        try:
            known = {name: total.current for name, total in self._totals.items()}
            placed: dict[str, list[StorageRef]] = {}
            handed, sums = set[int](), dict[str, int]()
            for entry in entries:
                device = entry.total.device
                storage = entry()
                if storage is not None:
                    entry.begin, entry.bytes = _begin_of(storage), storage.nbytes()
                    if not storage.resizable():
                        handed.add(id(entry))
                elif id(entry) in entry.total.ranges.cluster_of:
                    handed.add(id(entry))
                if entry.begin and entry.bytes:
                    placed.setdefault(device, []).append(entry)
                else:
                    _add(sums, device, entry.bytes)
            newest = max((entry.serial for entry in entries), default=-1)
            for name, total in list(self._totals.items()):
                size = total.ranges.rebuild(placed.get(name, ()), handed, newest)
                total.grow(size + sums.get(name, 0) - known.get(name, 0))
            self._shares = any(total.ranges.spans for total in list(self._totals.values()))
        finally:
            self._turn.release()

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
                    older[total.device] += _covered(e for e in members if e.serial < first)
        freed, resized = dict(window.freed), dict(window.resized)
        for device, size in older.items():
            # What an interrupt kept from being counted as freed or resized.
            told = window.before.get(device, 0) - freed.get(device, 0) + resized.get(device, 0)
            if told != size:
                _add(freed if told > size else resized, device, abs(told - size))
        window.listing = Listing(self.next_serial, self._sizes(), freed, resized, groups)


def _begin_of(storage: torch.UntypedStorage) -> int:
    """Returns the address of a storage's first byte; 0 where torch took its memory away."""
    try:
        return storage.data_ptr()
    except RuntimeError:
        return 0


def _add(sizes: dict[str, int], device: str, size: int) -> None:
    sizes[device] = sizes.get(device, 0) + size


def _range_of(entry: StorageRef) -> tuple[int, int]:
    return entry.begin, entry.begin + entry.bytes


def _covered(entries: Iterable[StorageRef]) -> int:
    return covered(map(_range_of, entries))


def _group(entries: Iterable[StorageRef]) -> Group:
    return tuple((entry.serial, *_range_of(entry)) for entry in list(entries))


def _lost(ranges: Ranges, gone: dict[int, StorageRef], first_serial: int) -> int:
    """Returns the bytes that storages older than a serial cover less when some of all go."""
    lost = 0
    for cluster in {id(c): c for key in gone if (c := ranges.cluster_of.get(key))}.values():
        cover = cluster.cover
        if cover is not None and cover.serial < first_serial and id(cover) not in gone:
            continue
        older = [e for e in cluster.members.values() if e.serial < first_serial]
        lost += _covered(older) - _covered(e for e in older if id(e) not in gone)
    return lost


_TRIES = 3
"""So often everything is listed anew where something died or was made meanwhile."""


def _serial(entry: StorageRef) -> int:
    return entry.serial
