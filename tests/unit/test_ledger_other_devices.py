"""Accelerators that are not NVIDIA's: what they tell, and what they do not."""

from types import SimpleNamespace

import pytest
import torch
from ledger_machine import MIB, Reference, Storage, closes, lines, record, sentences
from simulated_cuda import block, segment

from nbmem.devices.accelerators import MpsReader
from nbmem.devices.protocols import CounterUnavailableError
from nbmem.devices.snapshot import read_blocks
from nbmem.ledger.accelerator import metal_ledger
from nbmem.records import Inventory


def test_apples_gpu_has_two_sums_and_says_that_metal_tells_no_more(monkeypatch):
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 10 * MIB)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 16 * MIB)
    references = [Reference(1, Storage(4 * MIB, None, device="mps:0"))]
    table = SimpleNamespace(live=lambda: references)
    inventory = Inventory((record(1, references[0].storage),), 1.0)
    ledger = metal_ledger(inventory, table, MpsReader())
    allocated, reserved = ledger.sums
    assert {"user": 4 * MIB, "not found": 6 * MIB} == lines(allocated)
    assert {"allocated": 10 * MIB, "cached": 6 * MIB} == lines(reserved)
    assert closes(allocated)
    assert closes(reserved)
    assert "torch.mps.current_allocated_memory()" == allocated.total.equals
    assert "torch.mps.driver_allocated_memory()" == reserved.total.equals
    assert ["The ledger ends at reserved: Metal tells no more."] == sentences(ledger.notes)


def test_blocks_of_an_xpu_are_read_from_its_own_snapshot(monkeypatch):
    def snapshot(pool):
        if pool is not None:
            raise TypeError("incompatible function arguments")
        return {"segments": [segment(4096, block(1024, 1000), device=0)], "device_traces": []}

    monkeypatch.setattr(torch._C, "_xpu_memorySnapshot", snapshot, raising=False)
    (only,) = read_blocks("xpu", 0)
    assert (4096, 1024, 1000, "live") == (only.address, only.size, only.requested, only.state)
    assert () == read_blocks("xpu", 1)


def test_a_device_whose_allocator_lists_no_blocks_says_so():
    with pytest.raises(CounterUnavailableError) as refused:
        read_blocks("npu", 0)
    assert "torch does not list the blocks of npu devices." == str(refused.value)
