"""The three sums of main memory: torch's storages, the process, the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.devices.capacity import memory_use
from nbmem.devices.protocols import reading_failed
from nbmem.ledger.found import SIZES, category_lines, find_storages
from nbmem.records import DeviceLedger, LedgerLine, LedgerSum, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.devices import DeviceReader
    from nbmem.heap import StorageTable
    from nbmem.records import Inventory

_RSS = "psutil.Process().memory_info().rss"
_SYSTEM = "psutil.virtual_memory()"


def main_memory_ledger(
    inventory: Inventory, table: StorageTable, host: DeviceReader, sharing: Sequence[str] = ()
) -> DeviceLedger:
    """Returns the ledger of `cpu`.

    Args:
        inventory: what was found, just now.
        table: what tracking knows.
        host: reads the process's resident memory.
        sharing: devices whose memory is main memory, too.
    """
    storages = _storages_sum(inventory, table)
    resident = _resident_sum(storages.total, host)
    installed = _installed_sum(resident.total, sharing)
    return DeviceLedger("cpu", "cpu", None, (storages, resident, installed))


def _storages_sum(inventory: Inventory, table: StorageTable) -> LedgerSum:
    found = find_storages(inventory, table, "cpu")
    lines = category_lines((storage.category, storage.bytes) for storage in found)
    total = LedgerLine(
        "storages", "torch's storages", table.bytes_on("cpu"), equals=f"{SIZES}, each once"
    )
    return LedgerSum("storages", tuple(lines), total)


def _resident_sum(storages: LedgerLine, host: DeviceReader) -> LedgerSum:
    notes: list[Note] = []
    rss = _read_rss(host, notes)
    total = LedgerLine("resident", "resident memory of this process (RSS)", rss, equals=_RSS)
    if rss is None or storages.bytes is None:
        rest = LedgerLine("other", "Python, libraries and all else", None, derived=True)
    elif storages.bytes > rss:
        notes.append(_TOUCHED_NEVER)
        label = "storages that are not in memory, less all else that is"
        rest = LedgerLine("not resident", label, rss - storages.bytes, derived=True)
    else:
        label = "Python, libraries and all else"
        rest = LedgerLine("other", label, rss - storages.bytes, derived=True)
    return LedgerSum("resident", (storages, rest), total, tuple(notes))


def _read_rss(host: DeviceReader, notes: list[Note]) -> int | None:
    try:
        return host.sample().allocated
    except Exception as error:  # a system that does not tell: the ledger goes on without
        notes.append(reading_failed("host", "resident", error))
        return None


def _installed_sum(resident: LedgerLine, sharing: Sequence[str]) -> LedgerSum:
    try:
        use = memory_use()
    except Exception as error:  # a container may hide what it uses
        failed = LedgerLine("installed", "installed memory", None)
        return LedgerSum("installed", (), failed, (reading_failed("host", "installed", error),))
    available = LedgerLine(
        "available",
        "left under the limit" if use.limited else "available",
        use.available,
        equals="the group's memory.max − memory.current" if use.limited else f"{_SYSTEM}.available",
    )
    rest = LedgerLine(
        "other processes",
        "other processes and file pages, as the limit counts them"
        if use.limited
        else "other processes and the system",
        None if resident.bytes is None else use.total - use.available - resident.bytes,
        derived=True,
    )
    total = LedgerLine(
        "installed",
        "the container's limit" if use.limited else "installed memory",
        use.total,
        equals="the group's memory.max" if use.limited else f"{_SYSTEM}.total",
    )
    notes = [_SHARED] if rest.bytes is not None and rest.bytes < 0 else []
    if sharing:
        notes.append(_held_by(sharing))
    return LedgerSum("installed", (resident, rest, available), total, tuple(notes))


def _held_by(devices: Sequence[str]) -> Note:
    names = " and ".join(devices)
    sentence = (
        f"{names} has no memory of its own: what it holds is in the line of other processes, so do "
        "not add its ledger to this one."
    )
    return Note("other processes", "unified_memory", sentence)


_TOUCHED_NEVER = Note(
    "resident",
    "not_touched",
    "torch's storages exceed the resident memory: pages that were never written, or that were "
    "swapped out, take no memory now.",
)
_SHARED = Note(
    "other processes",
    "counted_twice",
    "Pages of files that this process has mapped are counted as resident and as available, "
    "so that nothing is left for others.",
)
