"""What has no name on a GPU gets the cell and line that allocated it, where history tells."""

from types import SimpleNamespace

import pytest
import torch

from nbmem.devices.history import Allocation, labels_in, stacks_in
from nbmem.devices.snapshot import Block
from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory
from nbmem.render.names import nameless
from nbmem.session.allocated_at import AllocatedAt, cells_by_file, line_in_cell

CELLS = {"/tmp/ipykernel_1/abc.py": 7, "/tmp/ipykernel_1/old.py": 3}
STACK = (
    "/site/torch/nn/functional.py:12 linear",
    "/tmp/ipykernel_1/old.py:2 train",
    "/tmp/ipykernel_1/abc.py:4 <module>",
    "/site/IPython/core/interactiveshell.py:3600 run_code",
)


def block(storage, stack=STACK):
    size = storage.nbytes()
    return Block(storage.data_ptr(), size, size, "live", 0, "large", False, False, stack)


class OneGpu:
    """Says of main memory what the history of an allocator says of a GPU's."""

    def __init__(self, blocks=(), label="", on=True):
        self.blocks, self.label, self.on = blocks, label, on
        self.asked = []

    def allocations_at(self, device, addresses):
        self.asked.append((device, set(addresses)))
        stacks = stacks_in(self.blocks, addresses)
        if not self.on:
            return {}
        return {each: Allocation(stacks.get(each, ()), self.label) for each in addresses}


def tell(inventory, table, gpu, cells=CELLS):
    return AllocatedAt(table, gpu).tell(inventory, cells)


@pytest.fixture
def on_gpu(monkeypatch):
    """A table that takes main memory for `cuda:0`."""
    table = StorageTable()
    real = table._learn_device

    def learn(device):
        total = real(device)
        if total is not None:  # what other tests left on `meta`
            total.device = "cuda:0"
        return total

    monkeypatch.setattr(table, "_learn_device", learn)
    return table


def record_in(inventory, key):
    return next(record for record in inventory.storages if record.key == key)


def test_the_line_is_that_of_the_cell_that_ran_not_of_the_function_it_called():
    assert (7, 4) == line_in_cell(STACK, CELLS)
    assert (3, 2) == line_in_cell(STACK, {"/tmp/ipykernel_1/old.py": 3})
    assert line_in_cell(STACK, {}) is None
    assert line_in_cell(("no line here",), CELLS) is None


def test_a_storage_without_a_name_gets_its_cell_and_line(on_gpu):
    hidden, named = torch.ones(1000), torch.ones(1000)
    gpu = OneGpu([block(hidden.untyped_storage()), block(named.untyped_storage())])
    inventory = take_inventory(on_gpu, {"named": named}, now=0.0)
    told = tell(inventory, on_gpu, gpu)
    mine = record_in(told, on_gpu.find(hidden.untyped_storage()).serial)
    assert ((), 7, 4) == (mine.names, mine.created_by, mine.line)
    other = record_in(told, on_gpu.find(named.untyped_storage()).serial)
    assert (("named",), None, None) == (other.names, other.created_by, other.line)
    ((device, addresses),) = gpu.asked
    assert "cuda:0" == device
    assert hidden.data_ptr() in addresses
    assert named.data_ptr() not in addresses


def test_the_allocator_is_not_asked_where_everything_has_a_name_or_lies_in_main_memory():
    hidden = torch.ones(1000)
    table, gpu = StorageTable(), OneGpu([])
    inventory = take_inventory(table, {}, now=0.0)
    assert inventory is tell(inventory, table, gpu)
    assert [] == gpu.asked
    del hidden


def test_a_block_without_a_stack_tells_nothing():
    storage = torch.ones(1000).untyped_storage()
    address = storage.data_ptr()
    assert {} == stacks_in([block(storage, ())], [address])
    assert {address: STACK} == stacks_in([block(storage)], [address])


def test_a_view_into_a_block_is_told_by_that_block():
    wide = Block(4096, 8192, 8192, "live", 0, "large", False, False, STACK)
    assert {4160: STACK} == stacks_in([wide], [4160, 4095, 4096 + 8192])


def test_each_storage_is_asked_for_once_while_the_history_is_on(on_gpu):
    hidden, gpu = torch.ones(1000), OneGpu(on=False)
    told, more = AllocatedAt(on_gpu, gpu), []

    def look():
        return told.tell(take_inventory(on_gpu, {}, now=0.0), CELLS)

    look()
    look()
    gpu.on, gpu.label = True, "encoder"
    look()
    more.append(torch.ones(2000))
    for _ in range(3):
        inventory = look()
    mine, other = hidden.data_ptr(), more[0].data_ptr()
    # Twice while the history is off, once when it is on.
    assert 3 == sum(mine in addresses for _, addresses in gpu.asked)
    assert 1 == sum(other in addresses for _, addresses in gpu.asked)
    for tensor in (hidden, more[0]):
        key = on_gpu.find(tensor.untyped_storage()).serial
        assert "encoder" == record_in(inventory, key).label


def test_a_label_that_the_user_gave_stands_where_the_name_is_missing(on_gpu):
    hidden, gpu = torch.ones(1000), OneGpu(label="a <b>\x1b[31m", on=True)
    inventory = tell(take_inventory(on_gpu, {}, now=0.0), on_gpu, gpu)
    mine = record_in(inventory, on_gpu.find(hidden.untyped_storage()).serial)
    assert r"no name · a <b>\x1b[31m" == nameless(mine)


def test_labels_are_those_of_the_blocks_that_live():
    def event(action, address, label=""):
        return {"action": action, "addr": address, "user_metadata": label}

    events = [
        event("segment_alloc", 100, "no block"),
        event("alloc", 100, "old"),
        event("free_requested", 100),
        event("free_completed", 100),
        event("alloc", 100),
        event("alloc", 200, "kept"),
        event("alloc", 300, "waits for a stream"),
        event("free_requested", 300),
        {"action": "alloc", "addr": 400},
        event("snapshot", 0, "not one either"),
    ]
    assert {200: "kept", 300: "waits for a stream"} == labels_in(events)


def test_the_files_of_cells_come_from_the_shells_compiler():
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"a.py": 3}))
    assert {"a.py": 3} == cells_by_file(shell)
    assert {} == cells_by_file(None)
    assert {} == cells_by_file(SimpleNamespace(compile=None))
