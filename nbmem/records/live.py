"""What moves while a cell runs: one reading of counters, of one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LiveReading:
    """The counters of the running cell's main device; nothing was scanned for them."""

    number: int | None
    """The n of the cell's `[n]`; None where it is not stored."""
    cell_id: str | None
    """The front end's id of the cell; None where it sends none."""
    title: str
    """The label the user gave, else the first line of the cell; empty where there is none."""
    seconds: float
    """Since the cell began."""
    device: str
    """`cuda:0`, `cpu`; empty where reading failed altogether."""
    allocated: int | None
    """Bytes in torch's live blocks, or storages, of this moment."""
    peak: int | None
    """Most bytes allocated since the cell began; not above its start, but absolute."""
    capacity: int | None
    """Bytes that torch's allocator can hold at most; installed memory on `cpu`."""
    taken_at: float
    """Seconds since the epoch."""
    note: str = ""
    """Why `allocated` or `peak` is None."""
    running: bool = True
    """False in the last reading of a cell, made as it ended."""
