"""What an out-of-memory error says: who refused, how much was asked for, and what was there."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.ledgers import ProcessMemory
from nbmem.records.notes import Note

OOM_SOURCES = (
    "allocator",
    "driver",
    "library",
    "nccl",
    "cpu allocator",
    "system",
    "python",
    "numpy",
    "tensorflow",
    "xla",
    "cupy",
    "paddle",
    "onnxruntime",
    "metal",
    "vllm",
    "accelerate",
    "ray",
)
"""Who refused: torch's allocator of a device, the device's driver, a library over it (cuBLAS,
cuDNN), torch's allocator of main memory, the operating system, Python, another framework."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """What the text of an out-of-memory error says, in bytes.

    A figure is None where the text does not have it, or where it can't be true; then a note with
    the code `not_trusted` says why. Figures that were printed as whole bytes are exact. All others
    were rounded when printed, mostly to two decimals: `1.72 GiB` stands for 5 MB to either side.
    Every unit is taken as a power of 1024: torch's `GB` on Apple's GPUs is 1024³, too.
    """

    source: str
    """One of `OOM_SOURCES`."""
    device: str | None
    """`cuda:0`, `xpu:0`, `mps:0`, `cpu`; without a number where the text has none (`cuda`), and
    None where it does not say which memory ran out. HIP's devices are `cuda` in torch."""
    asked: int | None = None
    """Bytes that were refused."""
    free: int | None = None
    """Free on the whole card, by the driver."""
    capacity: int | None = None
    """Of the whole card."""
    allowed: int | None = None
    """The most that this process may take, where a limit was set."""
    allocated: int | None = None
    """In live blocks of torch's allocator; private pools are a part of it."""
    reserved: int | None = None
    """Held by torch's allocator: `allocated` and what is cached. Older texts print it, newer ones
    print what is cached; the other figure is their sum or difference."""
    private_pools: int | None = None
    """Of `allocated`: in pools of CUDA graphs."""
    other: int | None = None
    """Apple's GPUs only: taken by this process outside of torch's allocator."""
    this_process: int | None = None
    """Taken by this process in all, by the driver: what is not torch's included."""
    processes: tuple[ProcessMemory, ...] = ()
    """As listed by number. In a container this process is one of them, under the host's number."""
    notes: tuple[Note, ...] = ()
    """Which figures are not to be trusted (`not_trusted`) or say less than they seem to."""
    text: str = ""
    """The message from the words on by which it was recognised, of a long one the beginning."""

    @property
    def cached(self) -> int | None:
        """Reserved by torch's allocator and not allocated."""
        if self.reserved is None or self.allocated is None:
            return None
        return self.reserved - self.allocated
