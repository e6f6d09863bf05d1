"""`%gpumem leaks`, `holders` and `reclaim`, and the functions that do the same.

Where a test speaks of what is said or asked for, what the session finds is written by hand.
"""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest

import nbmem
from nbmem.errors import NameNotFoundError
from nbmem.records import (
    Chain,
    HeldStorage,
    Holders,
    Leak,
    LeakReport,
    PathStep,
    ReclaimReport,
    StorageRecord,
)
from nbmem.session import current_session

MIB = 1024**2


def leak(key, size, cut, **more):
    facts = {
        "count": 1,
        "kind": "stale_output",
        "holder": "output_cache",
        "path": (PathStep("output", cut),),
        "created_by": 4,
        "reason": "It was shown.",
        "remedy": f'%gpumem reclaim "{cut}"',
        "cost": cut,
        "storages": (key,),
        "cuts": (cut,),
    } | more
    return Leak(bytes=size, **facts)


SHOWN = leak(1, 64 * MIB, "Out[4]")
ERROR = leak(2, 32 * MIB, "traceback of cell [7]", kind="stale_error", device="cuda:0")
LOSSES = leak(3, 16 * MIB, "losses[*]", kind="retained_graph", cost="")


class Found:
    """Stands in for what a session finds and frees; notes what it was asked."""

    def __init__(self, monkeypatch):
        self.leaks, self.asked = [SHOWN, ERROR, LOSSES], []
        session = current_session()
        monkeypatch.setattr(session, "find_leaks", self.find_leaks)
        monkeypatch.setattr(session, "plan_reclaim", self.plan)
        monkeypatch.setattr(session, "reclaim", self.act)

    def find_leaks(self):
        return LeakReport(tuple(self.leaks), 0.0, 262_144)

    def plan(self, targets=None, *, everything=False):
        self.asked.append(("plan", targets, everything))
        return self._report((), MIB)

    def act(self, targets=None, *, everything=False):
        self.asked.append(("act", targets, everything))
        return self._report(("graphs of losses",), MIB)

    def _report(self, dropped, promised):
        return ReclaimReport(
            act="reclaim",
            planned=("detach losses",),
            dropped=dropped,
            refused=(),
            bytes_before=3 * MIB,
            bytes_after=2 * MIB,
            counts="torch storages on cpu",
            promised=promised,
        )


@pytest.fixture
def found(notebook, monkeypatch):
    return Found(monkeypatch)


def error_of(capsys):
    told = capsys.readouterr()
    (line,) = [text for text in (told.out + told.err).splitlines() if "UsageError" in text]
    return line


# Leaks.


def test_leaks_are_a_table(notebook, found):
    assert notebook.run("%gpumem leaks").success
    told = notebook.reports[-1]
    assert "3 leaks · 112 MiB in 3 storages beyond what your values need" in told
    assert "traceback of cell [7]" in told


def test_leaks_by_kind_and_by_device(notebook, found):
    notebook.run("%gpumem leaks --by kind")
    assert "retained graph" in notebook.reports[-1]
    notebook.run("%gpumem leaks --device cpu --rows 1")
    told = notebook.reports[-1]
    assert "2 leaks on cpu · 80.0 MiB" in told
    assert "1 smaller leak of 16.0 MiB in all" in told


def test_no_leak_is_a_sentence(notebook, found):
    found.leaks = []
    notebook.run("%gpumem leaks")
    sentence = "No leaks of 256 KiB or more: every storage is needed by a value you can name."
    assert sentence == notebook.reports[-1]


def test_a_shown_tensor_without_a_name_is_found(notebook):
    notebook.run("%%gpumem -q\ntorch.zeros(300, 1024)")
    for _ in range(2):
        notebook.run("nothing = None")
    (found,) = [each for each in nbmem.find_leaks() if each.kind == "stale_output"]
    assert 300 * 1024 * 4 == found.bytes
    notebook.run("%gpumem leaks")
    assert "1.17 MiB  stale output" in notebook.reports[-1]


def test_leaks_below_the_threshold_are_only_summed(notebook):
    notebook.run("%%gpumem -q\ntorch.zeros(300, 1024)")
    notebook.run("%config NbMem.leak_threshold = 2 * 1024**2")
    report = current_session().find_leaks()
    assert () == report.leaks
    assert 300 * 1024 * 4 <= report.below


