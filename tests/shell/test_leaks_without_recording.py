"""What leaks tell with `%load_ext nbmem` alone: nobody has noted which cell made what."""

from __future__ import annotations

import gc
import re
import weakref

import pytest

import nbmem

MIB = 1024**2
TRAINED = (
    "import torch; from torch import nn",
    "net = nn.Linear(512, 512, bias=False)\nopt = torch.optim.SGD(net.parameters(), lr=0.125)",
    "for step in range(3):\n"
    "    loss = net(torch.ones(2, 512)).add(step).pow(2).mean()\n"
    "    opt.zero_grad(); loss.backward(); opt.step()",
)
WORK = (
    "import torch",
    "def work(n):\n    acts = torch.ones(2**18)\n    kept.add(acts)\n    return acts.view(n)",
)


@pytest.fixture
def frozen():
    yield
    gc.unfreeze()


def play(notebook, *cells):
    for cell in cells:
        notebook.run(cell)


def test_a_loss_that_had_its_backward_is_told_and_freed_once_its_model_is_gone(notebook):
    play(notebook, *TRAINED)
    names = notebook.shell.user_ns
    weight, value = weakref.ref(names["net"].weight), float(names["loss"])
    assert [] == nbmem.find_leaks()
    play(notebook, "del net, opt")
    (leak,) = nbmem.find_leaks()
    assert ("retained_graph", 2 * MIB, "") == (leak.kind, leak.bytes, leak.cost)
    assert "although backward() has freed what it saved" in leak.reason
    assert 2 * MIB == nbmem.reclaim_memory().freed
    assert weight() is None
    assert value == float(names["loss"])


@pytest.mark.parametrize("after", ["", "del net, opt"], ids=["with its model", "without"])
def test_a_loss_that_waits_for_backward_is_silent(notebook, after):
    play(notebook, *TRAINED[:2], "loss = net(torch.ones(2, 512)).pow(2).mean()", after)
    assert [] == nbmem.find_leaks()
    assert () == nbmem.reclaim_memory(everything=True).dropped
    play(notebook, "loss.backward()")


def test_a_graph_that_saved_nothing_is_silent_as_nothing_tells_of_its_backward(notebook):
    play(notebook, "import torch; w = torch.ones(2**18, requires_grad=True)", "loss = w.sum()")
    play(notebook, "loss.backward(); del w")
    assert [] == nbmem.find_leaks()


@pytest.mark.parametrize("times", [2, 3])
def test_what_older_errors_hold_is_garbage_and_goes_at_no_cost(notebook, capsys, times):
    notebook.shell.user_ns["kept"] = kept = weakref.WeakSet()
    gc.collect()
    gc.disable()
    try:
        play(notebook, *WORK, *["work(3)"] * times)
        assert times == len(kept)
        kinds = sorted((leak.kind, leak.bytes, leak.cost) for leak in nbmem.find_leaks())
        told = [(kind, size, bool(cost)) for kind, size, cost in kinds]
        assert ("stale_error", MIB, True) == told[0]
        assert {("unreachable", False)} == {(kind, cost) for kind, _, cost in told[1:]}
        assert (times - 1) * MIB == sum(size for _, size, _ in told[1:])
        assert (times - 1) * MIB == nbmem.reclaim_memory().freed
        assert 1 == len(kept)
    finally:
        gc.enable()


def test_an_error_inside_an_error_and_the_one_before_are_told_apart(notebook, capsys):
    notebook.shell.user_ns["kept"] = kept = weakref.WeakSet()
    handled = "try:\n    work(3)\nexcept RuntimeError as error:\n    raise ValueError from error"
    gc.collect()
    gc.disable()
    try:
        play(notebook, *WORK, handled, handled)
        assert 2 == len(kept)
        assert MIB == nbmem.reclaim_memory().freed
        assert 1 == len(kept)
        assert MIB == nbmem.reclaim_memory(everything=True).freed
        assert 0 == len(kept)
    finally:
        gc.enable()


CIRCLE = "class Run: pass\nrun = Run(); run.me = run; run.data = torch.ones(2**18)"


def test_garbage_that_was_frozen_unseen_is_told_as_unseen_with_the_count(notebook, frozen):
    play(notebook, "import torch, gc", f"{CIRCLE}; gc.freeze(); del run")
    assert [] == nbmem.find_leaks()
    notebook.run("%gpumem leaks")
    shown = " ".join(notebook.reports[-1].split())
    told = re.search(r"gc\.freeze\(\) took ([\d,]+) objects out of sight", shown)
    assert gc.get_freeze_count() == pytest.approx(int(told[1].replace(",", "")), rel=0.01)
    assert "frozen" in [note.code for note in nbmem.take_ledger().notes]


def test_garbage_that_was_seen_before_it_was_frozen_is_found(notebook, frozen):
    play(notebook, "import torch, gc", CIRCLE)
    assert [MIB] == [one.bytes for one in nbmem.list_storages()]
    data = weakref.ref(notebook.shell.user_ns["run"].data)
    play(notebook, "gc.freeze(); del run")
    (leak,) = nbmem.find_leaks()
    assert ("unreachable", "frozen", MIB) == (leak.kind, leak.holder, leak.bytes)
    assert MIB == nbmem.reclaim_memory(leak).freed
    assert data() is None


def test_nothing_is_said_of_frozen_objects_where_there_are_none(notebook):
    play(notebook, "import torch, gc", CIRCLE)
    notebook.run("%gpumem leaks")
    assert "gc.freeze()" not in notebook.reports[-1]
    assert [] == [note.code for note in nbmem.take_ledger().notes]
