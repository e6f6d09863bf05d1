"""Readers of torch's accelerator: one per visible device. Reading never starts it."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from nbmem.devices.allocator import Allocator, AllocatorCounter, Stats, device_module
from nbmem.devices.facts import DeviceFacts
from nbmem.devices.history import Allocation, allocations_at, labels_of
from nbmem.devices.insides import AllocatorState, read_state
from nbmem.devices.nvml import CardMemory
from nbmem.devices.protocols import CounterUnavailableError, Sample, reading_failed
from nbmem.records import DeviceReading, Note, ProcessMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from nbmem.devices.nvml import Nvml


def accelerator_type() -> str | None:
    """Returns the type that this build of torch can use (`cuda`, `xpu`, `mps`), or None."""
    found = torch.accelerator.current_accelerator()
    return None if found is None else found.type


def count_devices(type_: str) -> int:
    """Returns how many devices torch can use; 0 where that can't be known before it starts.

    The driver is not started to count: a process that started it can't use CUDA after a fork.
    """
    module = device_module(type_)
    if module is None:
        return 0  # torch makes no tensor on a device without one
    if type_ != "cuda" or module.is_initialized():
        return int(module.device_count())
    if torch.version.cuda is None and torch.version.hip is None:
        return 0
    if torch.version.hip is None and os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        return 1  # CUDA gives a process one MIG instance, and torch's own count can't parse it
    counter = "_device_count_amdsmi" if torch.version.hip else "_device_count_nvml"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return max(0, int(getattr(module, counter, lambda: 0)()))


class AcceleratorReader:
    """One device behind torch's caching allocator."""

    kind = "accelerator"

    def __init__(self, allocator: Allocator, index: int, nvml: Nvml | None) -> None:
        self.counter = AllocatorCounter(allocator, index)
        self.device = self.counter.device
        self._allocator = allocator
        self._index = index
        self._nvml = nvml
        self._facts = DeviceFacts(allocator.type, index)
        self._capacity: int | None = None
        self._was_used = False

    def sample(self) -> Sample:
        """Returns allocated and reserved bytes; 0 and 0 before the device starts."""
        return self.counter.sample()

    def capacity(self) -> int | None:
        """Returns the card's total bytes: nvidia-smi's, else torch's `total_memory`.

        Where a device's properties do not tell it, it is `torch.accelerator.get_memory_info`'s.
        """
        if self._capacity is None:
            self._capacity = self._find_capacity()
        return self._capacity

    def read(self) -> DeviceReading:
        """Returns the allocator's counters and the card's; before CUDA starts they are 0."""
        notes: list[Note] = []
        stats = self._stats(notes)
        allocated = _current(stats, "allocated")
        card = self._attempt(self._card_memory, "driver_used", notes)
        reading = DeviceReading(
            device=self.device,
            kind=self.kind,
            name=self._attempt(self._name, "name", notes),
            allocated=allocated,
            peak_allocated=_peak(stats),
            requested=_current(stats, "requested", at_least=1 if allocated else 0),
            active=_current(stats, "active", at_least=allocated or 0),
            reserved=_current(stats, "reserved"),
            driver_used=None if card is None else card[0],
            capacity=self.capacity(),
        )
        if reading.capacity is None and not self._is_used():
            notes.append(reading_failed(self.device, "capacity", self._unused("its capacity")))
        return _with_notes(reading, notes, self._allocator.silence())

    def _stats(self, notes: list[Note]) -> Stats:
        if not self._allocator.started() and self._allocator.silence() is None:
            sentence = f"{self.device} has not been used yet, so torch holds nothing on it."
            notes.append(Note("allocated", "not_started", sentence))
            return _NOTHING
        try:
            return self._allocator.user_stats(self._index)
        except Exception as error:
            notes.append(reading_failed(self.device, "allocated", error))
            return {}

    def _attempt(self, figure: Callable[[], Any], field: str, notes: list[Note]) -> Any:
        try:
            return figure()
        except Exception as error:
            notes.append(reading_failed(self.device, field, error))
            return None

    def _find_capacity(self) -> int | None:
        for figure in (self._card_total, self._torch_total, self._told_total):
            try:
                found = figure()
            except Exception:  # the next one may know
                continue
            if found is not None:
                return found
        return None

    def allocator_state(self) -> AllocatorState:
        """Returns the allocator's counters and its blocks; zeros before the device starts."""
        return read_state(self._allocator, self._index)

    def allocations_at(self, addresses: Collection[int]) -> dict[int, Allocation]:
        """Returns what the allocator's history has of each address; empty while it is off."""
        return allocations_at(self._allocator, self._index, addresses)

    def labels(self) -> dict[int, str]:
        """Returns the user's labels of live blocks by address, as far as the history has them."""
        return labels_of(self._allocator, self._index)

    def card(self) -> CardMemory:
        """Returns how full the whole card is, or its MIG instance: NVML's figures, else torch's.

        Raises:
            CounterUnavailableError: the driver can't be asked; the message says why.
        """
        if self._nvml is not None:
            return self._nvml.memory(self._index, self._uuid())
        free, total = self._memory_info()
        query = f"torch.accelerator.get_memory_info({self._index})"
        return CardMemory(total - free, total, free, query=query)

    def card_processes(self) -> tuple[ProcessMemory, ...]:
        """Returns the processes on the card, as far as this one may see them.

        Raises:
            CounterUnavailableError: the driver does not list them; the message says why.
        """
        if self._nvml is None:
            raise CounterUnavailableError("Processes are listed for NVIDIA cards only.")
        return self._nvml.processes(self._index, self._uuid())

    def _uuid(self) -> str | None:
        return self._facts.uuid() if self._allocator.started() else None

    def _card_total(self) -> int:
        return self.card().total

    def _torch_total(self) -> int | None:
        return self._facts.total() if self._allocator.started() else None

    def _told_total(self) -> int:
        return self._memory_info()[1]

    def _name(self) -> str:
        if self._allocator.started():
            return self._facts.name()
        if self._nvml is None:
            raise self._unused("its name")
        return self._nvml.name(self._index, None)

    def _card_memory(self) -> tuple[int, int]:
        """Returns used and total bytes of the whole card."""
        try:
            card = self.card()
        except CounterUnavailableError:
            if self._nvml is None or not self._is_used():
                raise
            free, total = self._memory_info()
            return total - free, total
        return card.used, card.total

    def _memory_info(self) -> tuple[int, int]:
        """Returns free and total bytes as torch knows them."""
        if not self._is_used():
            raise self._unused("how full it is")
        return self._facts.memory_info()

    def _unused(self, what: str) -> CounterUnavailableError:
        later = f"{self.device} tells {what} once it has been used."
        return CounterUnavailableError(self._allocator.silence() or later)

    def _is_used(self) -> bool:
        """Returns whether torch may be asked for the driver's figures without making a context."""
        with suppress(Exception):  # unknown: then it is not asked
            self._was_used = self._was_used or self.has_context()
        return self._was_used

    def has_context(self) -> bool:
        """Returns whether this process has a context there: asking torch would make one."""
        if not self._allocator.started():
            return False
        known = getattr(torch._C, f"_{self._allocator.type}_hasPrimaryContext", None)
        if known is not None:
            return bool(known(self._index))
        return bool(_current(self._allocator.raw_stats(self._index), "reserved"))

    def namespace(self) -> str:
        """Returns the module that has the user's calls: `torch.cuda`, else `torch.accelerator`."""
        own = ("memory_allocated", "memory_reserved", "memory_stats")
        complete = all(hasattr(self._allocator.module, name) for name in own)
        return f"torch.{self._allocator.type}" if complete else "torch.accelerator"


