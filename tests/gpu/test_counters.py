"""nbmem's figures of a GPU against torch's own counters, nvidia-smi and sums by hand."""

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
MIB = 2**20


def in_a_fresh_process(program):
    """Returns what `program` prints, run by a Python in which CUDA has not started."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def fresh_allocator():
    """Blocks cached by earlier tests would make a small request take a larger block."""
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def gpu_bytes(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda:0")


def test_reading_starts_no_cuda_so_that_a_forked_child_still_can():
    printed = in_a_fresh_process("""
import os, torch, nbmem
first, *_ = nbmem.read_devices()
with nbmem.measure("nothing on the gpu") as m:
    kept = torch.ones(10)
assert not torch.cuda.is_initialized()
print(first.device, first.allocated, first.reserved, m.record.devices["cuda:0"].delta)
child = os.fork()
if child == 0:
    torch.ones(1, device="cuda")
    os._exit(0)
print(os.waitpid(child, 0)[1])
""")
    assert printed.split() == ["cuda:0", "0", "0", "0", "0"]


def test_every_counter_is_torchs_own():
    kept, passing = gpu_bytes(3 * MIB + 1), gpu_bytes(8 * MIB)
    del passing
    reading = next(r for r in nbmem.read_devices() if r.device == "cuda:0")
    stats = torch.cuda.memory_stats(0)
    assert torch.cuda.memory_allocated(0) == reading.allocated
    assert torch.cuda.max_memory_allocated(0) == reading.peak_allocated
    assert torch.cuda.memory_reserved(0) == reading.reserved
    assert stats["requested_bytes.all.current"] == reading.requested
    assert stats["active_bytes.all.current"] == reading.active
    assert torch.cuda.get_device_name(0) == reading.name
    assert 3 * MIB + 1 == kept.numel()


def test_total_and_use_of_the_whole_card_are_nvidia_smis():
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    query = ["nvidia-smi", "-i", uuid, "--query-gpu=memory.total,memory.used"]
    try:
        told = subprocess.check_output([*query, "--format=csv,noheader,nounits"], text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nvidia-smi can't be run here")
    total, used = (int(figure) for figure in told.split(","))
    reading = next(r for r in nbmem.read_devices() if r.device == "cuda:0")
    assert total == reading.parts.total // MIB
    assert abs(used - reading.driver_used // MIB) <= 64  # other processes come and go


@pytest.mark.parametrize(
    ("size", "rounded"),
    [(1, 512), (512, 512), (513, 1024), (100_000, 100_352), (3 * MIB, 3 * MIB)],
)
def test_a_cell_that_keeps_one_tensor_grew_by_its_bytes_rounded_to_512(size, rounded):
    before = torch.cuda.memory_allocated(0)
    with nbmem.measure("one tensor") as m:
        kept = gpu_bytes(size)
    gpu = m.record.devices["cuda:0"]
    assert (before, before + rounded, rounded) == (gpu.before, gpu.after, gpu.delta)
    assert before + rounded == gpu.peak == torch.cuda.max_memory_allocated(0)
    assert rounded - size == gpu.unattributed
    assert size == kept.numel()


def test_nested_cells_and_the_users_own_resets_all_come_out_right():
    start = torch.cuda.memory_allocated(0)
    with nbmem.measure("outer") as outer:
        gpu_bytes(64 * MIB)
        with nbmem.measure("inner") as inner:
            gpu_bytes(32 * MIB)
            torch.cuda.reset_peak_memory_stats(0)
            gpu_bytes(16 * MIB)
            after_reset = torch.cuda.max_memory_allocated(0)
    assert start + 64 * MIB == outer.record.devices["cuda:0"].peak
    assert start + 32 * MIB == inner.record.devices["cuda:0"].peak
    assert start + 16 * MIB == after_reset == torch.cuda.max_memory_allocated(0)
    assert start + 16 * MIB == torch.accelerator.max_memory_allocated(0)


TRAINING = """
import contextlib, torch
torch.manual_seed(0)
def block():
    return contextlib.nullcontext()
if {with_nbmem}:
    import nbmem
    def block():
        return nbmem.measure("step")
model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(32 * 30 * 30, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(64, 3, 32, 32).cuda(), torch.randint(10, (64,)).cuda()
for step in range(4):
    if step == 2:
        torch.cuda.reset_peak_memory_stats()
    with block():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        with block():
            optimizer.step()
        optimizer.zero_grad()
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
          torch.cuda.max_memory_reserved(), torch.accelerator.max_memory_allocated())
for name, value in torch.cuda.memory_stats().items():
    print(name, value)
"""


def test_a_training_script_reads_the_same_counters_with_and_without_nbmem():
    plain, measured = (
        in_a_fresh_process(TRAINING.replace("{with_nbmem}", str(with_nbmem)))
        for with_nbmem in (False, True)
    )
    assert plain == measured
    assert 4 < len(plain.splitlines())


def test_a_device_that_was_not_used_gets_no_context():
    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has one GPU")
    printed = in_a_fresh_process("""
import torch, nbmem
torch.ones(1, device="cuda:0")
before = torch._C._cuda_hasPrimaryContext(1)
readings = nbmem.read_devices()
print(before, torch._C._cuda_hasPrimaryContext(1), readings[1].device, readings[1].allocated)
""")
    assert printed.split() == ["False", "False", "cuda:1", "0"]
