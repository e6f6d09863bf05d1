"""What is alive: one record a storage, and all of them at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.notes import Note
from nbmem.records.quick import quick

CATEGORIES = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "saved for backward",
    "user",
    "unknown",
)
"""What a storage is for, in the order in which a storage that is several things is counted."""


@quick
@dataclass(frozen=True, slots=True)
class StorageRecord:
    """One live storage: its views and ties are counted once, under it."""

    key: int
    """Serial number given by this session; never an address, never reused."""
    bytes: int
    """Bytes of memory that are counted with it: `tensor.untyped_storage().nbytes()`, less `shared`.
    So the sum over storages is bytes of memory."""
    device: str
    dtype: str
    """Of the tensor that best shows it, without `torch.`: `float32`."""
    shape: tuple[int, ...]
    """Of the tensor that best shows it."""
    category: str
    """One of `CATEGORIES`."""
    names: tuple[str, ...]
    """Shortest first; each leads back to this storage through nbmem's resolver."""
    created_by: int | None
    """Execution count of the cell that first showed it: the n of `[n]`."""
    created_in: int | None
    """Serial of the record of the cell that first showed it."""
    views: int
    """Tensors with a Python object that share it."""
    visible: bool
    """False where no Python object holds it (a graph or C++ does)."""
    notes: tuple[Note, ...] = ()
    stands_for: int = 1
    """How many storages this is the sum of: 1, but for the small ones that a history told as one
    (`key` is then 0, and `names` is empty)."""
    module: str | None = None
    """The module it belongs to, as the user names it (`model.layer3.0.conv1`): that of a parameter
    or buffer, of the gradient or optimizer state that goes with one, or of the operation whose
    graph node saved it. None: of no module that has a name."""
    saved_by: str | None = None
    """The graph node and its value that keep it, where only a graph does:
    `ConvolutionBackward0.input`."""
    line: int | None = None
    """Line of the cell `created_in` that allocated it, counted from 1; None where nobody saw."""
    pinned: bool = False
    """It is page-locked memory of the host (`tensor.is_pinned()`)."""
    shared: int = 0
    """Bytes of it that other storages have too (numpy, DLPack, mapped files), and that are counted
    with them."""
    shares_with: tuple[int, ...] = ()
    """Keys of storages that overlap it in memory, the largest first; at most three."""
    label: str = ""
    """The user's own for this allocation (`torch.cuda.memory._set_memory_metadata`), if it has no
    name and the allocator's history has one."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Inventory:
    """Everything alive at one moment, each storage once, largest first."""

    storages: tuple[StorageRecord, ...]
    taken_at: float
    """Seconds since the epoch."""
    notes: tuple[Note, ...] = ()
