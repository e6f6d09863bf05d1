"""Two records side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import CellComparison, DeviceComparison, Difference, Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.records import CellRecord, DeviceDelta


def compare_records(first: CellRecord, second: CellRecord) -> CellComparison:
    """Returns what changed from `first` to `second`, per device, in bytes."""
    devices = dict.fromkeys([*first.devices, *second.devices])
    return CellComparison(
        first=first.serial,
        second=second.serial,
        seconds=(first.seconds, second.seconds),
        devices={device: _compare_device(device, first, second) for device in devices},
        notes=_one_sided(first, second),
    )


def _compare_device(device: str, first: CellRecord, second: CellRecord) -> DeviceComparison:
    one, two = first.devices.get(device), second.devices.get(device)

    def figure(read: Callable[[DeviceDelta], int | None]) -> Difference:
        return Difference(None if one is None else read(one), None if two is None else read(two))

    return DeviceComparison(
        device=device,
        before=figure(lambda delta: delta.before),
        after=figure(lambda delta: delta.after),
        delta=figure(lambda delta: delta.delta),
        peak=figure(lambda delta: delta.peak),
        created=_compare_created(device, first, second),
        freed=Difference(_freed(device, first), _freed(device, second)),
        alive=_compare_alive(first.alive.get(device), second.alive.get(device)),
    )


def _freed(device: str, record: CellRecord) -> int | None:
    return record.freed.get(device, 0) if device in record.devices else None


def _compare_created(device: str, first: CellRecord, second: CellRecord) -> dict[str, Difference]:
    return _by_category(created_by_category(device, first), created_by_category(device, second))


def _compare_alive(one: dict[str, int] | None, two: dict[str, int] | None) -> dict[str, Difference]:
    return {} if one is None or two is None else _by_category(one, two)


def _by_category(one: dict[str, int], two: dict[str, int]) -> dict[str, Difference]:
    return {
        category: Difference(one.get(category, 0), two.get(category, 0))
        for category in dict.fromkeys([*one, *two])
    }


def created_by_category(device: str, record: CellRecord) -> dict[str, int]:
    """Returns the bytes that the cell first showed on `device` and left alive, by category."""
    sums: dict[str, int] = {}
    for storage in record.created:
        if storage.device == device:
            sums[storage.category] = sums.get(storage.category, 0) + storage.bytes
    return sums


def _one_sided(first: CellRecord, second: CellRecord) -> tuple[Note, ...]:
    return tuple(
        Note("devices", "one_sided", f"Only one of both records measured {device}.")
        for device in dict.fromkeys([*first.devices, *second.devices])
        if (device in first.devices) != (device in second.devices)
    )
