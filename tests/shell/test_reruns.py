"""The same cell run again: what the runs keep alive, under which names, at which lines.

Every figure is a sum made by hand: a float is 4 bytes, and `torch.zeros(n)` is one storage.
"""

from __future__ import annotations

import random
import weakref

import pytest
import torch

import nbmem


def run_again(notebook, code, times, **more):
    """Runs one cell several times; returns its records, oldest first."""
    for _ in range(times):
        assert notebook.run(code, **more).success
    return [r for r in notebook.records if r.first_line == first_line(code)][-times:]


def first_line(code):
    return next(line for line in code.splitlines() if not line.startswith("%%"))


def by_name(record):
    return {c.what: (c.newer, c.older) for c in record.trend.by_name}


def by_line(record):
    return {c.what: (c.newer, c.older) for c in record.trend.by_line}


def test_the_first_run_has_no_trend(notebook):
    (record,) = run_again(notebook, "%%gpumem -q\nx = torch.zeros(25)", 1)
    assert record.trend is None


def test_a_cell_that_replaces_its_model_keeps_no_older_copy(notebook):
    # 100 x 50 weights and 50 biases: 20,200 bytes a run
    _, second, third = run_again(notebook, "%%gpumem -q\nmodel = torch.nn.Linear(100, 50)", 3)
    assert {"cpu": 0} == second.trend.older
    assert {"cpu": 0} == third.trend.growth_per_run
    assert {"cpu": (20_200, 20_200, 20_200)} == third.trend.kept
    assert 3 == third.trend.runs
    assert {"model.weight": (20_000, 0), "model.bias": (200, 0)} == by_name(third)


def test_a_list_of_losses_grows_by_one_graph_a_run(notebook):
    notebook.run("w = torch.ones(1000, requires_grad=True); losses = []")
    code = "%%gpumem -q\nloss = w.exp().sum()\nlosses.append(loss)"
    *_, fifth = run_again(notebook, code, 5)
    # exp saves its result (4,000 B), the sum has 4 B
    assert {"cpu": 4_004} == fifth.trend.growth_per_run
    assert {"cpu": 4 * 4_004} == fifth.trend.older
    assert {"cpu": tuple(4_004 * n for n in (1, 2, 3, 4, 5))} == fifth.trend.kept
    (copies,) = fifth.trend.by_name
    assert ("loss", 4_004, 4 * 4_004) == (copies.what, copies.newer, copies.older)
    assert (2, 8) == (copies.newer_count, copies.older_count)
    assert ("losses[0]",) == copies.held_by


def test_shown_outputs_grow_although_the_name_is_replaced(notebook):
    *_, third = run_again(notebook, "%%gpumem -q\nout = torch.zeros(1000)\nout", 3)
    assert {"cpu": 4_000} == third.trend.growth_per_run
    (copies,) = third.trend.by_name
    assert ("out", 4_000, 8_000) == (copies.what, copies.newer, copies.older)
    first = notebook.records[0].execution_count
    assert f"Out[{first}]" == copies.held_by[0]


def test_an_optimizer_left_behind_holds_the_old_parameters_by_name(notebook):
    code = "%%gpumem -q\nmodel = torch.nn.Linear(100, 50)"
    notebook.run(code)
    notebook.run("opt = torch.optim.SGD(model.parameters())")
    notebook.run(code)
    trend = notebook.records[-1].trend
    assert {"cpu": 20_200} == trend.older
    assert [("model.weight", 20_000, 20_000), ("model.bias", 200, 200)] == [
        (c.what, c.newer, c.older) for c in trend.by_name
    ]
    assert ["opt.param_groups[0]['params'][0]", "opt.param_groups[0]['params'][1]"] == [
        c.held_by[0] for c in trend.by_name
    ]


def test_what_nobody_names_is_told_as_such(notebook):
    notebook.run("lent = []")  # what a capsule keeps for another library no Python object shows
    *_, third = run_again(notebook, "%%gpumem -q\nlent.append(torch.zeros(1000).__dlpack__())", 3)
    (copies,) = third.trend.by_name
    assert ("no name", 4_000, 8_000, ()) == (
        copies.what,
        copies.newer,
        copies.older,
        copies.held_by,
    )


