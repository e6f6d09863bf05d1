"""What acts leave of a shell: errors stay readable, the debugger opens, the cache works on."""

from __future__ import annotations

import gc
import random
import sys
import weakref

import pytest
import torch

import nbmem
from nbmem.reclaim.names import drop_output, drop_throwaway
from nbmem.reclaim.outcome import Outcome
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


# Leaks.


MIB = 1024**2
LOSSES = """
w = torch.ones(2**18, requires_grad=True)
losses = [(w + step).exp().sum() for step in range(2)]
"""


@pytest.fixture
def leaky(notebook):
    """A notebook that counts bytes by torch's weak references to what `seen` was called with."""
    gc.collect()  # the shell of the test before is garbage, with what its errors held
    notebook.refs = []
    notebook.names["seen"] = lambda tensor: notebook.refs.append(watch(tensor)) or tensor
    return notebook


def lives(notebook):
    return [ref() is not None for ref in notebook.refs]


def find_leaks(kind):
    leaks = [leak for leak in nbmem.find_leaks() if leak.kind == kind]
    assert leaks, nbmem.find_leaks()
    return leaks


def test_plan_tells_bytes_and_touches_nothing(leaky):
    leaky.run(LOSSES)
    plan = nbmem.reclaim_memory("losses[*]", dry_run=True)
    assert ("detach losses[*], whose numbers stay: 2.00 MiB",) == plan.planned
    assert ((), ()) == (plan.dropped, plan.refused)
    assert 2 * MIB == plan.promised == plan.bytes_before - plan.bytes_after
    assert all(loss.requires_grad for loss in leaky.names["losses"])


def test_promise_is_the_outcome_and_values_stay(leaky):
    leaky.run(LOSSES)
    numbers = [loss.item() for loss in leaky.names["losses"]]
    report = nbmem.reclaim_memory("losses[*]")
    assert 2 * MIB == report.promised == report.freed
    assert ((), ()) == (report.refused, report.still_held)
    assert numbers == [loss.item() for loss in leaky.names["losses"]]
    assert [None, None] == [loss.grad_fn for loss in leaky.names["losses"]]
    assert () == nbmem.reclaim_memory().dropped


def test_error_goes_only_when_asked_for_and_its_cost_is_told(leaky):
    code = "def train():\n    acts = seen(torch.ones(2**18))\n    raise ValueError('nan')\ntrain()"
    count = leaky.run(code).execution_count
    assert () == nbmem.reclaim_memory().dropped
    assert [True] == lives(leaky)
    report = nbmem.reclaim_memory(everything=True)
    assert [False] == lives(leaky)
    assert (f"%debug for the error of [{count}]",) == report.costs
    assert MIB == report.promised == report.freed
    assert "nan" == str(sys.last_value)


def test_leak_that_is_gone_and_leak_that_changed_are_refused(leaky):
    leaky.run(LOSSES)
    (leak,) = find_leaks("retained_graph")
    leaky.run("losses.append((w + 9).exp().sum())")
    report = nbmem.reclaim_memory(leak)
    assert (
        "2.00 MiB of losses[*] changed since it was found; look again with `%gpumem leaks`",
    ) == report.refused
    assert () == report.dropped
    leaky.run("del losses")
    assert ("2.00 MiB of losses[*] is gone already",) == nbmem.reclaim_memory(leak).refused


def test_text_of_a_holder_is_a_target(leaky):
    leaky.run(LOSSES)
    report = nbmem.reclaim_memory("losses[*]")
    assert 2 * MIB == report.freed
    assert 2 == len(leaky.names["losses"])


def test_name_of_a_variable_is_a_target_with_what_was_shown_of_it(leaky):
    leaky.run("x = seen(torch.ones(2**18))\nx")
    report = nbmem.reclaim_memory("x")
    assert [False] == lives(leaky)
    assert "x" not in leaky.names
    assert report.promised is None
    assert MIB == report.freed


