"""One peak counter serves the user and any number of nbmem's windows at once."""

import collections
import mmap
import resource
import sys
from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from simulated_cuda import SimulatedAllocator, SimulatedCuda

from nbmem.devices import Devices
from nbmem.devices.allocator import Allocator
from nbmem.devices.peaks import PeakOwner

KIB = 1024


class Counter:
    """A counter whose figures the test writes."""

    device = "cpu"

    def __init__(self, allocated=0):
        self.now = self.top = allocated

    def allocated(self):
        return self.now

    def peak(self):
        return self.top

    def reset_peak(self):
        self.top = self.now

    def go_through(self, *figures):
        for self.now in figures:
            self.top = max(self.top, self.now)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """None but the simulated one, whatever this machine has."""
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)


@pytest.fixture
def cuda(monkeypatch):
    return SimulatedCuda(monkeypatch, count=2)


@pytest.fixture
def devices(cuda):
    devices = Devices(Counter())
    devices.install()
    yield devices
    devices.uninstall()


def open_window(devices, index=0):
    return devices.peaks.open(devices.accelerators()[index].counter)


def test_a_window_tells_the_peak_between_its_opening_and_its_close():
    counter, owner = Counter(), PeakOwner()
    counter.go_through(900, 100)
    window = owner.open(counter)
    counter.go_through(400, 250)
    assert (100, 400, 250) == (window.start.allocated, window.close(), window.end.allocated)
    counter.go_through(5000)
    assert 400 == window.close()


def test_a_window_that_saw_no_rise_has_its_start_as_peak():
    counter, owner = Counter(), PeakOwner()
    counter.go_through(700)
    window = owner.open(counter)
    counter.go_through(20)
    assert 700 == window.close()


def test_nested_windows_close_in_any_order_and_each_tells_its_own_peak():
    counter, owner = Counter(), PeakOwner()
    outer = owner.open(counter)
    counter.go_through(800, 100)
    inner = owner.open(counter)
    counter.go_through(300, 50)
    assert 800 == outer.close()
    counter.go_through(500, 0)
    assert 500 == inner.close()


def test_a_window_left_open_does_not_disturb_later_ones():
    counter, owner = Counter(), PeakOwner()
    leaked = owner.open(counter)
    counter.go_through(600, 10)
    window = owner.open(counter)
    counter.go_through(30)
    assert 30 == window.close()
    assert 600 == leaked.peak()


def test_a_counter_that_fails_makes_the_peak_unknown_with_its_reason():
    counter, owner = Counter(), PeakOwner()
    window = owner.open(counter)
    counter.peak = partial(int, "CUDA error: device-side assert")
    assert window.close() is None
    assert "Reading peak of cpu failed: ValueError: invalid literal for int() with base 10" in (
        window.note.sentence
    )


def test_the_users_own_peak_survives_windows_of_nbmem(cuda, devices):
    cuda.devices[0].allocate(64 * KIB)
    cuda.devices[0].allocate(512 * KIB)
    cuda.devices[0].free()
    window = open_window(devices)
    assert 1 == cuda.raw_resets
    cuda.devices[0].allocate(128 * KIB)
    assert 192 * KIB == window.close()
    assert 576 * KIB == torch.cuda.max_memory_allocated()
    assert 576 * KIB == torch.accelerator.max_memory_allocated()
    assert 2 * KIB * KIB == torch.cuda.max_memory_reserved(0)


def test_the_users_reset_inside_a_cell_hides_nothing_from_the_cell(cuda, devices):
    window = open_window(devices)
    cuda.devices[0].allocate(512 * KIB)
    cuda.devices[0].free()
    torch.cuda.reset_peak_memory_stats(0)
    assert 0 == torch.cuda.max_memory_allocated(0)
    cuda.devices[0].allocate(128 * KIB)
    assert 128 * KIB == torch.cuda.max_memory_allocated(0)
    torch.accelerator.reset_peak_memory_stats(0)
    assert 512 * KIB == window.close()


def test_functions_the_user_imported_before_nbmem_are_right_too(cuda):
    from torch.cuda import max_memory_allocated, reset_peak_memory_stats

    devices = Devices(Counter())
    devices.install()
    cuda.devices[0].allocate(512 * KIB)
    cuda.devices[0].free()
    window = open_window(devices)
    assert 512 * KIB == max_memory_allocated(0)
    reset_peak_memory_stats(0)
    assert 0 == max_memory_allocated(0)
    cuda.devices[0].allocate(KIB)
    assert KIB == window.close()
    devices.uninstall()


