"""The ledger: sums of a device's bytes that close, and what stands behind their lines."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.devices import DeviceCapacity
from nbmem.records.frames import innermost_own
from nbmem.records.notes import Note


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of a sum."""

    code: str
    """A stable word for programs: `parameter`, `rounding`, `not found`, `free`, …"""
    label: str
    """The same for people: `parameters`, `rounding to 512-byte blocks`, …"""
    bytes: int | None
    """None where it is unknown; a note of the sum says why."""
    count: int | None = None
    """How many storages, blocks or processes it is; None where nobody counts them."""
    derived: bool = False
    """It is what the other lines leave of the total. At most one line of a sum is."""
    equals: str = ""
    """The call or the tool's figure that says the same: `torch.cuda.memory_reserved(0)`."""
    part_of: str | None = None
    """Code of the line above that contains it: then the sum does not add it again."""


@dataclass(frozen=True, slots=True)
class LedgerSum:
    """Lines that add up to a total which was read by itself.

    Where no line is derived, `remainder` is what the lines miss of it.
    """

    code: str
    """`allocated`, `reserved` or `total`; on `cpu`: `storages`, `resident` and `installed`; on
    `host`: `pinned`."""
    lines: tuple[LedgerLine, ...]
    total: LedgerLine
    """Read from another source than the lines."""
    notes: tuple[Note, ...] = ()

    @property
    def remainder(self) -> int | None:
        """Bytes of the total that no line has; None where a figure is unknown."""
        figures = [line.bytes for line in self.lines if line.part_of is None]
        known = [figure for figure in figures if figure is not None]
        if self.total.bytes is None or len(known) < len(figures):
            return None
        return self.total.bytes - sum(known)


@dataclass(frozen=True, slots=True)
class AllocatorBlock:
    """Blocks of the caching allocator that no tensor found by Python owns, told alike as one."""

    bytes: int
    """Of all of them, as the allocator rounds them."""
    requested: int | None
    """Of all of them, as they were asked for; None where the allocator does not keep it."""
    count: int
    stream: int | None
    """The allocator's number of the stream: 0 is the default stream; None: of several."""
    state: str
    """`live`, or `waits for a stream`."""
    pool: str
    """`large`, `small`, `graph` for the private pool of a CUDA graph (or `torch.cuda.MemPool`),
    or `several` in the last rows, which sum up what is too small for rows of its own."""
    kind: str
    """What it is likely to be: `library workspace`, `CUDA graph`, `freed tensor` (it waits for a
    stream), `unknown`."""
    stack: tuple[str, ...] = ()
    """`file:line function`, innermost first, where the allocator's history was on."""
    label: str = ""
    """The user's own (`torch.cuda.memory._set_memory_metadata`), if the history has one."""

    @property
    def made_at(self) -> str | None:
        """The frame of `stack` that allocated it: the innermost of the user's own code.

        Frames of C++, Python's library and installed packages are passed over. Where there are
        no others, the innermost of Python, else of C++. None if there is no stack.
        """
        return innermost_own(self.stack)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process that uses a device: a row of nvidia-smi's process table."""

    pid: int
    name: str | None
    bytes: int | None
    """None where the driver does not tell (WSL, containers, MIG); a note says why."""
    own: bool = False
    """It is this process."""


@dataclass(frozen=True, slots=True)
class PoolOwner:
    """An object that keeps a private pool of the caching allocator."""

    kind: str
    """`MemPool`, `CUDA graph`, `graphed callable` (`torch.cuda.make_graphed_callables`), or
    `torch.compile` for the manager of its graphs."""
    name: str | None
    """The user's name for it, as `graph`, `runner.graphs[3]` or `model.forward`; None if no name
    leads to it."""


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """One private pool of the caching allocator: segments with its `segment_pool_id`."""

    pool: tuple[int, int]
    """The id: `MemPool.id`, `CUDAGraph.pool()`."""
    reserved: int
    """Bytes of its segments; the rest of it waits for streams."""
    allocated: int
    """Of it in live blocks."""
    workspaces: int
    """Of `allocated`: scratch memory of cuBLAS, which outlives the graphs that it was made for."""
    cached: int
    """Of it free: only who allocates in this pool can use it."""
    owners: tuple[PoolOwner, ...]
    """Empty if nothing keeps the pool any more but the tensors in it."""
    remedy: str
    """What gives its memory back, in words and code; empty if nobody can tell."""


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """Every sum of one device."""

    device: str
    kind: str
    """`accelerator`, `cpu`, or `host` for pinned memory of the process."""
    name: str | None
    sums: tuple[LedgerSum, ...]
    blocks: tuple[AllocatorBlock, ...] = ()
    """Largest first."""
    processes: tuple[ProcessMemory, ...] = ()
    """Largest first."""
    notes: tuple[Note, ...] = ()
    capacity: DeviceCapacity | None = None
    """What torch can get of the device; None on `cpu`, and where it is not known."""
    pools: tuple[PoolMemory, ...] = ()
    """Private pools, largest first."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of every device that is measured, at one moment."""

    devices: tuple[DeviceLedger, ...]
    taken_at: float
    """Seconds since the epoch."""
    notes: tuple[Note, ...] = ()
