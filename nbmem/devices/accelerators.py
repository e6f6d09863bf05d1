"""Readers of torch's accelerator: one per visible device. Reading never starts it."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from nbmem.devices.allocator import Allocator, AllocatorCounter, Stats, device_module
from nbmem.devices.capacity import available_memory
from nbmem.devices.facts import DeviceFacts
from nbmem.devices.history import Allocation, allocations_at, labels_of
from nbmem.devices.insides import AllocatorState, read_state
from nbmem.devices.limits import at_most, capacity_of
from nbmem.devices.nvml import CardMemory
from nbmem.devices.protocols import CounterUnavailableError, Sample, reading_failed
from nbmem.records import DeviceCapacity, DeviceReading, Note, ProcessMemory

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


class NotThisDeviceError(CounterUnavailableError):
    """What the driver says is of another device than torch's."""


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
        self._capacity: DeviceCapacity | None = None
        self._was_used = False

    def sample(self) -> Sample:
        """Returns allocated and reserved bytes; 0 and 0 before the device starts."""
        return self.counter.sample()

    def capacity(self) -> DeviceCapacity | None:
        """Returns what torch's allocator can hold at most now, and what keeps it from the rest.

        How full the card is says NVML, else `torch.accelerator.get_memory_info`; where neither
        does, the capacity is torch's `total_memory`, with a note.
        """
        return self._look([])[1]

    def capacity_at_a_glance(self) -> DeviceCapacity | None:
        """Returns the same without a call of CUDA's; where it takes one, what was found last."""
        try:
            return self._capacity_by(*self._at_one_moment(self._drivers_card))
        except Exception:  # NVML does not tell: what torch told stands
            return self._capacity

    def read(self) -> DeviceReading:
        """Returns the allocator's counters and the card's; before CUDA starts they are 0."""
        notes: list[Note] = []
        stats = self._stats(notes)
        allocated = _current(stats, "allocated")
        card, parts = self._look(notes)
        reading = DeviceReading(
            device=self.device,
            kind=self.kind,
            name=self._attempt(self._name, "name", notes),
            allocated=allocated,
            peak_allocated=_peak(stats),
            requested=_current(stats, "requested", at_least=1 if allocated else 0),
            active=_current(stats, "active", at_least=allocated or 0),
            reserved=_current(stats, "reserved"),
            driver_used=None if card is None else card.used,
            capacity=None if parts is None else parts.bytes,
            parts=parts,
        )
        notes += () if parts is None else parts.notes
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

    def _look(self, notes: list[Note]) -> tuple[CardMemory | None, DeviceCapacity | None]:
        """Returns how full the card is, and what of it torch can get; both None where unknown."""
        try:
            card, reserved = self._at_one_moment(self._card_in_use)
        except Exception as error:
            notes.append(reading_failed(self.device, "driver_used", error))
            with suppress(Exception):  # a device whose bytes nobody tells
                self._capacity = self._capacity or self._bounds()
            return None, self._capacity
        self._capacity = self._capacity_by(card, reserved)
        return card, self._capacity

    def _at_one_moment(self, figures: Callable[[], CardMemory]) -> tuple[CardMemory, int | None]:
        """Returns how full the card is, and what the allocator reserved of it meanwhile."""
        reserved = self._reserved()
        for _ in range(_ATTEMPTS):
            card, before, reserved = figures(), reserved, self._reserved()
            if before == reserved:
                break
        return card, reserved

    def _capacity_by(self, card: CardMemory, reserved: int | None) -> DeviceCapacity:
        fraction, whole = self._fraction(), self._total()
        if reserved is None:
            return at_most(card.total, fraction)
        return capacity_of(card, reserved, fraction=fraction, whole=whole)

    def _bounds(self) -> DeviceCapacity | None:
        total = self._total()
        return None if total is None else at_most(total, self._fraction())

    def _total(self) -> int | None:
        return self._facts.total() if self._allocator.started() else None

    def _reserved(self) -> int | None:
        """Returns what the allocator holds; None where it can't be asked."""
        with suppress(Exception):
            if not self._allocator.started() and self._allocator.silence() is None:
                return 0
            return _current(self._allocator.raw_stats(self._index), "reserved")
        return None

    def limit(self) -> int | None:
        """Returns the most bytes that torch may reserve; None where no limit is set."""
        capacity = self.capacity()
        return None if capacity is None else capacity.limit

    def _fraction(self) -> float | None:
        with suppress(Exception):  # a vendor's limit that can't be asked is none that is known
            return self._facts.fraction() if self._allocator.started() else None
        return None

    def allocator_state(self) -> AllocatorState:
        """Returns the allocator's counters and its blocks; zeros before the device starts."""
        return read_state(self._allocator, self._index)

    def allocations_at(self, addresses: Collection[int]) -> dict[int, Allocation]:
        """Returns what the allocator's history has of each address; empty while it is off."""
        return allocations_at(self._allocator, self._index, addresses)

    def labels(self) -> dict[int, str]:
        """Returns the user's labels of live blocks by address, as far as the history has them.

        Raises:
            CounterUnavailableError: the history may have more events than are read.
        """
        return labels_of(self._allocator, self._index)

    def card(self) -> CardMemory:
        """Returns how full the whole card is, or its MIG instance: NVML's figures, else torch's.

        Torch's are taken where the device has no memory of its own, of which NVML tells nothing or
        a part, and where NVML's are not of torch's device.

        Raises:
            CounterUnavailableError: the driver can't be asked; the message says why.
        """
        if self._nvml is None or self._integrated():
            return self._torchs_card()
        try:
            return self._drivers_card()
        except NotThisDeviceError as doubt:
            return replace(self._torchs_card(), doubt=str(doubt))

    def _drivers_card(self) -> CardMemory:
        if self._nvml is None or self._integrated():
            raise CounterUnavailableError(f"No driver's library tells how full {self.device} is.")
        card = self._nvml.memory(self._index, self._uuid())
        if not self._fits(card):
            raise NotThisDeviceError(_ANOTHER)
        return card

    def _torchs_card(self) -> CardMemory:
        free, total = self._memory_info()
        query = f"torch.accelerator.get_memory_info({self._index})"
        if not self._integrated():
            return CardMemory(total - free, total, free, query=query)
        available = self._nvml is not None
        if available:  # torch says free, and means without the pages of files
            free = min(total, max(free, available_memory()))
        return CardMemory(total - free, total, free, query=query, unified=True, available=available)

    def _integrated(self) -> bool:
        return self._allocator.started() and self._facts.integrated()

    def _fits(self, card: CardMemory) -> bool:
        """Returns whether the driver's figures can be of the device that torch sees."""
        seen = self._total()
        if seen is None or card.instance:
            return True
        return _LEAST_SEEN * (card.total - (card.reserved or 0)) <= seen <= _MOST_SEEN * card.total

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

    def _name(self) -> str:
        if self._allocator.started():
            return self._facts.name()
        if self._nvml is None:
            raise self._unused("its name")
        return self._nvml.name(self._index, None)

    def _card_in_use(self) -> CardMemory:
        """Returns how full the whole card is, by torch where the driver does not tell."""
        try:
            return self.card()
        except CounterUnavailableError:
            if self._nvml is None or not self._is_used():
                raise
            return self._torchs_card()

    def _memory_info(self) -> tuple[int, int]:
        """Returns free and total bytes as torch knows them."""
        if not self._is_used():
            raise self._unused("how full it is")
        if self._facts.capturing():
            raise CounterUnavailableError(f"{self.device} is not asked while a graph is recorded.")
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

    def capacity(self) -> DeviceCapacity | None:
        """Returns Metal's recommended largest working set."""
        try:
            return DeviceCapacity(int(torch.mps.recommended_max_memory()), unified=True)
        except Exception:  # torch or the system may not have this figure
            return None

    capacity_at_a_glance = capacity

    def read(self) -> DeviceReading:
        """Returns what torch knows of Apple's GPU; the rest is None."""
        sample, parts = self.sample(), self.capacity()
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
            capacity=None if parts is None else parts.bytes,
            parts=parts,
        )
        return _with_notes(reading, [])


_ATTEMPTS = 3
"""Another thread may allocate between the driver's figures and torch's: they are taken anew."""
_LEAST_SEEN, _MOST_SEEN = 0.8, 1.05
"""What torch sees of a card, as parts of what the driver says it has."""
_ANOTHER = (
    "What the driver says of this card is not torch's device (a part of a divided card, or a "
    "device that shares main memory), so torch's own figures are taken: compare with nvidia-smi."
)
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
