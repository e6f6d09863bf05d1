"""What torch can get of a card at most: its parts, their sum, and what reading it costs."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_cuda import SimulatedCuda
from simulated_nvml import KEPT, FakeDriver, card

from nbmem.devices import Devices
from nbmem.devices.limits import capacity_of
from nbmem.devices.nvml import CardMemory
from nbmem.heap import StorageTable
from nbmem.scopes import Scopes

MIB, GIB = 2**20, 2**30
UUID = "GPU-00000000-1111-2222-3333-4444"  # as torch knows its first simulated device


class Counter:
    device = "cpu"

    def allocated(self):
        return 0

    def peak(self):
        return 0

    def reset_peak(self):
        pass


@pytest.fixture
def machine(monkeypatch):
    """A card of 8.5 GiB by its driver, of which 0.5 GiB are the driver's and 3 GiB in use."""
    cuda = SimulatedCuda(monkeypatch)
    driver = FakeDriver(card("0", total=8 * GIB + KEPT, used=3 * GIB))
    driver.cards[0].uuid = UUID
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    return cuda, driver, Devices(Counter())


@pytest.fixture
def bare(monkeypatch):
    """The same without NVIDIA's package: torch alone is asked."""
    cuda = SimulatedCuda(monkeypatch)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return cuda, Devices(Counter())


def gpu(devices):
    return devices.read("cuda:0")[0]


def facts(parts):
    return (parts.bytes, parts.total, parts.driver, parts.others, parts.limit, parts.beyond_limit)


def codes(notes, field="capacity"):
    return [note.code for note in notes if note.field == field]


def test_the_driver_and_others_are_taken_off_the_total(machine):
    cuda, _, devices = machine
    cuda.devices[0].allocate(2 * GIB)  # of the 3 GiB in use
    reading = gpu(devices)
    assert (7 * GIB, 8 * GIB + KEPT, KEPT, GIB, None, 0) == facts(reading.parts)
    assert 7 * GIB == reading.capacity
    assert [] == codes(reading.notes)


def test_the_capacity_does_not_move_with_what_torch_itself_takes(machine):
    cuda, driver, devices = machine
    told = set()
    for _ in range(3):
        cuda.devices[0].allocate(GIB)
        driver.cards[0].used = 2 * GIB + cuda.read_stats(0)["reserved_bytes"]["all"]["current"]
        told.add(gpu(devices).capacity)
    assert {6 * GIB} == told


def test_a_limit_of_torchs_is_a_part_of_its_own_total_and_told_apart(machine):
    cuda, _, devices = machine
    cuda.devices[0].allocate(2 * GIB)
    cuda.fraction = 0.5
    parts = gpu(devices).parts
    assert (4 * GIB, 8 * GIB + KEPT, KEPT, GIB, 4 * GIB, 3 * GIB) == facts(parts)


def test_a_limit_above_what_others_leave_changes_nothing(machine):
    cuda, _, devices = machine
    cuda.devices[0].allocate(2 * GIB)
    cuda.fraction = 0.9  # 7.2 GiB; others leave 7
    parts = gpu(devices).parts
    assert (7 * GIB, 0) == (parts.bytes, parts.beyond_limit)


@pytest.mark.parametrize("fraction", [1.0, 2.0**31])
def test_no_limit_is_a_fraction_of_one_or_for_cuda_malloc_async_far_more(machine, fraction):
    cuda, _, devices = machine
    cuda.fraction = fraction
    assert gpu(devices).parts.limit is None


def test_a_limit_that_can_not_be_asked_is_none(machine, monkeypatch):
    def broken(index):
        raise RuntimeError("not meaningful")

    monkeypatch.setattr("torch.cuda.get_per_process_memory_fraction", broken)
    assert gpu(machine[2]).parts.limit is None


def test_others_that_come_take_of_the_capacity_at_once(machine):
    cuda, driver, devices = machine
    cuda.devices[0].allocate(2 * GIB)
    assert 7 * GIB == gpu(devices).capacity
    driver.cards[0].used += 4 * GIB
    assert (3 * GIB, 5 * GIB) == (gpu(devices).capacity, gpu(devices).parts.others)


def test_before_cuda_starts_it_is_what_the_driver_says_is_free(monkeypatch):
    cuda = SimulatedCuda(monkeypatch, started=False)
    driver = FakeDriver(card("0", total=8 * GIB + KEPT, used=3 * GIB))
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    parts = gpu(Devices(Counter())).parts
    assert (5 * GIB, 8 * GIB + KEPT, KEPT, 3 * GIB, None, 0) == facts(parts)
    assert 0 == cuda.early_calls == cuda.memory_queries


