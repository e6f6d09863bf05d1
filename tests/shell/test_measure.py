"""`nbmem.measure`: blocks of a cell, loops of blocks, plain scripts."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import weakref

import pytest
import torch

import nbmem
from nbmem.errors import ScopeError
from nbmem.panel.cell_columns import cell_table


def test_block_tells_delta_peak_and_names(notebook):
    notebook.run(
        "%%gpumem cell\nimport nbmem\nwith nbmem.measure('forward') as m:\n"
        "    x = torch.zeros(1000)\n    y = (x + 1).sum()\nz = torch.zeros(50)"
    )
    block = notebook.names["m"].record
    cpu = block.devices["cpu"]
    assert ("forward", 4_004) == (block.label, cpu.delta)
    assert cpu.peak == cpu.before + 8_004
    assert {"x", "y"} == {storage.names[0] for storage in block.created}
    cell = next(record for record in notebook.records if record.label == "cell")
    assert block.parent == cell.serial
    assert 4_204 == cell.devices["cpu"].delta
    assert block.execution_count == cell.execution_count


def test_blocks_nest_and_each_has_its_own_peak(notebook):
    notebook.run(
        "import nbmem\n"
        "with nbmem.measure('outer') as outer:\n"
        "    torch.zeros(1000)\n"
        "    with nbmem.measure('inner') as inner:\n"
        "        torch.zeros(10)\n"
        "    torch.zeros(100)"
    )
    rises = [
        record.devices["cpu"].peak - record.devices["cpu"].before
        for record in (notebook.names["outer"].record, notebook.names["inner"].record)
    ]
    assert [4_000, 40] == rises


def test_what_other_code_left_between_runs_of_a_block_is_not_the_blocks(notebook):
    notebook.run(
        """%%gpumem outer
