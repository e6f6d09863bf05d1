"""What happened to older storages between two moments, per device, in bytes of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.heap.entries import StorageRef
    from nbmem.heap.table import StorageTable

Group = tuple[tuple[int, int, int], ...]
"""Storages that overlap: serial, first address, address behind the last."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The figures of a window at the moment at which everything alive was listed."""

    end_serial: int
    """Storages that were made later have serials from this one on."""
    bytes: dict[str, int]
    """Per device: bytes of all storages listed, each address once."""
    freed: dict[str, int]
    resized: dict[str, int]
    groups: tuple[Group, ...]
    """Storages listed that share memory."""


class TableWindow:
    """What happened, while it is open, to storages that are older than the window.

    Per device: bytes at the opening + bytes of the storages with a serial in
    [`first_serial`, `end_serial`) that live − `freed` + `resized` = bytes at the close. What an
    older storage has in common with a newer one is the older one's for as long as it lives.
    """

    __slots__ = (
        "_table",
        "before",
        "end_serial",
        "first_serial",
        "freed",
        "listing",
        "on_listing",
        "resized",
    )

    def __init__(self, table: StorageTable) -> None:
        self._table = table
        self.first_serial = table.next_serial
        """The serial of the first storage that is made after the opening."""
        self.before: dict[str, int] = {}
        """Per device: bytes at the opening."""
        self.end_serial: int | None = None
        """The serial that the first storage after the close gets; None while the window is open."""
        self.freed: dict[str, int] = {}
        """Per device: bytes that older storages had alone among the older ones, and that died."""
        self.resized: dict[str, int] = {}
        """Per device: bytes by which older storages grew."""
        self.listing: Listing | None = None
        """The figures at the last `list_all` since `on_listing` was set."""
        self.on_listing: Callable[[], None] | None = None
        """Called at each `list_all`, to read other counters at the same moment."""

    def restart(self) -> bool:
        """Begins anew where anything was made, freed or resized since; returns whether it did."""
        return self._table._restart_window(self)

    def close(self) -> None:
        """Ends the window; windows close in any order, and closing twice does nothing."""
        self._table._close_window(self)


def count(windows: Iterable[TableWindow], what: str, entry: StorageRef, size: int) -> None:
    """Adds to `freed` or `resized` of the windows that are younger than a storage."""
    for window in windows:
        if entry.serial < window.first_serial:
            add(getattr(window, what), entry.total.device, size)


def add(sizes: dict[str, int], device: str, size: int) -> None:
    """Adds bytes to those of a device."""
    sizes[device] = sizes.get(device, 0) + size
