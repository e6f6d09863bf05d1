"""What a device says now, and what a scope did to it."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.notes import Note


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """What torch's allocator can hold at most on a device, and what keeps it from the rest.

    `total` − `driver` − `others` − `beyond_limit` = `bytes`, an unknown one counted as 0.
    """

    bytes: int
    """What it has reserved, and what it can still get: of what is free, up to its limit. On `cpu`
    and `host` installed memory, or the container's limit."""
    total: int | None = None
    """The memory of the card or MIG instance (nvidia-smi's total), of main memory where the device
    has none of its own; None on `cpu` and `host`."""
    driver: int | None = None
    """What the driver keeps for itself; None where it is not told, or is not in `total`."""
    others: int | None = None
    """What is in use and not reserved by this process's allocator: its context and libraries, and
    other processes. None where it is not told: then `bytes` is more than can be had."""
    limit: int | None = None
    """The most that torch may reserve (`torch.cuda.set_per_process_memory_fraction`); None where
    no limit is set."""
    beyond_limit: int = 0
    """What would be free to torch but for the limit."""
    instance: bool = False
    """The figures are of a MIG instance."""
    unified: bool = False
    """The device has no memory of its own: its bytes are main memory's, and not to be added."""
    notes: tuple[Note, ...] = ()
    """Which figures are not to be trusted, and what to do next."""


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
    """Bytes that torch's allocator can hold at most now; installed memory on `cpu` and `host`."""
    notes: tuple[Note, ...] = ()
    parts: DeviceCapacity | None = None
    """What `capacity` is made of; None where `capacity` is."""


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
    """Bytes that torch's allocator could hold at most at the scope's end; installed memory on
    `cpu` and `host`."""
    unattributed: int | None = None
    """`after` − (`before` + created − freed + resized): what the counter moved by beyond the
    storages (the allocator's rounding, workspaces). 0 on `cpu`; None where nothing was listed."""
    notes: tuple[Note, ...] = ()
    parts: DeviceCapacity | None = None
    """What `capacity` is made of; None where `capacity` is, or where an older nbmem saved it."""
