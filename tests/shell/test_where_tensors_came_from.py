"""Who made a tensor is known on every device, whichever devices a cell measures."""

from __future__ import annotations

import gc

import pytest

import nbmem
from nbmem.panel.jumps import CellPlaces

MEASURED = ["host", "auto", "cpu"]
"""On a machine with a GPU `auto` reads no counters of the CPU; `host` does nowhere."""


@pytest.fixture(params=MEASURED)
def notebook(notebook, request):
    """A notebook whose cells read the counters of some devices."""
    notebook.run(f"%config NbMem.device = {request.param!r}")
    return notebook


def named(name):
    (storage,) = [s for s in nbmem.list_storages() if name in s.names]
    return storage


def leaks_of(kind):
    return [leak for leak in nbmem.find_leaks() if leak.kind == kind]


def count_of(notebook):
    return notebook.shell.execution_count - 1


def test_a_tensor_knows_its_cell(notebook):
    notebook.run("%%gpumem\nmade = torch.zeros(1000)")
    count = count_of(notebook)
    assert count == named("made").created_by
    assert notebook.records[-1].serial == named("made").created_in


def test_a_tensor_of_a_recorded_cell_knows_its_cell(notebook):
    notebook.run("%gpumem on")
    notebook.run("made = torch.zeros(1000)")
    count = count_of(notebook)
    notebook.run("other = torch.zeros(1000)")
    assert (count, count + 1) == (named("made").created_by, named("other").created_by)


def test_what_was_there_before_is_no_cells(notebook):
    notebook.run("old = torch.zeros(1000)")
    notebook.run("%%gpumem\nmade = torch.zeros(1000)")
    assert (None, None) == (named("old").created_by, named("old").created_in)


def test_a_tensor_keeps_the_cell_that_made_it(notebook):
    notebook.run("%%gpumem\nmade = torch.zeros(1000)")
    count = count_of(notebook)
    notebook.run("%%gpumem\nagain = made\nother = torch.zeros(10)")
    assert count == named("again").created_by


def test_the_record_lists_what_the_cell_made_and_freed(notebook):
    notebook.run("old = torch.zeros(500)")
    notebook.run("%%gpumem\nmade = torch.zeros(1000)\ngone = torch.zeros(9)\ndel old, gone")
    record = notebook.records[-1]
    assert [4000] == [storage.bytes for storage in record.created if "made" in storage.names]
    assert 2000 == record.freed["cpu"]


def test_a_block_that_runs_once_made_what_it_made(notebook):
    notebook.run(
        "%%gpumem\nimport nbmem\nwith nbmem.measure('inner') as m:\n    made = torch.zeros(1000)\n"
        "outer = torch.zeros(10)"
    )
    count, inner = count_of(notebook), notebook.names["m"].record
    assert (count, inner.serial) == (named("made").created_by, named("made").created_in)
    assert inner.parent == named("outer").created_in


def test_tensors_by_cell(notebook):
    notebook.run("%%gpumem\nmade = torch.zeros(300_000)")
    count = count_of(notebook)
    notebook.run("%gpumem tensors --by cell")
    shown = notebook.shell.shown[-1]["data"]["text/plain"]
    (line,) = [line for line in shown.splitlines() if f"[{count}]" in line]
    assert "1.14" in line.split()


def test_a_leak_names_its_cell(notebook):
    notebook.run("%%gpumem\ntorch.zeros(300_000)")
    count = count_of(notebook)
    notebook.run("1")
    (leak,) = leaks_of("stale_output")
    assert (1_200_000, count) == (leak.bytes, leak.created_by)


def test_the_panel_leads_from_a_tensor_and_a_leak_to_the_cell(notebook):
    notebook.run("%%gpumem\nmade = torch.zeros(300_000)\nmade + 1", cell_id="abc")
    count = count_of(notebook)
    notebook.run("1")
    places = CellPlaces(notebook.records)
    (leak,) = leaks_of("stale_output")
    place = ("abc", count, notebook.records[-1].serial)
    assert place == places.of_storage(named("made"))
    assert place == places.of_leak(leak)


