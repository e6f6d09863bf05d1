"""Registers the toy device in a process, as a vendor's package does when it is imported.

`register("torch.accelerator only")` is the least that torch asks for; `everything` has more of what
CUDA's module has: properties, and counters of its own, read by a C extension as torch_npu's are.
What the allocator itself lacks is in `TOY_LACKS`, see `toy_device.cpp`.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")
BUILT = SOURCE.parents[2] / "build" / "other_device"  # which git ignores
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
MIB = 2**20
CAPACITY = 256 * MIB
OTHERS = 8 * MIB
"""What other processes have of it, so that the total less what is free is not this process's."""
_library = None


def build():
    """Returns the library, built anew where the source, torch or the compiler is another one."""
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    command = [COMPILER, "-std=c++20", "-O0", "-fPIC", "-shared", "-w", str(SOURCE)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += [f"-I{folder}" for folder in include_paths()]
    for folder in library_paths():
        command += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    command += ["-ltorch", "-ltorch_cpu", "-lc10"]
    state = SOURCE.read_bytes() + repr((command, torch.__version__)).encode()
    library = BUILT / f"toy-{hashlib.sha256(state).hexdigest()[:16]}.so"
    if not library.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        unfinished = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, "-o", str(unfinished)], check=True)
        unfinished.rename(library)
    return library


def register(module="torch.accelerator only"):
    """Makes `toy:0` and `toy:1` torch's accelerator for the rest of the process.

    Args:
        module: how much its device module has; None: there is no device module.
    """
    import torch

    global _library
    _library = library = ctypes.CDLL(str(build()))
    library.toy_bytes.restype = ctypes.c_int64
    torch.utils.rename_privateuse1_backend("toy")
    if module is not None:
        torch._register_device_module("toy", _module(library, everything=module == "everything"))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    library.toy_register()


def allocated(index=0):
    """Returns the bytes in live blocks as the allocator itself counts them, past torch."""
    return _library.toy_bytes(index, b"a", False)


def _module(library, everything):
    module = types.ModuleType("torch.toy")
    module.device_count = library.toy_device_count
    module.is_available = lambda: True
    module.current_device = library.toy_current_device
    module.set_device = library.toy_set_device
    if everything:
        module.is_initialized = lambda: bool(library.toy_is_initialized())
        module.get_device_properties = lambda index: types.SimpleNamespace(
            name=f"Toy {index}", total_memory=CAPACITY
        )
        extension = sys.modules["torch_toy._C"] = _extension(library)
        for name in ("current", "peak"):
            peak = "max_" if name == "peak" else ""
            for kind in ("allocated", "reserved"):
                setattr(module, f"{peak}memory_{kind}", _reader(extension, kind, name))
        module.memory_stats = lambda index=0: extension._toy_memoryStats(index)
        module.reset_peak_memory_stats = lambda index=0: extension._toy_resetPeakMemoryStats(index)
    return module


def _reader(extension, kind, name):
    return lambda index=0: extension._toy_memoryStats(index)[f"{kind}_bytes"]["all"][name]


def _extension(library):
    def read(index):
        return {
            f"{kind}_bytes": {
                "all": {
                    "current": library.toy_bytes(index, kind[:3].encode(), False),
                    "peak": library.toy_bytes(index, kind[:3].encode(), True),
                }
            }
            for kind in ("allocated", "reserved")
        }

    extension = types.ModuleType("torch_toy._C")
    extension._toy_memoryStats = read
    extension._toy_resetPeakMemoryStats = library.toy_reset_peaks
    return extension
