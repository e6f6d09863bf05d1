"""What a measured scope says of the code within it."""

import gc
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from simulated_cuda import SimulatedCuda

from nbmem.devices import Devices, UnknownDeviceError
from nbmem.heap import StorageTable, scan_heap
from nbmem.records import Note
from nbmem.scopes import Scopes
from nbmem.tracking import CpuTracker

MIB = 2**20


def make(size):
    return torch.empty(size, dtype=torch.uint8)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """None but the simulated one, whatever this machine has."""
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)


@pytest.fixture
def table():
    gc.collect()  # what earlier tests left for the collector is not to die within this one
    return StorageTable()


@pytest.fixture
def tracker(table):
    return CpuTracker(table)


@pytest.fixture
def scopes(table, tracker):
    scopes = Scopes(table, tracker, Devices(tracker))
    scopes.devices.install()
    yield scopes
    scopes.close_all()
    scopes.devices.uninstall()


@pytest.fixture
def cuda(monkeypatch):
    return SimulatedCuda(monkeypatch, count=2)


@pytest.fixture
def gpu_scopes(cuda, table, tracker):
    scopes = Scopes(table, tracker, Devices(tracker))
    scopes.devices.install()
    yield scopes
    scopes.close_all()
    scopes.devices.uninstall()


def codes(notes):
    return [(note.field, note.code) for note in notes]


def test_a_scope_adds_up_to_the_byte(scopes, tracker):
    old, kept = make(MIB), make(3 * MIB)
    scope = scopes.open()
    made, passing = make(5 * MIB), make(7 * MIB)
    del passing, old
    scope.stop()
    result = scope.close()
    cpu = result.deltas["cpu"]
    assert 4 * MIB == cpu.delta
    assert cpu.before + 12 * MIB == cpu.peak
    assert {"cpu": MIB} == result.freed
    assert {} == result.resized
    assert cpu.before + 5 * MIB - MIB == cpu.after
    assert () == cpu.notes
    assert made.numel() + kept.numel() == 8 * MIB


def test_serials_tell_what_was_made_in_the_scope(scopes, tracker, table):
    scope = scopes.open()
    made = make(MIB)
    result = scope.close()
    later = make(MIB)
    table.note(later.untyped_storage())
    within = range(result.first_serial, result.end_serial)
    assert [True, False] == [
        table.find(tensor.untyped_storage()).serial in within for tensor in (made, later)
    ]


def test_memory_made_by_nobody_in_sight_is_counted_at_the_start(scopes, tracker):
    unseen = make(9 * MIB)
    scope = scopes.open()
    del unseen
    result = scope.close()
    assert -9 * MIB == result.deltas["cpu"].delta
    assert {"cpu": 9 * MIB} == result.freed


def test_without_a_scan_the_start_figure_is_called_partial(scopes, tracker):
    unseen = make(9 * MIB)
    cpu = scopes.open(scan=False).close().deltas["cpu"]
    assert [("before", "scan_skipped")] == codes(cpu.notes)
    assert (0, 0) == (cpu.before, cpu.delta)
    assert 9 * MIB == unseen.numel()


def test_an_inner_scope_needs_no_scan_of_its_own(scopes, tracker):
    outer = scopes.open()
    made = make(MIB)
    inner = scopes.open(scan=False)
    more = make(2 * MIB)
    inner_cpu = inner.close().deltas["cpu"]
    outer_cpu = outer.close().deltas["cpu"]
    assert ((), ()) == (inner_cpu.notes, outer_cpu.notes)
    assert (2 * MIB, 3 * MIB) == (inner_cpu.delta, outer_cpu.delta)
    assert outer_cpu.before + MIB == inner_cpu.before
    assert 3 * MIB == made.numel() + more.numel()


def test_scopes_close_in_any_order_and_each_has_its_own_peak(scopes, tracker):
    first = scopes.open()
    passing = make(8 * MIB)
    del passing
    second = scopes.open()
    passing = make(2 * MIB)
    del passing
    first_cpu = first.close().deltas["cpu"]
    passing = make(4 * MIB)
    del passing
    second_cpu = second.close().deltas["cpu"]
    assert [8 * MIB, 4 * MIB] == [cpu.peak - cpu.before for cpu in (first_cpu, second_cpu)]
    assert tracker.is_on is False