def test_asking_makes_nothing_older(notebook):
    """The graph of the last cell is about to be used, however often one looks meanwhile."""
    notebook.run("w = torch.ones(512, 1024, requires_grad=True)")
    notebook.run("%%gpumem -q\nloss = (w * 2).exp().sum()")
    for _ in range(3):
        notebook.run("%gpumem leaks")
    assert "retained graph" not in notebook.reports[-1]
    for _ in range(2):
        notebook.run("nothing = None")
    notebook.run("%gpumem leaks")
    assert "retained graph" in notebook.reports[-1]


def test_a_script_finds_leaks_too():
    """A graph that the block before the last one made is over; one of the last block is not."""
    code = (
        "import torch, nbmem\n"
        "w = torch.ones(512, 1024, requires_grad=True)\n"
        "with nbmem.measure('a'): old = (w * 2).exp().sum()\n"
        "def found(): return [leak.cuts for leak in nbmem.find_leaks()]\n"
        "first = found()\n"
        "with nbmem.measure('b'): x = torch.zeros(10)\n"
        "print(first, found())"
    )
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "[] [('old',)]" == told.strip()


# Reclaim.


def test_without_a_target_what_costs_nothing_goes_and_the_rest_is_told(notebook, found):
    notebook.run("%gpumem reclaim")
    assert [("act", None, False)] == found.asked
    told = notebook.reports[-1]
    assert "Freed 1.00 MiB (3.00 → 2.00 MiB, torch storages on cpu)." in told
    assert "Left: 112 MiB in 3 leaks" in told
    assert "%gpumem reclaim 1      64.0 MiB of Out[4], costs Out[4]" in told


def test_a_number_stands_for_a_leak_of_the_last_table(notebook, found):
    notebook.run("%gpumem leaks")
    notebook.run("%gpumem reclaim 3 1")
    assert [("act", [LOSSES, SHOWN], False)] == found.asked


def test_the_numbers_after_an_act_are_those_of_what_is_left(notebook, found):
    notebook.run("%gpumem leaks")
    found.leaks = [ERROR]
    notebook.run("%gpumem reclaim")
    notebook.run("%gpumem reclaim 1")
    assert ("act", [ERROR], False) == found.asked[-1]


def test_texts_are_taken_in_quotes_or_as_they_stand(notebook, found):
    notebook.run("""%gpumem reclaim "traceback of cell [7]" losses[*] 'Out[4]' d['x']""")
    expected = ["traceback of cell [7]", "losses[*]", "Out[4]", "d['x']"]
    assert [("act", expected, False)] == found.asked


def test_all_and_dry_run(notebook, found):
    notebook.run("%gpumem reclaim --all --dry-run")
    assert [("plan", None, True)] == found.asked
    assert "Would free 1.00 MiB (3.00 → 2.00 MiB, torch storages on cpu)." in notebook.reports[-1]
    assert "Left" not in notebook.reports[-1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("leaks --by colour", "argument --by: 'colour' is none of kind, holder, cell, device;"),
        ("leaks --device cuda:9", "there is no device 'cuda:9' here: use one of cpu,"),
        ("leaks all", "unrecognized arguments: all; for example: %gpumem leaks --by kind"),
        ("leaks --rows 0", "argument --rows: '0' is no number of rows; for example:"),
        ("holders", "the following arguments are required: NAME; for example: %gpumem holders"),
        ("holders nothing", "`nothing` leads to no live tensor: it was renamed, deleted or"),
        ("reclaim 1", "no leaks were listed yet, run %gpumem leaks for their numbers; for"),
        ("reclaim --all x", "--all takes everything: it goes without targets; for example:"),
        ("reclaim --everything", "unrecognized arguments: --everything; for example: %gpumem"),
    ],
)
def test_wrong_use_is_one_line_with_an_example(notebook, found, capsys, line, problem):
    assert not notebook.run(f"%gpumem {line}").success
    assert problem in error_of(capsys)
    assert [] == found.asked


@pytest.mark.parametrize(
    ("left", "number", "problem"),
    [
        ([SHOWN, ERROR, LOSSES], 4, "the last table had leaks 1 to 3, not 4;"),
        ([SHOWN, ERROR, LOSSES], 0, "the last table had leaks 1 to 3, not 0;"),
        ([SHOWN], 2, "the last table had leak 1 only, not 2;"),
        ([], 1, "the last table had no leaks, not 1;"),
    ],
)
def test_a_number_that_the_table_had_not_is_refused(notebook, found, capsys, left, number, problem):
    found.leaks = left
    notebook.run("%gpumem leaks")
    assert not notebook.run(f"%gpumem reclaim {number}").success
    assert problem in error_of(capsys)


