"""The two opt-ins: a cell's former outputs go before it runs again; an out-of-memory error lets go.

What lives is told by weak references to storages, taken by the test.
"""

from __future__ import annotations

import gc
import weakref

import pytest

from nbmem.session.cell_names import names_made_first, reads_outputs

MIB = 1024**2
MAKE = "model = torch.nn.Linear(1023, 1024)"
"""1024 x 1023 weights and 1024 biases in float32: 4 MiB."""


@pytest.fixture
def freeing(notebook):
    """A notebook that lets go of former outputs."""
    notebook.run("%config NbMem.free_previous_outputs = True")
    return notebook


def watch(notebook, expression):
    value = eval(expression, notebook.names)
    return weakref.ref(value.untyped_storage())


def look(notebook, alive):
    """Has the cell tell whether a storage is alive when it begins."""
    notebook.names["alive"] = lambda: alive() is not None


def run_twice(notebook, cell, between="", watched="model.weight"):
    """Runs a cell, then again; returns whether what it made first was alive as it began again."""
    look(notebook, lambda: None)
    assert notebook.run(cell).success
    alive = watch(notebook, watched)
    look(notebook, alive)
    if between:
        assert notebook.run(between).success
    assert notebook.run(cell).success
    return notebook.names["had"]


def notes(notebook):
    record = notebook.records[-1]
    return [note.sentence for note in record.notes if note.code == "freed_previous"]


def test_a_model_made_again_never_holds_two_copies(freeing):
    cell = f"%%gpumem -q\n{MAKE}"
    freeing.run(cell)
    first = freeing.records[-1].devices["cpu"]
    freeing.run(cell)
    second = freeing.records[-1].devices["cpu"]
    assert 4 * MIB == first.delta
    assert first.peak == second.peak
    assert first.before == second.before
    assert ["Let go of what the run before had left in model: 4.00 MiB back."] == notes(freeing)


def test_without_the_setting_both_copies_live_for_a_moment(notebook):
    cell = f"%%gpumem -q\n{MAKE}"
    notebook.run(cell)
    first = notebook.records[-1].devices["cpu"]
    notebook.run(cell)
    second = notebook.records[-1].devices["cpu"]
    assert first.peak + 4 * MIB == second.peak
    assert [] == notes(notebook)


def test_it_works_where_every_cell_is_recorded(freeing):
    freeing.run("%gpumem on")
    assert not run_twice(freeing, f"had = alive()\n{MAKE}")
    freeing.run("%gpumem off")


def test_gradients_and_optimizer_state_of_later_cells_do_not_keep_it(freeing):
    cell = f"%%gpumem -q\nhad = alive()\n{MAKE}\nopt = torch.optim.Adam(model.parameters())"
    train = "%%gpumem -q\nmodel(torch.ones(2, 1023)).sum().backward()\nopt.step()"
    gc.disable()  # nothing but letting go may free it
    try:
        assert not run_twice(freeing, cell, train)
    finally:
        gc.enable()


def test_what_the_cell_showed_goes_too(freeing):
    cell = "%%gpumem -q\nhad = alive()\nx = torch.zeros(1000)\nx"
    assert not run_twice(freeing, cell, watched="x")
    (count,) = freeing.names["Out"]
    assert freeing.names["Out"][count] is freeing.names["x"]
    assert f"Out[{count - 1}]" in notes(freeing)[0]


def test_a_cell_that_reads_outputs_keeps_them(freeing):
    cell = "%%gpumem -q\nhad = alive()\nlast = _\nx = torch.zeros(1000)\nx"
    look(freeing, lambda: None)
    freeing.run("_ = 0")
    assert run_twice(freeing, cell, watched="x")


def test_two_names_and_a_with_statement_are_seen_through(freeing):
    cell = (
        "%%gpumem -q\nhad = alive()\nwith torch.no_grad():\n"
        "    model, (a, *rest) = torch.nn.Linear(9, 9), [torch.zeros(5), torch.zeros(6)]"
    )
    assert not run_twice(freeing, cell)
    (said,) = notes(freeing)
    assert {"model", "a", "rest"} == set(
        said.partition("left in ")[2].partition(":")[0].split(", ")
    )


