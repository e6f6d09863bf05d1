"""The process's own memory: resident set size (RSS) and its peak."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import psutil

from nbmem.devices.capacity import installed_memory
from nbmem.devices.protocols import CounterUnavailableError, Sample, reading_failed
from nbmem.devices.stand_in import EntryPoint
from nbmem.records import DeviceCapacity, DeviceReading, Note

if TYPE_CHECKING:
    from nbmem.devices.peaks import PeakOwner

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_LINUX: bool = sys.platform == "linux"
_STATUS = "/proc/self/status"
_CLEAR = "/proc/self/clear_refs"
_NOT_LINUX = "The peak of resident memory within a cell is known on Linux only."
_FORBIDDEN = (
    "The peak of resident memory is unknown: this system does not let a process reset it "
    "(/proc/self/clear_refs)."
)


def _status() -> Sample:
    """Returns VmRSS and VmHWM of /proc/self/status in bytes (the file's kB are 1024 bytes)."""
    file = os.open(_STATUS, os.O_RDONLY)
    try:
        text = os.read(file, 4096)
    finally:
        os.close(file)
    return Sample(_figure(text, b"VmRSS:"), peak=_figure(text, b"VmHWM:"))


def _figure(text: bytes, field: bytes) -> int:
    start = text.find(field)
    if start < 0:
        raise CounterUnavailableError(f"{_STATUS} does not tell {field.decode().strip(':')}.")
    return int(text[start + len(field) : text.index(b"kB", start)]) * 1024


class HostCounter:
    """RSS as `VmRSS`, its peak as `VmHWM`; writing 5 to `clear_refs` resets that peak."""

    device = "host"

    def sample(self) -> Sample:
        """Returns `allocated()` and `peak()` of one moment."""
        if not _LINUX:
            raise CounterUnavailableError(_NOT_LINUX)
        return _status()

    def allocated(self) -> int:
        """Returns the resident bytes of this process."""
        if _LINUX:
            return _status().allocated or 0
        return int(psutil.Process().memory_info().rss)

    def peak(self) -> int:
        """Returns the most resident bytes since the last reset, or since the process began."""
        return self.sample().peak or 0

    def reset_peak(self) -> None:
        """Resets `VmHWM`, and `ru_maxrss` with it. Called by `PeakOwner` only."""
        try:
            file = os.open(_CLEAR, os.O_WRONLY)
            try:
                os.write(file, b"5")
            finally:
                os.close(file)
        except OSError:
            raise CounterUnavailableError(_FORBIDDEN) from None


class HostView:
    """Keeps `resource.getrusage(...).ru_maxrss` as if nbmem had reset nothing.

    A program that wrote `from resource import getrusage` before, and other processes, see the
    lowered figure: the kernel has only one.
    """

    def __init__(self) -> None:
        self._entry = EntryPoint(resource, "getrusage")
        self._kept: dict[int, int] = {}
        """Running maximum of ru_maxrss by process: a forked child starts its own."""

    def keep(self, device: str) -> None:
        """Folds the present `ru_maxrss` into the running maximum."""
        if device == "host" and resource is not None:
            pid = os.getpid()
            now = int(self._entry.call(resource.RUSAGE_SELF).ru_maxrss)
            self._kept = {pid: max(now, self._kept.get(pid, 0))}

    def largest(self) -> int:
        """Returns the running maximum in bytes; 0 where nothing was kept."""
        unit = 1 if sys.platform == "darwin" else 1024
        return self._kept.get(os.getpid(), 0) * unit

    def install(self, owner: PeakOwner) -> None:  # noqa: ARG002 - nobody resets it but the owner
        """Answers `resource.getrusage` from now on."""
        if resource is not None:
            self._entry.replace(self._answer)

    def uninstall(self) -> None:
        """Gives `resource` its function back."""
        self._entry.restore()
        self._kept = {}

    def _answer(self, who: int) -> Any:
        usage = self._entry.call(who)
        kept = self._kept.get(os.getpid(), 0)
        own = (resource.RUSAGE_SELF, getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
        if who not in own or usage.ru_maxrss >= kept:
            return usage
        fields = list(usage)
        fields[2] = kept  # ru_maxrss is the third field of struct rusage
        return resource.struct_rusage(fields)


class HostReader:
    """The process's resident memory."""

    device = "host"
    kind = "host"

    def __init__(self, view: HostView) -> None:
        self.counter = HostCounter()
        self._view = view

    def capacity(self) -> DeviceCapacity:
        """Returns the installed bytes, or the container's limit where that is lower."""
        return DeviceCapacity(installed_memory().bytes)

    capacity_at_a_glance = capacity

    def sample(self) -> Sample:
        """Returns the RSS; nothing is reserved beyond it."""
        return Sample(self.counter.allocated())

    def read(self) -> DeviceReading:
        """Returns RSS (top's RES) and its peak since the process began (VmHWM)."""
        notes: list[Note] = []
        peak = None
        try:
            peak = max(self.counter.peak(), self._view.largest())
        except Exception as error:
            notes.append(reading_failed("host", "peak_allocated", error))
        if installed_memory().limited:
            notes.append(LIMITED)
        return DeviceReading(
            device="host",
            kind="host",
            name=None,
            allocated=self.counter.allocated(),
            peak_allocated=peak,
            requested=None,
            active=None,
            reserved=None,
            driver_used=int(psutil.virtual_memory().used),
            capacity=self.capacity().bytes,
            notes=(*notes, NO_ALLOCATOR),
        )


LIMITED = Note(
    "capacity", "control_group", "The capacity is the container's limit, not what is installed."
)
NO_ALLOCATOR = Note(
    "reserved",
    "no_allocator",
    "Only a GPU's caching allocator tells requested, active and reserved bytes.",
)