def test_a_reset_of_one_device_leaves_the_others_peak(cuda, devices):
    for allocator in cuda.devices:
        allocator.allocate(512 * KIB)
        allocator.free()
    windows = [open_window(devices, index) for index in (0, 1)]
    torch.cuda.reset_peak_memory_stats("cuda:1")
    assert [512 * KIB, 0] == [torch.cuda.max_memory_allocated(i) for i in (0, 1)]
    assert [0, 0] == [window.close() for window in windows]


def test_the_summary_reads_as_it_would_without_nbmem(cuda, devices, monkeypatch):
    cuda.devices[0].allocate(3 * KIB * KIB)
    cuda.devices[0].free()
    untouched = cuda.twin()
    open_window(devices).close()
    assert cuda.devices[0].nested() != untouched[0].nested()
    with_nbmem = torch.cuda.memory_summary(0)
    devices.uninstall()
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", lambda index: untouched[index].nested())
    assert torch.cuda.memory_summary(0) == with_nbmem


def test_unloading_gives_torch_and_resource_their_very_functions_back(cuda):
    names = ("_cuda_memoryStats", "_cuda_resetPeakMemoryStats")
    names += ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats")
    before = [getattr(torch._C, name) for name in names] + [resource.getrusage]
    devices = Devices(Counter())
    devices.install()
    during = [getattr(torch._C, name) for name in names] + [resource.getrusage]
    devices.uninstall()
    after = [getattr(torch._C, name) for name in names] + [resource.getrusage]
    assert [False] * 5 == [a is b for a, b in zip(before, during, strict=True)]
    assert [True] * 5 == [a is b for a, b in zip(before, after, strict=True)]


def test_unloading_gives_a_function_back_that_two_kinds_of_devices_share(cuda):
    """As where a CUDA build of torch has no GPU and another vendor's device came after nbmem."""
    before = torch._C._accelerator_getDeviceStats
    owner = PeakOwner([Allocator("cuda")])
    owner.install()
    owner.add(Allocator("xpu"))
    during = torch._C._accelerator_getDeviceStats
    owner.uninstall()
    assert during is not before
    assert torch._C._accelerator_getDeviceStats is before


def test_a_wrapper_the_user_put_over_ours_stays_and_still_works_after_unloading(cuda, monkeypatch):
    devices = Devices(Counter())
    devices.install()
    ours, calls = torch._C._cuda_memoryStats, []
    users = lambda index: (calls.append(index), ours(index))[1]  # noqa: E731
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", users)
    devices.uninstall()
    assert users is torch._C._cuda_memoryStats
    cuda.devices[0].allocate(KIB)
    assert KIB == torch.cuda.max_memory_allocated(0)
    assert [0] == calls


def test_a_statistic_of_an_unknown_kind_reaches_the_user_as_it_is(cuda, devices, monkeypatch):
    cuda.devices[0].allocate(KIB)
    cuda.devices[0].free()
    open_window(devices).close()
    strange = {"allocated_bytes": {"all": {"current": 0, "peak": "many"}}}
    monkeypatch.setattr(cuda.devices[0], "nested", lambda: strange)
    assert {"current": 0, "peak": "many"} == torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]


