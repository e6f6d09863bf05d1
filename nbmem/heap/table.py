"""The table of storages: what was seen and still lives, and the bytes that it adds up to."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class DeviceTotal:
    """Bytes of the live storages of one device, and their high-water mark."""

    __slots__ = ("current", "device", "peak")

    def __init__(self, device: str) -> None:
        self.device = device
        self.current = 0
        self.peak = 0


class StorageRef(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage that knows the storage's last seen size.

    Calling it gives the storage, or None once it is dead.
    """

    __slots__ = ("address", "bytes", "serial", "total")

    address: int
    """Of the C++ storage; used again by a later storage once this one is dead."""
    bytes: int
    """`storage.nbytes()` when the table last saw it; 0 once its death was entered."""
    serial: int
    """Number given by the table, in the order of first sight; never reused."""
    total: DeviceTotal

    @property
    def device(self) -> str:
        """The device in torch's words: `cpu`, `cuda:0`."""
        return self.total.device


class TableWindow:
    """What happened, while it is open, to storages that are older than the window.

    Per device: bytes at the opening + bytes of the storages with a serial in
    [`first_serial`, `end_serial`) that live − `freed` + `resized` = bytes at the close.
    """

    __slots__ = ("_table", "end_serial", "first_serial", "freed", "resized")

    def __init__(self, table: StorageTable) -> None:
        self._table = table
        self.first_serial = table.next_serial
        self.end_serial: int | None = None
        """The serial that the first storage after the close gets; None while the window is open."""
        self.freed: dict[str, int] = {}
        """Per device: bytes of older storages that died."""
        self.resized: dict[str, int] = {}
        """Per device: bytes by which older storages grew."""

    def close(self) -> None:
        """Ends the window; windows close in any order, and closing twice does nothing."""
        self._table._close_window(self)


class StorageTable:
    """Every storage that was seen and still lives, each once.

    A storage's death appends its reference to a queue, from C and on whatever thread; the queue is
    drained before anything is entered or read. So totals and peaks are exact, and an address that
    is used again is never mistaken for the storage that had it before.

    No lock is taken, since a lock that is held while the collector runs a user's finalizer can
    deadlock: totals change in single steps with no call in between, which the GIL makes atomic. An
    entry's bytes change in the same step, so that an interrupt between two lines leaves sums that
    are right, and whoever notes the storage again goes on from there.
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
        size = storage.nbytes()
        if size != entry.bytes:
            self._resize(entry, size)
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

    def mend(self) -> None:
        """Finds deaths that an interrupt kept from being entered."""
        self._drain()
        for entry in list(self._entries.values()):
            if entry() is None:
                self._settle(entry)

    def glance(self, device: str) -> tuple[int, int]:
        """Returns (`bytes_on`, `peak_on`) for a thread that only looks: nothing is drained.

        Between two operations of the thread that is followed they are exact.
        """
        total = self._totals.get(device)
        if total is None:
            return 0, 0
        dead = sum(entry.bytes for entry in self._dead.copy() if entry.total is total)
        return total.current - dead, total.peak

    def reset_peak(self, device: str) -> None:
        """Makes the present bytes the high-water mark of `device`."""
        self._drain()
        total = self._totals.get(device)
        if total:
            total.peak = total.current

    def open_window(self) -> TableWindow:
        """Returns a window that counts, from now on, what becomes of the storages known now."""
        self._drain()
        window = TableWindow(self)
        self.add_window(window)
        return window

    def add_window(self, window: TableWindow) -> None:
        """Opens a window that was made a moment ago."""
        self._drain()
        window.first_serial = self.next_serial
        self._set_windows((*self._windows, window))

    def _close_window(self, window: TableWindow) -> None:
        self._drain()
        if window.end_serial is None:
            window.end_serial = self.next_serial
        if window in self._windows:
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
            storage.data_ptr()
        except RuntimeError:  # a wrapper's: it has a size and no memory
            return None
        entry = StorageRef(storage, self._bury)
        entry.address = address = storage._cdata
        entry.bytes = 0
        entry.total = total
        entry.serial = self.next_serial  # for a reader on another thread; the right one comes below
        size = storage.nbytes()
        known = self._entries.setdefault(address, entry)
        if known is not entry and not self._take_over(known, entry, storage):
            return known
        serial = self.next_serial
        entry.serial, self.next_serial = serial, serial + 1
        current, peak = total.current + size, total.peak
        if current > peak:
            peak = current
        entry.bytes, total.current, total.peak = size, current, peak
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
        self._settle(known)
        self._entries[entry.address] = entry
        return True

    def _learn_device(self, device: torch.device) -> DeviceTotal | None:
        total = None
        if device.type != "meta":
            name = "cpu" if device.type == "cpu" else str(device)
            total = self._totals.setdefault(name, DeviceTotal(name))
        return self._total_of.setdefault(device, total)

    def _resize(self, entry: StorageRef, size: int) -> None:
        grown = size - entry.bytes
        total = entry.total
        current, peak = total.current + grown, total.peak
        if current > peak:
            peak = current
        entry.bytes, total.current, total.peak = size, current, peak
        for window in self._windows:
            if entry.serial < window.first_serial:
                window.resized[total.device] = window.resized.get(total.device, 0) + grown

    def _drain(self) -> None:
        dead = self._dead
        while dead:
            try:
                self._settle(dead.popleft())
            except IndexError:  # another thread took the last one
                return

    def _settle(self, entry: StorageRef) -> None:
        """Takes a dead storage's bytes off, whoever has begun to: each byte goes once."""
        entries, total, size = self._entries, entry.total, entry.bytes
        entry.bytes, total.current = 0, total.current - size
        if size and entry.serial < self._older_than:
            self._count_freed(entry, size)
        if entry.address in entries and entries[entry.address] is entry:
            del entries[entry.address]

    def _count_freed(self, entry: StorageRef, size: int) -> None:
        device = entry.total.device
        for window in self._windows:
            if entry.serial < window.first_serial:
                window.freed[device] = window.freed.get(device, 0) + size


def _serial(entry: StorageRef) -> int:
    return entry.serial
