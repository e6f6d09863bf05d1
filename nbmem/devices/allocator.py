"""The caching allocator of torch's accelerator, and what the user reads of it.

torch's Python functions (`torch.cuda.max_memory_allocated`, `torch.accelerator.memory_stats`, …)
look a few functions up in `torch._C` each time they run. Standing in for those few serves every
one of them, also where the user wrote `from torch.cuda import max_memory_allocated` long before.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from nbmem.devices.protocols import CounterUnavailableError, Sample
from nbmem.devices.stand_in import EntryPoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmem.devices.peaks import PeakOwner

Stats = dict[Any, Any]


class KeptPeaks:
    """The running maximum of every `peak` in the allocator's nested statistics."""

    __slots__ = ("_tops",)

    def __init__(self) -> None:
        self._tops: dict[tuple[Any, ...], int] = {}

    def keep(self, stats: Stats) -> None:
        """Takes one more reading of the statistics."""
        tops = self._tops
        for path, leaf in _leaves(stats):
            if leaf["peak"] > tops.get(path, -1):
                tops[path] = leaf["peak"]

    def apply(self, stats: Stats) -> None:
        """Raises each peak in `stats` to the running maximum."""
        for path, leaf in _leaves(stats):
            leaf["peak"] = max(leaf["peak"], self._tops.get(path, 0))


def _leaves(stats: Stats, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Stats]]:
    for key, value in stats.items():
        if type(value) is dict:
            if "peak" in value:
                yield (*path, key), value
            else:
                yield from _leaves(value, (*path, key))


class Allocator:
    """The allocator of one type of accelerator (`cuda`, `xpu`, …), and its `UserView`.

    ROCm builds call their devices `cuda` too.
    """

    def __init__(self, type_: str) -> None:
        self.type = type_
        self.module = device_module(type_)
        own = _entries(type_, "memoryStats")
        self._is_asked_by_type = bool(own)
        self._reads = own + _existing(torch._C, "_accelerator_getDeviceStats")
        self._resets = _entries(type_, "resetPeakMemoryStats")
        self._resets += _existing(torch._C, "_accelerator_resetPeakStats")
        self._labels = _existing(torch._C, f"_{type_}_setMemoryMetadata")
        self._was_labelled = False
        self._kept: dict[tuple[int, int], KeptPeaks] = {}
        self._owner: PeakOwner | None = None

    def started(self) -> bool:
        """Returns whether the user has started it; asking does not start it."""
        is_initialized = getattr(self.module, "is_initialized", None)
        if is_initialized is not None:
            return bool(is_initialized())
        with suppress(RuntimeError):  # a backend whose allocator torch can't ask
            return bool(torch._C._accelerator_isAllocatorInitialized())
        return False

    def silence(self) -> str | None:
        """Returns why torch can't ask this allocator for its counters; None where it can.

        A vendor's allocator may be older than torch's `DeviceAllocator`: what such a one holds is
        unknown, and so is whether it was used at all.
        """
        if self._is_asked_by_type:
            return None
        try:
            torch._C._accelerator_isAllocatorInitialized()
        except RuntimeError:
            return (
                f"torch can't ask the allocator of {self.type} devices: neither its counters are "
                "known nor whether it was used."
            )
        return None

    def raw_stats(self, index: int) -> Stats:
        """Returns the allocator's own nested statistics, its peaks since any reset.

        Raises:
            CounterUnavailableError: torch can't ask this allocator.
        """
        self._expect_told()
        stats: Stats = self._reads[0].call(index)
        return stats

    def user_stats(self, index: int) -> Stats:
        """Returns the same with peaks since the user's last reset: what torch would say."""
        self._expect_told()
        return self._answer_read(0, index)

    def _expect_told(self) -> None:
        reason = self.silence()
        if reason is not None:
            raise CounterUnavailableError(reason)

    def reset_peak(self, index: int) -> None:
        """Resets the raw peak. Called by `PeakOwner` only, through a counter."""
        self._resets[0].call(index)

    def is_labelled(self) -> bool:
        """Returns whether the user is known to have labelled allocations.

        `torch.cuda.memory._set_memory_metadata` was called while nbmem was loaded, or a label is
        set now. The label is the user's: it is never changed here.
        """
        current = getattr(torch._C, f"_{self.type}_getMemoryMetadata", None)
        if self._was_labelled or current is None:
            return self._was_labelled
        with suppress(RuntimeError):  # an allocator that knows no labels
            return bool(current())
        return False

    def keep(self, device: str) -> None:
        """Folds what the user would read of `device` into the user's running maxima."""
        type_, _, index = device.partition(":")
        if type_ != self.type or not self.started():
            return
        for number, read in enumerate(self._reads):
            key = number, int(index or 0)
            with suppress(Exception):  # where a function can't be read, the user can't either
                self._kept.setdefault(key, KeptPeaks()).keep(read.call(key[1]))

    def install(self, owner: PeakOwner) -> None:
        """Answers the user's reads and resets from now on."""
        self._owner = owner
        for number, read in enumerate(self._reads):
            read.replace(lambda device, number=number: self._answer_read(number, device))
        for label in self._labels:
            label.replace(lambda text, label=label: self._pass_label_on(label, text))
        for reset in self._resets:
            reset.replace(lambda device, reset=reset: self._answer_reset(reset, device))

    def uninstall(self) -> None:
        """Gives `torch._C` its functions back."""
        for entry in (*self._reads, *self._resets, *self._labels):
            entry.restore()
        self._kept.clear()
        self._owner = None

    def _answer_read(self, number: int, device: int) -> Stats:
        stats: Stats = self._reads[number].call(device)
        kept = self._kept.get((number, device))
        if kept is not None:
            with suppress(Exception):  # a call of the user's must not fail by our part
                kept.apply(stats)
        return stats

    def _pass_label_on(self, label: EntryPoint, text: Any) -> Any:
        self._was_labelled = True
        return label.call(text)

    def _answer_reset(self, reset: EntryPoint, device: int) -> Any:
        owner = self._owner
        if owner is None:
            return reset.call(device)
        with owner.lock:
            owner.fold_device(f"{self.type}:{device}")
            answer = reset.call(device)
            for number in range(len(self._reads)):
                self._kept.pop((number, device), None)
            return answer


