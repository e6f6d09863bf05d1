"""What the emulation promises: torch's own CUDA machinery runs on it, and every call is counted."""

import ctypes
import gc
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

MIB = 2**20
RUNTIME = ctypes.CDLL("libemulatedcuda.so")
RUNTIME.emulated_cuda_calls.restype = ctypes.c_long


def calls(*names):
    """How often the runtime's functions were called."""
    return sum(RUNTIME.emulated_cuda_calls(name.encode()) for name in names)


def in_a_fresh_process(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(autouse=True)
def fresh_allocator():
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def block(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def test_torchs_allocator_rounds_caches_and_counts():
    told = in_a_fresh_process("""
import torch
def told():
    print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
          torch.cuda.memory_reserved())
large = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
small = torch.empty(1000, dtype=torch.uint8, device="cuda")
told()
del large
torch.cuda.empty_cache()
told()
""")
    rounded, segments = 4 * MIB + 1024, 22 * MIB  # one of 20 and one of 2 MiB
    assert [rounded, rounded, segments, 1024, rounded, 2 * MIB] == [int(one) for one in told]


def test_copies_move_bytes():
    x = torch.randn(1000, 7)
    assert torch.equal(x, x.cuda().clone().cpu())


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.LayerNorm(50)), (64, 100)),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2)), (4, 3, 16, 16)),
        (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (4, 10, 64)),
        (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).half(), (4, 10, 64)),
    ],
)
def test_models_train(model, shape):
    model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(shape, dtype=next(model.parameters()).dtype, device="cuda")
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def test_a_card_refuses_what_it_has_no_room_for_in_torchs_words():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *told: seen.append(told))
    _, total = torch.cuda.mem_get_info()
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        block(2 * total)
    assert 0 == seen[-1][0], "the card's number"
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="allowed; "):
            block(total // 5)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_history_and_snapshots_know_each_block():
    torch.cuda.memory._record_memory_history(max_entries=100, stacks="python")
    try:
        x = block(3 * MIB)
        snapshot = torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    blocks = [b for s in snapshot["segments"] for b in s["blocks"]]
    active = [b for b in blocks if b["state"] == "active_allocated"]
    assert torch.cuda.memory_allocated() == sum(b["size"] for b in active)
    (mine,) = [b for b in active if b["address"] == x.data_ptr()]
    assert any(frame["name"] == "block" for frame in mine["frames"])


def test_each_card_has_its_own_counters_and_gets_a_context_when_used():
    told = in_a_fresh_process(
        """
import torch
x = torch.arange(10.).to("cuda:1")
print(torch.cuda.device_count(), torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1),
      x.to("cuda:0").tolist() == list(range(10)))
""",
        EMULATED_CUDA_DEVICES="2",
    )
    assert ["2", "0", "512", "True"] == told


def test_streams_are_busy_while_a_kernel_sleeps():
    stream = torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record(stream)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
    end.record(stream)
    assert not stream.query()
    end.synchronize()
    assert stream.query()
    assert start.elapsed_time(end) >= 199


def test_pinned_memory_is_known():
    x = torch.randn(1000)
    pinned = x.pin_memory()
    assert (False, True) == (x.is_pinned(), pinned.is_pinned())
    assert torch.equal(x, pinned.to("cuda", non_blocking=True).cpu())


SEGMENTS = """
import torch
x = torch.arange(100_000.).cuda()
y = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
assert x.cpu().tolist()[-1] == 99_999.
del y
torch.cuda.empty_cache()
print(torch.cuda.get_allocator_backend(), torch.cuda.memory_allocated())
try:
    torch.empty(9 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("refused")
"""


@pytest.mark.parametrize(
    ("configuration", "backend"),
    [
        ("expandable_segments:True", "native"),
        ("max_split_size_mb:64", "native"),
        ("backend:cudaMallocAsync", "cudaMallocAsync"),
    ],
)
def test_every_kind_of_allocator_works(configuration, backend):
    told = in_a_fresh_process(SEGMENTS, PYTORCH_CUDA_ALLOC_CONF=configuration)
    assert [backend, "400384", "refused"] == told


def test_a_captured_graph_has_a_pool_of_its_own():
    x = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = (x + 1) * 2
    graph.replay()
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    assert 2 == len(pools)
    assert 1000 == kept.numel()


def test_nvml_speaks_of_the_same_card():
    pynvml = pytest.importorskip("pynvml")
    pynvml.nvmlInit()
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    card = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    memory = pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2)
    free, total = torch.cuda.mem_get_info()
    assert (free, total) == (memory.free, memory.total - memory.reserved)
    assert os.getpid() in {p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)}


LAUNCHES = ("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC")


def test_every_call_is_counted():
    before = calls("cudaDeviceSynchronize"), calls(*LAUNCHES), calls("cudaMalloc")
    torch.cuda.synchronize()
    kept = block(64 * MIB).fill_(1)
    after = calls("cudaDeviceSynchronize"), calls(*LAUNCHES), calls("cudaMalloc")
    assert [1, 1, 1] == [now - then for now, then in zip(after, before, strict=True)]
    assert 64 * MIB == kept.numel()


@pytest.mark.skipif(
    os.environ.get("EMULATED_CUDA_VALUES") != "1", reason="EMULATED_CUDA_VALUES is not 1"
)
def test_with_values_the_card_computes_what_the_cpu_does():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 2)), torch.randn(5, 20)
    expected = model(x)
    assert torch.allclose(expected, model.cuda()(x.cuda()).cpu(), atol=1e-6)
    assert [1, 3] == torch.tensor([0, 5, 0, 7], device="cuda").nonzero().flatten().tolist()
