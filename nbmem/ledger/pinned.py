"""The sum of pinned host memory: what torch's tensors have of it, and what torch only keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.heap.pinned import STATS, pinned_block, spans_of
from nbmem.records import DeviceLedger, LedgerLine, LedgerSum, Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from nbmem.heap import StorageTable
    from nbmem.records import Inventory


def pinned_ledger(inventory: Inventory, table: StorageTable, total: int) -> DeviceLedger:
    """Returns pinned storages + rounding + what torch only keeps = what torch has pinned.

    The memory is the host's and the whole process's: no device has a part of it. Bytes that
    several storages show are counted once.

    Args:
        inventory: what was found, just now.
        table: the storages that it speaks of.
        total: `nbmem.heap.pinned.pinned_total()`.
    """
    spans = spans_of(_pinned(inventory, table))
    sizes = [end - begin for begin, end in spans]
    found = LedgerLine("storages", "storages in pinned memory", sum(sizes), len(sizes), equals=_OF)
    rounding = sum(pinned_block(size) - size for size in sizes)
    rest = total - sum(sizes) - rounding
    lines = (
        found,
        LedgerLine("rounding", "rounding to powers of two", rounding),
        LedgerLine("cached", "kept by torch for later, or out of Python's sight", rest, None, True),
    )
    whole = LedgerLine("pinned", "pinned by torch", total, equals=f"{STATS}: allocated_bytes")
    return DeviceLedger("host", "host", None, (LedgerSum("pinned", lines, whole, _notes(rest)),))


def _pinned(inventory: Inventory, table: StorageTable) -> Iterator[torch.UntypedStorage]:
    keys = {storage.key for storage in inventory.storages if storage.pinned}
    for ref in table.live():
        storage = ref() if ref.serial in keys else None
        if storage is not None:
            yield storage


def _notes(rest: int) -> tuple[Note, ...]:
    if rest > 0:
        return (_GIVES_BACK,)
    return (_NOT_TORCHS,) if rest < 0 else ()


_OF = "sum of tensor.untyped_storage().nbytes() where tensor.is_pinned()"
_GIVES_BACK = Note(
    "cached",
    "cached",
    "torch keeps pinned memory that is no longer used for the next request: "
    "`%gpumem reclaim --pinned` gives it back to the system.",
)
_NOT_TORCHS = Note(
    "cached",
    "not_torchs",
    "Some of these storages lie in memory that other code pinned, which torch does not count.",
)