def test_shown_value_is_a_target(leaky):
    count = leaky.run("seen(torch.ones(8))").execution_count
    report = nbmem.reclaim_memory(f"Out[{count}]")
    assert [False] == lives(leaky)
    assert (f"drop Out[{count}], _",) == report.dropped
    assert {} == leaky.names["Out"]


def test_text_that_means_nothing_is_refused_before_anything_is_done(leaky):
    leaky.run(LOSSES)
    with pytest.raises(LookupError, match="`loses` is neither a variable nor what holds a leak"):
        nbmem.reclaim_memory(["losses[*]", "loses"])
    assert all(loss.requires_grad for loss in leaky.names["losses"])


def test_failed_request_keeps_nothing_alive(leaky):
    leaky.run("seen(torch.ones(2**18))")
    leaky.run("import nbmem; nbmem.reclaim_memory('nowhere')")
    drop_output(leaky.shell, leaky.names["Out"].values())
    assert [False] == lives(leaky)


def hold_twice(notebook):
    """A tensor in a default argument and in the traceback of the cell before."""
    notebook.run(
        "kept = []\ndef train():\n    acts = seen(torch.ones(2**18))\n    kept.append(acts)\n"
        "    return 1 / 0\ntrain()"
    )
    notebook.run("def meter(gathered=kept): return len(gathered)\ndel kept")
    gc.collect()  # IPython's printing of a traceback leaves cycles that hold its frames


def test_what_two_things_hold_goes_when_both_are_cut(leaky):
    hold_twice(leaky)
    (leak,) = (leak for leak in nbmem.find_leaks() if leak.bytes == MIB)
    assert 2 == len(leak.cuts)
    report = nbmem.reclaim_memory(leak)
    assert [False] == lives(leaky)
    assert MIB == report.promised == report.freed


def test_cutting_one_of_two_promises_nothing(leaky):
    hold_twice(leaky)
    plan = nbmem.reclaim_memory(everything=True, dry_run=True)
    assert (0, ()) == (plan.promised, plan.planned)
    assert [True] == lives(leaky)


def test_array_that_shares_a_large_tensor_keeps_it_and_the_plan_says_so(leaky):
    leaky.run("part = seen(torch.ones(2**18))[:9]\narray = part.numpy()")
    plan, report = nbmem.reclaim_memory(dry_run=True), nbmem.reclaim_memory()
    assert [True] == lives(leaky)
    assert (0, 0, ()) == (plan.promised, report.freed, report.dropped)
    assert plan.refused == report.refused
    leaky.run("array[0] = 5")
    assert 5.0 == leaky.names["part"][0].item()


def test_view_of_a_tensor_that_an_array_once_showed_gets_a_storage_of_its_own(leaky):
    leaky.run("whole = seen(torch.arange(2.0**18))\nmean = whole.numpy().mean()")
    leaky.run("part = whole[3:9]\ndel whole")
    report = nbmem.reclaim_memory()
    assert [False] == lives(leaky)
    assert MIB - 24 == report.promised == report.freed
    assert [3.0, 4.0, 5.0, 6.0, 7.0, 8.0] == leaky.names["part"].tolist()


def test_small_array_of_a_large_tensor_is_copied(leaky):
    leaky.run("row = seen(torch.ones(2**18)).numpy()[:9]")
    report = nbmem.reclaim_memory()
    assert [False] == lives(leaky)
    assert MIB == report.promised == report.freed
    assert 9.0 == leaky.names["row"].sum()


def test_next_training_step_is_the_same_after_everything_was_reclaimed(leaky):
    start = (
        "torch.manual_seed(0)\nnet = torch.nn.Linear(512, 512)\n"
        "opt = torch.optim.Adam(net.parameters(), lr=0.1)\nlosses = []\n"
        "def step():\n"
        "    opt.zero_grad()\n    loss = (net(torch.ones(2, 512)) ** 2).sum()\n"
        "    loss.backward(retain_graph=True)\n    opt.step()\n    losses.append(loss)\n"
    )
    leaky.run(start + "for _ in range(4): step()")
    expected = [loss.item() for loss in leaky.names["losses"]]
    leaky.run(start + "for _ in range(2): step()")
    nbmem.reclaim_memory(everything=True)
    leaky.run("for _ in range(2): step()")
    assert expected == [loss.item() for loss in leaky.names["losses"]]