import nbmem
kept = []
for _ in range(4):
    with nbmem.measure("ten"):
        kept.append(torch.zeros(10 * 2**18))
    with nbmem.measure("one"):
        kept.append(torch.zeros(2**18))"""
    )
    by_label = {record.label: record for record in notebook.records}
    left = {label: record.change("cpu") for label, record in by_label.items()}
    assert {"outer": 44 * 2**20, "ten": 40 * 2**20, "one": 4 * 2**20} == left
    notebook.run("%gpumem history")
    lines = [line.split() for line in notebook.reports[-1].splitlines()]
    shown = {line[line.index("×4") - 1]: line for line in lines if "×4" in line}
    assert "+40.0" in shown["ten"]
    assert "+4.0" in shown["one"]
    table = cell_table(notebook.records, "cpu", "IEC")
    change = next(column for column in table.columns if column.id == "stayed")
    assert {"+44.0", "+40.0", "+4.0"} <= set(change.text)


def test_loop_of_ten_thousand_steps_is_one_record(notebook):
    notebook.run(
        "%%gpumem -q loop\n"
        "import nbmem\n"
        "kept = []\n"
        "for step in range(10_000):\n"
        "    with nbmem.measure('step') as m:\n"
        "        t = torch.empty(step % 10 + 1)\n"
        "        if step % 5_000 == 0: kept.append(torch.empty(25))\n"
        "        del t"
    )
    assert ["loop", "step"] == [record.label for record in notebook.records]
    steps = notebook.names["m"].record.steps
    assert 10_000 == steps.count
    # the largest step holds 4 B (step 0 or 5,000: one float) and 100 B that it keeps
    assert {"cpu": 104} == {d: b for d, b in steps.largest_rise.items() if d == "cpu"}
    assert 100 == steps.largest_delta["cpu"]
    assert 200 == steps.growth["cpu"]


def test_each_with_statement_of_a_loop_has_its_record(notebook):
    notebook.run(
        "%%gpumem -q epoch\n"
        "import nbmem\n"
        "for _ in range(3):\n"
        "    with nbmem.measure('forward'):\n"
        "        a = torch.zeros(10)\n"
        "    with nbmem.measure('backward'):\n"
        "        b = torch.zeros(20)\n"
    )
    counts = {record.label: record.steps and record.steps.count for record in notebook.records}
    assert {"forward": 3, "backward": 3, "epoch": None} == counts


def test_cell_run_again_makes_new_records_of_its_blocks(notebook):
    code = "%%gpumem -q\nimport nbmem\nwith nbmem.measure('b'):\n    x = torch.zeros(10)"
    notebook.run(code)
    notebook.run(code)
    assert [None, None] == [r.steps for r in notebook.records if r.label == "b"]


def test_error_in_a_block_passes_through_and_is_told(notebook):
    block = nbmem.measure("bad")
    with pytest.raises(ValueError, match="no"), block:
        raise ValueError("no")
    assert ("error", "ValueError: no") == (block.record.status, block.record.error)


def test_a_block_measures_the_device_of_the_settings(notebook):
    notebook.run("%config NbMem.device = 'host'")
    with nbmem.measure("as set") as block:
        pass
    with nbmem.measure("as asked", device="cpu") as other:
        pass
    assert (["host"], True) == (list(block.record.devices), "cpu" in other.record.devices)


def test_record_before_the_end_says_what_to_do():
    with (
        nbmem.measure() as block,
        pytest.raises(ScopeError, match=r"read `\.record` after the `with` statement"),
    ):
        _ = block.record


def test_unknown_device_is_refused_before_the_block_runs():
    with pytest.raises(ValueError, match="no device 'cuda:77'"):
        nbmem.measure(device="cuda:77")


def test_recursion_through_one_with_statement(notebook):
    def descend(depth):
        with nbmem.measure("deep") as block:
            kept = [torch.zeros(25)]
            if depth:
                kept.append(descend(depth - 1))
        return kept, block

    kept, block = descend(2)
    deltas = {r.serial: r.devices["cpu"].delta for r in notebook.records}
    parents = [record.parent for record in notebook.records]
    assert [300, 200, 100] == [deltas[serial] for serial in sorted(deltas)]
    assert [None, block.record.serial, block.record.serial + 1] == sorted(
        parents, key=lambda parent: parent or 0
    )
    del kept


def test_blocks_of_interleaved_tasks_close_in_any_order(notebook):
    first, second = nbmem.measure("first"), nbmem.measure("second")
    first.__enter__()
    a = torch.zeros(25)
    second.__enter__()
    b = torch.zeros(50)
    first.__exit__(None, None, None)
    c = torch.zeros(100)
    second.__exit__(None, None, None)
    deltas = [block.record.devices["cpu"].delta for block in (first, second)]
    assert [300, 600] == deltas
    del a, b, c


def test_plain_script_without_ipython():
    script = """
        import json, sys
        import nbmem
        assert "torch" not in sys.modules and "IPython" not in sys.modules
        import torch
        old = torch.zeros(25)
        with nbmem.measure("block", device="cpu") as m:
            x = torch.zeros(1000)
            del old
        cpu = m.record.devices["cpu"]
        print(json.dumps([cpu.delta, cpu.peak - cpu.before, m.record.created[0].names[0],
                          m.record.freed["cpu"], sum(s.bytes for s in nbmem.list_storages()),
                          [r.device for r in nbmem.read_devices()], len(nbmem.get_history()),
                          "IPython" in sys.modules]))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    cards = range(torch.accelerator.device_count())
    devices = [*([f"cuda:{card}" for card in cards] or ["cpu"]), "host"]
    assert [3900, 4000, "x", 100, 4000, devices, 1] == json.loads(ran.stdout)[:7]


def test_plain_loop_in_a_script_scans_seldom(notebook):
    """The first block scans; later ones only where scans take little of the loop's time."""
    for _ in range(200):
        with nbmem.measure("step") as block:
            x = torch.zeros(10)
    assert 200 == block.record.steps.count
    assert "scan_skipped" in {
        note.code for note in (*block.record.notes, *block.record.devices["cpu"].notes)
    }
    del x


@pytest.mark.parametrize(("label", "told"), [(3, "3"), (0.5, "0.5"), ("x", "x"), (None, None)])
def test_labels_may_be_numbers(notebook, label, told):
    with nbmem.measure(label) as block:
        pass
    assert told == block.record.label
    assert [told] == [record.label for record in notebook.records]


def test_other_labels_are_refused_with_an_example_and_not_kept(notebook):
    tensor = torch.zeros(100)
    alive = weakref.ref(tensor)
    with pytest.raises(TypeError, match=r"not a Tensor: write nbmem\.measure\('forward'\)"):
        nbmem.measure(tensor)
    del tensor
    assert alive() is None


def test_decorated_function_is_one_record_of_its_calls(notebook):
    @nbmem.measure("step")
    def step(size):
        """Takes a step."""
        return torch.zeros(size)

    kept = [step(10), step(20)]
    assert ("step", "Takes a step.") == (step.__name__, step.__doc__)
    (record,) = notebook.records
    assert (2, {"cpu": 120}) == (
        record.steps.count,
        {name: size for name, size in record.steps.growth.items() if name == "cpu"},
    )
    del kept
