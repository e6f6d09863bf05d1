"""Stop that lands in nbmem's own work: it is the user's, and nothing is left half done."""

from __future__ import annotations

import gc
import signal

import pytest
import torch
from injected import ambient, bytes_alive, interrupted

import nbmem
from nbmem.session import current_session

CELLS = {
    "measured": (
        "%%gpumem\na = torch.zeros(5000); w = torch.ones(30, requires_grad=True)\n"
        "loss = (w * 2).sum(); u = torch.UntypedStorage(77)"
    ),
    "awaiting": "%%gpumem\nimport asyncio\nawait asyncio.sleep(0)\na = torch.zeros(5000)",
    "subclass": (
        "%%gpumem\nwith torch.inference_mode():\n"
        "    q = torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3))"
    ),
    "block": "with nbmem.measure('m'):\n    a = torch.zeros(5000)",
    "leaks": "%gpumem leaks",
}
POINTS = {"measured": 24, "awaiting": 6, "subclass": 8, "block": 10, "leaks": 6}
EVENTS = 2
"""Lines that run before any line of nbmem can catch what is raised: IPython's own, so to say."""


def next_record_is_true(notebook):
    """Runs one more measured cell and compares its record with sums made without nbmem."""
    notebook.names.pop("kept", None)
    before = bytes_alive()
    ran = notebook.run("%%gpumem -q -o rec\nkept = torch.ones(1000)\nt = torch.zeros(2000); del t")
    record = notebook.names.pop("rec")
    delta = record.devices["cpu"]
    assert ran.success
    assert (before, before + 4000, before + 12000) == (delta.before, delta.after, delta.peak)
    assert ("ok", 0, ()) == (record.status, delta.unattributed, record.notes)
    assert bytes_alive() == delta.after
    assert ["kept"] == [storage.names[0] for storage in record.created]


@pytest.mark.parametrize("name", CELLS)
def test_an_interrupt_at_any_line_ends_the_cell_and_leaves_the_next_record_right(notebook, name):
    notebook.run("import nbmem")
    notebook.run(CELLS[name])  # what is imported at the first time is imported
    counted, _ = interrupted(lambda: notebook.run(CELLS[name]), 0)
    before = ambient(notebook.shell)
    step = counted.count // POINTS[name]
    for number in range(1 + EVENTS, counted.count, step):
        gc.collect()
        injected, came = interrupted(lambda: notebook.run(CELLS[name]), number)
        if injected.place is None:
            continue  # it ran through fewer lines than the time before
        assert type(came.error_in_exec) is KeyboardInterrupt, injected.place
        assert before == ambient(notebook.shell), injected.place
        next_record_is_true(notebook)


@pytest.mark.parametrize("where", ["opening", "close"])
def test_a_stopped_cell_says_so_and_keeps_the_record_that_it_has(notebook, monkeypatch, where):
    session = current_session()
    if where == "opening":
        monkeypatch.setattr(session._scopes, "merge_scan", raise_interrupt)
    else:
        monkeypatch.setattr(session.recorder, "_take_inventory", raise_interrupt)
    came = notebook.run("%%gpumem\nran = torch.zeros(25)")
    assert type(came.error_in_exec) is KeyboardInterrupt
    assert not notebook.shell.last_execution_succeeded
    assert (where == "close") is ("ran" in notebook.names)
    record = notebook.records[-1]
    assert ("interrupted", "KeyboardInterrupt") == (record.status, record.error)
    (note,) = (note for note in record.notes if note.code == "interrupted")
    assert note.sentence.startswith("Interrupted before nbmem could ")
    assert "interrupted" in notebook.reports[-1]
    if where == "close":
        assert 100 == record.devices["cpu"].delta
    monkeypatch.undo()
    next_record_is_true(notebook)


def raise_interrupt(*_args, **_options):
    raise KeyboardInterrupt


def test_a_cell_that_failed_keeps_its_own_error(notebook, monkeypatch):
    session = current_session()
    monkeypatch.setattr(session.recorder, "_take_inventory", raise_interrupt)
    came = notebook.run("%%gpumem\n1 / 0")
    assert type(came.error_in_exec) is ZeroDivisionError
    record = notebook.records[-1]
    assert "error" == record.status
    assert ["interrupted"] == [note.code for note in record.notes]


def test_stop_at_the_opening_of_a_cell_that_cannot_be_compiled_stops_no_other(
    notebook, monkeypatch
):
    session = current_session()
    monkeypatch.setattr(session._scopes, "merge_scan", raise_interrupt)
    came = notebook.run("%%gpumem\nx = = 1")
    assert type(came.error_before_exec) is SyntaxError
    monkeypatch.undo()
    assert notebook.run("y = 1").success


def test_a_redraw_that_is_interrupted_is_dropped_and_stops_what_the_user_runs(notebook):
    session = current_session()
    end = session.subscribe(raise_interrupt)
    came = notebook.run("1")
    end()
    assert type(came.error_in_exec) is KeyboardInterrupt
    assert notebook.run("1").success


def test_an_interrupted_magic_ends_the_cell(notebook, monkeypatch):
    session = current_session()
    monkeypatch.setattr(type(session), "find_leaks", raise_interrupt)
    came = notebook.run("%gpumem leaks\nafter = 1")
    assert type(came.error_in_exec) is KeyboardInterrupt
    assert "after" not in notebook.names


def test_an_interrupt_in_a_blocks_own_work_is_raised_by_the_with_statement(bare, monkeypatch):
    with nbmem.measure("first", device="cpu"):
        pass
    session = current_session()
    monkeypatch.setattr(session.recorder, "_take_inventory", raise_interrupt)
    block = nbmem.measure("stopped", device="cpu")
    with pytest.raises(KeyboardInterrupt), block:
        kept = torch.zeros(25)
    assert ("interrupted", 100) == (block.record.status, block.record.devices["cpu"].delta)
    monkeypatch.setattr(session._scopes, "merge_scan", raise_interrupt)
    with pytest.raises(KeyboardInterrupt), nbmem.measure("never begun", device="cpu"):
        pytest.fail("its block ran")
    assert 0 == torch._C._len_torch_dispatch_stack()
    monkeypatch.undo()
    with nbmem.measure("next", device="cpu") as following:
        more = torch.zeros(50)
    assert 200 == following.record.devices["cpu"].delta
    assert (25, 50) == (kept.numel(), more.numel())


def test_a_handler_of_the_users_is_left_in_its_place(notebook):
    def handler(number, frame):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, handler)
    try:
        notebook.run("%%gpumem\nx = torch.zeros(25)")
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, former)
