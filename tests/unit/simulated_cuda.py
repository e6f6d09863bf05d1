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


def block(size, requested=None, state="active_allocated", frames=()):
    """A block as `torch.cuda.memory._snapshot()` documents it."""
    requested = size if requested is None else requested
    return {"size": size, "requested_size": requested, "state": state, "frames": list(frames)}


def frame(filename, line, name):
    return {"filename": filename, "line": line, "name": name}


def segment(address, *blocks, stream=0, kind="large", pool=(0, 0), expandable=False, device=0):
    """A segment as `torch.cuda.memory._snapshot()` documents it: its blocks lie one by one."""
    laid, at = [], address
    for item in blocks:
        laid.append({"address": at, **item})
        at += item["size"]
    live = [item["size"] for item in blocks if item["state"] == "active_allocated"]
    active = [item["size"] for item in blocks if item["state"] != "inactive"]
    asked = [item["requested_size"] for item in blocks if item["state"] != "inactive"]
    return {
        "device": device,
        "address": address,
        "total_size": at - address,
        "allocated_size": sum(live),
        "active_size": sum(active),
        "requested_size": sum(asked),
        "stream": stream,
        "segment_type": kind,
        "segment_pool_id": pool,
        "is_expandable": expandable,
        "frames": [],
        "blocks": laid,
    }


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
        self.segments = []

    def hold(self, *segments):
        """Takes these segments as its own: they are what the counters then say."""
        self.segments = list(segments)
        sizes = {
            "allocated_bytes": "allocated_size",
            "active_bytes": "active_size",
            "requested_bytes": "requested_size",  # of all that is active
            "reserved_bytes": "total_size",
        }
        for figure, field in sizes.items():
            self.count(figure, sum(item[field] for item in segments))
        split = [item for item in segments if item["active_size"] and not item.get("is_expandable")]
        free = sum(item["total_size"] - item["active_size"] for item in split)
        self.count("inactive_split_bytes", free)

    def count(self, figure, value):
        stat = self.stats[figure]["all"]
        stat.add(value - stat.current)

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
        self.backend = "native"
        self.contexts = {0}
        self.snapshots = []
        self.fraction = 1.0
        """Of the device that torch may reserve: `set_per_process_memory_fraction`."""
        self.integrated = False
        """Whether the device has no memory of its own."""
        self.total = 8 * 2**30
        """Bytes that torch sees of each device."""
        self.others = 300 * 2**20
        """Bytes of each device that are in use and not this allocator's."""
        self.capturing = False
        self.memory_queries = 0
        """How often CUDA was asked how full a device is."""
        self.takes_no_pool = False
        """As a torch of earlier days, whose snapshot knows no argument."""
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

    def read_snapshot(self, asked):
        self._expect_started()
        if asked is not None and self.takes_no_pool:
            raise TypeError("a tuple was not expected")
        if self.backend != "native":
            raise RuntimeError(f"Calling snapshot with backend:{self.backend} is not meaningful")
        self.snapshots.append(asked)
        segments = [item for device in self.devices for item in copy.deepcopy(device.segments)]
        return {"segments": segments, "device_traces": [[] for _ in self.devices]}

    def _expect_started(self):
        if not torch.cuda.is_initialized():
            self.early_calls += 1
            raise RuntimeError("Invalid device argument 0: did you call init?")

    def _read_properties(self, index):
        assert torch.cuda.is_initialized(), "the real function starts CUDA"
        self.properties_read.append(index)
        return SimpleNamespace(
            name="Simulated H1",
            total_memory=self.total,
            uuid=f"{index:08d}-1111-2222-3333-4444",
            is_integrated=int(self.integrated),
        )

    def _memory_info(self, index):
        self.memory_queries += 1
        used = self.others + self.devices[index].stats["reserved_bytes"]["all"].current
        return self.total - used, self.total

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
        patch(torch._C, "_cuda_hasPrimaryContext", lambda index: index in self.contexts)
        patch(torch._C, "_cuda_memorySnapshot", self.read_snapshot)
        patch(torch._C, "_cuda_getAllocatorBackend", lambda: self.backend)
        patch(torch._C, "_cuda_getDevice", lambda: 0)
        patch(torch._C, "_accelerator_getDeviceIndex", lambda: 0)
        patch(torch.version, "cuda", "12.8")
        patch(torch.cuda, "_initialized", False)
        patch(torch.cuda, "is_available", lambda: True)
        patch(torch.cuda, "device_count", lambda: count)
        patch(torch.cuda, "_device_count_nvml", lambda: count)
        patch(torch.cuda, "get_device_properties", self._read_properties)
        patch(torch.cuda, "get_per_process_memory_fraction", lambda index: self.fraction)
        patch(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
