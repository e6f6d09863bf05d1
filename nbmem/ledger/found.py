"""The storages of one device that were found and still live, with their category and address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    address: int | None
    """Of its bytes on the device; None where it was not asked for, or there is none."""


def find_storages(
    inventory: Inventory, table: StorageTable, device: str, *, addresses: bool = False
) -> list[FoundStorage]:
    """Returns the storages that live on `device`; `unknown` those that the inventory misses."""
    category_of = {storage.key: storage.category for storage in inventory.storages}
    found = (
        _find(ref, category_of, addresses=addresses) for ref in table.live() if ref.device == device
    )
    return [storage for storage in found if storage is not None]


def _find(
    ref: StorageRef, category_of: Mapping[int, str], *, addresses: bool
) -> FoundStorage | None:
    storage = ref()
    if storage is None:
        return None
    category = category_of.get(ref.serial, UNKNOWN)
    if not addresses:
        return FoundStorage(category, ref.bytes, None)
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
