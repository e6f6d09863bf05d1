"""Readers of torch's accelerator: one per visible device. Reading never starts it."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from nbmem.devices.allocator import Allocator, AllocatorCounter, Stats
from nbmem.devices.insides import AllocatorState, read_state
from nbmem.devices.protocols import CounterUnavailableError, Sample, reading_failed
from nbmem.devices.snapshot import Block, read_blocks
from nbmem.records import DeviceReading, Note, ProcessMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.devices.nvml import CardMemory, Nvml


def accelerator_type() -> str | None:
    """Returns the type that this build of torch can use (`cuda`, `xpu`, `mps`), or None."""
    found = torch.accelerator.current_accelerator()
    return None if found is None else found.type


def count_devices(type_: str) -> int:
    """Returns how many devices torch can use; 0 where that can't be known before it starts.

    The driver is not started to count: a process that started it can't use CUDA after a fork.
    """
    module: Any = torch.get_device_module(type_)
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
        self._capacity: int | None = None
        self._properties: Any = None

    def sample(self) -> Sample:
        """Returns allocated and reserved bytes; 0 and 0 before the device starts."""
        return self.counter.sample()

    def capacity(self) -> int | None:
        """Returns the card's total bytes: nvidia-smi's, else torch's `total_memory`."""
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
        return _with_notes(reading, notes)

    def _stats(self, notes: list[Note]) -> Stats:
        if not self._allocator.started():
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
        for figure in (self._card_total, self._torch_total):
            try:
                return figure()
            except Exception:  # the next one may know
                continue
        return None

    def allocator_state(self) -> AllocatorState:
        """Returns the allocator's counters and its blocks; zeros before the device starts."""
        return read_state(self._allocator, self._index)

    def blocks_with_history(self) -> tuple[Block, ...]:
        """Returns the allocator's blocks where it notes who allocated them; else nothing."""
        type_ = self._allocator.type
        asked = getattr(torch._C, f"_{type_}_isHistoryEnabled", None)
        if asked is None or not self._allocator.started() or not asked():
            return ()
        return read_blocks(type_, self._index)

    def card(self) -> CardMemory:
        """Returns how full the whole card is, or its MIG instance.

        Raises:
            CounterUnavailableError: the driver can't be asked; the message says why.
        """
        if self._nvml is None:
            raise CounterUnavailableError("Whole-GPU figures are known on NVIDIA cards only.")
        return self._nvml.memory(self._index, self._uuid())

    def card_processes(self) -> tuple[ProcessMemory, ...]:
        """Returns the processes on the card, as far as this one may see them.

        Raises:
            CounterUnavailableError: the driver does not list them; the message says why.
        """
        if self._nvml is None:
            raise CounterUnavailableError("Processes are listed for NVIDIA cards only.")
        return self._nvml.processes(self._index, self._uuid())

    def _uuid(self) -> str | None:
        uuid = getattr(self._started_properties(), "uuid", None)
        return None if uuid is None else str(uuid)

    def _card_total(self) -> int:
        return self.card().total

    def _torch_total(self) -> int:
        properties = self._started_properties()
        if properties is None:
            raise CounterUnavailableError(f"{self.device} has not been used yet.")
        return int(properties.total_memory)

    def _name(self) -> str:
        properties = self._started_properties()
        if properties is not None:
            return str(properties.name)
        if self._nvml is None:
            raise CounterUnavailableError(f"{self.device} tells its name once it has been used.")
        return self._nvml.name(self._index, None)

    def _started_properties(self) -> Any:
        """Returns torch's facts of the device; None before the accelerator has started."""
        if self._properties is None and self._allocator.started():
            module: Any = torch.get_device_module(self._allocator.type)
            self._properties = module.get_device_properties(self._index)
        return self._properties

    def _card_memory(self) -> tuple[int, int]:
        """Returns used and total bytes of the whole card."""
        try:
            card = self.card()
        except CounterUnavailableError:
            if not self.has_context():
                raise
            free, total = torch.accelerator.get_memory_info(self._index)
            return total - free, total
        return card.used, card.total

    def has_context(self) -> bool:
        """Returns whether this process has a context there: asking torch would make one."""
        if not self._allocator.started():
            return False
        known = getattr(torch._C, f"_{self._allocator.type}_hasPrimaryContext", None)
        if known is not None:
            return bool(known(self._index))
        return bool(_current(self._allocator.raw_stats(self._index), "reserved"))


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


def _with_notes(reading: DeviceReading, notes: list[Note]) -> DeviceReading:
    """Returns the reading with one note for each None that has none yet."""
    explained = {note.field for note in notes}
    for field in _FIGURES:
        if getattr(reading, field) is None and field not in explained:
            sentence = f"torch does not tell {field.replace('_', ' ')} of {reading.device}."
            notes.append(Note(field, "not_told", sentence))
    return replace(reading, notes=tuple(notes))
