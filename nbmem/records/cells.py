"""One measured cell, and two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbmem.records.devices import DeviceDelta
from nbmem.records.failures import OutOfMemory
from nbmem.records.notes import Note
from nbmem.records.storages import StorageRecord

STATUSES = ("ok", "error", "interrupted", "oom")


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
class Copies:
    """What runs of one cell made under one name, or at one line: the newest run's and older ones.

    Both count storages that are alive at the newest run's end. A cell that replaces what it made
    has `older` 0; one that adds to it does not.
    """

    what: str
    """Pattern of the first name that a copy had at the end of the run that made it
    (`model.*.weight`; `loss` for what its graph keeps; `no name`), or the number of the line."""
    device: str
    newer: int
    """Bytes that this run made."""
    older: int
    """Bytes that earlier runs made."""
    newer_count: int
    older_count: int
    held_by: tuple[str, ...] = ()
    """Names of now that lead to the older copies, shortest first; at most three."""
    source: str = ""
    """What stands at the line now; empty where `what` is a name."""


@dataclass(frozen=True, slots=True)
class RunTrend:
    """What running the same cell again and again adds up to; present from the second run on.

    It speaks of every device on which storages were seen, also where the cell read no counters of
    it, and of runs that listed their storages.
    """

    runs: int
    """Runs of the cell that the session knows, this one included."""
    older: dict[str, int]
    """Per device: bytes that earlier runs made and that are alive at this run's end."""
    growth_per_run: dict[str, int]
    """Per device: bytes by which what the cell's runs keep alive grew a run: the median step from
    run to run, over the last six, of what did not go back later. One odd run, a step that comes
    once, or to and fro is no growth. Never below 0."""
    kept: dict[str, tuple[int, ...]]
    """Per device: bytes that all runs so far had made and that were alive at the end of each run,
    oldest first, this run last; at most the last 20."""
    by_name: tuple[Copies, ...] = ()
    """Largest `older` first, then largest `newer`; those without older copies are there too."""
    by_line: tuple[Copies, ...] = ()
    """The same by line; empty where nobody saw lines."""


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One measured cell, or one measured block of a script.

    Per device in `devices`, in bytes: before + created − freed + resized + unattributed = after,
    and `unattributed` is 0 on `cpu`.

    `created`, `freed`, `resized`, `alive` and `trend` speak of all devices: what is alive was
    listed at the start and the end. A device that is not in `devices` was not measured: what it
    had before and after, and its peak, are unknown.
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
    trend: RunTrend | None = None
    """Present where the cell ran before and its storages were listed."""
    alive: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per device: bytes of all storages alive at the end, by category; empty where nothing was
    listed."""
    oom: OutOfMemory | None = None
    """What the error says of the memory that ran out; present where the status is `oom`."""
    look_seconds: float | None = None
    """What nbmem's looks before and after the user's code took, which `seconds` leaves out; of all
    runs together where there are `steps`. Following the operations in between is in `seconds`.
    None in records of a version that did not tell."""

    def change(self, device: str) -> int | None:
        """Returns the bytes that the record's own runs left on a device; None if not known.

        Of one run it is `devices[device].delta`. Of many runs of a block it is their sum
        (`steps.growth`): what other code did in between is not the block's.
        """
        if self.steps is not None:
            return self.steps.growth.get(device)
        delta = self.devices.get(device)
        return None if delta is None else delta.delta


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
    alive: dict[str, Difference] = field(default_factory=dict)
    """Per category: bytes alive at the end; empty where one of both listed nothing."""


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
