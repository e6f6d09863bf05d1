"""The ledger of one accelerator: its three sums, as far as they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.devices import CounterUnavailableError
from nbmem.devices.insides import AllocatorState
from nbmem.devices.protocols import reading_failed
from nbmem.ledger.allocator import allocated_sum
from nbmem.ledger.blocks import join_blocks
from nbmem.ledger.calls import Calls
from nbmem.ledger.card import notes_on_containers, read_card, total_sum
from nbmem.ledger.found import find_storages
from nbmem.ledger.pools import pools_of
from nbmem.ledger.reserved import reserved_sum
from nbmem.ledger.unclaimed import block_rows
from nbmem.records import DeviceLedger, LedgerSum, Note

if TYPE_CHECKING:
    from nbmem.devices.accelerators import AcceleratorReader, MpsReader
    from nbmem.heap import StorageTable
    from nbmem.ledger.blocks import BlockJoin
    from nbmem.ledger.pools import FindOwners
    from nbmem.records import AllocatorBlock, Inventory, LedgerLine, ProcessMemory


def accelerator_ledger(
    inventory: Inventory,
    table: StorageTable,
    reader: AcceleratorReader,
    find_owners: FindOwners,
) -> DeviceLedger:
    """Returns the sums of one accelerator, and the blocks and processes behind their lines.

    Args:
        inventory: what was found, just now.
        table: the storages that it speaks of.
        reader: of the device.
        find_owners: tells who keeps each private pool.
    """
    state, calls = reader.allocator_state(), Calls(reader.device, reader.namespace())
    listed = state.blocks is not None
    found = find_storages(inventory, table, reader.device, addresses=listed)
    join = None if state.blocks is None else join_blocks(state.blocks, found)
    pools = pools_of(state.blocks or (), join, state.workspaces, find_owners)
    allocated = allocated_sum(state, join, found, calls)
    reserved = reserved_sum(state, join, calls)
    card, processes, notes = _card(reader, reserved.total)
    blocks, unlabelled = _block_rows(join, state.workspaces, reader)
    return DeviceLedger(
        reader.device,
        "accelerator",
        reader.read().name,
        (allocated, reserved, *card),
        blocks=blocks,
        processes=processes,
        notes=(*_start(reader.device, state), *notes, *unlabelled),
        capacity=reader.capacity(),
        pools=pools,
    )


def _block_rows(
    join: BlockJoin | None, workspaces: frozenset[int], reader: AcceleratorReader
) -> tuple[tuple[AllocatorBlock, ...], tuple[Note, ...]]:
    """Returns the blocks without a tensor, and the note that says why the user's labels lack."""
    if join is None:
        return (), ()
    labels: dict[int, str] = {}
    notes: list[Note] = []
    if join.unclaimed or join.waiting:
        try:
            labels = reader.labels()
        except Exception as error:  # the blocks remain
            notes = [reading_failed(reader.device, "labels", error)]
    return block_rows(join, workspaces, labels), tuple(notes)


def _card(
    reader: AcceleratorReader, reserved: LedgerLine
) -> tuple[tuple[LedgerSum, ...], tuple[ProcessMemory, ...], tuple[Note, ...]]:
    """Returns the sum of the whole card, or the note that says why it ends at reserved."""
    try:
        use = read_card(reader, reserved.bytes)
    except CounterUnavailableError as error:
        sentence = f"The ledger ends at reserved. {error}"
        return (), (), (Note("total", "unavailable", sentence),)
    except Exception as error:  # the driver's library may fail in any way: two sums remain
        return (), (), (reading_failed(reader.device, "total", error),)
    told = total_sum(use, reserved, reader.limit())
    return (told,), use.processes, notes_on_containers(use)


def _start(device: str, state: AllocatorState) -> tuple[Note, ...]:
    if state.started:
        return ()
    sentence = f"{device} has not been used yet, so torch holds nothing on it."
    return (Note("allocated", "not_started", sentence),)


def metal_ledger(inventory: Inventory, table: StorageTable, reader: MpsReader) -> DeviceLedger:
    """Returns the two sums of Apple's GPU: torch tells its allocated and reserved bytes only."""
    sample = reader.sample()
    state = AllocatorState(sample.allocated, None, None, sample.reserved, None, blocks=None)
    calls = Calls(reader.device)
    calls.allocated = "torch.mps.current_allocated_memory()"
    calls.reserved = "torch.mps.driver_allocated_memory()"
    found = find_storages(inventory, table, reader.device)
    sums = allocated_sum(state, None, found, calls), reserved_sum(state, None, calls)
    note = Note("total", "unavailable", "The ledger ends at reserved: Metal tells no more.")
    return DeviceLedger(reader.device, "accelerator", None, sums, notes=(note,))
