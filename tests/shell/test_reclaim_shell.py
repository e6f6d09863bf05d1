"""What acts leave of a shell: errors stay readable, the debugger opens, the cache works on."""

from __future__ import annotations

import sys
import weakref

from nbmem.reclaim.tracebacks import release_error

FAILING = """
def train(steps):
    acts = torch.zeros(1000)
    watch(acts)
    return steps / 0

train(3)
"""


def fail(notebook):
    """Runs a cell that fails with a tensor in a variable; returns what sees its storage.

    Not a fixture: before a test begins, pytest takes `sys.last_value` away.
    """
    refs = []
    notebook.run("import torch")
    notebook.names["watch"] = lambda tensor: refs.append(weakref.ref(tensor.untyped_storage()))
    notebook.run(FAILING)
    assert refs[0]() is not None
    return refs


def test_released_error_of_a_cell_stays_readable_everywhere(bare):
    (alive,) = fail(bare)
    shell = bare.shell
    release_error(sys.last_value)
    assert alive() is None
    assert sys.last_type is ZeroDivisionError
    assert sys.last_value is shell.last_execution_result.error_in_exec
    bare.names["kept"] = shell.InteractiveTB.tb
    assert bare.run("import traceback; text = ''.join(traceback.format_tb(kept))").success
    assert ", in train\n" in bare.names["text"]


def test_debugger_opens_on_a_released_error_and_shows_no_variables(bare, monkeypatch, capsys):
    fail(bare)
    release_error(sys.last_value)
    typed = iter(["p list(locals())", "w", "up", "p 6 * 7", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(typed))
    capsys.readouterr()
    bare.shell.run_line_magic("debug", "")
    shown = capsys.readouterr().out
    assert "[]" in shown
    assert "train" in shown
    assert "42" in shown
    assert [] == list(typed)


def test_traceback_magic_prints_a_released_error(bare, capsys):
    fail(bare)
    release_error(sys.last_value)
    capsys.readouterr()
    bare.run("%tb")
    shown = capsys.readouterr().out
    assert "ZeroDivisionError" in shown
    assert "return steps / 0" in shown


def test_names_of_the_notebook_survive_the_release_of_its_error(bare):
    fail(bare)
    bare.run("w = torch.ones(3)\nraise RuntimeError('after w')")
    release_error(sys.last_value)
    assert 3.0 == bare.names["w"].sum().item()
    assert bare.run("w.sum()").success


def test_error_of_a_cell_with_await_is_released(bare):
    refs = fail(bare)
    result = bare.run("import asyncio\nawait asyncio.sleep(0)\ntrain(4)")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert refs[1]() is not None
    release_error(result.error_in_exec)
    assert refs[1]() is None
    assert bare.run("await asyncio.sleep(0)").success