def test_quietly_recorded_cells_have_a_trend_too(notebook):
    notebook.run("%gpumem on")
    notebook.run("kept = []")
    *_, third = run_again(notebook, "kept.append(torch.zeros(25))", 3)
    assert {"cpu": (100, 200, 300)} == third.trend.kept
    assert {"kept[*]": (100, 200)} == by_name(third)


def test_an_edited_cell_is_the_same_cell_where_the_front_end_says_so(notebook):
    notebook.run("kept = []")
    notebook.run("%%gpumem -q\nkept.append(torch.zeros(25))", cell_id="abc")
    notebook.run("%%gpumem -q\nkept.append(torch.zeros(50))", cell_id="abc")
    assert {"cpu": (100, 300)} == notebook.records[-1].trend.kept


def test_what_other_cells_made_does_not_count(notebook):
    notebook.run("%%gpumem -q\nother = torch.zeros(500)")
    *_, second = run_again(notebook, "%%gpumem -q\nx = torch.zeros(25)", 2)
    assert ({"cpu": (100, 100)}, {"cpu": 0}) == (second.trend.kept, second.trend.older)


def test_a_run_that_lists_nothing_has_no_trend_and_leaves_no_gap(notebook):
    notebook.run("kept = []")
    for options in ("-q", "-q --no-scan", "-q"):
        notebook.run(f"%%gpumem {options}\nkept.append(torch.zeros(25))", cell_id="abc")
    _, unlisted, third = notebook.records
    assert unlisted.trend is None
    # what the second run made is known to nobody: 100 B of the first and 100 B of the third
    assert (3, {"cpu": (100, 200)}) == (third.trend.runs, third.trend.kept)
    assert {"cpu": 50} == third.trend.growth_per_run


def test_a_reload_forgets_neither_runs_nor_what_they_made(notebook):
    notebook.run("kept = []")
    code = "%%gpumem -q\nkept.append(torch.zeros(25))"
    first, second = run_again(notebook, code, 2)
    notebook.run("%reload_ext nbmem")
    notebook.run(code)
    third = notebook.records[-1]
    assert (3, {"cpu": (100, 200, 300)}) == (third.run, third.trend.kept)
    alive = {s.names[0]: (s.created_in, s.key) for s in nbmem.list_storages() if s.names}
    assert [first.serial, second.serial, third.serial] == [alive[f"kept[{n}]"][0] for n in range(3)]
    assert 3 == len({key for _, key in alive.values()})


def test_blocks_inside_a_cell_count_for_the_cell(notebook):
    notebook.run("import nbmem; kept = []")
    code = (
        "%%gpumem -q\nwith nbmem.measure('b') as m:\n    kept.append(torch.zeros(25))\n"
        "kept.append(torch.zeros(50))"
    )
    notebook.run(code)
    notebook.run(code)
    cell, block = notebook.records[-2:]
    assert ("b", None) == (block.label, block.trend)
    assert {"cpu": (300, 600)} == cell.trend.kept


def test_a_cell_run_by_another_counts_for_both(notebook):
    notebook.run("kept = []")
    inner = "%%gpumem -q inner\nkept.append(torch.zeros(25))"
    notebook.names["inner"] = inner
    code = "%%gpumem -q outer\nget_ipython().run_cell(inner); kept.append(torch.zeros(50))"
    notebook.run(code)
    notebook.run(code)
    trends = {r.label: r.trend for r in notebook.records if r.run == 2}
    assert {"cpu": (100, 200)} == trends["inner"].kept
    assert {"cpu": (300, 600)} == trends["outer"].kept


def test_a_run_that_fails_is_a_run(notebook):
    notebook.run("kept = []")
    code = "%%gpumem -q\nkept.append(torch.zeros(25))\nraise ValueError"
    notebook.run(code)
    notebook.run(code)
    assert {"cpu": (100, 200)} == notebook.records[-1].trend.kept


def test_no_tensor_of_a_run_is_kept_by_its_trend(notebook):
    code = "%%gpumem -q\nx = torch.zeros(100_000)"
    run_again(notebook, code, 2)
    alive = weakref.ref(notebook.names["x"].untyped_storage())
    notebook.run("del x")
    assert alive() is None


