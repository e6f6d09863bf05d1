"""What torch can get of a card whose driver, context and other processes take known bytes."""

import json
import os
import subprocess
import sys

MIB, GIB = 2**20, 2**30
BEGIN = """
import ctypes, json, sys, torch, nbmem
MIB = 2**20
RUNTIME = ctypes.CDLL("libemulatedcuda.so")
RUNTIME.emulated_cuda_calls.restype = ctypes.c_long

def calls(*names):
    return sum(RUNTIME.emulated_cuda_calls(name.encode()) for name in names)

def fill(step):
    kept = []
    while True:
        kept.append(torch.empty(step * MIB, dtype=torch.uint8, device="cuda:0"))

def refused(step=20):
    try:
        with nbmem.measure("fill") as measured:
            fill(step)
    except torch.OutOfMemoryError:
        return measured.record

def gpu():
    return nbmem.read_devices()[0]

def facts(parts):
    return [parts.bytes, parts.total, parts.driver, parts.others, parts.beyond_limit]

def tell(*figures):
    print(json.dumps(figures), flush=True)
"""
ALONE = {name: value for name, value in os.environ.items() if name != "EMULATED_CUDA_CARD"}
"""Not on the card that the processes of this run share: here each byte is told."""
SMALL = {
    "EMULATED_CUDA_DEVICES": "1",
    "EMULATED_CUDA_BYTES": str(2 * GIB),
    "EMULATED_CUDA_CONTEXT_BYTES": str(100 * MIB),
    "EMULATED_CUDA_RESERVED_BYTES": str(60 * MIB),
    "EMULATED_CUDA_VALUES": "0",
}


def begin(program, **settings):
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + program],
        env=ALONE | SMALL | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told_by(program, **settings):
    """Returns the lines of figures that a process of its own told."""
    process = begin(program, **settings)
    printed, _ = process.communicate(timeout=120)
    assert 0 == process.returncode
    return [json.loads(line) for line in printed.splitlines()]


HAD = 2 * GIB - 100 * MIB


def test_at_out_of_memory_in_the_first_cell_the_bar_is_full():
    (delta, parts) = told_by("""
delta = refused().devices["cuda:0"]
tell(delta.peak, delta.capacity)
tell(*facts(delta.parts))
""")
    assert [HAD // (20 * MIB) * 20 * MIB, HAD] == delta
    assert [HAD, 2 * GIB + 60 * MIB, 60 * MIB, 100 * MIB, 0] == parts


def test_expandable_segments_under_a_limit_of_the_environment_fill_the_bar():
    ((peak, *parts),) = told_by(
        """
delta = refused().devices["cuda:0"]
tell(delta.peak, *facts(delta.parts))
""",
        PYTORCH_ALLOC_CONF="expandable_segments:True,per_process_memory_fraction:0.5",
    )
    assert abs(GIB - parts[0]) <= 1
    assert GIB - 20 * MIB < peak <= GIB
    assert [2 * GIB + 60 * MIB, 60 * MIB, 100 * MIB, HAD - parts[0]] == parts[1:]


def test_cuda_malloc_async_fills_the_bar_with_and_without_a_limit():
    limited, whole = told_by(
        """
for fraction in (0.25, 1.0):
    torch.cuda.set_per_process_memory_fraction(fraction)
    delta = refused().devices["cuda:0"]
    tell(delta.peak, delta.capacity)
    torch.cuda.empty_cache()
""",
        PYTORCH_ALLOC_CONF="backend:cudaMallocAsync",
    )
    step = 32 * MIB  # the pool's segments
    assert HAD == whole[1]
    assert HAD - step < whole[0] <= HAD
    assert abs(512 * MIB - limited[1]) <= 1
    assert 512 * MIB - step < limited[0] <= 512 * MIB


HOLDER = """
kept = torch.empty(600 * MIB, dtype=torch.uint8, device="cuda:0")
tell(torch.cuda.memory_reserved(0))
sys.stdin.readline()
del kept
torch.cuda.empty_cache()
tell(torch.cuda.memory_reserved(0))
sys.stdin.readline()
"""


def test_what_another_process_holds_is_not_to_be_had_until_it_goes(tmp_path):
    shared = {"EMULATED_CUDA_CARD": str(tmp_path / "card")}
    other = begin(HOLDER, **shared)
    try:
        assert [600 * MIB] == json.loads(other.stdout.readline())
        program = """
before = gpu()
tell(before.capacity, before.parts.others)
delta = refused().devices["cuda:0"]
tell(delta.peak, *facts(delta.parts))
sys.stdin.readline()
tell(*facts(gpu().parts))
"""
        watcher = begin(program, **shared)
        assert [HAD - 600 * MIB, 700 * MIB] == json.loads(watcher.stdout.readline())
        left = HAD - 600 * MIB - 100 * MIB  # this process's own context, too
        peak, *parts = json.loads(watcher.stdout.readline())
        assert left // (20 * MIB) * 20 * MIB == peak
        assert [left, 2 * GIB + 60 * MIB, 60 * MIB, 800 * MIB, 0] == parts
        other.stdin.write("\n")
        other.stdin.flush()
        assert [0] == json.loads(other.stdout.readline())
        rest, _ = watcher.communicate("\n", timeout=60)
        parts = json.loads(rest)
        assert [left + 600 * MIB, 2 * GIB + 60 * MIB, 60 * MIB, 200 * MIB, 0] == parts
    finally:
        other.communicate("\n", timeout=60)


def test_looking_makes_no_call_of_cudas_where_the_driver_tells():
    ((asked, others),) = told_by("""
kept = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda:0")
gpu()
before = calls("cudaMemGetInfo"), calls("cudaDeviceSynchronize", "cudaStreamSynchronize",
    "cudaMalloc", "cudaFree", "cudaEventRecord", "cudaLaunchKernel")
for _ in range(5):
    gpu()
    with nbmem.measure("nothing"):
        pass
after = calls("cudaMemGetInfo"), calls("cudaDeviceSynchronize", "cudaStreamSynchronize",
    "cudaMalloc", "cudaFree", "cudaEventRecord", "cudaLaunchKernel")
tell(*(b - a for a, b in zip(before, after)))
""")
    assert (0, 0) == (asked, others)


def test_without_the_drivers_library_cuda_is_asked_once_a_look_and_on_no_card_that_is_unused():
    parts, (asked, others, context, second) = told_by(
        """
sys.modules["pynvml"] = None
kept = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda:0")
tell(*facts(gpu().parts))
names = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMalloc", "cudaFree",
    "cudaEventRecord", "cudaLaunchKernel")
before = calls("cudaMemGetInfo"), calls(*names)
second = nbmem.read_devices()[1]
tell(calls("cudaMemGetInfo") - before[0], calls(*names) - before[1],
    torch._C._cuda_hasPrimaryContext(1), second.capacity)
""",
        EMULATED_CUDA_DEVICES="2",
    )
    assert [HAD, 2 * GIB, None, 100 * MIB, 0] == parts
    assert (1, 0, False, 2 * GIB) == (asked, others, context, second)