def test_compiled_code_breaks_its_graph_where_it_does_without_nbmem(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # dynamo would use the GPU

    def graphs_of_a_fresh_compile():
        graphs = []

        def backend(module, inputs):
            graphs.append(module)
            return module.forward

        @torch.compile(backend=backend)
        def step(x):
            y = x + 1
            torch.cuda.reset_peak_memory_stats(0)
            return y * torch.cuda.max_memory_allocated(0)

        torch._dynamo.reset()
        return step(torch.ones(1)).item(), len(graphs)

    cuda.devices[0].allocate(KIB)
    devices = Devices(Counter())
    devices.install()
    measured = graphs_of_a_fresh_compile()
    devices.uninstall()
    plain = graphs_of_a_fresh_compile()
    assert (2 * KIB, 2) == plain == measured


def test_a_torch_without_cuda_gets_no_new_functions():
    before = set(dir(torch._C))
    devices = Devices(Counter())
    devices.install()
    assert before == set(dir(torch._C))
    assert "built-in" in repr(torch._C._accelerator_getDeviceStats)
    devices.uninstall()


def test_nothing_is_reset_before_the_user_starts_cuda(monkeypatch):
    def users_reset():
        """What the user gets: nothing, or torch 2.10's error."""
        try:
            return torch.accelerator.reset_peak_memory_stats(0)
        except RuntimeError as error:
            return str(error)

    cuda = SimulatedCuda(monkeypatch, started=False)
    without_nbmem, cuda.early_calls = users_reset(), 0
    devices = Devices(Counter())
    devices.install()
    window = open_window(devices)
    assert (0, 0) == (cuda.early_calls, window.peak())
    assert without_nbmem == users_reset()
    cuda.start()
    cuda.devices[0].allocate(KIB)
    cuda.devices[0].free()
    assert (0, KIB, 0) == (window.start.allocated, window.close(), window.end.allocated)
    devices.uninstall()


def come_and_go(size):
    """Has the system give pages and take them back; malloc may have some left of earlier."""
    with mmap.mmap(-1, size) as block:
        for page in range(0, size, mmap.PAGESIZE):
            block[page] = 1


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM and clear_refs are Linux's")
def test_the_users_ru_maxrss_survives_our_reset_of_the_peak(monkeypatch):
    devices = Devices(Counter())
    devices.install()
    come_and_go(64 * KIB * KIB)
    before = resource.getrusage(resource.RUSAGE_SELF)
    window = devices.peaks.open(devices.host.counter)
    after = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert window.start.allocated + 48 * KIB * KIB < before.ru_maxrss * KIB
    assert before.ru_maxrss == after.ru_maxrss
    assert (type(before), len(before)) == (type(after), len(after))
    assert before.ru_utime <= after.ru_utime
    devices.uninstall()
    assert children == resource.getrusage(resource.RUSAGE_CHILDREN)
    assert before.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM and clear_refs are Linux's")
def test_the_peak_of_resident_memory_sees_a_block_that_came_and_went():
    devices = Devices(Counter())
    come_and_go(128 * KIB * KIB)
    window = devices.peaks.open(devices.host.counter)
    come_and_go(64 * KIB * KIB)
    rise = window.close() - window.start.allocated
    assert 48 * KIB * KIB < rise < 80 * KIB * KIB  # Linux adds up each processor's pages lazily


@given(st.none())
def _warm_up(_):
    """Hypothesis puts its gc callback in at the first use: not to be taken for ours."""


_warm_up()

Step = st.one_of(
    st.tuples(st.just("allocate"), st.integers(0, 1), st.integers(1, 3 * KIB * KIB)),
    st.tuples(st.just("free"), st.integers(0, 1), st.integers(0, 5)),
    st.tuples(st.just("open"), st.integers(0, 1), st.just(0)),
    st.tuples(st.just("close"), st.integers(0, 1), st.integers(0, 5)),
    st.tuples(st.just("reset"), st.integers(0, 1), st.integers(0, 1)),
    st.tuples(st.just("read"), st.integers(0, 1), st.just(0)),
)


def flat(nested, path=""):
    pairs = []
    for key, value in nested.items():
        name = f"{path}.{key}" if path else key
        pairs += flat(value, name).items() if isinstance(value, dict) else [(name, value)]
    return dict(pairs)


@given(steps=st.lists(Step, max_size=40))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_order_of_cells_and_calls_reads_as_if_each_were_alone(cuda, devices, steps):
    """The truth: a second allocator that nbmem never sees, and a list of figures per window."""
    cuda.devices[:] = [SimulatedAllocator(), SimulatedAllocator()]
    for index in (0, 1):
        torch.cuda.reset_peak_memory_stats(index)
    alone = [SimulatedAllocator(), SimulatedAllocator()]
    windows = collections.defaultdict(list)
    for what, index, number in steps:
        if what == "allocate":
            cuda.devices[index].allocate(number)
            alone[index].allocate(number)
        elif what == "free" and alone[index].blocks:
            position = number % len(alone[index].blocks)
            cuda.devices[index].free(position)
            alone[index].free(position)
        elif what == "open":
            windows[index].append((open_window(devices, index), []))
        elif what == "close" and windows[index]:
            window, seen = windows[index].pop(number % len(windows[index]))
            assert (seen[0], max(seen), seen[-1]) == (
                window.start.allocated,
                window.close(),
                window.end.allocated,
            )
        elif what == "reset":
            torch.cuda.reset_peak_memory_stats(index) if number else (
                torch.accelerator.reset_peak_memory_stats(index)
            )
            alone[index].reset_peak()
        elif what == "read":
            assert flat(alone[index].nested()) == torch.cuda.memory_stats(index)
            assert flat(alone[index].nested()) == torch.accelerator.memory_stats(index)
        for _, seen in windows[index]:
            seen.append(alone[index].nested()["allocated_bytes"]["all"]["current"])
    for window, _ in windows[0] + windows[1]:
        window.close()
