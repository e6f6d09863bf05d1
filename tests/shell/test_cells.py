"""`%%gpumem` on a cell: what is measured, and that the cell behaves as without it."""

from __future__ import annotations

import asyncio
import gc
import re

import pytest
import torch

MIB = 1024**2


def test_cell_reports_delta_peak_and_what_stayed_to_the_byte(notebook):
    before = sum_of_storages()
    notebook.run("%%gpumem make x\nx = torch.zeros(256, 1024)\n(x + 1).sum(); del_me = None")
    (record,) = notebook.records
    cpu = record.devices["cpu"]
    assert record.label == "make x"
    assert record.status == "ok"
    assert MIB == cpu.delta
    assert before == cpu.before
    assert before + MIB == cpu.after
    # x, then x + 1 beside it, then the 4 bytes of the sum
    assert before + 2 * MIB + 4 == cpu.peak
    assert [("x", MIB)] == [(s.names[0], s.bytes) for s in record.created]


def test_before_plus_created_minus_freed_plus_resized_is_after(notebook):
    notebook.run("old = torch.zeros(3000); kept = torch.zeros(10)")
    notebook.run("%%gpumem\nnew = torch.zeros(500)\ndel old\nkept.resize_(20)\nnone = None")
    record = notebook.records[-1]
    cpu = record.devices["cpu"]
    assert 12_000 == record.freed["cpu"]
    assert 40 == record.resized["cpu"]
    assert 2_000 == sum(s.bytes for s in record.created)
    assert cpu.after == cpu.before + 2_000 - 12_000 + 40
    assert cpu.unattributed == 0


def test_loss_in_one_cell_and_backward_in_the_next(notebook):
    notebook.run("w = torch.ones(1000, requires_grad=True)")
    notebook.run("%%gpumem\nloss = (w * 2).exp().sum()")
    # exp saves its result (4000 B), the product saves its factor (8 B); loss has 4 B
    assert 4_012 == notebook.records[-1].devices["cpu"].delta
    notebook.run("%%gpumem\nloss.backward()")
    # the graph goes, the gradient comes
    assert -8 == notebook.records[-1].devices["cpu"].delta
    assert {"cpu": 4_008} == notebook.records[-1].freed
    assert ["w.grad"] == [s.names[0] for s in notebook.records[-1].created]


def test_last_value_is_shown_and_stays_in_out(notebook):
    result = notebook.run("%%gpumem\n6 * 7")
    assert 42 == result.result
    assert 42 == notebook.names["_"]
    assert 42 == notebook.names["Out"][result.execution_count]


def test_semicolon_keeps_the_last_value_quiet(notebook):
    result = notebook.run("%%gpumem\n6 * 7;")
    assert result.result is None
    assert {} == notebook.names["Out"]


def test_top_level_await(notebook):
    result = notebook.run(
        "%%gpumem\nimport asyncio\nawait asyncio.sleep(0)\nx = torch.zeros(10)\nx.numel()"
    )
    assert result.success
    assert 10 == result.result
    assert ["x"] == [s.names[0] for s in notebook.records[-1].created]


def test_error_keeps_its_traceback_and_the_report_says_so(notebook, capsys):
    result = notebook.run("%%gpumem\ny = torch.zeros(10)\nraise ValueError('no')")
    assert isinstance(result.error_in_exec, ValueError)
    assert ("error", "ValueError: no") == (
        notebook.records[-1].status,
        notebook.records[-1].error,
    )
    assert "error · ValueError" in notebook.reports[-1]
    assert "line 3" in capsys.readouterr().out


def test_line_numbers_in_later_tracebacks_are_right(notebook, capsys):
    notebook.run("%%gpumem\n\ndef f():\n    return 1 / 0\n")
    notebook.run("f()")
    assert re.search(r"line 4|4     return 1 / 0|----> 4", capsys.readouterr().out)


def test_syntax_error_is_an_error_on_the_right_line(notebook, capsys):
    result = notebook.run("%%gpumem\nx = = 1")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert 2 == result.error_before_exec.lineno
    assert "error" == notebook.records[-1].status