def test_closing_twice_gives_the_same_result_and_stops_once(scopes, tracker):
    scope = scopes.open()
    first = scope.close()
    kept = make(MIB)
    scope.stop()
    assert first is scope.close()
    assert tracker.is_on is False
    assert MIB == kept.numel()


def test_a_scope_nobody_closed_is_closed_at_the_end(scopes, tracker):
    scopes.open()
    scopes.open()
    scopes.close_all()
    assert tracker.is_on is False
    assert scopes.tracking is False


def test_what_another_thread_made_raises_the_peak_with_a_note(scopes, tracker, table):
    scope = scopes.open()
    with ThreadPoolExecutor() as pool:
        by_a_thread = pool.submit(make, 6 * MIB).result()
    scope.stop()
    with scan_heap(table):
        pass
    cpu = scope.close().deltas["cpu"]
    assert 6 * MIB == cpu.delta
    assert cpu.after == cpu.peak
    assert [("peak", "other_threads")] == codes(cpu.notes)
    assert 6 * MIB == by_a_thread.numel()


def test_a_number_that_autograd_keeps_raises_the_peak_without_a_note(scopes, table):
    weight = torch.ones(1000, requires_grad=True)
    scope = scopes.open()
    doubled = weight * 2
    scope.stop()
    with scan_heap(table):
        pass
    result = scope.close()
    cpu = result.deltas["cpu"]
    assert (4008, 4008, ()) == (cpu.delta, cpu.peak - cpu.before, cpu.notes)
    assert (1000,) == doubled.shape


def test_another_threads_storage_is_told_beside_a_number(scopes, table):
    weight = torch.ones(1000, requires_grad=True)
    scope = scopes.open()
    doubled = weight * 2
    with ThreadPoolExecutor() as pool:
        by_a_thread = pool.submit(make, 100).result()
    scope.stop()
    with scan_heap(table):
        pass
    cpu = scope.close().deltas["cpu"]
    assert (4108, 4108) == (cpu.delta, cpu.peak - cpu.before)
    assert [("peak", "other_threads")] == codes(cpu.notes)
    assert 1100 == by_a_thread.numel() + doubled.numel()


def test_what_another_thread_made_below_the_peak_is_noted_too(scopes, table):
    scope = scopes.open()
    passing = make(9 * MIB)
    del passing
    with ThreadPoolExecutor() as pool:
        by_a_thread = pool.submit(make, 6 * MIB).result()
    scope.stop()
    with scan_heap(table):
        pass
    cpu = scope.close().deltas["cpu"]
    assert (6 * MIB, 9 * MIB) == (cpu.delta, cpu.peak - cpu.before)
    assert [("peak", "other_threads")] == codes(cpu.notes)
    assert 6 * MIB == by_a_thread.numel()


def test_what_the_tracker_could_not_see_is_said_with_the_cpu(scopes, tracker, monkeypatch):
    said = [Note("peak", "compiled", "What compiled code allocates inside is unseen.")]
    monkeypatch.setattr(tracker, "notes", lambda: said)
    deltas = scopes.open().close().deltas
    assert [("peak", "compiled")] == codes(deltas["cpu"].notes)
    assert () == deltas["host"].notes


def test_what_compiled_code_made_is_no_other_threads(scopes, tracker, table, monkeypatch):
    said = [Note("peak", "compiled", "What compiled code allocates inside is unseen.")]
    monkeypatch.setattr(tracker, "notes", lambda: said)
    scope = scopes.open()
    tracker._add("compiled", said[0].sentence)
    with ThreadPoolExecutor() as pool:  # made out of sight, as Inductor's C++ makes it
        kept = pool.submit(make, 6 * MIB).result()
    scope.stop()
    with scan_heap(table):
        pass
    cpu = scope.close().deltas["cpu"]
    assert cpu.after == cpu.peak
    assert [("peak", "compiled")] == codes(cpu.notes)
    assert 6 * MIB == kept.numel()


def test_a_tracker_that_breaks_costs_the_user_nothing_but_a_note(scopes, tracker, monkeypatch):
    def broken(_key=None):
        raise RuntimeError("mode stack is gone")

    monkeypatch.setattr(tracker, "start", broken)
    result = scopes.open().close()
    assert "Reading peak of cpu failed: RuntimeError: mode stack is gone" in (
        result.deltas["cpu"].notes[0].sentence
    )
    assert tracker.is_on is False