# Left alone.


@pytest.mark.parametrize(
    "cell",
    [
        "had = alive()\nmodel = wrap(model)",
        "had = alive()\nold = model\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nif flag:\n    model = torch.nn.Linear(9, 9)",
        "had = alive()\nfor _ in range(1):\n    model = torch.nn.Linear(9, 9)",
        "had = alive()\ntry:\n    model = torch.nn.Linear(9, 9)\nexcept ValueError:\n    pass",
        "had = alive()\nreport()\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nWatcher().tell()\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\ntable['tell']()\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nrows[0][0]()\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nassert flag\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nglobals()\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nimport asyncio\nawait asyncio.sleep(0)\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\ndel model\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nf'{model}'\nmodel = torch.nn.Linear(9, 9)",
        "had = alive()\nlater = lambda: model\nmodel = torch.nn.Linear(9, 9)",
    ],
)
def test_what_the_cell_may_read_or_may_not_assign_is_untouched(freeing, cell):
    freeing.run("def wrap(m): return torch.nn.Sequential(m)\nflag = True")
    freeing.run("def inner(): return model\ndef report(): return inner()")
    freeing.run("class Watcher:\n    def tell(self): return model")
    freeing.run("table = {'tell': lambda: model}\nrows = [(lambda: model,)]")
    freeing.run("%%gpumem -q\nmodel = torch.nn.Linear(9, 9)")
    look(freeing, lambda: None)
    assert freeing.run(f"%%gpumem -q\n{cell}").success
    alive = watch(freeing, "[*model.parameters()][0]")
    look(freeing, alive)
    assert freeing.run(f"%%gpumem -q\n{cell}").success
    assert freeing.names["had"] is True
    assert [] == notes(freeing)


def test_a_variable_that_another_cell_assigned_is_untouched(freeing):
    cell = f"%%gpumem -q\nhad = alive()\n{MAKE}"
    look(freeing, lambda: None)
    freeing.run(cell)
    freeing.run("%%gpumem -q\nmodel = torch.nn.Linear(9, 9)")
    look(freeing, watch(freeing, "model.weight"))
    freeing.run(cell)
    assert freeing.names["had"] is True
    assert [] == notes(freeing)


def test_a_variable_that_an_unmeasured_cell_changed_is_untouched(freeing):
    assert run_twice(
        freeing,
        f"%%gpumem -q\nhad = alive()\n{MAKE}",
        "model.head = torch.nn.Linear(9, 9)",
    )
    assert [] == notes(freeing)


def test_a_variable_that_holds_the_data_of_another_cell_is_untouched(freeing):
    freeing.run("%%gpumem -q\ndata = torch.zeros(1000)")
    cell = "%%gpumem -q\nhad = alive()\npair = [data, torch.zeros(10)]"
    assert run_twice(freeing, cell, watched="pair[1]")


def test_another_name_for_the_same_model_keeps_it(freeing):
    assert run_twice(freeing, f"%%gpumem -q\nhad = alive()\n{MAKE}", "backup = model")
    assert 1024 == freeing.names["backup"].out_features
    assert ["Let go of what the run before had left in model: 0 B back."] == notes(freeing)


def test_a_name_without_tensors_is_untouched(freeing):
    freeing.names["seen"] = lambda: "count" in freeing.names
    for _ in range(2):
        freeing.run("%%gpumem -q\nthere = seen()\ncount = 3")
    assert freeing.names["there"] is True


def test_a_cell_that_can_not_be_read_loses_nothing(freeing):
    freeing.run(f"%%gpumem -q\n{MAKE}", cell_id="one")
    freeing.run(f"%%gpumem -q\n{MAKE} = = 3", cell_id="one")
    assert "model" in freeing.names


