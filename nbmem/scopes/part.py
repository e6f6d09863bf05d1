"""One device of one measured scope: its figures at the start and the end, and the peak between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from nbmem.devices import Glance, PeakWindow, Sample
from nbmem.devices.protocols import glance_of, reading_failed
from nbmem.records import DeviceCapacity, DeviceDelta, Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.devices import DeviceReader, PeakOwner

Value = TypeVar("Value")


class Part:
    """One device of one scope."""

    def __init__(self, reader: DeviceReader, peaks: PeakOwner) -> None:
        self.reader = reader
        self.notes: list[Note] = []
        self.peak: int | None = None
        self.before: Sample | None = None
        self.after: Sample | None = None
        self.listed: Sample | None = None
        """What the counter said when all storages were listed."""
        self.numbers = 0
        """Bytes in `after` of numbers that autograd keeps, which tracking does not see made."""
        self._peaks = peaks
        counter = reader.counter
        self._window = None if counter is None else PeakWindow(peaks, counter)
        self._stopped = False

    def start(self) -> None:
        """Reads what is allocated now as the scope's start, and watches the peak from now on."""
        if self._window is not None:
            self._peaks.begin(self._window)
        start = None if self._window is None else self._window.start
        self.before = start or self.sample("before")

    def abandon(self) -> None:
        """Watches the peak no longer."""
        if self._window is not None:
            self._window.close()

    def sample(self, field: str) -> Sample | None:
        """Returns the device's bytes now; a failure becomes a note on `field`."""
        return attempt(self.reader.sample, self.reader.device, field, self.notes)

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
        capacity = reader.capacity_at_a_glance()
        size = None if capacity is None else capacity.bytes
        return Glance(reader.device, reader.kind, sample.allocated, peak, size)

    def stop(self) -> None:
        """Reads what is allocated now as the scope's end, and the peak until now."""
        if self._stopped:
            return
        window = self._window
        if window is None:
            device = self.reader.device
            self.notes.append(Note("peak", "not_told", f"torch keeps no peak on {device}."))
        else:
            self.peak = window.close()
            if window.note is not None:
                self.notes.append(window.note)
        self.after = (window and window.end) or self.sample("after")
        self._stopped = True

    def delta(self) -> DeviceDelta:
        """Returns the figures of this device with their notes."""
        start, end = self.before or _UNKNOWN, self.after or _UNKNOWN
        before, after = start.allocated, end.allocated
        self._explain_start()
        self._raise_peak(after)
        capacity = self._capacity()
        return DeviceDelta(
            device=self.reader.device,
            before=before,
            after=after,
            delta=None if before is None or after is None else after - before,
            peak=self.peak,
            reserved_before=start.reserved,
            reserved_after=end.reserved,
            capacity=None if capacity is None else capacity.bytes,
            notes=tuple(dict.fromkeys(self.notes)),
            parts=capacity if self.reader.kind == "accelerator" else None,
        )

    def _capacity(self) -> DeviceCapacity | None:
        """Returns what torch could get at the end; notes on it matter where that is nearly full."""
        capacity = attempt(self.reader.capacity, self.reader.device, "capacity", self.notes)
        peak = self.peak or 0
        if capacity is None or self.reader.kind != "accelerator" or not peak:
            return capacity
        if peak >= _NEARLY * capacity.bytes:
            self.notes += capacity.notes
        if peak > capacity.bytes and not _may_exceed(capacity):
            self.notes.append(_FELL)
        return capacity

    def _explain_start(self) -> None:
        device = self.reader.device
        if self.before is None or self.after is None or self.before.started:
            return
        if self.after.started:
            if not (self.after.allocated or self.after.reserved or self.peak):
                return  # the process started the kind of device, and did nothing on this one
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


def late_part(reader: DeviceReader, peaks: PeakOwner) -> Part:
    """Returns the part of a GPU that the user's code started: it held nothing before."""
    reading = reader.read()
    part = Part(reader, peaks)
    part.start()
    part.stop()
    part.before = Sample(0, 0, 0, started=False)
    part.peak = reading.peak_allocated
    return part


def _may_exceed(capacity: DeviceCapacity) -> bool:
    return any(note.code == "lends_main_memory" for note in capacity.notes)


_NEARLY = 0.9
_FELL = Note(
    "capacity",
    "fell",
    "Torch could get more at the peak than it can now: others took memory since, or a limit was "
    "set; %gpumem ledger lists who holds what.",
)
_UNKNOWN = Sample(None)
_RAISED = Note(
    "peak",
    "other_threads",
    "Another thread made storages meanwhile: the peak is the end figure, and may have been higher.",
)


def attempt(act: Callable[[], Value], device: str, field: str, notes: list[Note]) -> Value | None:
    """Returns what `act` returns; if it raises, None, and the reason joins `notes`."""
    try:
        return act()
    except Exception as error:
        notes.append(reading_failed(device, field, error))
        return None