def test_the_host_is_measured_beside(scopes):
    scope = scopes.open()
    block = torch.ones(64 * MIB, dtype=torch.float32)
    host = scope.close().deltas["host"]
    assert 192 * MIB < host.delta < 320 * MIB  # Linux adds up each processor's pages lazily
    assert host.before < host.after <= host.peak
    assert (None, None) == (host.reserved_before, host.reserved_after)
    assert 256 * MIB == block.untyped_storage().nbytes()


def test_a_gpu_cell_reads_the_allocator_and_leaves_the_cpu_alone(gpu_scopes, cuda, tracker):
    cuda.devices[0].allocate(MIB)
    scope = gpu_scopes.open()
    assert tracker.is_on is False
    cuda.devices[0].allocate(4 * MIB)
    cuda.devices[0].allocate(300)
    cuda.devices[0].free(1)
    deltas = scope.close().deltas
    assert ["cuda:0", "cuda:1", "host"] == list(deltas)
    gpu = deltas["cuda:0"]
    assert (MIB, MIB + 512, 512) == (gpu.before, gpu.after, gpu.delta)
    assert 5 * MIB + 512 == gpu.peak
    assert (2 * MIB, 6 * MIB) == (gpu.reserved_before, gpu.reserved_after)
    assert 8 * 2**30 - 300 * MIB == gpu.capacity  # 300 MiB of others: torch can't get them
    assert (0, 0, 0) == (deltas["cuda:1"].before, deltas["cuda:1"].after, deltas["cuda:1"].peak)


def test_asking_for_the_cpu_beside_a_gpu_tracks_it(gpu_scopes, tracker):
    scope = gpu_scopes.open("cpu")
    kept = make(MIB)
    deltas = scope.close().deltas
    assert ["cuda:0", "cuda:1", "cpu", "host"] == list(deltas)
    assert MIB == deltas["cpu"].delta == kept.numel()


def test_one_gpu_may_be_asked_for_alone(gpu_scopes):
    assert ["cuda:1", "host"] == list(gpu_scopes.open("cuda:1").close().deltas)


def test_the_users_reset_within_a_gpu_cell_does_not_change_its_peak(gpu_scopes, cuda):
    scope = gpu_scopes.open()
    cuda.devices[0].allocate(4 * MIB)
    cuda.devices[0].free()
    torch.cuda.reset_peak_memory_stats(0)
    cuda.devices[0].allocate(MIB)
    gpu = scope.close().deltas["cuda:0"]
    assert 4 * MIB == gpu.peak
    assert MIB == torch.cuda.max_memory_allocated(0)


def test_a_gpu_first_used_in_the_cell_held_nothing_before(monkeypatch, table, tracker):
    cuda = SimulatedCuda(monkeypatch, started=False)
    scopes = Scopes(table, tracker, Devices(tracker))
    scope = scopes.open()
    cuda.start()
    cuda.devices[0].allocate(MIB)
    gpu = scope.close().deltas["cuda:0"]
    assert (0, MIB, MIB, MIB) == (gpu.before, gpu.after, gpu.delta, gpu.peak)
    assert "cuda:0 was first used in here, so torch held nothing on it before." == (
        gpu.notes[0].sentence
    )


def test_a_gpu_nobody_uses_holds_nothing_and_says_so(monkeypatch, table, tracker):
    SimulatedCuda(monkeypatch, started=False)
    scopes = Scopes(table, tracker, Devices(tracker))
    gpu = scopes.open().close().deltas["cuda:0"]
    assert (0, 0, 0) == (gpu.before, gpu.after, gpu.delta)
    assert (
        "cuda:0 has not been used yet, so torch holds nothing on it: "
        "device cpu measures the CPU's storages." == gpu.notes[0].sentence
    )
    assert not torch.cuda.is_initialized()


def test_gpus_that_can_be_counted_only_once_started_join_the_cell(monkeypatch, table, tracker):
    cuda = SimulatedCuda(monkeypatch, started=False)
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)
    scopes = Scopes(table, tracker, Devices(tracker))
    scope = scopes.open()
    cuda.start()
    cuda.devices[0].allocate(4 * MIB)
    cuda.devices[0].allocate(MIB)
    cuda.devices[0].free(0)
    deltas = scope.close().deltas
    gpu = deltas["cuda:0"]
    assert ["cpu", "host", "cuda:0"] == list(deltas)
    assert (0, MIB, MIB, 5 * MIB) == (gpu.before, gpu.after, gpu.delta, gpu.peak)


