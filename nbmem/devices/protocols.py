"""What every counter and every reader of a device can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbmem.errors import NbmemError
from nbmem.records import Note

if TYPE_CHECKING:
    from nbmem.records import DeviceCapacity, DeviceReading


class CounterUnavailableError(NbmemError):
    """A figure that this machine can't give; the message is the sentence for the note."""


class PeakCounter(Protocol):
    """A counter of bytes with one peak that everybody in the process shares."""

    @property
    def device(self) -> str:
        """The device whose bytes it counts: `cuda:0`, `cpu`, `host`."""

    def allocated(self) -> int:
        """Returns the bytes in use now."""

    def peak(self) -> int:
        """Returns the most bytes in use since the last reset."""

    def reset_peak(self) -> None:
        """Starts a new peak at the bytes in use now. Called by `PeakOwner` only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures that a measured scope needs, of one moment; None is unknown."""

    allocated: int | None
    reserved: int | None = None
    peak: int | None = None
    """Most bytes allocated since the last raw reset."""
    started: bool = True
    """False while the device's allocator does not exist yet, so that it holds 0 bytes."""


def sample_of(counter: PeakCounter) -> Sample:
    """Returns a counter's figures, in one reading where it has a `sample()` of its own."""
    at_once = getattr(counter, "sample", None)
    if at_once is None:
        return Sample(counter.allocated(), peak=counter.peak())
    sample: Sample = at_once()
    return sample


def glance_of(counter: PeakCounter) -> Sample:
    """Returns the figures for a thread that only looks, beside the one that is measured."""
    look = getattr(counter, "glance", None)
    if look is None:  # an allocator's counters are the allocator's to guard
        try:
            return sample_of(counter)
        except CounterUnavailableError:  # the record says why; it is no trouble of nbmem's
            return Sample(None)
    allocated, peak = look()
    return Sample(allocated, peak=peak)


@dataclass(frozen=True, slots=True)
class Glance:
    """What counters say of a device while code runs on it; None is unknown."""

    device: str
    kind: str
    allocated: int | None
    peak: int | None
    """Most bytes allocated since the measured scope began; None outside of one."""
    capacity: int | None


class DeviceReader(Protocol):
    """One device: what it says now, and the counter whose peak can be windowed."""

    @property
    def device(self) -> str:
        """Torch's name (`cuda:0`, `cpu`) or `host`."""

    @property
    def kind(self) -> str:
        """`accelerator`, `cpu` or `host`."""

    @property
    def counter(self) -> PeakCounter | None:
        """The counter behind `allocated`; None where the device keeps no peak."""

    def read(self) -> DeviceReading:
        """Returns every figure of the device; each unknown one is None with a note."""

    def sample(self) -> Sample:
        """Returns the figures a scope needs, as cheaply as they can be had."""

    def capacity(self) -> DeviceCapacity | None:
        """Returns what torch can hold at most now, with its parts; None when unknown."""

    def capacity_at_a_glance(self) -> DeviceCapacity | None:
        """Returns the same for a thread that only looks.

        What only torch could tell is as of the last `capacity()`.
        """


def reading_failed(device: str, field: str, error: BaseException) -> Note:
    """Returns the note for a figure that is None because reading it raised `error`."""
    if isinstance(error, CounterUnavailableError):
        return Note(field, "unavailable", str(error))
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    return Note(field, "broken", f"Reading {field} of {device} failed: {what[:200]}")
