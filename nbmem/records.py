"""The vocabulary: frozen records that cross rooms, and their way to JSON and back.

Sizes are int bytes. What is unknown is None, and a `Note` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Hashable

SCHEMA = 1
"""Number of the record layout. Fields may join under it; a changed meaning needs a new number."""

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

STATUSES = ("ok", "error", "interrupted", "oom")


@dataclass(frozen=True, slots=True)
class Note:
    """Why a figure is None or partial, or what broke inside nbmem."""

    field: str
    """The field it speaks of (`peak`, `created`, …) or the room that broke."""
    code: str
    """A stable word for programs: `other_threads`, `scan_skipped`, `broken`, …"""
    sentence: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """The counters of one device at one moment; each unknown one is None with a note."""

    device: str
    """torch's name (`cuda:0`, `cpu`), or `host` for the process's resident memory."""
    kind: str
    """`accelerator`, `cpu` (bytes of torch's CPU storages) or `host` (RSS)."""
    name: str | None
    """What the vendor calls it."""
    allocated: int | None
    """Bytes in live blocks: `torch.cuda.memory_allocated()`; storages on `cpu`; RSS on `host`."""
    peak_allocated: int | None
    """Largest `allocated` since the user last reset it: `torch.cuda.max_memory_allocated()`."""
    requested: int | None
    """Bytes asked of the allocator, before rounding: `requested_bytes.all.current`."""
    active: int | None
    """Bytes in blocks that are live or wait for a stream: `active_bytes.all.current`."""
    reserved: int | None
    """Bytes held by the caching allocator: `torch.cuda.memory_reserved()`."""
    driver_used: int | None
    """Bytes in use on the whole device, by every process: nvidia-smi's `Memory-Usage`."""
    capacity: int | None
    """Bytes the device has: nvidia-smi's total; installed memory on `cpu` and `host`."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceDelta:
    """What one scope did to one device's allocated bytes."""

    device: str
    before: int | None
    after: int | None
    delta: int | None
    """`after` − `before`."""
    peak: int | None
    """Largest allocated bytes while the scope was open; absolute, not above `before`."""
    reserved_before: int | None
    reserved_after: int | None
    capacity: int | None
    unattributed: int | None = None
    """`after` − (`before` + created − freed + resized): what the counter moved by beyond the
    storages (the allocator's rounding, workspaces). 0 on `cpu`; None where nothing was listed."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageRecord:
    """One live storage: its views and ties are counted once, under it."""

    key: int
    """Serial number given by this session; never an address, never reused."""
    bytes: int
    """`tensor.untyped_storage().nbytes()`."""
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


@dataclass(frozen=True, slots=True)
class LineRecord:
    """What one source line did to one device; present where lines were measured."""

    lineno: int
    source: str
    count: int
    before: int | None
    after: int | None
    delta: int | None
    peak: int | None


@dataclass(frozen=True, slots=True)
class StepSummary:
    """Many runs of one `with nbmem.measure(…)` block, told as one."""

    count: int
    seconds: float
    """Of all runs together."""
    largest_rise: dict[str, int]
    """Per device: the largest peak of a run above that run's own start."""
    largest_delta: dict[str, int]
    """Per device: the most one run left behind."""
    growth: dict[str, int]
    """Per device: what all runs together left behind."""


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One measured cell, or one measured block of a script.

    Per device, in bytes: before + created − freed + resized + unattributed = after, and
    `unattributed` is 0 on `cpu`.
    """

    serial: int
    """Number of this record in the session; never reused."""
    execution_count: int | None
    cell_id: str | None
    """The front end's id of the cell; None where it sends none."""
    label: str | None
    first_line: str
    run: int
    """This was the n-th run of this cell."""
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    """Launch time: nothing is synchronized."""
    status: str
    """One of `STATUSES`."""
    error: str | None
    """`TypeName: message` where the status is not `ok`."""
    devices: dict[str, DeviceDelta]
    created: tuple[StorageRecord, ...]
    """Storages first shown in this cell that are alive at its end, largest first."""
    freed: dict[str, int]
    """Per device: bytes of storages older than the cell that died in it."""
    resized: dict[str, int]
    """Per device: bytes by which storages older than the cell grew in it."""
    parent: int | None = None
    """Serial of the record within which this one was measured."""
    steps: StepSummary | None = None
    """Present where one block ran many times."""
    lines: tuple[LineRecord, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure in two records."""

    first: int | None
    second: int | None

    @property
    def change(self) -> int | None:
        """`second` − `first`; None where either is unknown."""
        if self.first is None or self.second is None:
            return None
        return self.second - self.first


@dataclass(frozen=True, slots=True)
class DeviceComparison:
    """What two records say of one device; a device that only one of them saw is None there."""

    device: str
    before: Difference
    after: Difference
    delta: Difference
    peak: Difference
    created: dict[str, Difference]
    """Per category: bytes first shown in the cell and alive at its end."""
    freed: Difference


@dataclass(frozen=True, slots=True)
class CellComparison:
    """Two records side by side: two runs of one cell, or two cells."""

    first: int
    """Serial of the record that is compared from."""
    second: int
    """Serial of the record that is compared to."""
    seconds: tuple[float, ...]
    """Of both, in that order."""
    devices: dict[str, DeviceComparison]
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything alive at one moment, each storage once, largest first."""

    storages: tuple[StorageRecord, ...]
    taken_at: float
    """Seconds since the epoch."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class ReclaimReport:
    """An act that frees, and its proof in bytes."""

    act: str
    """`del`, `gc.collect()` or `empty cache`."""
    planned: tuple[str, ...]
    """What was to be dropped, in words."""
    dropped: tuple[str, ...]
    """What was dropped."""
    refused: tuple[str, ...]
    """What was not, one sentence each with the reason and the next step."""
    bytes_before: int | None
    bytes_after: int | None
    counts: str
    """What the bytes count: `allocated on cuda:0`, `torch storages on cpu`, …"""
    still_held: tuple[str, ...] = ()
    """Storages that outlived the act, one sentence each."""
    notes: tuple[Note, ...] = ()

    @property
    def freed(self) -> int | None:
        """Bytes that came back: `bytes_before` − `bytes_after`."""
        if self.bytes_before is None or self.bytes_after is None:
            return None
        return self.bytes_before - self.bytes_after


Record = TypeVar("Record")


def to_json(value: Any) -> Any:
    """Returns a record as plain dicts, lists and scalars that `json.dumps` takes."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def from_json(kind: type[Record], data: Any) -> Record:
    """Returns the record of type `kind` that `to_json` wrote as `data`.

    Keys that this version does not know are left out, so that files of a later version under the
    same schema number open.

    Raises:
        ValueError: a field is missing or of another type; the message names it.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{kind.__name__} is not an object but {type(data).__name__}")
    hints = _hints(cast("Hashable", kind))
    known = {key: _value(hints[key], item, key) for key, item in data.items() if key in hints}
    try:
        return kind(**known)
    except TypeError as error:
        raise ValueError(str(error)) from None


@cache  # resolving the annotations costs more than reading the data: once a type is enough
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(hint: Any, data: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(args, data, where)
    if origin is tuple:
        return tuple(_value(args[0], item, where) for item in _expect(list, data, where))
    if origin is dict:
        return {k: _value(args[1], v, where) for k, v in _expect(dict, data, where).items()}
    if isinstance(hint, type) and is_dataclass(hint):
        return from_json(hint, data)
    if hint is float:
        return _float(_expect((int, float), data, where), where)
    return _expect(hint, data, where)


def _optional(args: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None:
        return None
    (inner,) = (arg for arg in args if arg is not NoneType)
    return _value(inner, data, where)


def _float(data: int | float, where: str) -> float:
    try:
        return float(data)
    except OverflowError:
        raise ValueError(f"`{where}` is too large a number") from None


def _expect(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"`{where}` is {type(data).__name__}, expected {kind}")
    return data