def test_a_gpu_that_fails_in_the_cell_has_no_figures_but_a_reason(gpu_scopes, cuda, monkeypatch):
    scope = gpu_scopes.open()

    def lost(index):
        raise RuntimeError("CUDA error: unspecified launch failure\nmore lines follow")

    cuda.read_stats = lost
    monkeypatch.setattr(cuda.devices[0], "nested", lambda: lost(0))
    result = scope.close()
    gpu = result.deltas["cuda:0"]
    assert (0, None, None, None) == (gpu.before, gpu.after, gpu.delta, gpu.peak)
    assert [
        "Reading peak of cuda:0 failed: RuntimeError: CUDA error: unspecified launch failure",
        "Reading after of cuda:0 failed: RuntimeError: CUDA error: unspecified launch failure",
    ] == [note.sentence for note in gpu.notes]
    assert 0 == result.deltas["cuda:1"].delta


def test_a_device_that_does_not_exist_is_refused_in_one_sentence(scopes):
    with pytest.raises(UnknownDeviceError) as refused:
        scopes.open("cuda:3")
    assert "there is no device 'cuda:3' here: use one of cpu, host" == str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_a_reading_of_the_cpu_includes_what_was_never_measured(scopes):
    before = scopes.read_devices()[0]
    kept = torch.empty(3 * MIB, dtype=torch.uint8)
    after = scopes.read_devices()[0]
    assert ("cpu", 3 * MIB) == (after.device, after.allocated - before.allocated)
    assert 3 * MIB == kept.numel()


@given(st.none())
def _warm_up(_):
    """Hypothesis puts its gc callback in at the first use: not to be taken for ours."""


_warm_up()


class Ledger:
    """The truth, kept by hand: the size and birth of each storage, and the figures over time."""

    def __init__(self):
        self.clock, self.sizes, self.births, self.scopes = 0, {}, {}, []

    def total(self):
        return sum(self.sizes.values())

    def changed(self):
        self.clock += 1
        for scope in self.scopes:
            scope["totals"].append(self.total())

    def open(self):
        self.clock += 1
        self.scopes.append({"at": self.clock, "totals": [self.total()], "freed": 0, "grown": 0})

    def make(self, name, size):
        self.sizes[name], self.births[name] = size, self.clock
        self.changed()

    def drop(self, name):
        size = self.sizes.pop(name)
        for scope in self.scopes:
            scope["freed"] += size * (self.births[name] < scope["at"])
        self.changed()

    def resize(self, name, size):
        for scope in self.scopes:
            scope["grown"] += (size - self.sizes[name]) * (self.births[name] < scope["at"])
        self.sizes[name] = size
        self.changed()


CpuStep = st.tuples(
    st.sampled_from(["make", "make", "drop", "resize", "open", "close", "pass"]),
    st.integers(1, 4096),
    st.integers(0, 7),
)


@given(steps=st.lists(CpuStep, max_size=40))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_scopes_in_any_order_add_up_to_the_byte(scopes, table, steps):
    kept, truth, opened = {}, Ledger(), []
    outer = scopes.open()
    base = table.bytes_on("cpu")
    for number, (what, size, pick) in enumerate(steps):
        name = sorted(kept)[pick % len(kept)] if kept else None
        if what == "make":
            kept[number] = make(size)
            truth.make(number, size)
        elif what == "drop" and kept:
            del kept[name]
            truth.drop(name)
        elif what == "resize" and kept:
            kept[name].untyped_storage().resize_(size)
            truth.resize(name, size)
        elif what == "pass":
            make(size)
            truth.make(number, size)
            truth.drop(number)
        elif what == "open":
            opened.append(scopes.open())
            truth.open()
        elif what == "close" and opened:
            result = opened.pop(pick % len(opened)).close()
            expected = truth.scopes.pop(pick % len(truth.scopes))
            cpu, totals = result.deltas["cpu"], expected["totals"]
            assert (totals[0], totals[-1]) == (cpu.before - base, cpu.after - base)
            assert max(totals) == cpu.peak - base
            assert expected["freed"] == result.freed.get("cpu", 0)
            assert expected["grown"] == result.resized.get("cpu", 0)
    for scope in [*opened, outer]:
        scope.close()
