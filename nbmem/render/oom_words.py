"""What an out-of-memory error said, in one sentence: who refused how much, and what was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render.names import clean
from nbmem.units import Units, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmem.records import OutOfMemory

_SAYS_NO_SIZE = {
    "driver": "the driver refused",
    "library": "a library of the device (cuBLAS, cuDNN, …) got no memory",
    "nccl": "NCCL got no memory",
    "system": "the operating system refused",
    "python": "Python got no memory",
    "accelerate": "no batch size fits",
    "ray": "Ray ended the task because the machine ran low",
}
_MOST_PROCESSES = 2


def oom_sentence(oom: OutOfMemory, units: Units) -> str:
    """Returns `asked for 2.00 GiB on cuda:0 · 512 MiB free of 7.93 GiB · …`."""
    return " · ".join(part for part in _parts(oom, units) if part)


def _parts(oom: OutOfMemory, units: Units) -> Iterator[str]:
    where = f" on {clean(oom.device)}" if oom.device else ""
    if oom.asked is None:
        yield f"{_SAYS_NO_SIZE.get(oom.source, 'refused')}{where}; the error names no size"
    else:
        yield f"asked for {format_bytes(oom.asked, units)}{where}"
    yield _room(oom, units)
    if oom.allowed is not None:
        yield f"{format_bytes(oom.allowed, units)} allowed"
    yield _held(oom, units)
    if oom.private_pools:
        yield f"{format_bytes(oom.private_pools, units)} in private pools (CUDA graphs)"
    if oom.other:
        yield f"{format_bytes(oom.other, units)} outside of torch's allocator"
    largest = sorted(oom.processes, key=lambda process: -(process.bytes or 0))
    for process in largest[:_MOST_PROCESSES]:
        if process.bytes is not None:
            yield f"process {process.pid} has {format_bytes(process.bytes, units)}"


def _room(oom: OutOfMemory, units: Units) -> str:
    free, capacity = format_bytes(oom.free, units), format_bytes(oom.capacity, units)
    if oom.free is not None:
        return f"{free} free" + (f" of {capacity}" if oom.capacity is not None else "")
    return f"the device has {capacity}" if oom.capacity is not None else ""


def _held(oom: OutOfMemory, units: Units) -> str:
    cached = f"{format_bytes(oom.cached, units)} reserved but not allocated" if oom.cached else ""
    if oom.allocated is None:
        return cached
    held = f"{format_bytes(oom.allocated, units)} allocated"
    return f"{held}, {cached}" if cached else held
