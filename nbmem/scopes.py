"""A measured scope: what one stretch of code did to each device.

    open ── user's code ── stop ── (the session takes an inventory) ── close
     │                      │                                           │
     before, windows open   after and peak of GPUs and host             after, freed, resized:
                            tracking ends                               as of when all was listed

Scopes nest and close in any order. Nothing that fails in here reaches the user's code: the figure
becomes None and a note says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from nbmem.devices.protocols import Glance, Sample, glance_of, reading_failed
from nbmem.heap import scan_heap
from nbmem.records import DeviceDelta, DeviceReading, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.devices import DeviceReader, Devices, PeakOwner
    from nbmem.heap import Group, StorageTable, TableWindow
    from nbmem.tracking import CpuTracker

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ScopeResult:
    """What one scope did; each unknown figure is None with a note of its device."""

    deltas: dict[str, DeviceDelta]
    """By device name; `unattributed` is left to whoever lists what was created."""
    freed: dict[str, int]
    """Per device: bytes of storages older than the scope that died in it."""
    resized: dict[str, int]
    """Per device: bytes by which storages older than the scope grew in it."""
    first_serial: int
    """Storages made in the scope have serials from this one on …"""
    end_serial: int
    """… and below this one."""
    notes: tuple[Note, ...] = ()
    groups: tuple[Group, ...] = ()
    """Storages that shared memory when all were listed."""


class Scopes:
    """Opens measured scopes over one table of storages.

    Args:
        table: every storage that was seen and lives.
        tracker: follows CPU storages while a scope measures the CPU.
        devices: all devices, and the one owner of their peaks.
    """

    def __init__(self, table: StorageTable, tracker: CpuTracker, devices: Devices) -> None:
        self.table = table
        self.tracker = tracker
        self.devices = devices
        self._open: list[Scope] = []
        self._tracking = 0

    @property
    def tracking(self) -> bool:
        """True while a scope measures the CPU."""
        return self._tracking > 0

    def open(self, device: str | None = None, *, scan: bool = True) -> Scope:
        """Returns a scope that measures from now on.

        Args:
            device: see `Devices.choose`; None measures the accelerators, or else the CPU.
            scan: merge a scan of the heap into the table first, so that storages nobody has seen
                yet are counted in `before` and `freed`. Without it those figures are partial.

        Raises:
            UnknownDeviceError: this machine has no such device.
        """
        readers = self.devices.choose(device)
        scope = Scope(self, readers, device, scan)
        self._open.append(scope)
        return scope

    def close_all(self) -> None:
        """Closes every scope that is still open, the innermost first."""
        for scope in reversed(self._open.copy()):
            scope.close()

    def read_devices(self, device: str | None = None, *, scan: bool = True) -> list[DeviceReading]:
        """Returns a reading per device, its `cpu` as exact as one scan of the heap makes it."""
        if scan and not self.tracking:
            self.merge_scan([])
        return self.devices.read(device)

    def glance(self, readers: Iterable[DeviceReader]) -> list[Glance]:
        """Returns what counters say outside of any scope, from any thread; nothing is scanned.

        What the CPU holds is known only while something is being measured.
        """
        looks = []
        for reader in readers:
            known = reader.kind == "accelerator" or (reader.kind == "cpu" and self.tracking)
            sample = look_at(reader) if known else Sample(None)
            capacity = reader.capacity()
            looks.append(Glance(reader.device, reader.kind, sample.allocated, None, capacity))
        return looks

    def merge_scan(self, notes: list[Note]) -> None:
        """Merges one scan of the heap into the table."""

        def merge() -> None:
            with scan_heap(self.table) as found:
                notes.extend(found.notes)

        _attempt(merge, "heap", "before", notes)

    def start_tracking(self, notes: list[Note]) -> bool:
        """Returns whether CPU storages are followed from now on."""

        def start() -> bool:
            self.tracker.start()
            return True

        started = _attempt(start, "cpu", "peak", notes) is True
        self._tracking += started
        return started

    def stop_tracking(self, notes: list[Note]) -> None:
        """Ends what `start_tracking` began, and tells what could not be seen."""
        self._tracking -= 1
        _attempt(self.tracker.stop, "cpu", "peak", notes)
        notes.extend(_attempt(self.tracker.notes, "cpu", "peak", notes) or ())

    def forget(self, scope: Scope) -> None:
        """Takes a closed scope off the list of open ones."""
        if scope in self._open:
            self._open.remove(scope)


class Scope:
    """One measured stretch of code. Made by `Scopes.open`."""

    def __init__(
        self, scopes: Scopes, readers: list[DeviceReader], device: str | None, scan: bool
    ) -> None:
        self._scopes = scopes
        self._device = device
        self._notes: list[Note] = []
        self._cpu_notes: list[Note] = []
        self._stopped = False
        self._stopped_at = 0
        self._numbers = 0
        self._result: ScopeResult | None = None
        self._window: TableWindow | None = None
        kinds = {reader.kind for reader in readers}
        self._merge_scan(kinds, scan)
        self._tracks = "cpu" in kinds and scopes.start_tracking(self._cpu_notes)
        self._window = _attempt(scopes.table.open_window, "heap", "freed", self._notes)
        self.first_serial = 0 if self._window is None else self._window.first_serial
        self._parts = [_Part(reader, scopes.devices.peaks) for reader in readers]
        _attempt(self._open_at_one_moment, "heap", "before", self._notes)

    def _open_at_one_moment(self) -> None:
        """Has counters and window speak of the same storages, whatever was freed in between."""
        window = self._window
        if window is None:
            return
        for _ in range(_TRIES):
            if not window.restart():
                break
            for part in self._parts:
                part.before = part.sample("before")
        self.first_serial = window.first_serial
        for part in self._parts:
            part.take_cpu("before", window.before)

    def _merge_scan(self, kinds: set[str], scan: bool) -> None:
        if self._scopes.tracking and "accelerator" not in kinds:
            return  # the table is being kept exact by an outer scope
        if scan:
            self._scopes.merge_scan(self._notes)
        elif "cpu" in kinds and not self._scopes.tracking:
            self._cpu_notes.append(_SKIPPED_BEFORE)
        elif "accelerator" in kinds:
            self._notes.append(_SKIPPED_FREED)

    def glance(self) -> list[Glance]:
        """Returns what counters say so far, from any thread; nothing is scanned nor reset."""
        return [part.glance() for part in self._parts if part.reader.kind != "host"]

    def stop(self) -> None:
        """Ends tracking and reads what the user's code left on the GPUs and the host."""
        if self._stopped:
            return
        self._stopped = True
        if self._tracks:
            self._scopes.stop_tracking(self._cpu_notes)
        self._stopped_at = self._scopes.table.next_serial
        if self._window is not None:
            self._window.on_listing = self._read_at_listing
        for part in reversed(self._parts):
            part.stop()
        _attempt(self._add_late_devices, "heap", "devices", self._notes)

    def _read_at_listing(self) -> None:
        """Reads accelerators at the moment at which all storages are listed."""
        for part in self._parts:
            if part.reader.kind == "accelerator":
                part.listed = part.sample("after")

    def _add_late_devices(self) -> None:
        """Adds GPUs that could be counted only after the user's code had started them."""
        known = {part.reader.device for part in self._parts}
        for reader in self._scopes.devices.choose(self._device):
            if reader.kind == "accelerator" and reader.device not in known:
                self._parts.append(_late_part(reader, self._scopes.devices.peaks))

    def close(self) -> ScopeResult:
        """Returns what the scope did. Closing again returns the same. Never raises."""
        if self._result is None:
            self.stop()
            self._scopes.forget(self)
            self._result = self._conclude()
        return self._result

    def _conclude(self) -> ScopeResult:
        window, notes = self._window, self._notes
        self._note_unseen()
        listing = None if window is None else window.listing
        for part in self._parts:
            part.after = part.listed or part.after
            if part.reader.kind == "cpu":  # exact now: the session has scanned since `stop`
                part.after = part.sample("after")
                part.take_cpu("after", None if listing is None else listing.bytes)
                part.notes.extend(self._cpu_notes)
                part.numbers = self._numbers
        if window is not None:
            _attempt(window.close, "heap", "freed", notes)
        told = listing or window
        end = None if told is None else told.end_serial
        return ScopeResult(
            deltas={part.reader.device: part.delta() for part in self._parts},
            freed={} if told is None else dict(told.freed),
            resized={} if told is None else dict(told.resized),
            first_serial=self.first_serial,
            end_serial=self.first_serial if end is None else end,
            notes=tuple(dict.fromkeys(notes)),
            groups=() if listing is None else listing.groups,
        )

    def _note_unseen(self) -> None:
        """Says where the scan since `stop` has found what tracking had not seen."""
        if self._tracks and self._scopes.table.next_serial > self._stopped_at:
            tracker, notes = self._scopes.tracker, self._cpu_notes
            unseen = _attempt(lambda: tracker.note_unseen(self._stopped_at), "cpu", "peak", notes)
            notes.extend(unseen or ())
            numbers = _attempt(
                lambda: tracker.unseen_numbers(self._stopped_at), "cpu", "peak", notes
            )
            self._numbers = numbers or 0