def shown_tensor(notebook):
    """Shows a tensor of 300 KiB that nothing else holds; returns its entry and a weak reference."""
    result = notebook.run("%%gpumem -q\ntorch.zeros(300, 256)")
    alive = weakref.ref(result.result.untyped_storage())
    count = result.execution_count
    del result
    return f"Out[{count}]", alive


def test_a_number_of_a_leak_that_is_gone_is_refused(notebook):
    output, alive = shown_tensor(notebook)
    notebook.run("%gpumem leaks")
    assert f"stale output  {output}" in notebook.reports[-1]
    notebook.run(f'%gpumem reclaim "{output}"')
    assert alive() is None
    session = current_session()
    session.shown_leaks = LeakReport((leak(10**9, 307_200, output),), 0.0, 262_144)
    assert notebook.run("%gpumem reclaim 1").success
    told = notebook.reports[-1]
    assert "Nothing was dropped." in told
    assert f"300 KiB of {output} is gone already" in told


def test_a_shown_tensor_is_planned_freed_and_said_to_be_gone(notebook):
    output, alive = shown_tensor(notebook)
    notebook.run("%gpumem reclaim")
    assert alive() is not None
    assert f"300 KiB of {output}, costs {output}" in notebook.reports[-1]
    notebook.run("%gpumem reclaim 1 --dry-run")
    assert alive() is not None
    assert "Would free 300 KiB" in notebook.reports[-1]
    notebook.run("%gpumem reclaim 1")
    assert alive() is None
    assert f"{output} is gone." in " ".join(notebook.reports[-1].split())


def test_reclaim_by_function_keeps_the_numbers_of_a_list_of_losses(notebook):
    notebook.run("w = torch.ones(256, 512, requires_grad=True)")
    notebook.run(
        "losses = [(w * n).exp().sum() for n in range(4)]; told = [x.item() for x in losses]"
    )
    plan = nbmem.reclaim_memory("losses[*]", dry_run=True)
    done = nbmem.reclaim_memory("losses[*]")
    assert notebook.names["told"] == [x.item() for x in notebook.names["losses"]]
    assert [None] * 4 == [x.grad_fn for x in notebook.names["losses"]]
    # exp saves its result, 512 KiB each; a product saves its factor, 8 B or less
    assert 4 * 512 * 1024 <= done.freed <= 4 * 512 * 1024 + 32
    assert plan.promised == done.freed


def test_on_another_thread_nothing_is_freed_while_a_cell_runs(notebook):
    output, alive = shown_tensor(notebook)
    notebook.run(
        "import threading, nbmem; got = []\n"
        f"ask = threading.Thread(target=lambda: got.append(nbmem.reclaim_memory({output!r})))\n"
        "ask.start(); ask.join()"
    )
    (report,) = notebook.names["got"]
    assert alive() is not None
    assert () == report.dropped
    assert "runs on the main thread: reclaim once more when it has ended" in report.refused[0]


def test_a_target_that_is_not_there_is_refused_with_its_sentence(notebook, found, capsys):
    def refuse(targets=None, *, everything=False):
        raise NameNotFoundError("`y` is neither a variable nor what holds a leak")

    current_session().reclaim = refuse
    assert not notebook.run("%gpumem reclaim y").success
    assert "`y` is neither a variable nor what holds a leak; for example:" in error_of(capsys)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("leaks", "Lists what is alive beyond what the values that you can name need."),
        ("holders", "Shows every way by which something is kept alive, shortest first."),
        ("reclaim", 'holder in quotes, as in %gpumem reclaim "traceback of cell [7]".'),
    ],
)
def test_each_subcommand_explains_itself(notebook, found, capsys, command, said):
    assert notebook.run(f"%gpumem {command} --help").success
    told = capsys.readouterr().out
    assert said in told
    assert f"usage: %gpumem {command} [-h]" in told
    assert ([], []) == (notebook.reports, found.asked)


# Holders.


