"""How often parking waits for the card: not once for each storage."""

import ctypes
import gc

import pytest
import torch

from nbmem.session import current_session

RUNTIME = ctypes.CDLL("libcudart.so.13")
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