def test_interrupt_is_told_and_the_report_is_printed(notebook):
    result = notebook.run("%%gpumem\nz = torch.zeros(10)\nraise KeyboardInterrupt")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "interrupted" == notebook.records[-1].status
    assert "interrupted" in notebook.reports[-1]


def test_cancelled_await_is_an_interrupt(notebook):
    result = notebook.run("%%gpumem\nimport asyncio\nraise asyncio.CancelledError")
    assert not result.success
    assert isinstance(result.error_in_exec, asyncio.CancelledError)
    assert "interrupted" == notebook.records[-1].status


def test_system_exit_passes_through(notebook):
    result = notebook.run("%%gpumem\nraise SystemExit(3)")
    assert isinstance(result.error_in_exec, SystemExit)
    assert ("error", "SystemExit: 3") == (notebook.records[-1].status, notebook.records[-1].error)


def test_out_of_memory_has_its_own_status(notebook):
    notebook.run("%%gpumem\nraise torch.OutOfMemoryError('CUDA out of memory')")
    assert "oom" == notebook.records[-1].status
    notebook.run("%%gpumem\ntorch.empty(2**60, dtype=torch.uint8)")
    assert "oom" == notebook.records[-1].status


@pytest.mark.parametrize("order", ["%%gpumem both\n%%time\n", "%%time\n%%gpumem both\n"])
def test_time_above_and_below(notebook, capsys, order):
    result = notebook.run(order + "x = torch.zeros(25)\nx.numel()")
    assert result.success
    assert 25 == result.result
    assert "Wall time" in capsys.readouterr().out
    (record,) = notebook.records
    assert ("both", 100) == (record.label, record.devices["cpu"].delta)


def test_two_gpumem_lines_ask_together(notebook):
    assert notebook.run("%%gpumem -q first\n%%gpumem -o seen second\nx = torch.zeros(25)").success
    (record,) = notebook.records
    assert ("first", record) == (record.label, notebook.names["seen"])
    assert notebook.run("%%gpumem -q\n%%gpumem train\nx = torch.zeros(25)").success
    assert "train" == notebook.records[-1].label
    assert [] == notebook.reports


def test_a_second_gpumem_line_that_is_wrong_is_told(notebook, capsys):
    assert not notebook.run("%%gpumem\n%%gpumem --bad\nran = True").success
    assert "unrecognized arguments: --bad" in capsys.readouterr().err
    assert "ran" not in notebook.names


def test_capture_around_gpumem_measures_once(notebook):
    assert notebook.run("%%capture told\n%%gpumem inside\nx = torch.zeros(25)").success
    (record,) = notebook.records
    assert ("inside", 100) == (record.label, record.devices["cpu"].delta)


def test_empty_cells_do_no_harm(notebook):
    assert notebook.run("").success
    assert notebook.run("   \n").success
    assert notebook.run("%%gpumem").success
    assert notebook.run("%%gpumem\n\n").success
    assert 2 == len(notebook.records)
    assert notebook.run("%%gpumem\nx = torch.zeros(1)").success
    assert 4 == notebook.records[-1].devices["cpu"].delta


def test_nested_run_cell_belongs_to_the_outer_cell(notebook):
    notebook.run("%gpumem on")
    notebook.run("a = torch.zeros(25); get_ipython().run_cell('b = torch.zeros(50)')")
    (record,) = notebook.records
    assert 300 == record.devices["cpu"].delta
    assert {"a", "b"} == {s.names[0] for s in record.created}


def test_nested_cell_that_asks_is_measured_inside_the_outer(notebook):
    notebook.run(
        "%%gpumem outer\na = torch.zeros(25)\n"
        "get_ipython().run_cell('%%gpumem inner\\nb = torch.zeros(50)')"
    )
    inner, outer = sorted(notebook.records, key=lambda record: record.label)
    assert (200, 300) == (inner.devices["cpu"].delta, outer.devices["cpu"].delta)
    assert inner.parent == outer.serial


