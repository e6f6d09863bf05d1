"""What a device is: its name and its total, from the functions that its vendor's module has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from nbmem.devices.allocator import device_module
from nbmem.devices.protocols import CounterUnavailableError


class DeviceFacts:
    """What torch's module of one device says of it, to be asked once the device has started.

    Vendors' modules have as much of CUDA's as they please: what is missing is not told.
    """

    def __init__(self, type_: str, index: int) -> None:
        self.device = f"{type_}:{index}"
        self._type = type_
        self._index = index
        self._properties: Any = None

    def name(self) -> str:
        """Returns the name of `get_device_properties`, else `get_device_name`.

        Raises:
            CounterUnavailableError: the module has neither.
        """
        told = self._property("name")
        if told is None:
            get_name = getattr(device_module(self._type), "get_device_name", None)
            told = None if get_name is None else get_name(self._index)
        if told is None:
            raise CounterUnavailableError(f"torch does not tell name of {self.device}.")
        return str(told)

    def total(self) -> int | None:
        """Returns `total_memory` of `get_device_properties`; None where it is not told."""
        told = self._property("total_memory")
        return None if told is None else int(told)

    def uuid(self) -> str | None:
        """Returns the UUID of `get_device_properties`; None where it is not told."""
        told = self._property("uuid")
        return None if told is None else str(told)

    def integrated(self) -> bool:
        """Returns whether the device has no memory of its own (`is_integrated`): GB10, Jetson."""
        return bool(self._property("is_integrated"))

    def fraction(self) -> float | None:
        """Returns the part of the device that torch may reserve; None where it is not told.

        The same as `torch.cuda.get_per_process_memory_fraction`. To be asked of an allocator that
        has started.
        """
        read = getattr(device_module(self._type), "get_per_process_memory_fraction", None)
        return None if read is None else float(read(self._index))

    def capturing(self) -> bool:
        """Returns whether this thread records a CUDA graph, when calls of the driver may fail."""
        asked = getattr(device_module(self._type), "is_current_stream_capturing", None)
        try:
            return False if asked is None else bool(asked())
        except Exception:  # a build without graphs
            return False

    def memory_info(self) -> tuple[int, int]:
        """Returns free and total bytes: `torch.accelerator.get_memory_info`.

        To be asked only where this process has a context: asking may make one.

        Raises:
            CounterUnavailableError: the vendor's allocator does not tell them.
        """
        try:
            free, total = torch.accelerator.get_memory_info(self._index)
        except (NotImplementedError, RuntimeError) as error:  # the two ways in which torch says no
            if not _is_missing(error):
                raise
            sentence = f"torch does not tell how full {self.device} is."
            raise CounterUnavailableError(sentence) from None
        return int(free), int(total)

    def _property(self, name: str) -> Any:
        if self._properties is None:
            read = getattr(device_module(self._type), "get_device_properties", None)
            if read is None:
                return None
            self._properties = read(self._index)
        if isinstance(self._properties, Mapping):  # as torch.mtia's
            return self._properties.get(name)
        return getattr(self._properties, name, None)


def _is_missing(error: Exception) -> bool:
    """Returns whether torch says that a vendor left this out, not that it failed."""
    # Torch has no type for the second, so its words have to tell.
    return isinstance(error, NotImplementedError) or "is not a DeviceAllocator" in str(error)
