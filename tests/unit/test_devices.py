"""What the readers say of each device, and which devices there are."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from simulated_cuda import SimulatedCuda

from nbmem.devices import Devices, UnknownDeviceError
from nbmem.devices.capacity import installed_memory
from nbmem.devices.host import HostCounter

MIB = 2**20
SLACK = 16 * MIB  # Linux keeps counts of pages per processor, and adds them up lazily


class Counter:
    """A CPU counter that stands still."""

    device = "cpu"

    def allocated(self):
        return 5 * MIB

    def peak(self):
        return 9 * MIB

    def reset_peak(self):
        raise AssertionError("nobody but a window may reset a peak")


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch):
    """Neither a GPU nor NVML, whatever this machine has."""
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)
    monkeypatch.setitem(sys.modules, "pynvml", None)


@pytest.fixture
def cuda(monkeypatch):
    return SimulatedCuda(monkeypatch, count=2)


def note_on(reading, field):
    return [note.sentence for note in reading.notes if note.field == field]


def test_without_an_accelerator_the_cpu_and_the_host_are_measured():
    readings = Devices(Counter()).read()
    assert ["cpu", "host"] == [reading.device for reading in readings]
    assert ["cpu", "host"] == [reading.kind for reading in readings]
    cpu = readings[0]
    assert 5 * MIB == cpu.allocated
    assert cpu.peak_allocated is None
    assert [
        "torch keeps no peak for the CPU: measure a cell (%%gpumem) to know its peak."
    ] == note_on(cpu, "peak_allocated")


def test_the_host_reads_the_resident_memory_of_this_process():
    host = Devices(Counter()).read("host")[0]
    truth = psutil.Process().memory_info().rss
    assert abs(truth - host.allocated) < SLACK
    assert host.allocated <= host.peak_allocated
    assert psutil.virtual_memory().total >= host.capacity


def test_each_gpu_reads_what_torch_itself_says(cuda):
    cuda.devices[0].allocate(3 * MIB)
    cuda.devices[0].allocate(1000)
    cuda.devices[0].free(0)
    gpu, other, host = Devices(Counter()).read()
    assert ["cuda:0", "cuda:1", "host"] == [gpu.device, other.device, host.device]
    assert ("accelerator", "Simulated H1") == (gpu.kind, gpu.name)
    assert torch.cuda.memory_allocated(0) == gpu.allocated == 1024
    assert torch.cuda.max_memory_allocated(0) == gpu.peak_allocated == 3 * MIB + 1024
    assert 1000 == gpu.requested
    assert 1024 == gpu.active
    assert torch.cuda.memory_reserved(0) == gpu.reserved == 4 * MIB
    assert 304 * MIB == gpu.driver_used
    assert 8 * 2**30 - 300 * MIB == gpu.capacity
    assert () == gpu.notes


def test_a_gpu_without_a_context_of_ours_is_not_asked_how_full_it_is(cuda):
    """cudaMemGetInfo would make a context there, of hundreds of MiB."""
    other = Devices(Counter()).read("cuda:1")[0]
    assert other.driver_used is None
    assert ["Whole-GPU figures need NVIDIA's package: pip install nvidia-ml-py"] == note_on(
        other, "driver_used"
    )
    assert (0, 8 * 2**30) == (other.allocated, other.capacity)
    assert [
        "What the driver and others hold of this device is not known, so torch can get less than "
        "the capacity: pip install nvidia-ml-py has it told on NVIDIA cards."
    ] == note_on(other, "capacity")


def test_reading_never_starts_cuda(monkeypatch):
    SimulatedCuda(monkeypatch, started=False)
    gpu = Devices(Counter()).read()[0]
    assert not torch.cuda.is_initialized()
    assert (0, 0, 0, 0, 0) == (
        gpu.allocated,
        gpu.peak_allocated,
        gpu.requested,
        gpu.active,
        gpu.reserved,
    )
    assert (None, None, None) == (gpu.name, gpu.driver_used, gpu.capacity)
    assert ["cuda:0 has not been used yet, so torch holds nothing on it."] == note_on(
        gpu, "allocated"
    )
    assert {"allocated", "name", "driver_used", "capacity"} == {note.field for note in gpu.notes}


def test_a_figure_that_the_allocator_does_not_keep_is_unknown_and_not_zero(cuda):
    """cudaMallocAsync reports requested and active bytes as 0."""
    cuda.devices[0].allocate(MIB)
    for name in ("requested_bytes", "active_bytes"):
        cuda.devices[0].stats[name]["all"].current = 0
    gpu = Devices(Counter()).read()[0]
    assert (MIB, None, None) == (gpu.allocated, gpu.requested, gpu.active)
    assert ["torch does not tell requested of cuda:0."] == note_on(gpu, "requested")


def test_an_allocator_that_fails_leaves_every_figure_unknown_with_the_reason(cuda, monkeypatch):
    def lost(index):
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch._C, "_cuda_memoryStats", lost)
    gpu = Devices(Counter()).read()[0]
    assert (None, None, None) == (gpu.allocated, gpu.peak_allocated, gpu.reserved)
    assert [
        "Reading allocated of cuda:0 failed: RuntimeError: CUDA error: device-side assert triggered"
    ] == note_on(gpu, "allocated")


def test_a_reader_that_breaks_does_not_take_the_others_with_it(monkeypatch):
    def broken(self):
        raise PermissionError("proc is hidden")

    monkeypatch.setattr(HostCounter, "allocated", broken)
    cpu, host = Devices(Counter()).read()
    assert (5 * MIB, None) == (cpu.allocated, host.allocated)
    assert ["Reading allocated of host failed: PermissionError: proc is hidden"] == note_on(
        host, "allocated"
    )


@pytest.mark.parametrize("device", ["cuda", "cuda:2", "gpu", "", "cpu:1", "mps"])
def test_a_name_this_machine_does_not_have_is_refused(device):
    with pytest.raises(UnknownDeviceError) as refused:
        Devices(Counter()).choose(device)
    assert f"there is no device {device!r} here: use one of cpu, host" == str(refused.value)


def test_a_long_name_is_refused_in_one_line():
    with pytest.raises(UnknownDeviceError) as refused:
        Devices(Counter()).choose("x\n" * 5000)
    assert len(str(refused.value)) < 120
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("device", "chosen"),
    [
        (None, ["cuda:0", "cuda:1", "host"]),
        ("cuda", ["cuda:0", "cuda:1", "host"]),
        ("cuda:1", ["cuda:1", "host"]),
        ("cpu", ["cuda:0", "cuda:1", "cpu", "host"]),
        ("host", ["host"]),
    ],
)
def test_with_gpus_the_cpu_is_left_alone_unless_asked_for(cuda, device, chosen):
    assert chosen == [reader.device for reader in Devices(Counter()).choose(device)]


def test_a_refusal_lists_the_gpus_there_are(cuda):
    with pytest.raises(UnknownDeviceError) as refused:
        Devices(Counter()).choose("cuda:5")
    assert "there is no device 'cuda:5' here: use one of cpu, cuda:0, cuda:1, host" == (
        str(refused.value)
    )


def test_one_mig_instance_counts_as_one_device_before_cuda_starts(monkeypatch):
    SimulatedCuda(monkeypatch, count=3, started=False)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-11,MIG-22")
    assert ["cuda:0"] == [reader.device for reader in Devices(Counter()).accelerators()]


def test_a_driver_that_cannot_count_leaves_the_cpu_to_measure(monkeypatch):
    def broken():
        raise RuntimeError("NVML: unknown error")

    SimulatedCuda(monkeypatch, started=False)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", broken)
    assert ["cpu", "host"] == [reader.device for reader in Devices(Counter()).choose()]


def test_importing_the_readers_loads_neither_nvml_nor_cuda():
    program = (
        "import sys, torch; before = 'pynvml' in sys.modules; import nbmem.devices\n"
        "assert before == ('pynvml' in sys.modules); assert not torch.cuda.is_initialized()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True
    )
    assert (0, b"") == (done.returncode, done.stderr)


def write_group(root, line, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("line", "files", "expected"),
    [
        ("0::/\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/a/b\n", {"a/memory.max": f"{32 * MIB}\n", "a/b/memory.max": "max\n"}, 32 * MIB),
        ("4:cpu,memory:/j\n", {"memory/j/memory.limit_in_bytes": f"{16 * MIB}\n"}, 16 * MIB),
        ("4:memory:/gone\n", {"memory/memory.limit_in_bytes": f"{8 * MIB}\n"}, 8 * MIB),
    ],
)
def test_the_capacity_is_the_containers_limit(tmp_path, line, files, expected):
    write_group(tmp_path, line, files)
    found = installed_memory(tmp_path)
    assert (expected, True) == (found.bytes, found.limited)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/\n", {}),
        ("0::/\n", {"memory.max": "max\n"}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}),
    ],
)
def test_without_a_limit_the_capacity_is_what_is_installed(tmp_path, line, files):
    write_group(tmp_path, line, files)
    found = installed_memory(tmp_path)
    assert (psutil.virtual_memory().total, False) == (found.bytes, found.limited)


def test_where_the_peak_cannot_be_reset_it_is_unknown_with_the_reason(monkeypatch):
    monkeypatch.setattr("nbmem.devices.host._CLEAR", "/proc/self/no_such_file")
    devices = Devices(Counter())
    block = torch.ones(16 * MIB)
    del block
    window = devices.peaks.open(devices.host.counter)
    assert window.close() is None
    assert (
        "The peak of resident memory is unknown: this system does not let a process reset it "
        "(/proc/self/clear_refs)." == window.note.sentence
    )


def test_on_another_system_the_resident_memory_is_told_without_a_peak(monkeypatch):
    monkeypatch.setattr("nbmem.devices.host._LINUX", False)
    host = Devices(Counter()).read("host")[0]
    assert host.peak_allocated is None
    assert abs(psutil.Process().memory_info().rss - host.allocated) < SLACK
    assert ["The peak of resident memory within a cell is known on Linux only."] == note_on(
        host, "peak_allocated"
    )