def test_magic_called_by_a_program_still_measures(notebook):
    notebook.run("get_ipython().run_cell_magic('gpumem', 'called', 'x = torch.zeros(25)')")
    assert ("called", 100) == (
        notebook.records[0].label,
        notebook.records[0].devices["cpu"].delta,
    )


def test_cell_that_unloads_in_the_middle(notebook):
    nbmem_history = notebook.run(
        "%%gpumem\nimport nbmem\nhistory = nbmem.get_history()\nx = torch.zeros(25)\n"
        "%unload_ext nbmem\ny = torch.zeros(10)"
    )
    assert nbmem_history.success
    (record,) = notebook.names["history"].records()
    assert 100 == record.devices["cpu"].delta
    assert "unloaded" in {note.code for note in record.notes}
    assert "nbmem was unloaded before the end" in " ".join(notebook.reports[0].split())
    assert not notebook.run("%%gpumem\n1").success


def test_cell_that_loads_in_the_middle_is_not_recorded(bare):
    result = bare.run("%load_ext nbmem\nx = 1")
    assert result.success
    bare.run("%%gpumem\ny = 2")
    assert 1 == len(bare.records)


def test_cell_that_reloads_in_the_middle(notebook):
    assert notebook.run(
        "%%gpumem -o handed during\nx = torch.zeros(25)\n%reload_ext nbmem\ny = 2"
    ).success
    assert notebook.run("%%gpumem after\nz = torch.zeros(50)").success
    told = [(record.label, record.devices["cpu"].delta) for record in notebook.records]
    assert [("during", 100), ("after", 200)] == told
    assert "during" == notebook.names["handed"].label
    assert 2 == len(notebook.reports)


def test_history_outlives_a_reload_and_serials_go_on(notebook):
    notebook.run("%%gpumem -q before\nx = torch.zeros(25)")
    notebook.run("%reload_ext nbmem")
    notebook.run("%%gpumem -q after\ny = torch.zeros(25)")
    told = [(record.serial, record.label) for record in notebook.records]
    assert [(1, "before"), (2, "after")] == told


def test_load_twice_changes_nothing(notebook):
    import nbmem

    nbmem.load_ipython_extension(notebook.shell)
    notebook.run("%%gpumem\nx = torch.zeros(25)")
    assert 1 == len(notebook.records)
    assert 1 == len(notebook.reports)


def test_silent_executions_are_never_recorded(notebook):
    notebook.run("%gpumem on")
    notebook.run("x = 1", silent=True, store_history=False)
    notebook.run("x = 2", store_history=False)
    assert () == notebook.records


def test_on_records_every_cell_without_printing_and_off_stops(notebook, capsys):
    notebook.run("%gpumem on")
    notebook.run("x = torch.zeros(25)")
    notebook.run("y = torch.zeros(50)")
    notebook.run("%gpumem off")
    notebook.run("z = torch.zeros(75)")
    first, second, _off = notebook.records
    assert (100, 200) == (first.devices["cpu"].delta, second.devices["cpu"].delta)
    assert [] == notebook.reports


def test_cell_ids_and_runs(notebook):
    notebook.run("%%gpumem\nx = 1", cell_id="abc")
    notebook.run("%%gpumem\nx = 2", cell_id="abc")
    notebook.run("%%gpumem\nx = 3")
    notebook.run("%%gpumem\nx = 3")
    told = [(record.cell_id, record.run) for record in notebook.records]
    assert [("abc", 1), ("abc", 2), (None, 1), (None, 2)] == told
    assert [1, 2, 3, 4] == [record.serial for record in notebook.records]


def test_execution_count_is_the_number_at_the_prompt(notebook):
    result = notebook.run("%%gpumem\nx = torch.zeros(1)")
    assert result.execution_count == notebook.records[0].execution_count
    assert result.execution_count == notebook.records[0].created[0].created_by
    assert f"[{result.execution_count}]" in notebook.reports[0]


def test_quiet_records_and_prints_nothing(notebook):
    notebook.run("%%gpumem --quiet\nx = torch.zeros(25)")
    assert [] == notebook.reports
    assert 100 == notebook.records[0].devices["cpu"].delta


