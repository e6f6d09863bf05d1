"""The storages of one device that were found and still live, with their category and address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.heap.ranges import share_out
from nbmem.records import CATEGORIES, LedgerLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbmem.heap import StorageRef, StorageTable
    from nbmem.records import Inventory

UNKNOWN = "unknown"
CATEGORY_LABELS = {
    "parameter": "parameters",
    "buffer": "buffers",
    "gradient": "gradients",
    "optimizer state": "optimizer state",
    "saved for backward": "saved for backward",
    "user": "your tensors",
    UNKNOWN: "storages of unknown use",
}


@dataclass(frozen=True, slots=True)
class FoundStorage:
    """One storage: plain facts, so that nothing is held."""

    category: str
    bytes: int
    """All of its own where its address is told; else those that are counted with it."""
    address: int | None
    """Of its bytes on the device; None where it was not asked for, or there is none."""


def find_storages(
    inventory: Inventory, table: StorageTable, device: str, *, addresses: bool = False
) -> list[FoundStorage]:
    """Returns the storages that live on `device`; `unknown` those that the inventory misses.

    Without addresses, bytes that several of them share are counted with the first category that
    has them.
    """
    category_of = {storage.key: storage.category for storage in inventory.storages}
    refs = [ref for ref in table.live() if ref.device == device]
    if addresses:
        found = (_find(ref, category_of) for ref in refs)
        return [storage for storage in found if storage is not None]
    counted: dict[int, int] = {}
    if any(storage.shares_with for storage in inventory.storages):
        counted = share_out(
            table.groups(), lambda serial: CATEGORIES.index(category_of.get(serial, UNKNOWN))
        )
    return [
        FoundStorage(category_of.get(ref.serial, UNKNOWN), counted.get(ref.serial, ref.bytes), None)
        for ref in refs
        if ref() is not None
    ]


def _find(ref: StorageRef, category_of: Mapping[int, str]) -> FoundStorage | None:
    storage = ref()
    if storage is None:
        return None
    category = category_of.get(ref.serial, UNKNOWN)
    try:
        address = storage.data_ptr()
    except RuntimeError:  # its memory was taken away
        return FoundStorage(category, 0, None)
    return FoundStorage(category, storage.nbytes(), address or None)


SIZES = "sum of tensor.untyped_storage().nbytes()"


def category_lines(counted: Iterable[tuple[str, int]]) -> list[LedgerLine]:
    """Returns one line a category that has storages, in the order of `CATEGORIES`."""
    sizes: dict[str, list[int]] = {}
    for category, size in counted:
        sizes.setdefault(category, []).append(size)
    return [
        LedgerLine(name, CATEGORY_LABELS[name], sum(sizes[name]), len(sizes[name]), equals=SIZES)
        for name in CATEGORIES
        if name in sizes
    ]
