"""What the panel shows at one moment: plain facts, no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.panel.header import main_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.panel.contract import SessionLike
    from nbmem.records import CellRecord, DeviceReading, Inventory, StorageRecord
    from nbmem.units import Units


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts behind one drawing of the panel."""

    units: Units
    records: tuple[CellRecord, ...]
    readings: tuple[DeviceReading, ...]
    inventory: Inventory | None
    """None until the first was taken."""
    device: str
    """The device that the chart and the table of cells speak of."""

    @property
    def devices(self) -> list[str]:
        """Devices that can be chosen, the main one first."""
        seen = [main_device(self.readings)]
        seen += [reading.device for reading in self.readings if reading.kind != "host"]
        seen += [device for record in self.records for device in record.devices]
        return list(dict.fromkeys(name for name in seen if name != "host"))

    def storages(self, keys: Sequence[int] | None = None) -> list[StorageRecord]:
        """Returns the live storages, or those of `keys`, largest first."""
        if self.inventory is None:
            return []
        if keys is None:
            return list(self.inventory.storages)
        wanted = set(keys)
        return [storage for storage in self.inventory.storages if storage.key in wanted]


def take_snapshot(
    session: SessionLike, inventory: Inventory | None, chosen: str | None
) -> Snapshot:
    """Returns the present: the records and the counters now, with `inventory` as taken before."""
    records = session.history.records()
    readings = tuple(session.read_devices())
    snapshot = Snapshot(session.settings.units, records, readings, inventory, "cpu")
    devices = snapshot.devices
    device = chosen if chosen in devices else _device_of(records, devices)
    return Snapshot(session.settings.units, records, readings, inventory, device)


def _device_of(records: tuple[CellRecord, ...], devices: list[str]) -> str:
    measured = {device for record in records for device in record.devices}
    return next((device for device in devices if device in measured), devices[0])
