"""Roots: what keeps things alive besides variables and shown values, each named once."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import logging
import logging.handlers
import queue
import signal
import sys
import threading
import types
import weakref

import pytest
import torch
from torch import nn

from nbmem.heap.storages import bare_torch
from nbmem.holders.roots import KINDS, find_roots
from nbmem.inventory.names import write_names
from nbmem.inventory.walk import NameWalk
from nbmem.records.leaks import LEAK_HOLDERS


def no_cell(_file):
    return None


def look(shell=None, cell_of_file=no_cell):
    """Returns the roots; none of them may be left out."""
    notes = []
    roots = find_roots(shell, cell_of_file, notes)
    assert [] == notes
    assert len(roots) == len({root.text for root in roots})
    assert {root.kind for root in roots} <= set(KINDS)
    return roots


def one(roots, text):
    (found,) = [root for root in roots if root.text == text]
    return found


def texts(roots, kind):
    return [root.text for root in roots if root.kind == kind]


def names_from(roots):
    """Returns what a walk from the roots finds: {name: number of values}."""
    with bare_torch():
        trail = NameWalk().run({}, {}, [(root.text, root.thing) for root in roots])
    try:
        sizes = [trail.tensors[link.tensor].numel() for link in trail.links]
        return dict(zip(write_names(trail).texts, sizes, strict=True))
    finally:
        trail.clear()


def test_each_kind_is_a_holder_of_leaks_or_running_code():
    assert set(KINDS) - {"running"} <= set(LEAK_HOLDERS)


# -- errors ---------------------------------------------------------------------------------------

FAILING = """
import torch
def train():
    acts = torch.ones(3)
    1 / 0
