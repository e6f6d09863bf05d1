"""An entry of the table: a weak reference to a storage; and what those of one device add up to."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from nbmem.heap.ranges import Ranges, covered

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    """`storage.nbytes()` when the table last saw it; 0 once its death was entered."""
    serial: int
    """Number given by the table, in the order of first sight; never reused."""
    total: DeviceTotal

    @property
    def device(self) -> str:
        """The device in torch's words: `cpu`, `cuda:0`."""
        return self.total.device


def range_of(entry: StorageRef) -> tuple[int, int]:
    """Returns the first address of a storage, and the one behind its last."""
    return entry.begin, entry.begin + entry.bytes


def covered_by(entries: Iterable[StorageRef]) -> int:
    """Returns how many addresses are in any of the storages."""
    return covered(map(range_of, entries))


def older_than(entries: Iterable[StorageRef], serial: int) -> list[StorageRef]:
    """Returns the storages that were there before the one with this serial."""
    return [entry for entry in entries if entry.serial < serial]
