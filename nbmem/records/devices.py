"""What a device says now, and what a scope did to it."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.notes import Note


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
