"""Every device's ledger, at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.devices.accelerators import AcceleratorReader, MpsReader
from nbmem.devices.protocols import reading_failed
from nbmem.heap import notes_on_frozen
from nbmem.heap.pinned import pinned_total
from nbmem.ledger.accelerator import accelerator_ledger, metal_ledger
from nbmem.ledger.main_memory import main_memory_ledger
from nbmem.ledger.pinned import pinned_ledger
from nbmem.records import DeviceLedger, Ledger

if TYPE_CHECKING:
    from nbmem.devices import DeviceReader, Devices
    from nbmem.heap import StorageTable
    from nbmem.ledger.pools import FindOwners
    from nbmem.records import Inventory


def take_ledger(
    inventory: Inventory,
    table: StorageTable,
    devices: Devices,
    *,
    device: str | None = None,
    find_owners: FindOwners = dict,
    now: float,
) -> Ledger:
    """Returns the sums of each device that `Devices.choose(device)` names.

    Nothing is started, synchronized, freed or held.

    Args:
        inventory: what was found, taken just before.
        table: the storages that `inventory` speaks of.
        devices: reads the counters.
        device: `cuda:0`, `cpu`, …; None takes the accelerators, or the cpu where there is none.
            Pinned host memory has a sum of its own, unless one accelerator is asked for.
        find_owners: tells who keeps each private pool; called if there is one.
        now: seconds since the epoch.

    Raises:
        UnknownDeviceError: this machine has no such device.
    """
    chosen = devices.choose(device)
    readers = [reader for reader in chosen if reader.kind != "host"] or [devices.cpu]
    ledgers = [_ledger_of(reader, inventory, table, devices, find_owners) for reader in readers]
    pinned = pinned_total() if device in (None, "cpu", "host") else None
    if pinned:
        ledgers.append(pinned_ledger(inventory, table, pinned))
    notes = (*inventory.notes, *notes_on_frozen("storages"))
    return Ledger(tuple(ledgers), taken_at=now, notes=notes)


def _ledger_of(
    reader: DeviceReader,
    inventory: Inventory,
    table: StorageTable,
    devices: Devices,
    find_owners: FindOwners,
) -> DeviceLedger:
    try:
        if isinstance(reader, AcceleratorReader):
            return accelerator_ledger(inventory, table, reader, find_owners)
        if isinstance(reader, MpsReader):
            return metal_ledger(inventory, table, reader)
        return main_memory_ledger(inventory, table, devices.host, _sharing(devices))
    except Exception as error:  # one device that can't be read must not hide the others
        note = reading_failed(reader.device, "ledger", error)
        return DeviceLedger(reader.device, reader.kind, None, (), notes=(note,))


def _sharing(devices: Devices) -> tuple[str, ...]:
    """Returns the accelerators that have no memory of their own: what they hold is main memory."""
    capacities = ((reader.device, reader.capacity()) for reader in devices.accelerators())
    return tuple(device for device, told in capacities if told is not None and told.unified)
