"""torch's storages in main memory, as a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.devices.capacity import installed_memory
from nbmem.devices.host import LIMITED, NO_ALLOCATOR
from nbmem.devices.protocols import Sample
from nbmem.records import DeviceCapacity, DeviceReading, Note

if TYPE_CHECKING:
    from nbmem.devices.protocols import PeakCounter

_NO_PEAK = Note(
    "peak_allocated",
    "not_measured",
    "torch keeps no peak for the CPU: measure a cell (%%gpumem) to know its peak.",
)
_NO_DRIVER = Note(
    "driver_used", "not_counted", "What all processes use is told under `host`, not under `cpu`."
)


class CpuReader:
    """Bytes of the CPU storages that the counter behind it knows."""

    device = "cpu"
    kind = "cpu"

    def __init__(self, counter: PeakCounter) -> None:
        self.counter = counter

    def capacity(self) -> DeviceCapacity:
        """Returns the installed bytes, or the container's limit where that is lower."""
        return DeviceCapacity(installed_memory().bytes)

    capacity_at_a_glance = capacity

    def sample(self) -> Sample:
        """Returns the bytes of live CPU storages; nothing is reserved beyond them."""
        return Sample(self.counter.allocated())

    def read(self) -> DeviceReading:
        """Returns the bytes of live CPU storages, each counted once."""
        limited = (LIMITED,) if installed_memory().limited else ()
        return DeviceReading(
            device="cpu",
            kind="cpu",
            name=None,
            allocated=self.counter.allocated(),
            peak_allocated=None,
            requested=None,
            active=None,
            reserved=None,
            driver_used=None,
            capacity=self.capacity().bytes,
            notes=(_NO_PEAK, NO_ALLOCATOR, _NO_DRIVER, *limited),
        )
