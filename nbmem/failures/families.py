"""The table of out-of-memory texts: by which words each is recognised, and where its figures are.

    text ──> the first family whose `sign` is in it ──> its device, its figures

Patterns are worded as the libraries print their texts, with every run of white space as one space,
since copies are wrapped. `distinct` signs are sentences that only such an error has. The others are
a few words, which count only where a library may have written them (see `kinds`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbmem.failures.sizes import SIZE

_BACKEND = r"(?P<backend>CUDA|HIP|ROCm|XPU|MPS|NPU|MUSA|MLU|HPU|MTIA)"
_BEFORE = r"(?:^|(?<=[:;.!?(\['\">\]-])|(?<=[:;.!?(\['\">\]-] )|(?<=NCCL WARN ))"
"""Words that begin a sentence, not in the middle of somebody's own."""

_END = 8_000
"""Characters of a long message that are read, at either end."""
_HANDLED = "During handling of the above exception, another exception occurred:"
"""Stands in a traceback that another process sent as text, after an error that was caught there."""


def on_one_line(text: str) -> str:
    """Returns a message as patterns want it; of a long one the beginning and the end.

    Of a traceback in it, what was caught before is left out.
    """
    if len(text) > 2 * _END + 3:
        text = f"{text[:_END]} … {text[-_END:]}"
    return " ".join(text.rpartition(_HANDLED)[2].split())


def _sizes(**patterns: str) -> tuple[tuple[str, str], ...]:
    """Returns patterns of figures by field; `#` stands for a size.

    They are compiled when a text of their family comes: all of them would take 50 ms.
    """
    return tuple((field, text.replace("#", SIZE)) for field, text in patterns.items())


@dataclass(frozen=True, slots=True)
class Family:
    """Texts that one library prints where memory ran out."""

    source: str
    """One of `OOM_SOURCES`."""
    sign: re.Pattern[str]
    """Its group `backend` names the device, where it has one."""
    device: str | None = None
    """Type of the device, where the sign has no group for it."""
    distinct: bool = True
    figures: tuple[tuple[str, str], ...] = ()
    """Field and pattern; the first that is found gives the field. `cached` and the like, which are
    no fields, are worked into those that are."""
    index: re.Pattern[str] | None = None
    """Finds the device's number."""


_TORCH = _sizes(
    asked=r"Tried to allocate #",
    capacity=r"total capac(?:i)?ty of #",
    free=r"of which # is free",
    allowed=r"# allowed;",
    this_process=r"this process has # memory in use",
    allocated=r"# is allocated by PyTorch",
    private_pools=r"with # allocated in private pools",
    cached=r"# is reserved by PyTorch but unallocated",
) + _sizes(
    capacity=r"# total capacity",
    free=r"# free[;)]",
    allocated=r"# already allocated",
    reserved=r"# reserved in total by PyTorch",
    cached=r"# cached\)",  # torch 1.0 to 1.3 print what is cached beyond what is allocated
)
_METAL = _sizes(
    allocated=r"MPS allocated: #",
    other=r"other allocations: #",
    allowed=r"max allowed: #",
    asked=r"Tried to allocate #",
)
_ASYNC = _sizes(
    allocated=r"Currently allocated : #",
    asked=r"Requested : #",
    capacity=r"Device limit : #",
    free=r"Free \(according to CUDA\): #",
    allowed=r"user-supplied memory fraction\) : #",
)
_GPU = re.compile(r"\b(?:GPU|NPU|device:GPU:|on device) ?(?:cuda:)?(\d+)")
_ASKED = _sizes(
    asked=r"(?:tried to allocate|[Uu]nable to mmap|trying to allocate|requested buffer of size) #"
)
_ASKED_BARE = _sizes(asked=r"(?:requested buffer of size|malloc of size|size) (\d+)()")
_LIBRARY = (
    r"\b(?:CU|HIP)(?:BLAS(?:LT)?|DNN|SOLVER|SPARSE(?:LT)?|FFT|RAND)"
    r"(?:_STATUS)?(?:_INTERNAL_ERROR_(?:DEVICE|HOST))?_ALLOC(?:ATION)?_FAILED\b"
)
_AFTER = (
    r"(?=$|[.,;:!?)'\"\]]| [(;]| (?:CUDA|HIP|XPU|Search|Compile|For|Exception"
    r"|at|on|in|while|when|during|after)\b)"
)
"""After the driver's words: an end, where it happened, or what torch says next; not `slots`."""