def test_output_option_hands_over_the_record(notebook):
    notebook.run("%%gpumem -o seen\nx = torch.zeros(25)")
    assert notebook.records[0] == notebook.names["seen"]


def test_no_scan_gives_counters_and_says_what_it_left_out(notebook):
    notebook.run("%%gpumem --no-scan\nx = torch.zeros(25)")
    (record,) = notebook.records
    assert 100 == record.devices["cpu"].delta
    assert () == record.created
    assert "scan_skipped" in {note.code for note in record.notes} | {
        note.code for note in record.devices["cpu"].notes
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--bad", "--bad"),
        ("-o 3x", "'3x'"),
        ("-d", "expected one argument"),
        ("'open", "No closing quotation"),
        ("--device cuda:99", "cuda:99"),
    ],
)
def test_wrong_option_is_one_line_and_the_cell_does_not_run(notebook, capsys, line, problem):
    result = notebook.run(f"%%gpumem {line}\nran = True")
    assert not result.success  # Run All stops here
    assert "ran" not in notebook.names
    told = capsys.readouterr()
    (message,) = [text for text in (told.out + told.err).splitlines() if "UsageError" in text]
    assert problem in message
    assert "for example: %%gpumem" in message
    assert () == notebook.records


def test_terminal_takes_the_first_line_as_unfinished(notebook):
    check = notebook.shell.check_complete
    assert "incomplete" == check("%%gpumem")[0]
    assert "incomplete" == check("%%gpumem --bad\nx = 1")[0]
    assert "complete" == check("%%gpumem\nx = 1\n\n")[0]


def test_help_names_the_options(notebook):
    text = notebook.shell.find_line_magic("gpumem").__doc__
    assert "%gpumem panel" in text
    cell_text = notebook.shell.find_cell_magic("gpumem").__doc__
    for option in ("--device", "--quiet", "--no-scan", "--output"):
        assert option in cell_text


def test_magics_are_gone_after_unload(notebook):
    notebook.run("%unload_ext nbmem")
    assert notebook.shell.find_line_magic("gpumem") is None
    assert notebook.shell.find_cell_magic("gpumem") is None


FAILING_OPERATIONS = {
    "of two arguments": "batch() @ w",
    "in inference mode": "with torch.inference_mode():\n    torch.nn.functional.linear(batch(), w)",
    "that gives a storage another size": "batch().untyped_storage().resize_(-1)",
}


@pytest.mark.parametrize("operation", sorted(FAILING_OPERATIONS))
@pytest.mark.parametrize("first_line", ["", "%%gpumem\n"])
def test_what_a_failing_operation_worked_on_goes_with_the_next_error(
    notebook, first_line, operation
):
    notebook.run(
        "import weakref\n"
        "alive = []\n"
        "def batch():\n"
        "    made = torch.randn(1000, 1000)\n"
        "    alive.append(weakref.ref(made.untyped_storage()))\n"
        "    return made\n"
        "w = torch.randn(10, 10)"
    )
    gc.collect()
    gc.disable()
    try:
        failed = notebook.run(first_line + FAILING_OPERATIONS[operation])
        assert not failed.success
        del failed
        assert not notebook.run("1 / 0").success
        assert [None] == [ref() for ref in notebook.names["alive"]]
    finally:
        gc.enable()


def test_arithmetic_with_a_number_is_no_other_threads(notebook):
    notebook.run("net = torch.nn.Linear(10, 10)")
    notebook.run("%%gpumem\nv = net.weight * 2")
    cpu = notebook.records[-1].devices["cpu"]
    # 10 x 10 floats, and the factor that autograd keeps as one int64
    assert 408 == cpu.delta == cpu.peak - cpu.before
    assert () == cpu.notes
    assert 408 == sum(storage.bytes for storage in notebook.records[-1].created)


def sum_of_storages():
    """Bytes of the CPU storages alive, without nbmem."""
    sizes = {}
    for found in gc.get_objects():
        if issubclass(type(found), torch.Tensor) and found.layout is torch.strided:
            storage = found.untyped_storage()
            if storage.device.type == "cpu":
                sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
