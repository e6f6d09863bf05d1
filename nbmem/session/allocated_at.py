"""The cell and line that allocated what has no name, from the accelerator's own history."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.devices import Devices
    from nbmem.devices.history import Allocation, Stack
    from nbmem.heap import StorageTable
    from nbmem.records import Inventory, StorageRecord

SMALLEST = 1024
"""Bytes from which a storage without a name is worth a look into the allocator."""
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.*)", re.DOTALL)
_Place = tuple[str, int, int]
"""Device, serial of a storage, address of its memory."""


class AllocatedAt:
    """What the history has of storages without a name; each is asked for once."""

    def __init__(self, table: StorageTable, devices: Devices) -> None:
        """Tells of the storages of a table; `devices` have the allocators that are asked."""
        self._table = table
        self._devices = devices
        self._known: dict[_Place, Allocation] = {}

    def tell(self, inventory: Inventory, cells: Mapping[str, int]) -> Inventory:
        """Returns the inventory with cell, line and label of nameless storages, if history tells.

        The same object if there is nothing to tell. An allocator is asked only if something on its
        device has no name.

        Args:
            inventory: what was found just now.
            cells: execution counts by the names under which cells were compiled.
        """
        self._ask(_nameless(inventory, self._table))
        found = {key: told for (_, key, _), told in self._known.items()}
        if not any(told.stack or told.label for told in found.values()):
            return inventory
        storages = (_told(s, found.get(s.key), cells) for s in inventory.storages)
        return replace(inventory, storages=tuple(storages))

    def _ask(self, places: Sequence[_Place]) -> None:
        known = self._known
        self._known = {place: known[place] for place in places if place in known}
        new = [place for place in places if place not in known]
        for device in {device for device, _, _ in new}:
            addresses = {each[2] for each in new if each[0] == device}
            told = self._devices.allocations_at(device, addresses)
            asked = (each for each in new if each[0] == device and each[2] in told)
            self._known.update((each, told[each[2]]) for each in asked)


def _nameless(inventory: Inventory, table: StorageTable) -> list[_Place]:
    keys = {
        storage.key
        for storage in inventory.storages
        if not storage.names
        and storage.line is None
        and storage.bytes >= SMALLEST
        and storage.device != "cpu"
    }
    if not keys:
        return []
    living = ((ref, ref()) for ref in table.live() if ref.serial in keys)
    return [(ref.device, ref.serial, one.data_ptr()) for ref, one in living if one is not None]


def line_in_cell(stack: Stack, cells: Mapping[str, int]) -> tuple[int, int] | None:
    """Returns (execution count, line) of the outermost frame that is a cell's; None: none is."""
    for frame in reversed(stack):
        match = _FRAME.fullmatch(frame)
        count = cells.get(match["file"]) if match else None
        if match and count is not None:
            return count, int(match["line"])
    return None


def _told(
    storage: StorageRecord, allocation: Allocation | None, cells: Mapping[str, int]
) -> StorageRecord:
    if allocation is None:
        return storage
    place = line_in_cell(allocation.stack, cells)
    if allocation.label:
        storage = replace(storage, label=allocation.label)
    if place is None or storage.created_by not in (None, place[0]):
        return storage
    return replace(storage, created_by=place[0], line=place[1])


def cells_by_file(shell: Any) -> dict[str, int]:
    """Returns the execution counts of a shell's cells by the names they were compiled under."""
    names = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return dict(names) if type(names) is dict else {}
