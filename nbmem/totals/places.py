"""Where storages are: categories and modules against devices, pinned memory apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.totals.groups import NO_MODULE, device_of, rank
from nbmem.totals.modules import split_module
from nbmem.totals.order import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbmem.records import StorageRecord


@dataclass(frozen=True, slots=True)
class Place:
    """What one category, or one model, has on each device."""

    key: str
    bytes: Mapping[str, int]
    """Device to bytes; devices that have none of it are left out."""
    count: int
    parts: tuple[Place, ...] = ()
    """Of a model: its categories."""

    @property
    def total(self) -> int:
        """Bytes on all devices."""
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class Places:
    """The same bytes twice: by category, and by model with its categories."""

    devices: tuple[str, ...]
    """Accelerators, then `cpu`, then `cpu (pinned)`: those that hold something."""
    categories: tuple[Place, ...]
    """In the order of `CATEGORIES`."""
    modules: tuple[Place, ...]
    """By the module at the top (`model`), largest first; `no module` comes last."""
    total: Place


def places_by_category(storages: Iterable[StorageRecord]) -> Places:
    """Returns how many bytes of each category, and of each model, are on which device."""
    sums: dict[tuple[str, str], _Sum] = {}
    tops: dict[str | None, str] = {None: NO_MODULE}
    for storage in storages:
        module = storage.module
        if module not in tops:
            tops[module] = split_module(module)[0] if module else NO_MODULE
        found = sums.setdefault((tops[module], storage.category), _Sum())
        found.add(device_of(storage), storage.bytes, storage.stands_for)
    modules = [_module(top, sums) for top in dict.fromkeys(top for top, _ in sums)]
    every = _merged("total", sums.values())
    kinds = sorted({category for _, category in sums}, key=rank)
    return Places(
        devices=tuple(sorted(every.bytes, key=_device_order)),
        categories=tuple(
            _merged(kind, (found for (_, other), found in sums.items() if other == kind))
            for kind in kinds
        ),
        modules=tuple(sorted(modules, key=_module_order)),
        total=every,
    )


class _Sum:
    __slots__ = ("count", "devices")

    def __init__(self) -> None:
        self.devices: dict[str, int] = {}
        self.count = 0

    def add(self, device: str, size: int, count: int) -> None:
        self.devices[device] = self.devices.get(device, 0) + size
        self.count += count


def _merged(key: str, sums: Iterable[_Sum], parts: tuple[Place, ...] = ()) -> Place:
    whole = _Sum()
    for each in sums:
        whole.count += each.count
        for device, size in each.devices.items():
            whole.add(device, size, 0)
    return Place(key, whole.devices, whole.count, parts)


def _module(top: str, sums: Mapping[tuple[str, str], _Sum]) -> Place:
    held = {category: found for (other, category), found in sums.items() if other == top}
    parts = tuple(_merged(category, [held[category]]) for category in sorted(held, key=rank))
    return _merged(top, held.values(), parts)


def _device_order(device: str) -> tuple[object, ...]:
    return device.partition(" ")[0] == "cpu", natural(device)


def _module_order(place: Place) -> tuple[object, ...]:
    return place.key == NO_MODULE, -place.total, place.key
