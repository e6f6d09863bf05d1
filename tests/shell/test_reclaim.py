"""`del`, `gc.collect()` and `empty cache`: what goes, what stays, and the proof."""

from __future__ import annotations

import weakref

import pytest

from nbmem.session import current_session


def key_of(name):
    """The serial under which the inventory lists a name."""
    storages = current_session().take_inventory().storages
    (key,) = [storage.key for storage in storages if name in storage.names]
    return key


def watch(notebook, name):
    """A weak reference to the storage of a variable: the truth about its life."""
    return weakref.ref(notebook.names[name].untyped_storage())


def test_del_drops_a_variable_and_the_bytes_come_back(notebook):
    notebook.run("x = torch.zeros(250_000)")
    alive = watch(notebook, "x")
    report = current_session().drop_storages([key_of("x")])
    assert alive() is None
    assert "x" not in notebook.names
    assert (("x",), (), ()) == (report.dropped, report.refused, report.still_held)
    assert 1_000_000 == report.freed
    assert "torch storages on cpu" == report.counts


def test_del_of_a_shown_tensor_drops_all_its_copies(notebook):
    """`del x` frees nothing here: IPython keeps the shown tensor in seven places."""
    notebook.run("x = torch.zeros(1000)\nx")
    alive = watch(notebook, "x")
    key = key_of("x")
    notebook.run("del x")
    assert alive() is not None
    report = current_session().drop_storages([key])
    assert alive() is None
    assert 4_000 == report.freed
    assert {} == notebook.names["Out"]
    assert "" == notebook.names["_"]


def test_outputs_shown_later_are_cached_as_before(notebook):
    notebook.run("torch.zeros(1000)")
    (name,) = (n for n in notebook.names if n.startswith("_") and n[1:].isdigit())
    current_session().drop_storages([key_of(f"Out[{name[1:]}]")])
    result = notebook.run("6 * 7")
    assert 42 == notebook.names["_"]
    assert 42 == notebook.names["Out"][result.execution_count]


def test_throwaway_name_of_the_users_is_dropped_and_works_on(notebook):
    notebook.run("_, index = torch.zeros(100, 10).max(dim=1)")
    alive = weakref.ref(notebook.names["_"].untyped_storage())
    current_session().drop_storages([key_of("_")])
    assert alive() is None
    notebook.run("'shown'")
    assert "shown" == notebook.names["_"]


def test_all_names_of_one_storage_go_together(notebook):
    notebook.run("x = torch.zeros(100); y = x[10:]; parts = {'head': x[:10]}")
    alive = watch(notebook, "x")
    report = current_session().drop_storages([key_of("x")])
    assert alive() is None
    assert {"x", "y", "parts['head']"} == set(report.dropped)
    assert {} == notebook.names["parts"]


def test_plan_says_what_would_go_and_touches_nothing(notebook):
    notebook.run("x = torch.zeros(100); parts = {'a': x}")
    plan = current_session().plan_drop([key_of("x")])
    assert ("del x", "del parts['a']") == plan.planned
    assert () == plan.dropped
    assert 400 == plan.freed
    assert {"x", "parts"} <= set(notebook.names)


def test_what_was_made_since_the_list_was_taken_counts_before_and_after(notebook):
    notebook.run("x = torch.zeros(250_000)")
    key = key_of("x")
    before = sum(storage.bytes for storage in current_session().take_inventory().storages)
    notebook.run("y = torch.zeros(500_000)")
    plan = current_session().plan_drop([key])
    assert (before + 2_000_000, before + 1_000_000) == (plan.bytes_before, plan.bytes_after)
    notebook.run("z = torch.zeros(500_000)")
    report = current_session().drop_storages([key])
    assert (before + 4_000_000, before + 3_000_000) == (report.bytes_before, report.bytes_after)


def test_list_items_and_parameters_are_refused_with_the_way_out(notebook):
    notebook.run("batches = [torch.zeros(100)]; model = torch.nn.Linear(2, 3)")
    session = current_session()
    report = session.drop_storages([key_of("batches[0]"), key_of("model.weight")])
    assert () == report.dropped
    assert (
        "batches[0] is an item of a list: `del batches[0]` drops it and moves the later ones up",
        "model.weight is part of model: `del model` drops all of it",
    ) == report.refused
    assert 0 == report.freed
    assert 1 == len(notebook.names["batches"])


def test_what_was_refused_is_not_told_twice(notebook):
    notebook.run("batches = [torch.zeros(100)]; x = torch.zeros(9)")
    report = current_session().drop_storages([key_of("batches[0]"), key_of("x")])
    assert ("x",) == report.dropped
    assert 1 == len(report.refused)
    assert () == report.still_held


def test_storage_that_is_gone_is_refused(notebook):
    notebook.run("x = torch.zeros(100)")
    key = key_of("x")
    notebook.run("del x")
    report = current_session().drop_storages([key])
    assert (f"storage {key} is gone already: nothing to drop",) == report.refused
    assert () == report.dropped


def test_name_that_leads_elsewhere_by_now_is_left_alone(notebook):
    notebook.run("x = torch.zeros(100); y = x")
    key = key_of("x")
    notebook.run("x = torch.ones(5)")
    report = current_session().drop_storages([key])
    assert ("y",) == report.dropped
    assert 5 == notebook.names["x"].numel()


def test_what_something_else_holds_is_told(notebook):
    notebook.run("x = torch.zeros(256)\nlent = x.__dlpack__()")
    report = current_session().drop_storages([key_of("x")])
    assert ("x",) == report.dropped
    assert 0 == report.freed
    (sentence,) = report.still_held
    assert sentence.startswith("1.00 KiB of the storage live on")


def test_what_a_closure_holds_is_refused_with_its_name(notebook):
    notebook.run("x = torch.zeros(256)\ndef make(x):\n    return lambda: x\nheld = make(x)")
    report = current_session().drop_storages([key_of("x")])
    assert (("x",), 0) == (report.dropped, report.freed)
    assert ("held → closure x is part of held: `del held` drops all of it",) == report.refused


def test_collect_frees_garbage_in_cycles(notebook):
    import gc

    gc.disable()
    try:
        notebook.run("x = [torch.zeros(1000)]; x.append(x)")
        alive = weakref.ref(notebook.names["x"][0].untyped_storage())
        notebook.run("del x")
        assert alive() is not None
        report = current_session().collect()
    finally:
        gc.enable()
    assert alive() is None
    assert 4_000 == report.freed
    assert "gc.collect()" == report.act


def test_empty_cache_without_an_accelerator_says_why_not(notebook):
    report = current_session().empty_cache()
    if not report.refused:
        pytest.skip("this machine has an accelerator: tests/gpu covers it")
    assert (
        "there is no accelerator here: on the CPU torch keeps no cache to empty",
    ) == report.refused
    assert report.freed is None


def test_subscribers_hear_of_records_and_acts(notebook):
    heard = []
    end = current_session().subscribe(lambda: heard.append(1))
    notebook.run("%%gpumem -q\nx = torch.zeros(1)")
    current_session().collect()
    end()
    current_session().collect()
    assert [1, 1] == heard
