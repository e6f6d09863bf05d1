"""What the panel shows at one moment: plain facts, no tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbmem.panel.header import main_device
from nbmem.totals import places_by_category

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.panel.contract import SessionLike
    from nbmem.records import (
        CellRecord,
        DeviceReading,
        Inventory,
        LeakReport,
        Ledger,
        StorageRecord,
    )
    from nbmem.render.stacks import Shown
    from nbmem.totals import Places
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
    ledger: Ledger | None = None
    """None until somebody opened it."""
    shown: Shown = "alive"
    """What the bars of the chart are made of."""
    leaks: LeakReport | None = None
    """None while their section is closed."""

    @property
    def devices(self) -> list[str]:
        """Devices that can be chosen, the main one first."""
        seen = [main_device(self.readings)]
        seen += [reading.device for reading in self.readings if reading.kind != "host"]
        seen += [device for record in self.records for device in record.devices]
        return list(dict.fromkeys(name for name in seen if name != "host"))

    def places(self) -> Places:
        """Returns how many bytes of what are on which device."""
        return places_by_category(self.storages())

    @property
    def lists_alive(self) -> bool:
        """Whether any cell has what was alive at its end: else both kinds of bars are the same."""
        return any(record.alive for record in self.records)

    def storages(self, keys: Sequence[int] | None = None) -> list[StorageRecord]:
        """Returns the live storages, or those of `keys`, largest first."""
        if self.inventory is None:
            return []
        if keys is None:
            return list(self.inventory.storages)
        wanted = set(keys)
        return [storage for storage in self.inventory.storages if storage.key in wanted]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user chose to see."""

    device: str | None = None
    shown: Shown = "alive"


def take_snapshot(
    session: SessionLike, inventory: Inventory | None, ledger: Ledger | None, wanted: Wanted
) -> Snapshot:
    """Returns the present: records and counters now, inventory and ledger as taken before."""
    records = session.history.records()
    readings = tuple(session.read_devices(scan=inventory is None))
    units = session.settings.units
    snapshot = Snapshot(units, records, readings, inventory, "cpu", ledger, wanted.shown)
    devices = snapshot.devices
    device = wanted.device if wanted.device in devices else _device_of(records, devices)
    return replace(snapshot, device=device)


def _device_of(records: tuple[CellRecord, ...], devices: list[str]) -> str:
    measured = {device for record in records for device in record.devices}
    return next((device for device in devices if device in measured), devices[0])