def test_alive_bytes_by_category_add_up_to_the_end_of_the_cell(notebook):
    notebook.run(
        "%%gpumem -q\nmodel = torch.nn.Linear(10, 5)\nx = torch.zeros(2, 10)\n"
        "model(x).sum().backward()\nopt = torch.optim.Adam(model.parameters())\nopt.step()"
    )
    (record,) = notebook.records
    alive = record.alive["cpu"]
    # 50 weights and 5 biases; Adam has two moments of each and two counters of 4 B
    assert (220, 220, 448, 80) == tuple(
        alive[kind] for kind in ("parameter", "gradient", "optimizer state", "user")
    )
    assert record.devices["cpu"].after == sum(alive.values())


def test_alive_is_empty_where_nothing_was_listed(notebook):
    notebook.run("%%gpumem -q --no-scan\nx = torch.zeros(25)")
    notebook.run("%gpumem on")
    notebook.run(
        "import nbmem\nfor _ in range(2):\n    with nbmem.measure('b') as m: x = torch.zeros(25)"
    )
    assert [{}, {}] == [r.alive for r in notebook.records if r.label == "b" or r.serial == 1]


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_any_runs_are_those_of_the_storages_that_live(notebook, seed):
    """Each run makes tensors, views and graphs at random and drops some of any run's."""
    chance, made, held = random.Random(seed), [], {}

    def step():
        made.append([])
        for _ in range(chance.randrange(6)):
            base = torch.zeros(chance.choice([10, 1_000, 20_000]), requires_grad=True)
            results = chance.choice([[base], [base.detach()[:5]], [base.exp(), base]])
            made[-1] += [(weakref.ref(t.untyped_storage()), t.untyped_storage().nbytes())
                         for t in results]  # fmt: skip
            held[chance.randrange(12)] = results[: chance.randrange(1, 3)]
        for key in chance.sample(sorted(held), len(held) // 3):
            del held[key]

    def living(runs):
        return sum({id(ref()): size for run in runs for ref, size in run if ref()}.values())

    notebook.names.update(step=step, held=held)
    for run in range(1, 9):
        notebook.run("%%gpumem -q\nstep()")
        trend = notebook.records[-1].trend
        if run > 1:
            assert (living(made), living(made[:-1])) == (trend.kept["cpu"][-1], trend.older["cpu"])
            assert trend.older["cpu"] == sum(c.older for c in trend.by_name)
            assert living(made[-1:]) == sum(c.newer for c in trend.by_name)


# Lines.


def lines_of(record):
    return {s.names[0]: s.line for s in record.created if s.names}


BIG = 16_384
"""Floats of a storage of 64 KiB, the smallest whose line is told."""


def test_each_storage_knows_the_line_of_the_cell_that_made_it(notebook):
    notebook.run(
        f"%%gpumem -q\na = torch.zeros({BIG})\n\nb = (torch.ones({BIG})\n     + 1)\n"
        f"c = torch.zeros({BIG - 1})"
    )
    lines = lines_of(notebook.records[-1])
    assert 2 == lines["a"]  # the %%gpumem line is line 1, as a notebook counts
    assert lines["b"] in (4, 5)
    assert lines["c"] is None  # 4 bytes too small
    assert 2 == {s.names[0]: s.line for s in nbmem.list_storages() if s.names}["a"]


def test_a_function_defined_elsewhere_is_the_line_that_calls_it(notebook):
    notebook.run(f"def make():\n\n\n\n    return [torch.zeros({BIG}) for _ in range(2)]")
    notebook.run("%%gpumem -q\n\nkept = make()")
    assert {"kept[0]": 3, "kept[1]": 3} == lines_of(notebook.records[-1])


def test_a_function_of_the_same_cell_is_the_line_that_calls_it(notebook):
    notebook.run(
        f"%%gpumem -q\ndef make():\n    return torch.zeros({BIG})\n\nx = make()\n\n"
        "class A: y = make()"
    )
    assert [5, 7] == sorted(s.line for s in notebook.records[-1].created)


def test_gradients_are_made_at_the_line_of_backward(notebook):
    notebook.run(f"w = torch.ones({BIG}, requires_grad=True)")
    notebook.run("%%gpumem -q\nloss = (w * 2).sum()\n\nloss.backward()")
    assert 4 == lines_of(notebook.records[-1])["w.grad"]


def test_lines_of_cells_that_await(notebook):
    notebook.run(
        "%%gpumem -q\nimport asyncio\nasync def make():\n    await asyncio.sleep(0)\n"
        f"    return torch.zeros({BIG})\na = await make()\n"
        "b = await asyncio.create_task(make())"
    )
    lines = lines_of(notebook.records[-1])
    assert 6 == lines["a"]
    assert 5 == lines["b"]  # a task has its own stack: the line of the cell that it is at


def test_lines_in_a_cell_that_fails_and_in_an_except_branch(notebook):
    notebook.run(
        f"%%gpumem -q\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    x = torch.zeros({BIG})\n"
        f"y = torch.zeros({BIG})\nraise ValueError"
    )
    assert {"x": 5, "y": 6} == lines_of(notebook.records[-1])


@pytest.mark.parametrize(
    ("above", "line"),
    [
        ("", 1),
        ("\n\n", 3),
        ("%%gpumem -q\n%%time\n", 3),
        ("%%time\n%%gpumem -q\n", 3),
        ("\n%%gpumem -q\n%%time\n\n", 5),
        ("%%gpumem -q\n%%capture told\n", 3),
        ("%%capture told\n%%gpumem -q\n", 3),
    ],
)
def test_lines_are_counted_as_the_notebook_counts_them(notebook, capsys, above, line):
    if "%%gpumem" not in above:
        notebook.run("%gpumem on")
    notebook.run(f"{above}x = torch.zeros({BIG})\nx.numel()")
    (record,) = (r for r in notebook.records if r.created)
    assert {"x": line} == lines_of(record)


def test_a_magic_that_rewrites_the_cell_leaves_lines_unknown(notebook, capsys):
    notebook.run("kept = []")
    notebook.run(f"%%gpumem -q\n%%prun\nkept.append(torch.zeros({BIG}))")
    assert {"kept[0]": None} == lines_of(notebook.records[-1])


def test_a_block_tells_lines_of_the_cell_around_it(notebook):
    notebook.run(
        f"%%gpumem -q\nimport nbmem\nwith nbmem.measure('b') as m:\n    x = torch.zeros({BIG})\n"
    )
    cell, block = notebook.records
    assert [{"x": 4}, {"x": 4}] == [lines_of(cell), lines_of(block)]


def test_a_block_in_an_unmeasured_function_tells_its_own_lines():
    def train():
        with nbmem.measure("block", device="cpu") as block:
            kept = torch.zeros(BIG)
        return block, kept

    block, kept = train()
    assert [train.__code__.co_firstlineno + 2] == [s.line for s in block.record.created]
    del kept


def test_a_decorated_function_tells_its_own_lines():
    @nbmem.measure("train", device="cpu")
    def train():
        return torch.zeros(BIG)

    kept = train()
    (record,) = nbmem.get_history().records()
    assert [train.__wrapped__.__code__.co_firstlineno + 2] == [s.line for s in record.created]
    del kept


def test_copies_are_told_by_line_with_what_stands_there(notebook):
    notebook.run("kept = []")
    code = f"%%gpumem -q\nx = torch.zeros({BIG})\nfor _ in range(2): kept.append(x + 1)"
    *_, third = run_again(notebook, code, 3)
    told = [(c.what, c.newer, c.older, c.source) for c in third.trend.by_line]
    size = 4 * BIG
    assert [
        ("3", 2 * size, 4 * size, "for _ in range(2): kept.append(x + 1)"),
        ("2", size, 0, f"x = torch.zeros({BIG})"),
    ] == told
    assert {"3": (2 * size, 4 * size), "2": (size, 0)} == by_line(third)


def test_small_storages_have_no_lines_and_so_no_copies_by_line(notebook):
    *_, second = run_again(notebook, "%%gpumem -q\nx = torch.zeros(25)", 2)
    assert () == second.trend.by_line


def test_no_frame_outlives_its_cell(notebook):
    notebook.run(
        f"%%gpumem -q\ndef make():\n    local = torch.zeros({BIG} * 2)\n"
        f"    return torch.zeros({BIG}), weak(local.untyped_storage())\n"
        "import weakref; weak = weakref.ref\nx, alive = make()"
    )
    assert notebook.names["alive"]() is None