def test_the_second_copy_of_a_model_is_told(notebook):
    cell = "%%gpumem\nmodel = torch.nn.Linear(400, 400)"
    notebook.run(cell)
    first = count_of(notebook)
    notebook.run("opt = torch.optim.SGD(model.parameters())")
    notebook.run(cell)
    (leak,) = leaks_of("stale_copy")
    assert (4 * (400 * 400 + 400), first) == (leak.bytes, leak.created_by)


def test_what_came_first_in_a_cell_is_known_only_where_it_was_followed(notebook):
    notebook.run(
        "%%gpumem\nw = torch.ones(300_000, requires_grad=True)\nloss = w.exp().sum()\n"
        "loss.backward(retain_graph=True)"
    )
    followed = "cpu" in notebook.records[-1].devices
    assert (1 if followed else 0) == len(leaks_of("retained_graph"))


def test_what_each_run_adds_is_told(notebook):
    notebook.run("kept = []")
    for _ in range(4):
        notebook.run("%%gpumem\nkept.append(torch.zeros(100_000))")
    trend = notebook.records[-1].trend
    assert (400_000, 1_200_000) == (trend.growth_per_run["cpu"], trend.older["cpu"])
    assert (400_000, 800_000, 1_200_000, 1_600_000) == trend.kept["cpu"]
    (leak,) = leaks_of("growing")
    assert 400_000 == leak.growth_per_run


def test_two_cells_that_add_to_one_list_have_one_line_that_frees_what_both_left(notebook):
    notebook.run("kept = []")
    cells = [f"%%gpumem\nkept.append(torch.full((100_000,), {n}.))" for n in range(2)]
    for _ in range(3):
        notebook.run(cells[0])
    for _ in range(3):
        notebook.run(cells[1])
    first, second = leaks_of("growing")
    assert [800_000, 800_000] == [first.bytes, second.bytes]
    assert first.remedy == second.remedy
    notebook.run("%gpumem leaks")
    assert "What frees 1 frees 2 as well." in notebook.reports[-1]
    notebook.run(first.remedy)
    assert [0.0, 1.0] == [kept[0].item() for kept in notebook.names["kept"]]
    assert [] == leaks_of("growing")


def test_two_lists_in_one_variable_are_freed_each_by_its_own_line(notebook):
    notebook.run("kept = {'a': [], 'b': []}")
    for part in "ab":
        for _ in range(3):
            notebook.run(f"%%gpumem\nkept['{part}'].append(torch.zeros(100_000))")
    leaks = leaks_of("growing")
    notebook.run("%gpumem leaks")
    assert "What frees" not in notebook.reports[-1]
    for leak in leaks:
        notebook.run(leak.remedy)
    assert [1, 1] == [len(part) for part in notebook.names["kept"].values()]


def test_a_device_that_comes_later_had_nothing_before(notebook):
    notebook.run("kept = []\nn = 0")
    for _ in range(4):
        notebook.run("%%gpumem\nn += 1\nkept += [torch.zeros(1000)] if n > 2 else []")
    assert (0, 0, 4000, 8000) == notebook.records[-1].trend.kept["cpu"]


def test_figures_of_devices_that_were_not_read_are_not_told(notebook):
    notebook.run("%%gpumem --device host\nmade = torch.zeros(1000)")
    record = notebook.records[-1]
    assert ["host"] == list(record.devices)
    assert "not measured" in notebook.reports[-1]


def test_the_sum_of_each_device_that_was_read_closes(notebook):
    notebook.run("old = [torch.zeros(n) for n in range(10)]")
    gc.collect()
    notebook.run("%%gpumem\nmade = [torch.zeros(n) for n in range(20)]\ndel old[3:5]")
    record = notebook.records[-1]
    for device, delta in record.devices.items():
        if device == "host" or delta.before is None:
            continue
        made = sum(s.bytes for s in record.created if s.device == device)
        freed, resized = record.freed.get(device, 0), record.resized.get(device, 0)
        assert delta.after == delta.before + made - freed + resized + delta.unattributed
