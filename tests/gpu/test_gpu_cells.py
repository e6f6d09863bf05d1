"""What a record says of storages on a GPU: names, bytes, and sums that close."""

import gc

import pytest
import torch

import nbmem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

SETUP = """
import torch
model = torch.nn.Linear(1000, 100).cuda()
opt = torch.optim.Adam(model.parameters())
x = torch.randn(64, 1000, device="cuda")
old = torch.empty(4096, dtype=torch.uint8, device="cuda")
"""
STEP = """%%gpumem -o record -q
loss = model(x).square().mean()
loss.backward()
opt.step()
del old
"""


@pytest.fixture(autouse=True)
def fresh_allocator():
    """No garbage of earlier tests dies in the cell, and no cached block is reused unsplit."""
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()


def rounding(storages):
    """Returns what the allocator's 512-byte granules add to small storages."""
    return sum(-s.bytes % 512 for s in storages if s.device == "cuda:0")


def test_a_training_cell_on_the_gpu_names_what_it_left_and_adds_up(shell):
    shell.run_line_magic("load_ext", "nbmem")
    assert shell.run_cell(SETUP).success
    before = torch.cuda.memory_allocated(0)
    torch.cuda.reset_peak_memory_stats(0)
    assert shell.run_cell(STEP).success
    record = shell.user_ns["record"]
    gpu = record.devices["cuda:0"]
    assert (before, torch.cuda.memory_allocated(0)) == (gpu.before, gpu.after)
    assert torch.cuda.max_memory_allocated(0) == gpu.peak
    assert 4096 == record.freed["cuda:0"]
    created = [s for s in record.created if s.device == "cuda:0"]
    assert gpu.after == (
        gpu.before + sum(s.bytes for s in created) - 4096
        + record.resized.get("cuda:0", 0) + gpu.unattributed
    )  # fmt: skip
    named = {name: s for s in created for name in s.names}
    weight = 1000 * 100 * 4
    state = named["opt.state[model.weight]['exp_avg']"]
    assert (weight, "optimizer state", "cuda:0") == (state.bytes, state.category, state.device)
    assert "gradient" == named["model.weight.grad"].category
    assert 4 == named["loss"].bytes


def test_every_byte_of_small_storages_is_a_storage_or_rounding():
    with nbmem.measure("small") as m:
        kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 700, 5000)]
    gpu = m.record.devices["cuda:0"]
    assert 512 + 1024 + 5120 == gpu.delta
    assert {1, 700, 5000} == {s.bytes for s in m.record.created if s.device == "cuda:0"}
    assert rounding(m.record.created) == gpu.unattributed == 955
    assert 3 == len(kept)