class _Part:
    """One device of one scope."""

    def __init__(self, reader: DeviceReader, peaks: PeakOwner) -> None:
        self.reader = reader
        self.notes: list[Note] = []
        self.peak: int | None = None
        self.after: Sample | None = None
        self.listed: Sample | None = None
        """What the counter said when all storages were listed."""
        self.numbers = 0
        """Bytes in `after` of numbers that autograd keeps, which tracking does not see made."""
        counter = reader.counter
        self._window = None if counter is None else peaks.open(counter)
        start = None if self._window is None else self._window.start
        self.before = start or self.sample("before")

    def sample(self, field: str) -> Sample | None:
        """Returns the device's bytes now; a failure becomes a note on `field`."""
        return _attempt(self.reader.sample, self.reader.device, field, self.notes)

    def take_cpu(self, field: str, sizes: dict[str, int] | None) -> None:
        """Takes the CPU's figure from those that the table had of one moment."""
        sample: Sample | None = getattr(self, field)
        if self.reader.kind == "cpu" and sample is not None and sizes is not None:
            setattr(self, field, replace(sample, allocated=sizes.get("cpu", 0)))

    def glance(self) -> Glance:
        """Returns the bytes now and the peak so far; for a thread that only looks."""
        reader, window = self.reader, self._window
        sample = look_at(reader)
        peak = None if window is None else window.so_far(sample.peak)
        if peak is not None and sample.allocated is not None:
            peak = max(peak, sample.allocated)
        return Glance(reader.device, reader.kind, sample.allocated, peak, reader.capacity())

    def stop(self) -> None:
        """Reads what is allocated now as the scope's end, and the peak until now."""
        window = self._window
        if window is None:
            device = self.reader.device
            self.notes.append(Note("peak", "not_told", f"torch keeps no peak on {device}."))
        else:
            self.peak = window.close()
            if window.note is not None:
                self.notes.append(window.note)
        self.after = (window and window.end) or self.sample("after")

    def delta(self) -> DeviceDelta:
        """Returns the figures of this device with their notes."""
        start, end = self.before or _UNKNOWN, self.after or _UNKNOWN
        before, after = start.allocated, end.allocated
        self._explain_start()
        self._raise_peak(after)
        capacity = _attempt(self.reader.capacity, self.reader.device, "capacity", self.notes)
        return DeviceDelta(
            device=self.reader.device,
            before=before,
            after=after,
            delta=None if before is None or after is None else after - before,
            peak=self.peak,
            reserved_before=start.reserved,
            reserved_after=end.reserved,
            capacity=capacity,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _explain_start(self) -> None:
        device = self.reader.device
        if self.before is None or self.after is None or self.before.started:
            return
        if self.after.started:
            sentence = f"{device} was first used in here, so torch held nothing on it before."
            self.notes.append(Note("before", "started_here", sentence))
        else:
            sentence = (
                f"{device} has not been used yet, so torch holds nothing on it: "
                "device cpu measures the CPU's storages."
            )
            self.notes.append(Note("after", "not_started", sentence))

    def _raise_peak(self, after: int | None) -> None:
        if self.peak is not None and after is not None and after > self.peak:
            unexplained = after - self.peak - self.numbers
            self.peak = after
            if unexplained <= 0 or any(note.code == "compiled" for note in self.notes):
                return  # that note says it: what Inductor made is no other thread's, nor a number
            self.notes = [note for note in self.notes if note.code != _RAISED.code]
            self.notes.append(_RAISED)


def look_at(reader: DeviceReader) -> Sample:
    """Returns the device's bytes of this moment, for a thread that only looks."""
    return reader.sample() if reader.counter is None else glance_of(reader.counter)


def _late_part(reader: DeviceReader, peaks: PeakOwner) -> _Part:
    """Returns the part of a GPU that the user's code started: it held nothing before."""
    reading = reader.read()
    part = _Part(reader, peaks)
    part.stop()
    part.before = Sample(0, 0, 0, started=False)
    part.peak = reading.peak_allocated
    return part


_TRIES = 3
_UNKNOWN = Sample(None)
_SKIPPED = "The heap was not scanned: storages that nbmem has not seen yet are missing."
_SKIPPED_BEFORE = Note("before", "scan_skipped", _SKIPPED)
_SKIPPED_FREED = Note("freed", "scan_skipped", _SKIPPED)
_RAISED = Note(
    "peak",
    "other_threads",
    "Another thread made storages meanwhile: the peak is the end figure, and may have been higher.",
)


def _attempt(act: Callable[[], Value], device: str, field: str, notes: list[Note]) -> Value | None:
    """Returns what `act` returns; if it raises, None, and the reason joins `notes`."""
    try:
        return act()
    except Exception as error:
        notes.append(reading_failed(device, field, error))
        return None