def device_module(type_: str) -> Any:
    """Returns torch's module of a type of device (`torch.xpu`); None where it has none."""
    try:
        return torch.get_device_module(type_)
    except RuntimeError:  # a vendor need not register one
        return None


def _entries(type_: str, name: str) -> tuple[EntryPoint, ...]:
    """Returns the C functions of this name for one type, such as `_cuda_memoryStats`.

    They are in `torch._C`, or in the extension of a vendor's package that is named after its type:
    `torch_npu._C._npu_memoryStats`.
    """
    package = f"torch_{type_}"
    vendors = [
        module
        for key, module in sys.modules.copy().items()
        if key.partition(".")[0] == package and issubclass(type(module), ModuleType)
    ]
    name = f"_{type_}_{name}"
    found = (_existing(module, name) for module in (torch._C, *vendors))
    return tuple(entry for entries in found for entry in entries)


def _existing(module: ModuleType, name: str) -> tuple[EntryPoint, ...]:
    return (EntryPoint(module, name),) if name in vars(module) else ()


class AllocatorCounter:
    """Allocated bytes of one device: `torch.cuda.memory_allocated(index)`; 0 before it starts."""

    __slots__ = ("_allocator", "_index", "device")

    def __init__(self, allocator: Allocator, index: int) -> None:
        self._allocator = allocator
        self._index = index
        self.device = f"{allocator.type}:{index}"

    def sample(self) -> Sample:
        """Returns allocated, reserved and peak bytes of one moment; 0 before the device starts.

        Raises:
            CounterUnavailableError: torch can't ask this allocator.
        """
        if not self._allocator.started() and self._allocator.silence() is None:
            return Sample(0, 0, 0, started=False)
        stats = self._allocator.raw_stats(self._index)
        allocated = stats["allocated_bytes"]["all"]
        reserved = stats["reserved_bytes"]["all"]["current"]
        return Sample(allocated["current"], reserved, allocated["peak"])

    def allocated(self) -> int:
        """Returns the bytes in live blocks."""
        return self.sample().allocated or 0

    def peak(self) -> int:
        """Returns the most bytes in live blocks since the last raw reset."""
        return self.sample().peak or 0

    def reset_peak(self) -> None:
        """Resets every peak of the device's allocator. Called by `PeakOwner` only."""
        if self._allocator.started():
            self._allocator.reset_peak(self._index)