def test_a_cell_edited_meanwhile_is_read_as_it_is_now(freeing):
    freeing.run(f"%%gpumem -q\n{MAKE}", cell_id="one")
    look(freeing, watch(freeing, "model.weight"))
    freeing.run("%%gpumem -q\nhad = alive()\nmodel.eval()", cell_id="one")
    assert freeing.names["had"] is True


# Out of memory.

OOM = (
    "def train():\n    acts = torch.zeros(1024, 1024)\n    local.append(acts)\n"
    "    raise torch.OutOfMemoryError('out of memory')\ntrain()"
)


def fail(notebook, measured):
    kept = []
    notebook.names["local"] = type("Watch", (), {"append": lambda _, t: kept.append(ref_of(t))})()
    assert not notebook.run(f"{measured}{OOM}").success
    return kept[0]


def ref_of(tensor):
    return weakref.ref(tensor.untyped_storage())


def test_an_out_of_memory_error_lets_go_of_its_variables(notebook):
    notebook.run("%config NbMem.release_oom_traceback = True")
    alive = fail(notebook, "%%gpumem -q\n")
    assert alive() is None
    record = notebook.records[-1]
    assert "oom" == record.status
    assert [
        "Let go of the variables of the calls that ran out of memory: 4.00 MiB back, %debug shows"
        " none."
    ] == [note.sentence for note in record.notes if note.code == "released_oom"]
    assert 0 == record.devices["cpu"].delta


def test_an_unmeasured_cell_says_so_below_it(notebook):
    notebook.run("%config NbMem.release_oom_traceback = True")
    alive = fail(notebook, "")
    assert alive() is None
    said = [shown["data"]["text/plain"] for shown in notebook.shell.shown]
    assert said[-1].startswith("Let go of the variables of the calls that ran out of memory")


def test_without_the_setting_the_traceback_keeps_them(notebook):
    assert fail(notebook, "%%gpumem -q\n")() is not None


def test_other_errors_keep_their_variables(notebook):
    notebook.run("%config NbMem.release_oom_traceback = True")
    notebook.run("def f():\n    x = torch.zeros(1000); refs.append(x)\n    raise ValueError\n")
    kept = []
    notebook.names["refs"] = type("Watch", (), {"append": lambda _, t: kept.append(ref_of(t))})()
    assert not notebook.run("f()").success
    assert kept[0]() is not None


# The names that a cell is sure to make anew.


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (("x",), "x = 1"),
        (("x", "y"), "x = y = 1"),
        (("x",), "x: int = 1"),
        ((), "x: int"),
        ((), "x += 1"),
        ((), "x = x + 1"),
        (("y",), "y = x\nx = 1"),
        ((), "x.y = 1; x[0] = 2"),
        ((), "x = [x for x in x]"),
        (("a",), "a = 1\nexit()\nb = 2"),
        (("a",), "a = 1\nsys.exit()\nb = 2"),
        ((), "get_ipython().run_line_magic('run', 'x.py')\nx = 1"),
        ((), "def f():\n    return x\nx = f()"),
        (("x",), "with a() as b:\n    x = 1"),
        ((), "with x as b:\n    x = 1"),
        ((), "while a:\n    x = 1"),
        ((), "(x := 1)"),
        ((), "x ="),
        (("x",), "if a:\n    x = 2\nx = 1"),
    ],
)
def test_names_that_a_cell_is_sure_to_make(made, code):
    assert set(made) == set(names_made_first(code, {}))


@pytest.mark.parametrize(
    ("reads", "code"),
    [(True, "y = _"), (True, "Out[3]"), (True, "_12.sum()"), (False, "_x = 1"), (True, "x =")],
)
def test_cells_that_read_outputs(reads, code):
    assert reads is reads_outputs(code)


def test_settings_of_leaks_are_refused_where_they_make_no_sense(notebook, caplog):
    notebook.run("%config NbMem.leak_threshold = -1")
    assert "The value of the 'leak_threshold' trait" in caplog.text
    notebook.run("%config NbMem.free_previous_outputs = 'often'")
    assert "free_previous_outputs" in caplog.text
