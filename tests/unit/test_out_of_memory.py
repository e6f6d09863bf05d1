"""Which errors are told as out of memory, and what their texts say in numbers."""

import errno
import json
import subprocess

import pytest
import torch

from nbmem.records import OutOfMemory, from_json, to_json
from nbmem.session.endings import failure_of

KIB, MIB, GIB = 2**10, 2**20, 2**30


def library_type(name, *bases, module="somelib"):
    """Returns an error type as a library that is not installed here has it."""
    return type(name, bases or (Exception,), {"__module__": module})


AcceleratorError = getattr(torch, "AcceleratorError", RuntimeError)
ResourceExhaustedError = library_type("ResourceExhaustedError")
XlaRuntimeError = library_type("XlaRuntimeError", RuntimeError)
DistBackendError = torch.distributed.DistBackendError


def read(error):
    return failure_of(type(error), error)


FIGURES = {
    "cuda 1.0: cached is beyond what is allocated": (
        RuntimeError(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 7.93 GiB total capacity; "
            "6.50 GiB already allocated; 10.50 MiB free; 512.00 KiB cached)"
        ),
        {
            "source": "allocator",
            "device": "cuda:1",
            "asked": 20971520,
            "capacity": 8514772664,  # 7.93 · 2**30 = 8514772664.32
            "allocated": 13 * GIB // 2,
            "free": 21 * MIB // 2,
            "reserved": 13 * GIB // 2 + 512 * KIB,
        },
    ),
    "cuda 1.8: reserved in all": (
        RuntimeError(
            "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; "
            "5.00 GiB already allocated; 1.25 GiB free; 6.50 GiB reserved in total by PyTorch)"
        ),
        {
            "asked": 2 * GIB,
            "capacity": 8 * GIB,
            "allocated": 5 * GIB,
            "free": 5 * GIB // 4,
            "reserved": 13 * GIB // 2,
        },
    ),
    "cuda 2.x: graphs, a limit, processes, wrapped lines": (
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of "
            "24.00 GiB of which 512.00 MiB is free. Process 77 has 2.00 GiB memory in use. "
            "Including \nnon-PyTorch memory, this process has 20.00 GiB\nmemory in use. 20.50 GiB "
            "allowed; Of the allocated memory 18.00 GiB is allocated by PyTorch, with 3.00 GiB "
            "allocated in private pools (e.g., CUDA Graphs), and 1.50 GiB is reserved by PyTorch "
            "but unallocated."
        ),
        {
            "device": "cuda:3",
            "asked": GIB,
            "capacity": 24 * GIB,
            "free": GIB // 2,
            "this_process": 20 * GIB,
            "allowed": 41 * GIB // 2,
            "allocated": 18 * GIB,
            "private_pools": 3 * GIB,
            "reserved": 39 * GIB // 2,
        },
    ),
    "cuda 2.1's misspelling": (
        torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacty of 4.00 GiB "
            "of which 0 bytes is free."
        ),
        {"asked": 2 * MIB, "capacity": 4 * GIB, "free": 0},
    ),
    "cudaMallocAsync": (
        torch.OutOfMemoryError(
            "Allocation on device 2 would exceed allowed memory. (out of memory)\n"
            "Currently allocated     : 3.00 GiB\nRequested               : 2.00 GiB\n"
            "Device limit            : 4.00 GiB\nFree (according to CUDA): 64.00 MiB\n"
            "PyTorch limit (set by user-supplied memory fraction)\n"
            "                        : 17179869184.00 GiB"
        ),
        {
            "device": "cuda:2",
            "allocated": 3 * GIB,
            "asked": 2 * GIB,
            "capacity": 4 * GIB,
            "free": 64 * MIB,
            "allowed": None,  # that many is no limit
            "notes": (),
        },
    ),
    "hip": (
        torch.OutOfMemoryError(
            "HIP out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of "
            "16.00 GiB of which 100.00 MiB is free. Of the allocated memory 15.00 GiB is allocated "
            "by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
        ),
        {"device": "cuda:0", "asked": 128 * MIB, "allocated": 15 * GIB, "reserved": 15 * GIB},
    ),
    "xpu, no word of free memory": (
        RuntimeError(
            "XPU out of memory. Tried to allocate 8.00 GiB. GPU 1 has a total capacity of "
            "16.00 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is "
            "reserved by PyTorch but unallocated."
        ),
        {"device": "xpu:1", "asked": 8 * GIB, "capacity": 16 * GIB, "free": None, "reserved": 0},
    ),
    "xpu, one allocation too large": (
        RuntimeError(
            "Current platform can NOT allocate memory block with size larger than 4GB! Tried to "
            "allocate 6.00 GiB (GPU  0; 16.00 GiB total capacity; 0 bytes already allocated; "
            "0 bytes reserved in total by PyTorch)"
        ),
        {"device": "xpu:0", "asked": 6 * GIB, "capacity": 16 * GIB, "allocated": 0},
    ),
    "npu": (
        RuntimeError(
            "NPU out of memory. Tried to allocate 2.00 GiB (NPU 4; 60.00 GiB total capacity; "
            "58.00 GiB already allocated; 1.00 GiB free; 58.50 GiB reserved in total by PyTorch)"
        ),
        {"device": "npu:4", "asked": 2 * GIB, "free": GIB},
    ),
    "mps, whose GB is 1024**3": (
        RuntimeError(
            "MPS backend out of memory (MPS allocated: 7.50 GB, other allocations: 512.00 MB, max "
            "allowed: 9.00 GB). Tried to allocate 2.00 GB on private pool. Use "
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations."
        ),
        {
            "device": "mps:0",
            "allocated": 15 * GIB // 2,
            "other": 512 * MIB,
            "allowed": 9 * GIB,
            "asked": 2 * GIB,
        },
    ),
    "mps, one buffer too large": (
        RuntimeError("Invalid buffer size: 24.00 GB"),
        {"device": "mps:0", "asked": 24 * GIB},
    ),
    "cpu on Linux": (
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate "
            "memory: you tried to allocate 123456789012 bytes. Error code 12 (Cannot allocate "
            "memory)"
        ),
        {"source": "cpu allocator", "device": "cpu", "asked": 123456789012},
    ),
    "cpu on Windows": (
        RuntimeError(
            "[enforce fail at C:\\cb\\pytorch\\c10\\core\\impl\\alloc_cpu.cpp:72] data. "
            "DefaultCPUAllocator: not enough memory: you tried to allocate 98765 bytes."
        ),
        {"device": "cpu", "asked": 98765},
    ),
    "cpu in the oldest days": (
        RuntimeError(
            "$ Torch: not enough memory: you tried to allocate 93GB. Buy new RAM! at "
            "/pytorch/aten/src/TH/THGeneral.cpp:204"
        ),
        {"device": "cpu", "asked": 93 * GIB},
    ),
    "shared memory that the machine has not got": (
        RuntimeError(
            "unable to mmap 4096 bytes from file </torch_1_2>: Cannot allocate memory (12)"
        ),
        {"source": "system", "device": "cpu", "asked": 4096},
    ),
    "nccl": (
        DistBackendError(
            "NCCL error in: /pytorch/NCCLUtils.hpp:1, unhandled cuda error\nLast error:\n"
            "Cuda failure 2 'out of memory'\nFailed to CUDA calloc 6291456 bytes"
        ),
        {"source": "nccl", "device": "cuda", "asked": 6291456},
    ),
    "numpy": (
        library_type("_ArrayMemoryError", MemoryError)(
            "Unable to allocate 7.28 TiB for an array with shape (1000000, 1000000) and data type "
            "float64"
        ),
        {"source": "numpy", "device": "cpu", "asked": 8 * 10**12},  # exact, from its shape
    ),
    "cupy": (
        library_type("OutOfMemoryError", MemoryError)(
            "Out of memory allocating 8,000,000,000 bytes (allocated so far: 1,024 bytes, limit "
            "set to: 4,294,967,296 bytes)."
        ),
        {"source": "cupy", "asked": 8 * 10**9, "allocated": 1024, "allowed": 4 * GIB},
    ),
    "tensorflow 2, by shape and type": (
        ResourceExhaustedError(
            "{{function_node __wrapped__Conv2D}} OOM when allocating tensor with "
            "shape[64,224,224,64] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc [Op:Conv2D]"
        ),
        {"source": "tensorflow", "device": "cuda:1", "asked": 64 * 224 * 224 * 64 * 4},
    ),
    "tensorflow 2, bfloat16 in main memory": (
        ResourceExhaustedError(
            "OOM when allocating tensor with shape[1024,1024] and type bfloat16 on "
            "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
        ),
        {"device": "cpu", "asked": 2 * MIB},
    ),
    "tensorflow 1": (
        ResourceExhaustedError("OOM when allocating tensor with shape[10,20]"),
        {"source": "tensorflow", "device": None, "asked": None},
    ),
    "tensorflow's own allocator": (
        RuntimeError("Ran out of memory trying to allocate 2.00GiB.  See logs for memory state."),
        {"source": "tensorflow", "asked": 2 * GIB},
    ),
    "tensorflow's log": (
        RuntimeError(
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB (rounded to "
            "2287140864)requested by op Conv2D"
        ),
        {"asked": 2287140864},
    ),
    "jax": (
        XlaRuntimeError(
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
        ),
        {"source": "xla", "asked": 16 * GIB},
    ),
    "jax, a constant": (
        XlaRuntimeError("INTERNAL: Failed to allocate 1073741824 bytes for new constant"),
        {"source": "xla", "asked": GIB},
    ),
    "jax, a buffer": (
        XlaRuntimeError(
            "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 1.50G. "
            "That was not possible. There are 1.25G free.; (0x0x0_HBM0)"
        ),
        {"source": "xla", "asked": 3 * GIB // 2, "free": 5 * GIB // 4},
    ),
    "jax on a TPU": (
        XlaRuntimeError(
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
            "space hbm. Used 26.50G of 15.50G hbm. Exceeded hbm capacity by 11.00G."
        ),
        {"source": "xla", "asked": None, "capacity": 31 * GIB // 2},
    ),
    "paddle": (
        library_type("ResourceExhaustedError", RuntimeError)(
            "(ResourceExhausted)\n\nOut of memory error on GPU 1. Cannot allocate 2.500000GB "
            "memory on GPU 1, 14.000000GB memory has been allocated and available memory is only "
            "1.500000GB."
        ),
        {
            "device": "cuda:1",
            "asked": 5 * GIB // 2,
            "allocated": 14 * GIB,
            "free": 3 * GIB // 2,
        },
    ),
    "onnxruntime": (
        library_type("RuntimeException")(
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : BFCArena::AllocateRawInternal Failed to "
            "allocate memory for requested buffer of size 4294967296"
        ),
        {"source": "onnxruntime", "asked": 4 * GIB},
    ),
    "vllm at its start": (
        ValueError(
            "Free memory on device cuda:1 (12.50/24.00 GiB) on startup is less than desired GPU "
            "memory utilization (0.9, 21.60 GiB). Decrease GPU memory utilization."
        ),
        {
            "source": "vllm",
            "device": "cuda:1",
            "free": 25 * GIB // 2,
            "capacity": 24 * GIB,
            "asked": 23192823398,  # 21.6 · 2**30 = 23192823398.4
        },
    ),
    "vllm's cache": (
        ValueError(
            "To serve at least one request with the models's max seq len (32768), (4.00 GiB KV "
            "cache is needed, which is larger than the available KV cache memory (1.25 GiB)."
        ),
        {"source": "vllm", "asked": 4 * GIB, "free": 5 * GIB // 4},
    ),
    "mlx": (
        RuntimeError(
            "[metal::malloc] Attempting to allocate 34359738368 bytes which is greater than the "
            "maximum allowed buffer size of 17179869184 bytes."
        ),
        {"device": "mps:0", "asked": 32 * GIB, "allowed": 16 * GIB},
    ),
}


@pytest.mark.parametrize(("error", "expected"), FIGURES.values(), ids=FIGURES)
def test_an_out_of_memory_text_gives_its_figures(error, expected):
    ending = read(error)
    assert "oom" == ending.status
    assert expected == {field: getattr(ending.oom, field) for field in expected}


def test_every_process_that_a_text_names_is_told():
    error = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 16.00 GiB "
        "of which 1.00 GiB is free. Process 5 has 512.00 MiB memory in use. Process 6 has 8.00 GiB "
        "memory in use. Process 7 has 17179869184.00 GiB memory in use."
    )
    oom = read(error).oom
    assert [(5, GIB // 2), (6, 8 * GIB), (7, None)] == [(p.pid, p.bytes) for p in oom.processes]
    assert [("processes", "not_trusted")] == [(note.field, note.code) for note in oom.notes]


NO_FIGURES = [
    ("driver", "cuda", RuntimeError("CUDA error: out of memory (cudaMalloc)")),
    ("allocator", "cuda", RuntimeError("Error: CUDA out of memory on device 0")),
    ("allocator", "cuda", RuntimeError("step 3: CUDA out of memory, sorry")),
    ("driver", None, RuntimeError("parallel_for failed: out of memory")),
    ("system", "cpu", OSError("[WinError 1455] The paging file is too small for this operation")),
    (
        "system",
        "cpu",
        library_type("SafetensorError")(
            "The paging file is too small for this operation to complete. (os error 1455)"
        ),
    ),
    ("driver", "cuda", RuntimeError("CUDA error: out of memory")),
    (
        "driver",
        "cuda",
        AcceleratorError(
            "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs."
        ),
    ),
    ("driver", "cuda", RuntimeError("CUDA driver error: out of memory")),
    ("driver", "cuda", RuntimeError("HIP error: out of memory\nHIP kernel errors might be")),
    (
        "driver",
        "cuda",
        RuntimeError(
            "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCStorage.cu:58"
        ),
    ),
    ("driver", "cuda", RuntimeError("CUDA failure 2: out of memory ; expr=cudaMalloc((void**)&p)")),
    (
        "driver",
        "cuda",
        library_type("CudaAPIError")("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
    ),
    ("driver", "cuda", library_type("LogicError")("cuMemAlloc failed: out of memory")),
    ("driver", "xpu", RuntimeError("level_zero: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)")),
    ("allocator", "cuda", RuntimeError("CUDA out of memory.")),
    ("allocator", None, torch.OutOfMemoryError("Allocation on device")),
    (
        "allocator",
        "cuda",
        RuntimeError(
            '!handles_.at(i) INTERNAL ASSERT FAILED at "/b/c10/cuda/CUDACachingAllocator.cpp":1, '
            "please report a bug to PyTorch."
        ),
    ),
    (
        "allocator",
        "cuda",
        RuntimeError(
            'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":11'
        ),
    ),
    (
        "library",
        "cuda",
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ),
    ("library", "cuda", RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")),
    (
        "library",
        "cuda",
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    ),
    ("library", "cuda", RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED")),
    ("library", "cuda", RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling")),
    (
        "library",
        "cuda",
        RuntimeError("cublas runtime error : resource allocation failed at /b/THCGeneral.cpp:1"),
    ),
    ("python", "cpu", MemoryError()),
    ("python", "cpu", MemoryError("std::bad_alloc")),
    ("python", "cpu", RuntimeError("std::bad_alloc")),
    ("tensorflow", None, ResourceExhaustedError("Graph execution error")),
    ("system", "cpu", OSError(errno.ENOMEM, "Cannot allocate memory")),
    (
        "cpu allocator",
        "cpu",
        RuntimeError(
            "[enforce fail at CPUAllocator.cpp:56] posix_memalign(&data, gAlignment, nbytes) == 0. "
            "12 vs 0"
        ),
    ),
    ("accelerate", None, RuntimeError("No executable batch size found, reached zero.")),
    ("vllm", None, ValueError("No available memory for the cache blocks. Try increasing `gpu_m")),
]


@pytest.mark.parametrize(("source", "device", "error"), NO_FIGURES, ids=lambda e: str(e)[:40])
def test_an_out_of_memory_text_without_figures_has_none(source, device, error):
    ending = read(error)
    assert ("oom", source, None) == (ending.status, ending.oom.source, ending.oom.asked)
    assert device == ending.oom.device


NEAR_MISSES = [
    ValueError("out of memory slots"),
    ValueError("out of memory"),
    RuntimeError("retry when it is out of memory no more"),
    RuntimeError("the replay buffer is out of memory slots"),
    RuntimeError("CUDA error: out of memory slots"),
    RuntimeError("CUDA out of memory slots"),
    RuntimeError("memory bank is full"),
    KeyError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    AssertionError("expected 'CUDA out of memory. Tried to allocate 20.00 MiB' in the log"),
    ValueError("line 3 is no event: 'CUDA out of memory. Tried to allocate 20.00 MiB'"),
    ValueError("CUDA error: out of memory"),
    subprocess.CalledProcessError(1, ["grep", "CUDA out of memory. Tried to allocate 2.00 GiB"]),
    TypeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 12 bytes"),
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("cuda runtime error (77) : an illegal memory access was encountered at /b.cpp:2"),
    RuntimeError("cuda runtime error (59) : device-side assert triggered at /b/THCStorage.cu:58"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: too many resources requested for launch"),
    RuntimeError("CUDA error: misaligned address"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"),
    RuntimeError('block->ptr INTERNAL ASSERT FAILED at "/b/CUDACachingAllocator.cpp":1'),
    library_type("OutOfResources")(
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block "
        "sizes or `num_stages` may help."
    ),
    library_type("InductorError", RuntimeError)(
        "No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 98304"
    ),
    RuntimeError(
        "DataLoader worker (pid 3) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit."
    ),
    RuntimeError(
        "unable to allocate shared memory(shm) for file </torch_1>: No space left on device (28)"
    ),
    RuntimeError("unable to open shared memory object </torch_1>: Too many open files (24)"),
    DistBackendError(
        "NCCL error: Error while creating shared memory segment /dev/shm/nccl-1 (size 9637888), "
        "error: No space left on device"
    ),
    OSError(errno.ENOSPC, "No space left on device"),
    OSError(errno.EAGAIN, "Resource temporarily unavailable"),
    RuntimeError("[enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing"),
    ResourceExhaustedError("/logs/events.out; No space left on device"),
    ResourceExhaustedError("quota exceeded for requests per minute"),
    XlaRuntimeError("RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)"),
    library_type("ResourceExhausted")("429 Resource has been exhausted (e.g. check quota)."),
    RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904]"),
    RuntimeError("Invalid buffer size: expected 24 items"),
    RecursionError("maximum recursion depth exceeded"),
    library_type("TerminatedWorkerError")(
        "A worker process was unexpectedly terminated. This could be caused by an excessive memory "
        "usage causing the Operating System to kill the worker."
    ),
    NotImplementedError(),
]


@pytest.mark.parametrize("error", NEAR_MISSES, ids=lambda e: str(e)[:50])
def test_an_error_that_only_sounds_like_it_is_an_error(error):
    ending = read(error)
    assert ("error", None, ()) == (ending.status, ending.oom, ending.notes)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "cublas runtime error : library not initialized at /b/THCGeneral.cpp:1",
        "Unable to find a valid cuDNN algorithm to run convolution",
        "GET was unable to find an engine to execute this computation",
        "Dst tensor is not initialized.",
        "DataLoader worker (pid 7) is killed by signal: Killed. ",
    ],
)
def test_an_error_that_often_means_it_is_an_error_with_a_note(text):
    ending = read(RuntimeError(text))
    assert ("error", None) == (ending.status, ending.oom)
    (note,) = ending.notes
    assert "maybe_oom" == note.code
    assert "memory" in note.sentence


# Figures that can't be true.


def cuda_text(asked="1.00 GiB", capacity="8.00 GiB", free="0 bytes", more=""):
    return (
        f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {capacity} "
        f"of which {free} is free. {more}"
    )


@pytest.mark.parametrize("size", ["17179869184.00 GiB", "17179869183.50 GiB", "-1.00 GiB"])
def test_what_wsl_prints_for_a_process_is_not_trusted(size):
    more = f"Including non-PyTorch memory, this process has {size} memory in use."
    oom = read(torch.OutOfMemoryError(cuda_text(more=more))).oom
    assert (None, GIB) == (oom.this_process, oom.asked)
    assert [("this_process", "not_trusted")] == [(note.field, note.code) for note in oom.notes]


def test_a_size_that_overflowed_is_not_trusted_and_a_huge_one_is():
    oom = read(torch.OutOfMemoryError(cuda_text(asked="17179869182.00 GiB"))).oom
    assert (None, ["asked"]) == (oom.asked, [note.field for note in oom.notes])
    oom = read(torch.OutOfMemoryError(cuda_text(asked="4194304.00 GiB"))).oom
    assert (4 * 2**50, ()) == (oom.asked, oom.notes)


def test_free_memory_that_was_not_to_be_had_is_remarked_unless_a_limit_explains_it():
    codes = [n.code for n in read(torch.OutOfMemoryError(cuda_text(free="2.00 GiB"))).oom.notes]
    assert ["free_but_refused"] == codes
    limit = "2.00 GiB allowed; Of the allocated memory 1.50 GiB is allocated by PyTorch, and "
    limit += "0 bytes is reserved by PyTorch but unallocated."
    oom = read(torch.OutOfMemoryError(cuda_text(free="2.00 GiB", more=limit))).oom
    assert (2 * GIB, ()) == (oom.allowed, oom.notes)


def test_more_allocated_than_the_card_has_is_remarked():
    more = "Of the allocated memory 9.00 GiB is allocated by PyTorch, and 0 bytes is reserved by "
    more += "PyTorch but unallocated."
    oom = read(torch.OutOfMemoryError(cuda_text(more=more))).oom
    assert ["lends_main_memory"] == [note.code for note in oom.notes]


# Records.


def test_the_figures_survive_json():
    for error, _expected in FIGURES.values():
        oom = read(error).oom
        assert oom == from_json(OutOfMemory, json.loads(json.dumps(to_json(oom))))
