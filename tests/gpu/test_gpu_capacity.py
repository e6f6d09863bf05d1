"""What torch can get of a GPU: at a real out of memory the bar is full, and its parts add up."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import nbmem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

ROOT = Path(__file__).parents[2]
MIB, GIB = 2**20, 2**30
STEP = 64 * MIB


@pytest.fixture(autouse=True)
def fresh_allocator():
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def gpu():
    return next(reading for reading in nbmem.read_devices() if reading.device == "cuda:0")


def fill():
    """Takes all that torch can get, in blocks that fill their segments, until it is refused."""
    kept = []
    while True:
        kept.append(torch.empty(STEP, dtype=torch.uint8, device="cuda:0"))


def measure_until_refused(label):
    with nbmem.measure(label) as measured, pytest.raises(torch.OutOfMemoryError):
        fill()
    return measured.record.devices["cuda:0"]


def in_a_fresh_process(program):
    """Returns what `program` prints, on a card of its own where cards are emulated."""
    alone = {name: value for name, value in os.environ.items() if name != "EMULATED_CUDA_CARD"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=alone, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(figure) for figure in done.stdout.split()]


def adds_up(parts):
    less = (parts.driver or 0) + (parts.others or 0) + parts.beyond_limit
    assert parts.total - less == parts.bytes
    return True


def test_at_out_of_memory_by_size_the_bar_is_full():
    peak, capacity, total, driver, others, beyond = in_a_fresh_process("""
import torch, nbmem
kept = []
try:
    with nbmem.measure("fill") as measured:
        while True:
            kept.append(torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda:0"))
except torch.OutOfMemoryError:
    delta = measured.record.devices["cuda:0"]
parts = delta.parts
print(delta.peak, delta.capacity, parts.total, parts.driver or 0, parts.others, parts.beyond_limit)
""")
    assert capacity - 2 * STEP < peak <= capacity
    assert total - driver - others - beyond == capacity


@pytest.mark.parametrize("fraction", [0.1, 0.25])
def test_at_out_of_memory_by_a_limit_the_bar_is_full(fraction):
    torch.cuda.set_per_process_memory_fraction(fraction)
    delta = measure_until_refused(f"fill {fraction}")
    allowed = fraction * torch.cuda.get_device_properties(0).total_memory
    assert abs(delta.capacity - allowed) <= 16  # torch keeps the fraction by its own rounding
    assert delta.capacity - 2 * STEP < delta.peak <= delta.capacity
    assert adds_up(delta.parts)
    assert 0 < delta.parts.beyond_limit


def test_what_can_be_had_is_what_is_reserved_and_what_cuda_calls_free():
    kept = torch.empty(3 * STEP, dtype=torch.uint8, device="cuda:0")
    for _ in range(20):  # other processes come and go
        before, told, after = torch.cuda.mem_get_info(0)[0], gpu(), torch.cuda.mem_get_info(0)[0]
        if before == after:
            break
    assert abs(torch.cuda.memory_reserved(0) + after - told.capacity) <= STEP
    assert adds_up(told.parts)
    del kept


def test_a_limit_below_what_is_reserved_is_told_as_it_is():
    kept = torch.empty(4 * STEP, dtype=torch.uint8, device="cuda:0")
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(2 * STEP / whole)
    assert abs(2 * STEP - gpu().capacity) <= 16
    assert adds_up(gpu().parts)
    del kept


def test_the_ledger_tells_the_limit_below_what_is_free():
    torch.cuda.set_per_process_memory_fraction(0.5)
    (ledger,) = nbmem.take_ledger("cuda:0").devices
    total = next(one for one in ledger.sums if one.code == "total")
    lines = {line.code: line.bytes for line in total.lines}
    assert lines["reserved"] + lines["free"] - lines["limit"] == ledger.capacity.bytes
    assert sum(size for code, size in lines.items() if code != "limit") == total.total.bytes


def test_before_cuda_starts_the_driver_tells_it_and_nothing_is_started():
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    capacity, left, reserved = in_a_fresh_process("""
import torch, nbmem
first = nbmem.read_devices()[0]
assert not torch.cuda.is_initialized()
parts = first.parts
print(parts.bytes, parts.total - (parts.driver or 0) - parts.others, first.reserved)
""")
    assert (left, 0) == (capacity, reserved)