def test_without_nvidias_package_torch_is_asked_and_the_driver_is_unknown(bare):
    cuda, devices = bare
    cuda.devices[0].allocate(2 * GIB)
    reading = gpu(devices)
    assert (8 * GIB - 300 * MIB, 8 * GIB, None, 300 * MIB, None, 0) == facts(reading.parts)


def test_a_driver_that_counts_what_it_keeps_as_used_leaves_the_same_to_torch(machine):
    cuda, driver, devices = machine
    cuda.devices[0].allocate(2 * GIB)
    driver.old = True
    assert (7 * GIB, 8 * GIB + KEPT, None, GIB + KEPT, None, 0) == facts(gpu(devices).parts)


def test_another_thread_that_allocates_meanwhile_leaves_no_torn_figure(machine, monkeypatch):
    cuda, driver, devices = machine
    cuda.devices[0].allocate(2 * GIB)
    told = driver.nvmlDeviceGetMemoryInfo
    late = [GIB]

    def allocates_meanwhile(handle, version=None):
        if late:
            size = late.pop()
            cuda.devices[0].allocate(size)
            driver.cards[0].used += size
        return told(handle, version)

    monkeypatch.setattr(driver, "nvmlDeviceGetMemoryInfo", allocates_meanwhile)
    assert 7 * GIB == gpu(devices).capacity


def test_a_thread_that_looks_asks_nothing_of_cuda(machine, bare):
    for cuda, devices in ((machine[0], machine[2]), bare):
        (reader,) = [r for r in devices.accelerators() if r.device == "cuda:0"]
        known = reader.capacity()
        asked = cuda.memory_queries
        assert known == reader.capacity_at_a_glance()
        assert asked == cuda.memory_queries


def test_a_thread_that_looks_sees_others_come_where_the_driver_tells(machine):
    cuda, driver, devices = machine
    (reader,) = [r for r in devices.accelerators() if r.device == "cuda:0"]
    before = reader.capacity().bytes
    driver.cards[0].used += GIB
    assert before - GIB == reader.capacity_at_a_glance().bytes
    assert 0 == cuda.memory_queries


def test_while_a_graph_is_recorded_cuda_is_not_asked_and_the_last_figure_stands(bare):
    cuda, devices = bare
    known = gpu(devices).parts
    cuda.capturing, asked = True, cuda.memory_queries
    reading = gpu(devices)
    assert known == reading.parts
    assert asked == cuda.memory_queries
    assert "driver_used" in {note.field for note in reading.notes}


@pytest.fixture
def scopes(machine):
    return Scopes(StorageTable(), None, machine[2])


def test_a_cell_has_the_capacity_of_its_end(machine, scopes):
    cuda, driver, _ = machine
    scope = scopes.open("cuda:0", scan=False)
    cuda.devices[0].allocate(2 * GIB)
    driver.cards[0].used += 3 * GIB
    delta = scope.close().deltas["cuda:0"]
    assert (4 * GIB, 4 * GIB) == (delta.capacity, delta.parts.bytes)
    assert [] == codes(delta.notes)


def test_a_peak_above_what_can_be_had_at_the_end_says_that_others_came(machine, scopes):
    cuda, driver, _ = machine
    scope = scopes.open("cuda:0", scan=False)
    cuda.devices[0].allocate(5 * GIB)
    driver.cards[0].used = 7 * GIB
    cuda.devices[0].free()
    cuda.devices[0].count("reserved_bytes", 0)  # as empty_cache leaves it
    delta = scope.close().deltas["cuda:0"]
    assert (5 * GIB, GIB) == (delta.peak, delta.capacity)
    assert ["fell"] == codes(delta.notes)


def test_the_host_has_no_parts(scopes):
    assert scopes.open("cuda:0", scan=False).close().deltas["host"].parts is None


sizes = st.integers(0, 2**40)


@given(total=sizes, used=sizes, kept=st.none() | sizes, reserved=sizes, fraction=st.floats(0, 1))
def test_the_parts_add_up_whatever_is_told(total, used, kept, reserved, fraction):
    kept = None if kept is None else min(kept, total)
    used = min(used, total - (kept or 0))
    free = total - (kept or 0) - used
    parts = capacity_of(CardMemory(used, total, free, kept), reserved, fraction=fraction)
    lost = (parts.driver or 0) + parts.others + parts.beyond_limit
    assert total - lost == parts.bytes
    assert min(parts.bytes, parts.others, parts.beyond_limit) >= 0
    assert parts.limit is None or parts.bytes <= parts.limit
    assert parts.bytes <= reserved + free