train()
"""


def cell_seven(file):
    return 7 if "ipython-input" in file else None


def test_an_error_kept_in_five_places_is_one_root(shell, capsys):
    shell.run_cell(FAILING)
    found = look(shell, cell_seven)
    (root,) = [root for root in found if root.kind == "traceback"]
    assert ("traceback of cell [7]", 7) == (root.text, root.cell)
    expected = {
        "sys.last_value",
        "sys.last_traceback",
        "IPython's InteractiveTB.tb",
        "the last cell's error_in_exec",
    }
    if sys.version_info >= (3, 12):
        expected.add("sys.last_exc")
    assert expected == set(root.places)
    assert root.thing is sys.last_value
    assert 3 == names_from(found)["traceback of cell [7] → train() → local 'acts'"]


def test_after_the_next_cell_the_place_of_the_cell_is_gone(shell, capsys):
    shell.run_cell(FAILING)
    shell.run_cell("pass")
    root = one(look(shell, cell_seven), "traceback of cell [7]")
    assert "the last cell's error_in_exec" not in root.places


def test_a_traceback_without_its_error_is_a_root(shell, capsys):
    shell.run_cell(FAILING)
    sys.last_value = None
    if sys.version_info >= (3, 12):
        sys.last_exc = None
    shell.run_cell("pass")
    root = one(look(shell, cell_seven), "traceback of cell [7]")
    assert {"sys.last_traceback", "IPython's InteractiveTB.tb"} == set(root.places)
    assert 3 == names_from([root])["traceback of cell [7] → train() → local 'acts'"]


def test_two_errors_are_two_roots(shell, capsys):
    shell.run_cell(FAILING)
    kept = sys.last_value
    shell.run_cell("1 / 0")
    sys.last_value = kept
    found = [root for root in look(shell, cell_seven) if root.kind == "traceback"]
    assert ["traceback of cell [7]", "traceback of cell [7] #2"] == [root.text for root in found]
    assert ("sys.last_value",) == found[0].places


def test_an_error_of_no_known_cell_is_of_an_earlier_one(shell, capsys):
    shell.run_cell(FAILING)
    root = one(look(shell), "traceback of an earlier error")
    assert None is root.cell


def test_the_outermost_cell_is_told_for_a_function_of_another(shell, capsys):
    shell.run_cell("def fail():\n    1 / 0")
    shell.run_cell("fail()")
    last = sys.last_traceback
    while last.tb_next is not None:
        last = last.tb_next
    of_function = last.tb_frame.f_code.co_filename
    root = one(
        look(shell, lambda file: 3 if file == of_function else cell_seven(file)),
        "traceback of cell [7]",
    )
    assert 7 == root.cell


def test_frames_that_the_debugger_was_left_in_are_a_root(shell):
    def stopped():
        held = torch.ones(3)
        return sys._getframe(), held.numel()

    class Debugger:
        pass

    shell.InteractiveTB.pdb = Debugger()
    shell.InteractiveTB.pdb.curframe = stopped()[0]
    try:
        root = one(look(shell), "IPython's debugger")
    finally:
        shell.InteractiveTB.pdb = None
    assert "saved_frame" == root.kind
    assert 3 == names_from([root])["IPython's debugger → stopped() → local 'held'"]


# -- callbacks ------------------------------------------------------------------------------------


def holding(tensor):
    def hold(*_args, **_kwargs):
        return tensor.numel()

    return hold


def test_event_callbacks_of_the_users_are_told_and_nbmems_are_not(shell):
    hold = holding(torch.ones(3))
    shell.run_line_magic("load_ext", "nbmem")
    shell.events.register("post_run_cell", hold)
    try:
        found = look(shell)
    finally:
        shell.events.unregister("post_run_cell", hold)
    assert ["IPython's post_run_cell callback hold()"] == texts(found, "ipython_event")
    assert 3 == names_from(found)["IPython's post_run_cell callback hold() → closure tensor"]


HOOKS = {
    "sys.excepthook hold()": (sys, "excepthook"),
    "sys.displayhook hold()": (sys, "displayhook"),
    "sys.unraisablehook hold()": (sys, "unraisablehook"),
    "threading.excepthook hold()": (threading, "excepthook"),
}


@pytest.mark.parametrize("text", HOOKS)
def test_hooks_of_the_interpreter_are_told(text, monkeypatch):
    monkeypatch.setattr(*HOOKS[text], holding(torch.ones(3)))
    found = look()
    monkeypatch.undo()
    assert "interpreter_callback" == one(found, text).kind
    assert 3 == names_from(found)[f"{text} → closure tensor"]


def test_the_interpreters_own_hooks_are_not_told():
    found = texts(look(), "interpreter_callback")
    assert [] == [text for text in found if text.startswith(("sys.excepthook", "sys.displayhook"))]


def test_gc_callbacks_and_signal_handlers_are_told():
    hold = holding(torch.ones(3))
    before = signal.signal(signal.SIGTERM, functools.partial(hold))
    gc.callbacks.append(hold)
    try:
        found = texts(look(), "interpreter_callback")
    finally:
        gc.callbacks.remove(hold)
        signal.signal(signal.SIGTERM, before)
    assert {"gc.callbacks hold()", "SIGTERM handler hold()"} <= set(found)


def test_a_tracer_is_told():
    hold, before = holding(torch.ones(3)), sys.getprofile()
    sys.setprofile(hold)
    try:
        found = texts(look(), "interpreter_callback")
    finally:
        sys.setprofile(before)
    assert "sys.setprofile hold()" in found


def test_finalizers_are_told_with_their_arguments():
    owner = nn.Identity()
    finalizer = weakref.finalize(owner, holding(torch.ones(3)), torch.ones(4), key=torch.ones(5))
    found = look()
    finalizer.detach()
    assert "finalizer" == one(found, "finalizer hold()").kind
    assert {
        "finalizer hold().func → closure tensor": 3,
        "finalizer hold().args[0]": 4,
        "finalizer hold().kwargs['key']": 5,
    }.items() <= names_from(found).items()


class Keeping(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def test_logging_handlers_that_keep_records_are_told():
    handler, silent = Keeping(), Keeping()
    record = logging.LogRecord("n", 10, "p", 1, "%s", (torch.ones(3),), None)
    handler.emit(record)
    waiting = logging.handlers.QueueHandler(queue.Queue())
    waiting.queue.put(torch.ones(4))
    buffered = logging.handlers.MemoryHandler(9, flushLevel=99)
    buffered.emit(record)
    found = look()
    assert {
        "logging handler Keeping",
        "logging handler QueueHandler",
        "logging handler MemoryHandler",
    } <= set(texts(found, "log_record"))
    assert "logging handler Keeping #2" not in texts(found, "log_record")
    names = names_from([root for root in found if root.kind == "log_record"])
    assert 3 == names["logging handler Keeping.records[0].args[0]"]
    assert 4 in names.values()
    assert silent is not None


def test_global_hooks_of_torch_are_told():
    handles = [
        nn.modules.module.register_module_forward_hook(holding(torch.ones(3))),
        sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook(
            holding(torch.ones(4))
        ),
    ]
    found = look()
    for handle in handles:
        handle.remove()
    assert ["global forward hook hold()", "global optimizer post hook hold()"] == texts(
        found, "hook"
    )
    assert 3 == names_from(found)["global forward hook hold() → closure tensor"]
    assert [] == texts(look(), "hook")


def test_what_the_collector_could_not_free_is_told():
    gc.garbage.append([torch.ones(3)])
    try:
        assert {"gc.garbage[0][0]": 3} == names_from([one(look(), "gc.garbage")])
    finally:
        gc.garbage.clear()
    assert [] == texts(look(), "garbage")


# -- widgets and figures --------------------------------------------------------------------------


@pytest.fixture
def widgets():
    """ipywidgets; what a test makes of them is closed after it."""
    import ipywidgets
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    yield ipywidgets
    for key in set(_instances) - before:
        _instances[key].close()


def test_callbacks_of_widgets_are_told(widgets):
    ipywidgets = widgets
    button = ipywidgets.Button(description="Run")
    button.on_click(holding(torch.ones(3)))
    slider = ipywidgets.IntSlider()
    slider.observe(holding(torch.ones(4)), "value")
    silent = ipywidgets.IntSlider()
    found = look()
    assert silent is not None
    assert ["Button widget 'Run'", "IntSlider widget"] == texts(found, "widget_callback")
    names = names_from([root for root in found if root.kind == "widget_callback"])
    assert {
        "Button widget 'Run' → callback 0 → closure tensor": 3,
        "IntSlider widget → callback 0 → closure tensor": 4,
    } == names


def test_what_a_widget_of_the_users_own_class_keeps_is_told(widgets):
    class Viewer(widgets.VBox):
        pass

    viewer = Viewer([widgets.HTML("text")])
    viewer._cache = [torch.ones(3)]
    found = [root for root in look() if root.kind == "widget_callback"]
    assert {"Viewer widget._cache[0]": 3} == names_from(found)


def test_nbmems_own_panel_is_not_told(notebook_panel):
    assert [] == texts(look(), "widget_callback")


@pytest.fixture
def notebook_panel(shell):
    shell.run_cell("%load_ext nbmem")
    shell.run_cell("import torch")
    from nbmem.panel import Panel
    from nbmem.session import current_session

    panel = Panel(current_session())
    yield panel
    panel.close("closed")


def test_open_figures_of_pyplot_are_told(monkeypatch):
    class Manager:
        pass

    class Gcf:
        figs = {1: Manager()}  # noqa: RUF012

    Gcf.figs[1].data = torch.ones(3)
    module = types.ModuleType("matplotlib._pylab_helpers")
    module.Gcf = Gcf
    monkeypatch.setitem(sys.modules, "matplotlib._pylab_helpers", module)
    assert {"matplotlib figure 1.data": 3} == names_from([one(look(), "matplotlib figure 1")])


# -- what runs or waits ---------------------------------------------------------------------------


def test_the_frames_and_arguments_of_a_running_thread_are_told():
    started, go_on = threading.Event(), threading.Event()
    seen = []

    def load(batch, key=None):
        held = torch.ones(4)
        seen.append(weakref.ref(held))
        started.set()
        go_on.wait()
        del held
        seen.append(seen[0]() is None)

    thread = threading.Thread(
        target=load, name="loader", args=(torch.ones(3),), kwargs={"key": torch.ones(5)}
    )
    thread.start()
    started.wait()
    roots = [root for root in look() if root.text == "thread 'loader'"]
    names = names_from(roots)
    kinds = [root.kind for root in roots]
    roots.clear()
    go_on.set()
    thread.join()
    assert ["thread"] == kinds
    assert {
        "thread 'loader'.args[0]": 3,
        "thread 'loader'.kwargs['key']": 5,
        "thread 'loader' → load() → local 'held'": 4,
    }.items() <= names.items()
    assert seen[1] is True  # it died at its `del`


def test_what_a_thread_of_the_users_own_class_keeps_is_told():
    go_on = threading.Event()

    class Loader(threading.Thread):
        def __init__(self):
            super().__init__(name="own")
            self.batches = [torch.ones(3)]

        def run(self):
            go_on.wait()

    thread = Loader()
    thread.start()
    names = names_from([one(look(), "thread 'own'")])
    go_on.set()
    thread.join()
    assert 3 == names["thread 'own'.batches[0]"]


def test_the_functions_that_run_now_are_told():
    def train():
        acts = torch.ones(3)
        found = look()
        return names_from(found), one(found, "running train()").kind, acts.numel()

    names, kind, _ = train()
    assert "running" == kind
    assert 3 == names["running train() → variable 'acts'"]


def test_the_users_own_locals_stay_as_they_were():
    def train():
        mine = locals()
        acts = torch.ones(3)
        alive = weakref.ref(acts)
        before = dict(mine)
        names_from(look())
        assert before == mine
        del acts
        return alive()

    assert train() is None


async def wait(future):
    acts = torch.ones(3)
    await future
    return acts


def test_a_task_that_waits_is_told_and_one_that_is_done_is_not():
    async def run():
        future = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(wait(future), name="training")
        done = asyncio.create_task(asyncio.sleep(0), name="done")
        await done
        names = names_from([one(look(), "asyncio task 'training'")])
        found = texts(look(), "async_task")
        future.cancel()
        return names, found, waiting

    names, found, _ = asyncio.run(run())
    assert 3 == names["asyncio task 'training' → wait() → local 'acts'"]
    assert "asyncio task 'done'" not in found


def test_values_of_context_variables_are_told():
    variable = contextvars.ContextVar("cache")

    def run():
        variable.set([torch.ones(3)])
        return names_from([one(look(), "current context")])

    names = contextvars.Context().run(run)
    assert {"current context → context variable 'cache'[0]": 3} == names


def test_a_context_of_plain_values_is_no_root():
    variable = contextvars.ContextVar("n")

    def run():
        variable.set(7)
        return texts(look(), "context_variable")

    assert [] == contextvars.Context().run(run)


# -- manners --------------------------------------------------------------------------------------


def test_a_part_that_breaks_is_a_note_and_the_others_are_told(monkeypatch):
    monkeypatch.setattr(gc, "garbage", [[torch.ones(3)]])
    monkeypatch.setattr(logging, "_handlerList", 7)
    notes = []
    found = find_roots(None, no_cell, notes)
    assert "gc.garbage" in [root.text for root in found]
    assert ["Chains from logging handlers are not told: they could not be listed (TypeError)."] == [
        note.sentence for note in notes
    ]


def test_a_cell_that_cannot_be_told_does_not_break_the_look(shell, capsys):
    def refuse(_file):
        raise KeyError

    shell.run_cell(FAILING)
    notes = []
    find_roots(shell, refuse, notes)
    assert ["holders"] == [note.field for note in notes]


def test_nothing_is_kept_alive(shell, capsys):
    watching = "seen = [weakref.ref(acts)]; globals().update(seen=seen); 1 / 0"
    shell.run_cell("import weakref" + FAILING.replace("1 / 0", watching))
    (alive,) = shell.user_ns["seen"]
    assert alive() is not None
    assert names_from(look(shell, cell_seven))
    sys.last_value = sys.last_traceback = shell.InteractiveTB.tb = None
    if sys.version_info >= (3, 12):
        sys.last_exc = None
    shell.last_execution_result = None
    gc.collect()  # IPython leaves a cycle around an error
    assert alive() is None


def test_no_code_of_the_users_runs():
    class Trap(threading.Thread):
        def __getattribute__(self, name):
            raise SystemExit(name)

        def __eq__(self, other):
            raise SystemExit

        def __hash__(self):
            raise SystemExit

    class Loud:
        def __call__(self, *_):
            raise SystemExit

        def __eq__(self, other):
            raise SystemExit

        __len__ = __bool__ = __repr__ = __call__

    trap, loud = object.__new__(Trap), Loud()
    threading._active[-1] = trap
    gc.callbacks.append(print)
    before, sys.last_value = getattr(sys, "last_value", None), loud
    try:
        look()
    finally:
        del threading._active[-1]
        gc.callbacks.remove(print)
        sys.last_value = before
