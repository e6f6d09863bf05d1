"""Devices whose vendors left out more, or put in more, than the least."""

from __future__ import annotations

import pytest
from toy_device import CAPACITY, MIB, OTHERS
from toy_kernel import open_kernel

FIGURES = [
    "allocated",
    "peak_allocated",
    "requested",
    "active",
    "reserved",
    "driver_used",
    "capacity",
    "name",
]
CANT_ASK = (
    "torch can't ask the allocator of toy devices: neither its counters are known nor whether it "
    "was used."
)


@pytest.fixture(scope="module")
def silent():
    """Its allocator is older than torch's DeviceAllocator: torch.accelerator can't ask it."""
    with open_kernel(lacks="counters,pinning,synchronize") as kernel:
        yield kernel


def test_what_can_t_be_asked_is_unknown_with_one_reason_and_never_0(silent):
    silent.begin_anew()
    silent.run("x = torch.ones(2**18, device='toy')")
    assert [None] * 8 == [silent.reading(figure) for figure in FIGURES]
    assert [("unavailable", CANT_ASK)] * 8 == [silent.note(figure) for figure in FIGURES]
    shown = silent.run("%gpumem")
    assert 1 == " ".join(shown.split()).count(CANT_ASK)
    assert "0 B" not in shown.partition("host")[0]


def test_a_cell_on_a_silent_device_has_its_storages_and_no_figures(silent):
    silent.begin_anew()
    shown = silent.run("%%gpumem\nx = torch.ones(2**18, device='toy')")
    device = "devices['toy:0']"
    assert [None] * 4 == [
        silent.last(f"{device}.{figure}") for figure in ("before", "after", "delta", "peak")
    ]
    assert {CANT_ASK} == set(
        silent.value(
            f"[n.sentence for n in nbmem.get_history().records()[-1].{device}.notes"
            " if n.field != 'capacity']"
        )
    )
    assert [(("x",), MIB)] == silent.value(
        "[(s.names, s.bytes) for s in nbmem.get_history().records()[-1].created]"
    )
    assert "rounding" not in shown


def test_the_running_cell_on_a_silent_device_is_no_trouble_of_nbmem_s(silent):
    silent.begin_anew()
    silent.run("readings = []\nfrom nbmem.session import current_session")
    silent.run("end = current_session().sampler.subscribe(readings.append)")
    # A second, so that the thread that reads counters while a cell runs comes by.
    silent.run("%%gpumem\nimport time\nx = torch.ones(2**18, device='toy')\ntime.sleep(1)")
    silent.run("end()")
    assert silent.value("len(readings)") >= 2
    assert {(None, "torch does not tell what toy:0 holds")} == set(
        silent.value("[(r.allocated, r.note) for r in readings]")
    )
    assert [] == silent.value("[t.doing for t in current_session().troubles.all()]")


def test_the_ledger_of_a_silent_device_stays_open(silent):
    silent.begin_anew()
    silent.run("x = torch.ones(2**18, device='toy')")
    shown = silent.run("%gpumem ledger toy:0")
    assert "not closed: a figure is unknown" in shown
    assert f"{MIB:,}" in shown
    assert "another" not in shown


def test_a_silent_device_s_cache_can_t_be_emptied_and_that_is_said(silent):
    silent.begin_anew()
    silent.run("x = torch.ones(2**18, device='toy')")
    silent.run("report = nbmem.session.current_session().empty_cache()")
    (refusal,) = silent.value("report.refused")
    assert refusal.startswith("torch could not empty the cache of toy:0")
    assert silent.value("report.bytes_after") is None


def test_a_device_module_with_properties_tells_name_and_capacity():
    with open_kernel("everything", lacks="memory_info") as kernel:
        kernel.run("x = torch.ones(2**18, device='toy')")
        assert ("Toy 0", CAPACITY) == (kernel.reading("name"), kernel.reading("capacity"))
        assert kernel.reading("driver_used") is None
        assert ("unavailable", "torch does not tell how full toy:0 is.") == kernel.note(
            "driver_used"
        )
        shown = kernel.run("%gpumem ledger toy:0")
        assert "The ledger ends at reserved. torch does not tell how full toy:0 is." in shown