INGREDIENTS = {
    "losses": "losses{n} = [(seen(w{n} + i)).exp().sum() for i in range(2)]",
    "error": "errors{n} = []\ndef fail{n}():\n    acts = seen(torch.ones(2**18))\n    1 / 0\n"
    "try: fail{n}()\nexcept ZeroDivisionError as error: errors{n}.append(error)",
    "shown": "seen(torch.ones(2**18))",
    "both": "both{n} = seen(torch.ones(2**18))\nboth{n}",
    "view": "part{n} = seen(torch.ones(2**18))[:{n}00]",
    "cache": "import functools\n@functools.cache\ndef load{n}(): return seen(torch.ones(2**18))\n"
    "load{n}().shape;",
    "generator": "def batches{n}():\n    data = seen(torch.ones(2**18)); yield 1\n"
    "steps{n} = batches{n}(); next(steps{n});",
    "throwaway": "def pair{n}(): return 1, seen(torch.ones(2**18))\nfirst{n}, _ = pair{n}()",
    "wanted": "kept{n} = {{'a': [seen(torch.ones(2**18))]}}",
    "model": "net{n} = torch.nn.Linear(512, 512); seen(net{n}.weight)\n"
    "opt{n} = torch.optim.Adam(net{n}.parameters()); net{n}(torch.ones(2, 512)).sum().backward()\n"
    "opt{n}.step()",
}


def numbers_of(names):
    """What the names lead to by value, as plain numbers."""
    found = {}
    for name, value in list(names.items()):
        if name[-1:].isdigit() and not name.startswith("_"):
            parts = value.parameters() if isinstance(value, torch.nn.Module) else value
            parts = parts["a"] if isinstance(parts, dict) else parts
            parts = [parts] if isinstance(parts, torch.Tensor) else parts
            if not callable(parts) and hasattr(parts, "__len__"):
                found[name] = [p.sum().item() for p in parts if isinstance(p, torch.Tensor)]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_any_mix_keeps_the_promise_and_the_values(leaky, seed):
    dice = random.Random(seed)
    for n in range(1, 7):
        leaky.run(f"w{n} = torch.ones(2**18, requires_grad=True)")
        leaky.run(INGREDIENTS[dice.choice(sorted(INGREDIENTS))].format(n=n))
    leaky.run("done = 1")
    leaky.run("done = 2")
    before, alive = numbers_of(leaky.names), sum(lives(leaky))
    gc.collect()
    plan = nbmem.reclaim_memory(everything=True, dry_run=True)
    assert alive == sum(lives(leaky))
    report = nbmem.reclaim_memory(everything=True)
    assert 0 < plan.promised == report.promised == report.freed
    assert sum(lives(leaky)) < alive
    assert ((), plan.planned, plan.costs) == (report.still_held, report.planned, report.costs)
    assert before == numbers_of(leaky.names)
    assert 0 == nbmem.reclaim_memory(everything=True).freed


def test_what_still_holds_it_is_told_when_a_promise_is_broken(leaky, monkeypatch):
    leaky.run("x = torch.ones(3)\nx.cache = seen(torch.ones(2**18))")
    (leak,) = nbmem.find_leaks()
    monkeypatch.setattr("nbmem.reclaim.cutting.drop_attribute", lambda *_: Outcome())
    report = nbmem.reclaim_memory(leak)
    assert (MIB, 0, ()) == (report.promised, report.freed, report.dropped)
    (sentence,) = report.still_held
    assert sentence.startswith("1.00 MiB live on: x")