FAMILIES: tuple[Family, ...] = (
    Family(
        "allocator",
        re.compile(r"\bMPS backend out of memory \(MPS allocated:"),
        "mps",
        figures=_METAL,
    ),
    Family(
        "allocator",
        re.compile(r"\b(?P<backend>[A-Z][A-Za-z]{1,9}) out of memory\. Tried to allocate -?\d"),
        figures=_TORCH,
        index=_GPU,
    ),
    Family(
        "allocator",
        re.compile(r"\bCurrent platform can NOT allocate memory block with size larger than"),
        "xpu",
        figures=_TORCH,
        index=_GPU,
    ),
    Family(
        "allocator",
        re.compile(
            r"\bAllocation on device .{0,20}would exceed allowed memory\. \(out of memory\)"
        ),
        "cuda",
        figures=_ASYNC,
        index=re.compile(r"Allocation on device (\d+)"),
    ),
    Family(
        "allocator",
        re.compile(
            r"!handles_\.at\(i\) INTERNAL ASSERT FAILED at .{0,200}CUDACachingAllocator\.cpp"
            r"|NVML_SUCCESS == \S.{0,80} INTERNAL ASSERT FAILED at .{0,200}"
            r"CUDACachingAllocator\.cpp"
        ),
        "cuda",
    ),
    Family(
        "cpu allocator",
        re.compile(r"\bDefault\w*CPUAllocator: (?:can't allocate memory|not enough memory)"),
        "cpu",
        figures=_ASKED,
    ),
    Family(
        "cpu allocator",
        re.compile(r"\$ Torch: not enough memory: you tried to allocate"),
        "cpu",
        figures=_ASKED,
    ),
    Family(
        "cpu allocator",
        re.compile(r"\[enforce fail at CPUAllocator\.cpp:\d+\] posix_memalign\(.{0,80}\b12 vs 0"),
        "cpu",
    ),
    Family(
        "system",
        re.compile(
            r"\bunable to (?:mmap|open shared memory object|resize file)\b.{0,300}"
            r": Cannot allocate memory \(12\)"
        ),
        "cpu",
        figures=_ASKED,
    ),
    Family(
        "numpy",
        re.compile(r"\bUnable to allocate [\d.,]+ \w+ for an array with shape"),
        "cpu",
        figures=_sizes(asked=r"Unable to allocate #"),
    ),
    Family(
        "cupy",
        re.compile(r"\bOut of memory allocating [\d,]+ bytes \(allocated so far"),
        "cuda",
        figures=_sizes(
            asked=r"memory allocating #",
            allocated=r"allocated so far: #",
            allowed=r"limit set to: #",
        ),
    ),
    Family(
        "tensorflow",
        re.compile(
            r"\bOOM when allocating tensor with shape ?\["
            r"|(?i:\bran out of memory trying to allocate \d)"
            r"|\bfailed to allocate memory \[Op:"
        ),
        figures=_sizes(asked=r"\(rounded to (\d+)()\)") + _ASKED,
    ),
    Family(
        "xla",
        re.compile(
            r"\bINTERNAL: .{0,80}?[Ff]ailed to allocate \d+ bytes"
            r"|\bRESOURCE_EXHAUSTED: .{0,200}?(?:[Oo]ut of memory|[Ff]ailed to allocate|"
            r"Attempting to (?:reserve|allocate)|Error allocating device buffer)"
        ),
        figures=_sizes(
            asked=r"(?:trying to allocate|allocating|allocate request for|[Ff]ailed to allocate"
            r"|Attempting to \w+) #",
            free=r"There are # free",
            capacity=r"Used [\d.]+\w+ of # hbm",
        ),
        index=re.compile(r"device ordinal (\d+)"),
    ),
    Family(
        "paddle",
        re.compile(r"\bOut of memory error on GPU \d+\. Cannot allocate"),
        "cuda",
        figures=_sizes(
            asked=r"Cannot allocate #",
            allocated=r", # memory has been allocated",
            free=r"available memory is only #",
        ),
        index=_GPU,
    ),
    Family(
        "onnxruntime",
        re.compile(r"\bFailed to allocate memory for requested buffer of size \d"),
        figures=_ASKED_BARE,
    ),
    Family(
        "vllm",
        re.compile(
            r"\bFree memory on device .{0,20}\([\d.]+/[\d.]+ GiB\) on startup is less than desired"
        ),
        figures=_sizes(
            asked=r"utilization \([\d.]+, #\)",
            free=r"\(([\d.]+)/[\d.]+ (GiB)\)",
            capacity=r"\([\d.]+/#\)",
        ),
        index=re.compile(r"on device cuda:(\d+)"),
    ),
    Family(
        "vllm",
        re.compile(
            r"\bNo available memory for the cache blocks"
            r"|\bTo serve at least one request .{0,200}KV cache is needed"
        ),
        figures=_sizes(asked=r"# KV cache is needed", free=r"available KV cache memory \(#\)"),
    ),
    Family("accelerate", re.compile(r"^No executable batch size found, reached zero\.")),
    Family(
        "ray",
        re.compile(r"\bTask was killed due to the node running low on memory\."),
        "cpu",
        figures=_sizes(capacity=r" was [\d.]+GB / #"),
    ),
    Family(
        "metal",
        re.compile(
            r"\[metal::malloc\] (?:Attempting to allocate|Unable to allocate) \d"
            r"|\bkIOGPUCommandBufferCallbackErrorOutOfMemory\b"
        ),
        "mps",
        figures=_sizes(asked=r"to allocate #", allowed=r"maximum allowed buffer size of #"),
    ),
    Family(
        "metal",
        re.compile(rf"{_BEFORE}Invalid buffer size: [\d.]+ [KMGT]i?B$"),
        "mps",
        distinct=False,
        figures=_sizes(asked=r"buffer size: #"),
    ),
    Family(
        "nccl",
        re.compile(
            rf"{_BEFORE}Cuda failure (?:\d+ )?'out of memory'"
            r"|\bFailed to CUDA (?:host )?(?:calloc|alloc|malloc)(?: async)? \d+ bytes"
        ),
        "cuda",
        distinct=False,
        figures=_sizes(asked=r"Failed to CUDA (?:host )?\w+(?: async)? #"),
    ),
    Family(
        "library",
        re.compile(
            rf"{_LIBRARY}|\brocblas_status_memory_error\b|\bmiopenStatusAllocFailed\b"
            rf"|\bCUSPARSE_STATUS_INSUFFICIENT_RESOURCES\b|{_BEFORE}"
            r"cublas runtime error : resource allocation failed"
        ),
        "cuda",
        distinct=False,
    ),
    Family(
        "driver",
        re.compile(
            rf"\b{_BACKEND} (?:driver |runtime )?(?:error|failure)(?: ?\(?2\)?)? ?: ?"
            rf"out of memory{_AFTER}"
            rf"|\bcuda runtime error ?\(2\) ?: out of memory{_AFTER}"
            r"|\b(?:CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation)\b"
            r"|\bhipError(?:OutOfMemory|MemoryAllocation)\b"
            r"|\b(?:cu|cuda|hip)M\w*[Aa]lloc\w* (?:\w+ ){0,2}(?:failed|error):? out of memory"
            r"|\bFailed to cudaMalloc \d+ bytes"
        ),
        "cuda",
        distinct=False,
        figures=_sizes(
            asked=r"(?:Failed to cudaMalloc|failed to allocate [\d.]+\w+ \() ?#",
        ),
        index=re.compile(r"\bGPU=(\d+)"),
    ),
    Family(
        "driver",
        re.compile(
            r"\b(?:UR|ZE)_RESULT_ERROR_OUT_OF_(?:DEVICE_|HOST_)?MEMORY\b"
            r"|\bPI_ERROR_(?:OUT_OF_HOST_MEMORY|MEM_OBJECT_ALLOCATION_FAILURE)\b"
        ),
        "xpu",
        distinct=False,
    ),
    Family(
        "allocator",
        re.compile(rf"{_BEFORE}{_BACKEND}(?: backend)? out of memory{_AFTER}"),
        distinct=False,
    ),
    Family(
        "python",
        re.compile(
            rf"\bstd::bad_alloc\b|^bad allocation$|{_BEFORE}(?:malloc|realloc) of size \d+ failed"
        ),
        "cpu",
        distinct=False,
        figures=_ASKED_BARE,
    ),
    Family(
        "system",
        re.compile(
            r"\[Errno 12\] Cannot allocate memory|\[WinError (?:8|14|1455)\]|\(os error 1455\)"
            r"|\bThe paging file is too small for this operation to complete"
        ),
        "cpu",
    ),
    Family(
        "driver",
        re.compile(r"(?:^|: )out of memory[.!]?$"),  # the runtime's own name of error 2, alone
        distinct=False,
    ),
)
"""The first that is found counts: sentences with figures stand before words without."""

PROCESS = re.compile(r"\bProcess (\d+) has # memory in use".replace("#", SIZE))
ARRAY = (
    re.compile(r"with shape ?\[([\d,]*)\] and type (\w+)"),  # TensorFlow
    re.compile(r"with shape \(([\d, ]*)\) and data type (\w+)"),  # numpy
)
TENSORFLOW_DEVICE = re.compile(r"/device:(GPU|CPU|XLA_GPU):(\d+)")
