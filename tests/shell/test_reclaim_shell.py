"""What acts leave of a shell: errors stay readable, the debugger opens, the cache works on."""

from __future__ import annotations

import sys
import weakref

import pytest
import torch

from nbmem.reclaim.names import drop_output, drop_throwaway
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


# IPython's cache.


def watch(tensor):
    return weakref.ref(tensor.untyped_storage())


def copies_of(shell, value):
    """Every place of the shell's that holds `value` itself, found without nbmem."""
    places = {
        "user_ns": shell.user_ns,
        "hidden": shell.user_ns_hidden,
        "hook": vars(shell.displayhook),
        "Out": shell.user_ns["Out"],
        "last": vars(shell.last_execution_result),
    }
    return {
        f"{where}.{key}"
        for where, names in places.items()
        for key, held in list(names.items())
        if held is value
    }


def test_shown_tensor_has_seven_copies_and_all_go(bare):
    count = bare.shell.execution_count + 1
    bare.run("import torch")
    value = bare.run("torch.zeros(1000)").result
    assert {
        "user_ns._",
        f"user_ns._{count}",
        f"Out.{count}",
        "hidden._",
        f"hidden._{count}",
        "hook._",
        "last.result",
    } == copies_of(bare.shell, value)
    alive = watch(value)
    drop_output(bare.shell, [value])
    assert set() == copies_of(bare.shell, value)
    del value
    assert alive() is None


@pytest.mark.parametrize("later", [1, 2, 3, 4])
def test_older_output_goes_alone_and_the_newer_stay(bare, later):
    bare.run("import torch")
    value = bare.run("torch.zeros(1000)").result
    results = [bare.run(f"{n} * 10") for n in range(1, later + 1)]
    alive = watch(value)
    drop_output(bare.shell, [value])
    del value
    assert alive() is None
    for result in results:
        assert result.result == bare.names["Out"][result.execution_count]
        assert result.result == bare.names[f"_{result.execution_count}"]
    assert later * 10 == bare.names["_"]
    bare.run("'next'")
    assert ("next", later * 10) == (bare.names["_"], bare.names["__"])


def test_output_that_has_a_name_too_keeps_it(bare):
    bare.run("import torch")
    bare.run("x = torch.zeros(10)\nx")
    drop_output(bare.shell, [bare.names["x"]])
    assert 10 == bare.names["x"].numel()
    assert "" == bare.names["_"]


def test_output_is_dropped_where_the_user_took_the_name_of_the_cache(bare):
    bare.run("import torch")
    value = bare.run("torch.zeros(10)").result
    bare.run("_oh = {}")
    alive = watch(value)
    drop_output(bare.shell, [value])
    del value
    bare.run("1")
    assert alive() is None


@pytest.mark.parametrize("name", ["_", "__", "____"])
def test_throwaway_name_is_let_go_and_the_cache_works_on(bare, name):
    bare.run("import torch")
    bare.run(f"{name}, index = torch.zeros(100, 10).max(dim=1)")
    alive = watch(bare.names[name])
    drop_throwaway(bare.shell, name)
    assert alive() is None
    assert bare.run("'shown'").success
    assert "shown" == bare.names["_"]
    bare.run("'next'")
    assert ("next", "shown") == (bare.names["_"], bare.names["__"])


def test_underscore_that_ipython_set_loses_just_its_own_copies(bare):
    bare.run("import torch")
    result = bare.run("torch.zeros(10)")
    count, value = result.execution_count, result.result
    drop_throwaway(bare.shell, "_")
    left = {f"user_ns._{count}", f"Out.{count}", f"hidden._{count}", "last.result"}
    assert left == copies_of(bare.shell, value)
    assert "" == bare.names["_"]


def test_throwaway_name_leaves_the_cached_output(bare):
    bare.run("import torch")
    count = bare.run("torch.ones(10)").execution_count
    bare.run("_ = Out[max(Out)]")
    drop_throwaway(bare.shell, "_")
    assert 10.0 == bare.names["Out"][count].sum().item()
    assert torch.is_tensor(bare.names[f"_{count}"])
