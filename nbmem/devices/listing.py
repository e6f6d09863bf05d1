"""Which devices there are, and which of them to measure."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from nbmem.devices.accelerators import (
    AcceleratorReader,
    MpsReader,
    accelerator_type,
    count_devices,
)
from nbmem.devices.allocator import Allocator
from nbmem.devices.cpu import CpuReader
from nbmem.devices.host import HostReader, HostView
from nbmem.devices.nvml import Nvml
from nbmem.devices.peaks import PeakOwner
from nbmem.devices.protocols import reading_failed
from nbmem.errors import NbmemError
from nbmem.records import DeviceReading

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nbmem.devices.history import Allocation
    from nbmem.devices.protocols import DeviceReader, PeakCounter


class UnknownDeviceError(NbmemError, ValueError):
    """A device name that this machine does not have."""


class Devices:
    """Every device of this process, and the one owner of their peaks.

    Args:
        cpu: the counter of torch's CPU storages.
    """

    def __init__(self, cpu: PeakCounter) -> None:
        host_view = HostView()
        self._type: str | None = None
        self._nvml = Nvml() if torch.version.cuda else None
        self._allocator: Allocator | None = None
        self._accelerators: list[DeviceReader] = []
        self._counted_under: tuple[object, ...] | None = None
        self.host = HostReader(host_view)
        self.cpu = CpuReader(cpu)
        self.peaks = PeakOwner((host_view,))
        self._follow_torch()

    def _follow_torch(self) -> None:
        """Takes torch's accelerator of now: a vendor's package may be imported at any time."""
        type_ = accelerator_type()
        if type_ == self._type:
            return
        with self.peaks.lock:
            self._type = type_
            self._allocator = None if type_ in (None, "mps") else Allocator(type_)
            self._accelerators, self._counted_under = [], None
            if self._allocator is not None:
                self.peaks.add(self._allocator)

    def accelerators(self) -> list[DeviceReader]:
        """Returns one reader per device that torch can use, counted without starting any."""
        self._follow_torch()
        if self._type is None:
            return []
        started = self._allocator is not None and self._allocator.started()
        under = started, os.environ.get("CUDA_VISIBLE_DEVICES")
        if under != self._counted_under:
            self._counted_under = under
            with suppress(Exception):  # a driver that can't count: those known so far stay
                self._accelerators = self._count_anew(self._type)
        return self._accelerators

    def _count_anew(self, type_: str) -> list[DeviceReader]:
        if self._allocator is None:
            return [MpsReader()] if count_devices(type_) else []
        known = {reader.device: reader for reader in self._accelerators}
        names = [f"{type_}:{index}" for index in range(count_devices(type_))]
        nvml = self._nvml if type_ == "cuda" else None  # a CUDA build may have another device
        new = (AcceleratorReader(self._allocator, i, nvml) for i in range(len(names)))
        return [known.get(reader.device, reader) for reader in new]

    def choose(self, device: str | None = None) -> list[DeviceReader]:
        """Returns what to measure: by default the accelerators and the host, or `cpu` and the host.

        Args:
            device: `cpu` adds the CPU's storages; `cuda:1` leaves the other GPUs out; `cuda` and
                `host` are accepted too.

        Raises:
            UnknownDeviceError: this machine has no such device.
        """
        accelerators = self.accelerators()
        if device is None:
            return [*(accelerators or [self.cpu]), self.host]
        if device == "cpu":
            return [*accelerators, self.cpu, self.host]
        if device == "host":
            return [self.host]
        chosen = [reader for reader in accelerators if _is_called(reader.device, device)]
        if not chosen:
            raise UnknownDeviceError(self._refusal(device, accelerators))
        return [*chosen, self.host]

    def _refusal(self, device: str, accelerators: Sequence[DeviceReader]) -> str:
        accepted = ", ".join(["cpu", *(reader.device for reader in accelerators), "host"])
        return f"there is no device {_shortened(device)!r} here: use one of {accepted}"

    def read(self, device: str | None = None) -> list[DeviceReading]:
        """Returns a reading of each device that `choose` names; a failed one says why."""
        return [_read_safely(reader) for reader in self.choose(device)]

    def allocations_at(self, device: str, addresses: Collection[int]) -> dict[int, Allocation]:
        """Returns what an accelerator's history has of these addresses; empty while it is off."""
        for reader in self.accelerators():
            if reader.device == device and isinstance(reader, AcceleratorReader):
                with suppress(Exception):  # who made it is a plus: what is alive must be told
                    return reader.allocations_at(addresses)
        return {}

    def install(self) -> None:
        """Lets the user's own peak reads and resets come out right while nbmem measures."""
        self.peaks.install()

    def uninstall(self) -> None:
        """Gives torch and `resource` their functions back, and ends the use of NVML."""
        self.peaks.uninstall()
        if self._nvml is not None:
            self._nvml.close()


def _is_called(name: str, asked: str) -> bool:
    return asked in (name, name.partition(":")[0])


def _shortened(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= 40 else f"{text[:20]}…{text[-19:]}"


def _read_safely(reader: DeviceReader) -> DeviceReading:
    try:
        return reader.read()
    except Exception as error:
        note = reading_failed(reader.device, "allocated", error)
        unknown = (None,) * 8
        return DeviceReading(reader.device, reader.kind, *unknown, notes=(note,))
