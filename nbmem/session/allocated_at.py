"""The line of the cell that allocated what has no name, from the accelerator's own history."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbmem.ledger import stacks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbmem.devices import Devices
    from nbmem.heap import StorageTable
    from nbmem.ledger import Stack
    from nbmem.records import Inventory, StorageRecord

SMALLEST = 1024
"""Bytes from which a storage without a name is worth a look into the allocator."""
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.*)", re.DOTALL)


def tell_lines(
    inventory: Inventory, table: StorageTable, devices: Devices, cells: Mapping[str, int]
) -> Inventory:
    """Returns the inventory with the cell and line of nameless storages, as far as history tells.

    The same object where there is nothing to tell.

    Args:
        inventory: what was found just now.
        table: the storages that it speaks of.
        devices: whose allocators are asked, and only where something on them has no name.
        cells: execution counts by the names under which cells were compiled.
    """
    lines = _lines_of(inventory, table, devices, cells)
    if not lines:
        return inventory
    return replace(inventory, storages=tuple(_told(s, lines) for s in inventory.storages))


def _lines_of(
    inventory: Inventory, table: StorageTable, devices: Devices, cells: Mapping[str, int]
) -> dict[int, tuple[int, int]]:
    """Returns (execution count, line) by the serial of the storage."""
    nameless: dict[str, set[int]] = {}
    for storage in inventory.storages:
        if not storage.names and storage.line is None and storage.bytes >= SMALLEST:
            nameless.setdefault(storage.device, set()).add(storage.key)
    nameless.pop("cpu", None)
    found = {}
    for device, keys in nameless.items():
        blocks = devices.blocks_with_history(device)
        for key, stack in stacks_of(keys, table, device, blocks).items():
            place = line_in_cell(stack, cells)
            if place is not None:
                found[key] = place
    return found


def line_in_cell(stack: Stack, cells: Mapping[str, int]) -> tuple[int, int] | None:
    """Returns (execution count, line) of the outermost frame that is a cell's; None: none is."""
    for frame in reversed(stack):
        match = _FRAME.fullmatch(frame)
        count = cells.get(match["file"]) if match else None
        if match and count is not None:
            return count, int(match["line"])
    return None


def _told(storage: StorageRecord, lines: Mapping[int, tuple[int, int]]) -> StorageRecord:
    place = lines.get(storage.key)
    if place is None or storage.created_by not in (None, place[0]):
        return storage
    return replace(storage, created_by=place[0], line=place[1])


def cells_by_file(shell: Any) -> dict[str, int]:
    """Returns the execution counts of a shell's cells by the names they were compiled under."""
    names = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return dict(names) if type(names) is dict else {}
