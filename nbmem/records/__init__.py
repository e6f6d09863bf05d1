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
from nbmem.records.devices import DeviceCapacity, DeviceDelta, DeviceReading
from nbmem.records.failures import OOM_SOURCES, OutOfMemory
from nbmem.records.leaks import (
    ARGUMENTS,
    LEAK_HOLDERS,
    LEAK_KINDS,
    Chain,
    GradientFact,
    GraphFact,
    HeldStorage,
    Holders,
    Leak,
    LeakReport,
    PathStep,
    StateFact,
    SuspendedFact,
    ViewFact,
    write_path,
)
from nbmem.records.ledgers import (
    AllocatorBlock,
    DeviceLedger,
    Ledger,
    LedgerLine,
    LedgerSum,
    PoolMemory,
    PoolOwner,
    ProcessMemory,
)
from nbmem.records.live import LiveReading
from nbmem.records.notes import SCHEMA, Note
from nbmem.records.parking import ParkedThing
from nbmem.records.storages import CATEGORIES, Inventory, StorageRecord

__all__ = [
    "ARGUMENTS",
    "CATEGORIES",
    "LEAK_HOLDERS",
    "LEAK_KINDS",
    "OOM_SOURCES",
    "SCHEMA",
    "STATUSES",
    "AllocatorBlock",
    "CellComparison",
    "CellRecord",
    "Chain",
    "Copies",
    "DeviceCapacity",
    "DeviceComparison",
    "DeviceDelta",
    "DeviceLedger",
    "DeviceReading",
    "Difference",
    "GradientFact",
    "GraphFact",
    "HeldStorage",
    "Holders",
    "Inventory",
    "Leak",
    "LeakReport",
    "Ledger",
    "LedgerLine",
    "LedgerSum",
    "LineRecord",
    "LiveReading",
    "Note",
    "OutOfMemory",
    "ParkedThing",
    "PathStep",
    "PoolMemory",
    "PoolOwner",
    "ProcessMemory",
    "ReclaimReport",
    "RunTrend",
    "StateFact",
    "StepSummary",
    "StorageRecord",
    "SuspendedFact",
    "ViewFact",
    "from_json",
    "to_json",
    "write_path",
]
