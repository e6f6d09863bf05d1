"""The vocabulary: frozen records that cross rooms, and their way to JSON and back.

Sizes are int bytes. What is unknown is None, and a `Note` says why.
"""

from nbmem.records.acts import ReclaimReport
from nbmem.records.as_json import from_json, to_json
from nbmem.records.cells import (
    STATUSES,
    CellComparison,
    CellRecord,
    Copies,
    DeviceComparison,
    Difference,
    LineRecord,
    RunTrend,
    StepSummary,
)
from nbmem.records.devices import DeviceDelta, DeviceReading
from nbmem.records.ledgers import (
    AllocatorBlock,
    DeviceLedger,
    Ledger,
    LedgerLine,
    LedgerSum,
    ProcessMemory,
)
from nbmem.records.notes import SCHEMA, Note
from nbmem.records.storages import CATEGORIES, Inventory, StorageRecord

__all__ = [
    "CATEGORIES",
    "SCHEMA",
    "STATUSES",
    "AllocatorBlock",
    "CellComparison",
    "CellRecord",
    "Copies",
    "DeviceComparison",
    "DeviceDelta",
    "DeviceLedger",
    "DeviceReading",
    "Difference",
    "Inventory",
    "Ledger",
    "LedgerLine",
    "LedgerSum",
    "LineRecord",
    "Note",
    "ProcessMemory",
    "ReclaimReport",
    "RunTrend",
    "StepSummary",
    "StorageRecord",
    "from_json",
    "to_json",
]