def test_a_cuda_build_of_torch_does_not_ask_nvidia_about_another_vendor_s_device():
    with open_kernel(first="import torch\ntorch.version.cuda = '13.0'") as kernel:
        kernel.run("x = torch.ones(2**18, device='toy')")
        assert CAPACITY - OTHERS == kernel.reading("capacity")
        shown = kernel.run("%gpumem") + kernel.run("%gpumem ledger toy:0")
        assert "torch.accelerator.get_memory_info(0): total" in shown
        assert "CUDA_VISIBLE_DEVICES" not in shown
        assert "NVML" not in shown


@pytest.fixture(scope="module")
def vendor():
    """Older than DeviceAllocator too, with counters of its own in `torch_toy._C`."""
    with open_kernel("everything", lacks="counters") as kernel:
        yield kernel


def test_a_vendor_s_own_counters_are_read_where_torch_can_t_ask(vendor):
    vendor.begin_anew()
    vendor.run("x = torch.ones(2**18, device='toy')")
    vendor.run("%%gpumem\nbig = torch.empty(2**20, device='toy')\ndel big\ny = x.clone()")
    figures = [vendor.last(f"devices['toy:0'].{name}") for name in ("before", "after", "peak")]
    assert [MIB, 2 * MIB, 5 * MIB] == figures
    assert vendor.reading("requested") is None
    assert "torch.toy.memory_allocated(0)" in vendor.run("%gpumem ledger toy:0")


def test_a_vendor_s_own_peak_and_reset_are_the_user_s_as_before(vendor):
    vendor.begin_anew()
    vendor.run("torch.toy.reset_peak_memory_stats()")
    vendor.run("x = torch.empty(5 * 2**20, dtype=torch.uint8, device='toy'); del x")
    vendor.run("%%gpumem\nx = torch.empty(2**20, dtype=torch.uint8, device='toy')")
    assert MIB == vendor.last("devices['toy:0'].peak")
    assert 5 * MIB == vendor.value("torch.toy.max_memory_allocated()")
    vendor.run(
        "%%gpumem\ny = torch.empty(3 * 2**20, dtype=torch.uint8, device='toy'); del y\n"
        "torch.toy.reset_peak_memory_stats()"
    )
    assert 4 * MIB == vendor.last("devices['toy:0'].peak")
    assert MIB == vendor.value("torch.toy.max_memory_allocated()")


def test_memory_stays_where_a_vendor_s_captured_graph_may_read_it(vendor):
    vendor.begin_anew()
    vendor.run("torch.toy.TOYGraph = type('TOYGraph', (), {})\ngraph = torch.toy.TOYGraph()")
    vendor.run("few = torch.arange(2**20, dtype=torch.float32, device='toy')[:10]")
    assert ["oversized_view"] == vendor.value("[leak.kind for leak in nbmem.find_leaks()]")
    vendor.run("report = nbmem.reclaim_memory(nbmem.find_leaks())")
    assert 4 * MIB == vendor.value("toy_device.allocated()")
    assert "graph may read its memory" in " ".join(vendor.value("report.refused"))
    vendor.run("del graph, torch.toy.TOYGraph\nreport = nbmem.reclaim_memory(nbmem.find_leaks())")
    assert 512 == vendor.value("toy_device.allocated()")
    assert list(range(10)) == vendor.value("few.tolist()")


def test_nbmem_loads_beside_a_device_that_has_no_module_at_all():
    with open_kernel(None) as kernel:
        kernel.run("%%gpumem\nx = torch.ones(2**18)")
        assert MIB == kernel.last("devices['cpu'].delta")


def test_a_device_that_comes_after_nbmem_is_measured_from_then_on():
    """As with `%load_ext nbmem` in the first cell and the vendor's import in the second."""
    with open_kernel(late=True) as kernel:
        kernel.run("%%gpumem\nx = torch.ones(2**18, device='toy')")
        assert MIB == kernel.last("devices['toy:0'].delta")
        kernel.run("torch.accelerator.reset_peak_memory_stats()")
        kernel.run("y = torch.ones(2**18, device='toy'); del y")
        kernel.run("%%gpumem\npass")
        assert MIB == kernel.last("devices['toy:0'].peak")
        assert 2 * MIB == kernel.value("torch.accelerator.max_memory_allocated()")
        kernel.run("%unload_ext nbmem\nstats = torch._C._accelerator_getDeviceStats")
        assert "'builtin_function_or_method'" == repr(kernel.value("type(stats).__name__"))
