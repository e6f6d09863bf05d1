"""A caching allocator in Python that stands where torch's C functions of a CUDA build are.

torch's own Python code (`torch.cuda.max_memory_allocated`, `torch.accelerator.memory_stats`,
`torch.cuda.memory_summary`, …) runs over it unchanged on a machine without a GPU.
"""

import copy
from types import SimpleNamespace

import torch

FIGURES = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
COUNTS = ("allocation", "segment", "active", "inactive_split")
POOLS = ("all", "small_pool", "large_pool")
SEGMENT = 2 * 1024 * 1024


def rounded(size, to):
    return -(-size // to) * to


class Stat:
    """One statistic as torch counts it."""

    def __init__(self):
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount):
        self.current += amount
        self.peak = max(self.peak, self.current)
        if amount > 0:
            self.allocated += amount
        else:
            self.freed -= amount


class SimulatedAllocator:
    """One device: blocks are rounded to 512 bytes, segments to 2 MiB and never given back."""

    def __init__(self):
        names = (*FIGURES, *COUNTS, "inactive_split_bytes")
        self.stats = {name: {pool: Stat() for pool in POOLS} for name in names}
        self.blocks = []

    def allocate(self, size):
        self.blocks.append(size)
        self._move(size, 1)

    def free(self, position=-1):
        self._move(self.blocks.pop(position), -1)

    def _move(self, size, sign):
        block = rounded(size, 512)
        for pool in ("all", "small_pool" if size < 2**20 else "large_pool"):
            self.stats["requested_bytes"][pool].add(sign * size)
            self.stats["allocated_bytes"][pool].add(sign * block)
            self.stats["active_bytes"][pool].add(sign * block)
            self.stats["allocation"][pool].add(sign)
            lacking = (
                self.stats["allocated_bytes"][pool].current
                - self.stats["reserved_bytes"][pool].current
            )
            if lacking > 0:
                self.stats["reserved_bytes"][pool].add(rounded(lacking, SEGMENT))

    def reset_peak(self):
        for pools in self.stats.values():
            for stat in pools.values():
                stat.peak = stat.current

    def nested(self):
        nested = {
            name: {pool: dict(vars(stat)) for pool, stat in pools.items()}
            for name, pools in self.stats.items()
        }
        zeros = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
        return nested | {
            "oversize_allocations": dict(zeros),
            "oversize_segments": dict(zeros),
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }


class SimulatedCuda:
    """A CUDA build of torch with `count` devices, installed with pytest's monkeypatch."""

    def __init__(self, monkeypatch, count=1, started=True):
        self.devices = [SimulatedAllocator() for _ in range(count)]
        self.raw_resets = 0
        self.early_calls = 0
        self.properties_read = []
        self.monkeypatch = monkeypatch
        self._install(monkeypatch, count)
        if started:
            self.start()

    def start(self):
        """What the user's first CUDA call does."""
        self.monkeypatch.setattr(torch.cuda, "_initialized", True)

    def twin(self):
        """Devices in the same state that nobody but the test touches from here on."""
        return copy.deepcopy(self.devices)

    def read_stats(self, index):
        self._expect_started()
        return self.devices[index].nested()

    def reset_peak(self, index):
        self._expect_started()
        self.raw_resets += 1
        self.devices[index].reset_peak()

    def _expect_started(self):
        if not torch.cuda.is_initialized():
            self.early_calls += 1
            raise RuntimeError("Invalid device argument 0: did you call init?")

    def _read_properties(self, index):
        assert torch.cuda.is_initialized(), "the real function starts CUDA"
        self.properties_read.append(index)
        return SimpleNamespace(
            name="Simulated H1", total_memory=8 * 2**30, uuid=f"{index:08d}-1111-2222-3333-4444"
        )

    def _memory_info(self, index):
        used = 300 * 2**20 + self.devices[index].stats["reserved_bytes"]["all"].current
        return 8 * 2**30 - used, 8 * 2**30

    def _install(self, monkeypatch, count):
        def patch(owner, name, value):
            monkeypatch.setattr(owner, name, value, raising=False)

        patch(torch._C, "_accelerator_getAccelerator", lambda: torch.device("cuda"))
        patch(torch._C, "_accelerator_isAllocatorInitialized", lambda: torch.cuda._initialized)
        for name in ("_cuda_memoryStats", "_accelerator_getDeviceStats"):
            patch(torch._C, name, self.read_stats)
        for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
            patch(torch._C, name, self.reset_peak)
        patch(torch._C, "_accelerator_getMemoryInfo", self._memory_info)
        patch(torch._C, "_cuda_hasPrimaryContext", lambda index: index == 0)
        patch(torch._C, "_cuda_getDevice", lambda: 0)
        patch(torch._C, "_accelerator_getDeviceIndex", lambda: 0)
        patch(torch.version, "cuda", "12.8")
        patch(torch.cuda, "_initialized", False)
        patch(torch.cuda, "is_available", lambda: True)
        patch(torch.cuda, "device_count", lambda: count)
        patch(torch.cuda, "_device_count_nvml", lambda: count)
        patch(torch.cuda, "get_device_properties", self._read_properties)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
