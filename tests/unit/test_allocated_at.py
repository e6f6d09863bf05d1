"""What has no name on a GPU gets the cell and line that allocated it, where history tells."""

from types import SimpleNamespace

import pytest
import torch

from nbmem.devices.snapshot import Block
from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory
from nbmem.ledger import stacks_of
from nbmem.session.allocated_at import cells_by_file, line_in_cell, tell_lines

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
    """Says of main memory what an allocator says of a GPU's."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.asked = []

    def blocks_with_history(self, device):
        self.asked.append(device)
        return tuple(self.blocks)


@pytest.fixture
def on_gpu(monkeypatch):
    """A table that takes main memory for `cuda:0`."""
    table = StorageTable()
    real = table._learn_device

    def learn(device):
        total = real(device)
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
    told = tell_lines(inventory, on_gpu, gpu, CELLS)
    mine = record_in(told, on_gpu.find(hidden.untyped_storage()).serial)
    assert ((), 7, 4) == (mine.names, mine.created_by, mine.line)
    other = record_in(told, on_gpu.find(named.untyped_storage()).serial)
    assert (("named",), None, None) == (other.names, other.created_by, other.line)
    assert ["cuda:0"] == gpu.asked


def test_the_allocator_is_not_asked_where_everything_has_a_name_or_lies_in_main_memory():
    hidden = torch.ones(1000)
    table, gpu = StorageTable(), OneGpu([])
    inventory = take_inventory(table, {}, now=0.0)
    assert inventory is tell_lines(inventory, table, gpu, CELLS)
    assert [] == gpu.asked
    del hidden


def test_a_block_without_a_stack_tells_nothing():
    tensor = torch.ones(1000)
    table = StorageTable()
    serial = table.note(tensor.untyped_storage()).serial
    assert {} == stacks_of({serial}, table, "cpu", [block(tensor.untyped_storage(), ())])
    assert {serial: STACK} == stacks_of({serial}, table, "cpu", [block(tensor.untyped_storage())])


def test_a_view_into_a_block_is_told_by_that_block():
    whole = torch.ones(1000)
    table = StorageTable()
    serial = table.note(whole.untyped_storage()).serial
    storage = whole.untyped_storage()
    wide = Block(storage.data_ptr() - 64, 8192, 8192, "live", 0, "large", False, False, STACK)
    assert {serial: STACK} == stacks_of({serial}, table, "cpu", [wide])


def test_the_files_of_cells_come_from_the_shells_compiler():
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"a.py": 3}))
    assert {"a.py": 3} == cells_by_file(shell)
    assert {} == cells_by_file(None)
    assert {} == cells_by_file(SimpleNamespace(compile=None))
