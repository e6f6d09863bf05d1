"""How often nbmem calls the runtime: counted by the emulation, so that a promise is a number."""

import ctypes
import gc
import os
import subprocess
import sys

import pytest
import torch

from nbmem.session import current_session

RUNTIME = ctypes.CDLL("libemulatedcuda.so")
RUNTIME.emulated_cuda_calls.restype = ctypes.c_long
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def waits():
    return sum(RUNTIME.emulated_cuda_calls(name.encode()) for name in WAITS)


@pytest.fixture
def session(shell):
    gc.collect()
    shell.run_line_magic("load_ext", "nbmem")
    return current_session()


def waits_of(act):
    before = waits()
    report = act()
    assert () == report.refused
    return waits() - before


def round_trip(session, numbers, devices):
    """Parks as many tensors as there are numbers, and brings them back; returns the waits."""
    tensors = [
        torch.full((1000,), float(n), device=devices[n % len(devices)]) for n in range(numbers)
    ]
    session.shell.user_ns["tensors"] = tensors
    there = waits_of(lambda: session.park(["tensors"]))
    assert {"cpu"} == {tensor.device.type for tensor in tensors}
    assert [float(n) for n in range(numbers)] == [tensor[-1].item() for tensor in tensors]
    back = waits_of(lambda: session.unpark([]))
    assert [devices[n % len(devices)] for n in range(numbers)] == [str(t.device) for t in tensors]
    assert [1000.0 * n for n in range(numbers)] == [t.cpu().sum().item() for t in tensors]
    return there, back


@pytest.mark.parametrize("devices", [["cuda:0"], ["cuda:0", "cuda:1"]], ids=["one", "two"])
def test_the_waits_do_not_grow_with_the_number_of_storages(session, devices):
    if len(devices) > torch.cuda.device_count():
        pytest.fail("set EMULATED_CUDA_DEVICES=2: the test is about two cards")
    few = round_trip(session, 4, devices)
    many = round_trip(session, 200, devices)
    assert few == many
    # What other streams write, and then the copies: twice for each card, there and back.
    assert (2 * len(devices), 2 * len(devices)) == many


def test_looking_at_pinned_memory_calls_nothing_before_the_user_does():
    program = """
import ctypes, torch, nbmem
from nbmem.heap.pinned import pinned_total
runtime = ctypes.CDLL("libemulatedcuda.so")
def calls():
    room = ctypes.create_string_buffer(1 << 16)
    runtime.emulated_cuda_report(room, len(room))
    return [l for l in room.value.decode().splitlines() if "nvml" not in l.lower()]
x = torch.ones(1000)
before = calls()
assert 0 == pinned_total()
devices = [each.device for each in nbmem.take_ledger("cpu").devices]
print(before == calls(), "host" in devices, torch.cuda.is_initialized())
y = torch.ones(1000).pin_memory()
assert 4096 == pinned_total()
devices = [each.device for each in nbmem.take_ledger("cpu").devices]
print("host" in devices, torch.cuda.is_initialized())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "True False False\nTrue False" == done.stdout.strip()
