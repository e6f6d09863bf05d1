"""What the allocators say: one reader per device, and the one owner of peak resets."""

from nbmem.devices.listing import Devices, UnknownDeviceError
from nbmem.devices.peaks import PeakOwner, PeakWindow
from nbmem.devices.protocols import (
    CounterUnavailableError,
    DeviceReader,
    Glance,
    PeakCounter,
    Sample,
)

__all__ = [
    "CounterUnavailableError",
    "DeviceReader",
    "Devices",
    "Glance",
    "PeakCounter",
    "PeakOwner",
    "PeakWindow",
    "Sample",
    "UnknownDeviceError",
]