def test_holders_of_a_variable_name_each_way(notebook):
    notebook.run("feats = torch.zeros(300, 1024); kept = {'f': feats}")
    notebook.run("%gpumem holders feats")
    told = notebook.reports[-1]
    assert "feats · 1.17 MiB" in told
    assert "Two holders: cutting one frees nothing, cutting both frees 1.17 MiB." in told
    assert "kept['f']" in told


def test_holders_of_a_model_are_summed_and_the_largest_shown(notebook):
    notebook.run("model = torch.nn.Linear(512, 1024)")
    notebook.run("%gpumem holders model")
    told = notebook.reports[-1]
    # 1024 x 512 weights and 1024 biases of 4 bytes
    assert "model · 2.00 MiB in 2 storages" in told
    assert told.index("model.weight · 2.00 MiB") < told.index("model.bias · 4.00 KiB")


def test_holders_of_one_parameter_of_an_output_and_of_a_part_of_a_model(notebook):
    notebook.run("model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))")
    count = notebook.run("torch.zeros(1000)").execution_count
    sizes = {
        "model.0.weight": 256,
        "model.1": 8 * 4 * 4 + 4 * 4,
        f"Out[{count}]": 4000,
        '"model.0.bias"': 32,
    }
    for name, size in sizes.items():
        held = nbmem.find_holders(name.strip('"')).held
        assert size == sum(each.bytes for each in held)
        assert notebook.run(f"%gpumem holders {name}").success


def test_holders_leave_nothing_alive(notebook):
    notebook.run("feats = torch.zeros(1000)")
    alive = weakref.ref(notebook.names["feats"].untyped_storage())
    notebook.run("%gpumem holders feats")
    nbmem.find_holders("feats")
    notebook.run("del feats")
    assert alive() is None


def test_holders_of_what_is_no_tensor_says_so(notebook, capsys):
    notebook.run("count = 3")
    assert not notebook.run("%gpumem holders count").success
    assert "`count` leads to no tensor; `%gpumem tensors` lists the names that do" in error_of(
        capsys
    )


def test_holders_that_a_session_finds_are_shown(notebook, monkeypatch):
    chain = Chain((PathStep("traceback", "traceback of cell [7]"),), "traceback", False, "it")
    notebook.run("x = torch.zeros(1000)")
    session = current_session()
    monkeypatch.setattr(
        session, "find_holders", lambda keys: Holders((HeldStorage(keys[0], 4000, (chain,)),))
    )
    notebook.run("%gpumem holders x")
    assert ["1", "traceback", "of", "cell", "[7]", "no"] == notebook.reports[-1].splitlines()[
        3
    ].split()


# Functions.


def test_functions_give_plain_records(notebook, found):
    assert [SHOWN, ERROR, LOSSES] == nbmem.find_leaks()
    assert MIB == nbmem.reclaim_memory(dry_run=True).promised
    nbmem.reclaim_memory([LOSSES], everything=False)
    nbmem.reclaim_memory("losses", everything=True)
    assert [
        ("plan", None, False),
        ("act", [LOSSES], False),
        ("act", "losses", True),
    ] == found.asked


@pytest.mark.parametrize("target", [3, b"x", {"x"}, [3], object(), (None,)])
def test_a_target_of_another_type_is_refused_with_the_right_form(notebook, target):
    with pytest.raises(TypeError, match=r"write nbmem.reclaim_memory\('x'\)"):
        nbmem.reclaim_memory(target)
    with pytest.raises(TypeError, match="a target is a Leak, the name of a variable"):
        nbmem.reclaim_memory(target, dry_run=True)


def test_a_name_that_is_no_text_is_refused(notebook):
    with pytest.raises(TypeError, match=r"a name is text, not a int: write nbmem.find_holders"):
        nbmem.find_holders(3)
    with pytest.raises(NameNotFoundError, match="`nothing` leads to no live tensor"):
        nbmem.find_holders("nothing")
    with pytest.raises(NameNotFoundError, match=r"`x{80}…` leads to no live tensor"):
        nbmem.find_holders("x" * 500)


def test_the_inventory_itself_is_what_a_name_is_looked_up_in(notebook):
    notebook.run("x = torch.zeros(25)")
    (held,) = nbmem.find_holders("x").held
    (record,) = [each for each in nbmem.list_storages() if "x" in each.names]
    assert isinstance(record, StorageRecord)
    assert (record.key, record.bytes) == (held.key, held.bytes)
