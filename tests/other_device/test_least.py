"""Cells on a device of which torch knows no more than `torch.accelerator` asks of everybody."""

from __future__ import annotations

import pytest
from toy_device import CAPACITY, MIB, OTHERS
from toy_kernel import open_kernel


def blocks(size):
    """The bytes of a live block: the toy's allocator rounds to 512."""
    return -(-size // 512) * 512


@pytest.fixture(scope="module")
def started():
    with open_kernel() as kernel:
        yield kernel


@pytest.fixture
def kernel(started):
    started.begin_anew()
    return started


def test_before_its_first_use_nothing_is_asked_of_a_device():
    with open_kernel() as kernel:
        assert 0 == kernel.reading("allocated")
        assert ("unavailable", "toy:0 tells its capacity once it has been used.") == kernel.note(
            "capacity"
        )
        assert ("unavailable", "toy:0 tells how full it is once it has been used.") == kernel.note(
            "driver_used"
        )
        assert not kernel.value("torch._C._accelerator_isAllocatorInitialized()")
        shown = kernel.run("%%gpumem\nx = torch.ones(1000, device='toy:0')")
        assert "toy:0 was first used in here" in shown
        assert "toy:1" not in shown  # nobody did: it holds nothing, and still is not asked
        assert (0, None) == (
            kernel.reading("allocated", "toy:1"),
            kernel.reading("capacity", "toy:1"),
        )


def test_a_reading_says_what_torch_accelerator_says(kernel):
    kernel.run("x = torch.ones(1000, device='toy')")
    assert blocks(4000) == kernel.reading("allocated") == kernel.value("toy_device.allocated()")
    assert 4000 == kernel.reading("requested")
    assert CAPACITY - OTHERS == kernel.reading("capacity")
    free, total = kernel.value("tuple(torch.accelerator.get_memory_info(0))")
    assert total - free == kernel.reading("driver_used")
    assert kernel.value("torch.accelerator.memory_reserved(0)") == kernel.reading("reserved")


def test_a_device_module_without_properties_is_not_called_broken(kernel):
    kernel.run("x = torch.ones(1000, device='toy')")
    assert kernel.reading("name") is None
    assert ("unavailable", "torch does not tell name of toy:0.") == kernel.note("name")
    codes = kernel.value("[n.code for r in nbmem.read_devices() for n in r.notes]")
    assert "broken" not in codes


def test_status_shows_how_full_the_device_is(kernel):
    kernel.run("x = torch.ones(1000, device='toy')")
    shown = kernel.run("%gpumem")
    assert "248 MiB  torch can get" in shown  # the rest is of others
    assert "8.00 MiB  of others" in shown
    assert "256 MiB  the card's total" in shown
    assert "failed" not in shown


def test_a_cell_s_figures_are_the_allocator_s(kernel):
    kernel.run("x = torch.ones(250_000, device='toy')")
    kernel.run("%%gpumem\nbig = torch.empty(4 * 2**20, device='toy')\ndel big\ny = x.clone()")
    start = blocks(1_000_000)
    assert start == kernel.last("devices['toy:0'].before")
    assert 2 * start == kernel.last("devices['toy:0'].after")
    assert start + 16 * MIB == kernel.last("devices['toy:0'].peak")
    assert CAPACITY - OTHERS == kernel.last("devices['toy:0'].capacity")
    assert ("y",) == kernel.last("created[0].names")


def test_the_users_own_peak_survives_a_measured_cell(kernel):
    kernel.run("torch.accelerator.reset_peak_memory_stats()")
    kernel.run("x = torch.empty(5 * 2**20, dtype=torch.uint8, device='toy'); del x")
    kernel.run("%%gpumem\nx = torch.empty(2**20, dtype=torch.uint8, device='toy')")
    assert MIB == kernel.last("devices['toy:0'].peak")
    assert 5 * MIB == kernel.value("torch.accelerator.max_memory_allocated()")
    assert 5 * MIB == kernel.value("torch.accelerator.memory_stats()['allocated_bytes.all.peak']")


def test_a_reset_within_the_cell_leaves_the_cell_its_peak(kernel):
    kernel.run(
        "%%gpumem\nx = torch.empty(3 * 2**20, dtype=torch.uint8, device='toy'); del x\n"
        "torch.accelerator.reset_peak_memory_stats()\n"
        "inside = torch.accelerator.max_memory_allocated()"
    )
    assert 0 == kernel.value("inside")
    assert 3 * MIB == kernel.last("devices['toy:0'].peak")


def test_moves_are_seen_on_both_devices(kernel):
    kernel.run("x = torch.arange(2**18, dtype=torch.float32, device='toy:0')")
    kernel.run("%%gpumem\nx = x.to('toy:1')")
    assert (-MIB, MIB) == (
        kernel.last("devices['toy:0'].delta"),
        kernel.last("devices['toy:1'].delta"),
    )
    kernel.run("%%gpumem\nx = x.cpu()")
    assert (0, -MIB) == (
        kernel.last("devices['toy:0'].delta"),
        kernel.last("devices['toy:1'].delta"),
    )
    assert 2**18 - 1 == kernel.value("int(x[-1])")


def test_out_of_memory_is_told_with_its_figures(kernel):
    shown = kernel.fail("%%gpumem\ntorch.empty(300 * 2**20, dtype=torch.uint8, device='toy')")
    assert "asked for 300 MiB" in shown
    assert "oom" == kernel.last("status")
    assert 300 * MIB == kernel.last("oom.asked")
    assert 0 == kernel.last("devices['toy:0'].delta")


def test_a_training_step_is_named_to_the_byte(kernel):
    kernel.run(
        "model = torch.nn.Linear(1000, 100, device='toy')\n"
        "optimizer = torch.optim.Adam(model.parameters())"
    )
    kernel.run(
        "%%gpumem\nmodel(torch.ones(8, 1000, device='toy')).pow(2).mean().backward()\n"
        "optimizer.step()"
    )
    weights = blocks(400_000) + blocks(400)
    assert 4 * weights == kernel.value("toy_device.allocated()")  # with gradients and two moments
    kinds = kernel.value(
        "sorted((s.category, s.bytes) for s in nbmem.list_storages() if s.device == 'toy:0')"
    )
    expected = ["gradient", "optimizer state", "optimizer state", "parameter"]
    assert sorted((kind, size) for kind in expected for size in (400, 400_000)) == [
        (kind.replace("_", " "), size) for kind, size in kinds
    ]


def test_a_kept_graph_is_found_and_given_back(kernel):
    kernel.run(
        "weight = torch.ones(2**18, device='toy', requires_grad=True)\nlosses = []\n"
        "for _ in range(3):\n    losses.append((weight * 2).pow(2).mean())"
    )
    kept = kernel.value("toy_device.allocated()")
    (kind,) = kernel.value("[leak.kind for leak in nbmem.find_leaks()]")
    assert "retained_graph" == kind
    kernel.run("report = nbmem.reclaim_memory(nbmem.find_leaks())")
    left = kernel.value("toy_device.allocated()")
    assert MIB + 3 * 512 == left
    numbers = 3 * 8  # the 2 of each multiplication, a number on the CPU
    assert kept - left + numbers == kernel.value("report.bytes_before - report.bytes_after")


def test_looking_reads_no_number_and_allocates_nothing(kernel):
    """The memory of the toy can't be read by the CPU: who tries ends the kernel."""
    kernel.run("x = torch.zeros(2**18, device='toy', requires_grad=True)\n(x * 2).sum().backward()")
    kernel.run("stats = torch.accelerator.memory_stats()['allocation.all.allocated']")
    for command in ("tensors", "ledger", "leaks", "history", "reclaim --dry-run"):
        kernel.run(f"%gpumem {command}")
    kernel.run("%gpumem")
    kernel.run("now = torch.accelerator.memory_stats()['allocation.all.allocated']")
    assert kernel.value("stats") == kernel.value("now")


def test_the_ledger_closes_down_to_the_card(kernel):
    kernel.run("torch.accelerator.empty_cache()\nx = torch.ones(1000, device='toy')")
    shown = kernel.run("%gpumem ledger toy:0")
    assert "torch.accelerator.memory_allocated(0)" in shown
    assert "torch.toy." not in shown
    assert "torch.accelerator.get_memory_info(0): total" in shown
    assert f"{OTHERS:,}" in shown
    assert f"{CAPACITY:,}" in shown
    assert "CUDA" not in shown


def test_the_cache_goes_back_to_the_driver(kernel):
    kernel.run("x = torch.ones(2**20, device='toy'); del x")
    assert 0 < kernel.value("torch.accelerator.memory_reserved()")
    kernel.run("report = nbmem.session.current_session().empty_cache()")
    assert 0 == kernel.value("torch.accelerator.memory_reserved()")
    assert 4 * MIB <= kernel.value("report.bytes_before - report.bytes_after")


def test_the_panel_knows_the_device_and_how_full_it_is(kernel):
    kernel.run("%%gpumem\nx = torch.ones(2**20, device='toy')")
    kernel.run("from nbmem.panel import Panel\nfrom nbmem.session import current_session")
    kernel.run("panel = Panel(current_session(), kind='plain')\npanel.refresh()")
    kernel.run(
        "def texts(widget):\n"
        "    yield str(getattr(widget, 'value', ''))\n"
        "    for child in getattr(widget, 'children', ()):\n"
        "        yield from texts(child)\n"
        "told = ' '.join(texts(panel.widget))\npanel.close('done')"
    )
    told = kernel.value("told")
    assert "toy:0" in told
    assert "256 MiB" in told
    assert "broken" not in told
    assert "failed" not in told


def test_pinned_memory_is_told(kernel):
    kernel.run("x = torch.ones(1, device='toy')\npinned = torch.empty(2**20, pin_memory=True)")
    kernel.run("plain = torch.empty(2**20)")
    marks = "{s.names[0]: s.pinned for s in nbmem.list_storages() if s.device == 'cpu'}"
    assert {"pinned": True, "plain": False} == kernel.value(marks)


def test_parking_is_refused_where_torch_can_t_re_point_tensors(kernel):
    kernel.run("model = torch.nn.Linear(10, 10, device='toy')")
    before = kernel.value("toy_device.allocated()")
    shown = kernel.run("%gpumem park model")
    assert "Nothing was parked." in shown
    assert 1 == " ".join(shown.split()).count("can't re-point")  # of the device, not of each weight
    assert before == kernel.value("toy_device.allocated()")
    assert ["toy:0"] * 2 == kernel.value("[str(p.device) for p in model.parameters()]")