class MpsReader:
    """Apple's GPU: torch tells what is allocated, and keeps no peak."""

    kind = "accelerator"
    device = "mps:0"
    counter = None

    def sample(self) -> Sample:
        """Returns torch's `current_allocated_memory` and `driver_allocated_memory`."""
        return Sample(torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory())

    def capacity(self) -> int | None:
        """Returns Metal's recommended largest working set."""
        try:
            return int(torch.mps.recommended_max_memory())
        except Exception:  # torch or the system may not have this figure
            return None

    def read(self) -> DeviceReading:
        """Returns what torch knows of Apple's GPU; the rest is None."""
        sample = self.sample()
        reading = DeviceReading(
            device=self.device,
            kind=self.kind,
            name=None,
            allocated=sample.allocated,
            peak_allocated=None,
            requested=None,
            active=None,
            reserved=sample.reserved,
            driver_used=None,
            capacity=self.capacity(),
        )
        return _with_notes(reading, [])


_LEAF = {"all": {"current": 0, "peak": 0}}
_NOTHING: Stats = dict.fromkeys(
    ("allocated_bytes", "requested_bytes", "active_bytes", "reserved_bytes"), _LEAF
)
_FIGURES = (
    "name",
    "allocated",
    "peak_allocated",
    "requested",
    "active",
    "reserved",
    "driver_used",
    "capacity",
)


def _current(stats: Stats, what: str, at_least: int = 0) -> int | None:
    """Returns `{what}_bytes.all.current`; None where it is missing or can't be meant.

    Allocators that do not keep a figure (cudaMallocAsync) report it as 0.
    """
    figure = stats.get(f"{what}_bytes", {}).get("all", {}).get("current")
    return None if figure is None or figure < at_least else int(figure)


def _peak(stats: Stats) -> int | None:
    figure = stats.get("allocated_bytes", {}).get("all", {}).get("peak")
    return None if figure is None else int(figure)


def _with_notes(
    reading: DeviceReading, notes: list[Note], silence: str | None = None
) -> DeviceReading:
    """Returns the reading with one note for each None that has none yet."""
    explained = {note.field for note in notes}
    for field in _FIGURES:
        if getattr(reading, field) is None and field not in explained:
            sentence = f"torch does not tell {field.replace('_', ' ')} of {reading.device}."
            code = "not_told" if silence is None else "unavailable"
            notes.append(Note(field, code, silence or sentence))
    return replace(reading, notes=tuple(notes))
