"""Acts against what a notebook really does: loops at work, cells run twice, code that fails."""

from __future__ import annotations

import atexit
import gc
import signal
import sys

import pytest

import nbmem

BATCHES = """
def batches(held):
    keep = held
    for number in range(5):
        yield number
class Loader:
    def __init__(self, inner):
        self.inner = inner
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.inner)
waiting = batches(torch.ones(1 << 20)); next(waiting)
pool = [waiting]
"""


@pytest.fixture
def patient(notebook):
    notebook.run("import nbmem\n%gpumem on\n%config NbMem.name_budget = 60")
    return notebook


def age(notebook):
    notebook.run("1")
    notebook.run("2")


# Generators that a loop goes through.


@pytest.mark.parametrize(
    "loop",
    [
        "waiting",
        "pool[0]",
        "enumerate(waiting, 1)",
        "zip(waiting, range(1, 9))",
        "map(lambda one: one, waiting)",
        "Loader(waiting)",
        "(one for one in waiting)",
        "pool.pop()",
    ],
)
@pytest.mark.parametrize("target", ["'waiting'", "everything=True"])
def test_generator_that_a_loop_goes_through_is_not_closed(patient, loop, target):
    patient.run(BATCHES)
    age(patient)
    if "pop" in loop:
        patient.run("del waiting")
        target = "everything=True"
    patient.run(
        f"seen = []\nfor one in {loop}:\n    seen.append(one)\n"
        f"    if len(seen) == 2: plan = nbmem.reclaim_memory({target}, dry_run=True)\n"
        f"    if len(seen) == 2: report = nbmem.reclaim_memory({target})"
    )
    assert 4 == len(patient.names["seen"])
    assert 0 == patient.names["plan"].promised == patient.names["report"].promised
    assert 0 == patient.names["report"].freed


def test_generator_of_a_running_call_is_not_closed(patient):
    patient.run(BATCHES)
    age(patient)
    patient.run("""
def drain(steps):
    found = [next(steps)]
    report = nbmem.reclaim_memory("waiting")
    return found + list(steps), report
found, report = drain(waiting)""")
    assert [1, 2, 3, 4] == patient.names["found"]
    assert (1, 0) == (len(patient.names["report"].refused), patient.names["report"].freed)


def test_generator_that_only_waits_is_closed_by_name(patient):
    patient.run(BATCHES)
    age(patient)
    report = nbmem.reclaim_memory("waiting")
    assert 4 << 20 == report.promised == report.freed


# A cell that is run twice.

TRAINED = """
from torch import nn
model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512))
opt = torch.optim.Adam(model.parameters())
model(torch.ones(2, 512)).sum().backward()
opt.step()
"""


def test_remedy_for_an_optimizer_takes_the_lost_parameters_and_never_the_optimizer(patient):
    patient.run(TRAINED)
    patient.run("model[1] = nn.Linear(512, 10)")
    age(patient)
    (remedy,) = {leak.remedy for leak in nbmem.find_leaks() if leak.holder == "optimizer"}
    assert '%gpumem reclaim "lost parameters of opt"' == remedy
    for _ in range(3):
        assert patient.run(remedy).success
        assert 2 == len(patient.names["opt"].param_groups[0]["params"])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("small", "small = torch.ones(1 << 20)[:3]"),
        ("out", "out = nn.Linear(64, 1 << 14)(torch.ones(64, 64)).exp().sum(); out.backward()"),
        ("waiting", BATCHES),
    ],
)
def test_text_that_cut_a_leak_never_deletes_the_variable_the_next_time(patient, name, make):
    patient.run("from torch import nn")
    patient.run(make)
    age(patient)
    first = nbmem.reclaim_memory(name)
    again = nbmem.reclaim_memory(name)
    assert name in patient.names
    assert (True, 0) == (first.freed > 1 << 18, again.freed)
    assert (
        f"{name} holds nothing beyond need any more; to drop the variable itself: `del {name}`",
    ) == again.refused


def test_name_of_which_a_part_held_a_leak_is_refused(patient):
    patient.run(TRAINED)
    patient.run("losses = [model(torch.ones(256, 512)).sum() for _ in range(3)]")
    patient.run("model[1] = nn.Linear(512, 10)")
    age(patient)
    report = nbmem.reclaim_memory(["opt", "losses"])
    assert 0 == report.promised == report.freed
    assert (
        "opt is not what held a leak, 'lost parameters of opt' is; to drop the variable itself:"
        " `del opt`",
        "losses is not what held a leak, 'losses[*]' is; to drop the variable itself: `del losses`",
    ) == report.refused
    assert {"opt", "losses"} <= set(patient.names)


def test_name_that_never_cut_a_leak_drops_the_variable(patient):
    patient.run("kept = torch.ones(1 << 20)")
    assert 4 << 20 == nbmem.reclaim_memory("kept").freed
    assert "kept" not in patient.names


# Code of the user's that fails, or interrupts.


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit", "GeneratorExit", "OSError"])
def test_generator_that_raises_anything_on_its_way_out_stops_nothing(patient, error):
    patient.run(f"""
from torch import nn
def batches():
    held = torch.ones(1 << 20)
    try:
        yield 1
    finally:
        raise {error}("mine")
waiting = batches(); next(waiting)
graphs = [nn.Linear(8, 8)(torch.ones(60000, 8)).sum() for _ in range(3)]""")
    age(patient)
    report = nbmem.reclaim_memory(["waiting", "graphs[*]"])
    assert [None] * 3 == [one.grad_fn for one in patient.names["graphs"]]
    assert report.promised == report.freed > 4 << 20
    told = " ".join(report.dropped)
    assert "close waiting" in told
    assert error == "GeneratorExit" or f"it raised {error}" in told


def test_generator_that_refuses_to_end_is_told(patient):
    patient.run("""
def batches():
    held = torch.ones(1 << 20)
    while not over:
        try:
            yield 1
        except GeneratorExit:
            pass
over = []
waiting = batches(); next(waiting)""")
    age(patient)
    report = nbmem.reclaim_memory("waiting")
    assert ("waiting caught its end and goes on; `del` lets go of it",) == report.refused
    assert 0 == report.freed
    assert 1 == next(patient.names["waiting"])
    patient.names["over"].append(True)


def test_interrupt_of_the_users_comes_after_everything_was_done(patient):
    patient.run("""
import atexit
import gc
import signal
import sys
def batches():
    held = torch.ones(1 << 20)
    try:
        yield 1
    finally:
        signal.raise_signal(signal.SIGINT)
waiting, other = batches(), batches(); next(waiting); next(other)""")
    age(patient)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        nbmem.reclaim_memory(["waiting", "other"])
    assert before is signal.getsignal(signal.SIGINT)
    assert [None, None] == [patient.names[one].gi_frame for one in ("waiting", "other")]
    assert 2 == sum("raised KeyboardInterrupt" in note for note in caught.value.__notes__)


# What errors keep besides their calls.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ('ValueError("msg", big[:3])', "('msg', tensor([1., 1., 1.]))"),
        ("KeyError(big[:3])", "tensor([1., 1., 1.])"),
        ("RuntimeError([big[:2]])", "[tensor([1., 1.])]"),
        ("Odd('bad batch', batch=big[:3])", "bad batch"),
    ],
)
def test_error_lets_go_of_its_arguments_and_reads_the_same(patient, make, message):
    patient.run("""
class Odd(RuntimeError):
    def __init__(self, text, batch):
        super().__init__(text)
        self.batch = batch""")
    patient.run(f"def fail():\n    big = torch.ones(1 << 20)\n    raise {make}\nfail()")
    age(patient)
    plan = nbmem.reclaim_memory(everything=True, dry_run=True)
    report = nbmem.reclaim_memory(everything=True)
    assert 4 << 20 == plan.promised == report.freed
    assert () == report.refused
    assert message == str(sys.last_value)


def test_error_whose_message_goes_through_its_arguments_keeps_them(patient):
    patient.run("""
class Odd(RuntimeError):
    def __str__(self):
        return f"a batch of {self.args[0].numel()}"
def fail():
    raise Odd(torch.ones(1 << 20))
fail()""")
    age(patient)
    report = nbmem.reclaim_memory(everything=True)
    assert ("the message of Odd is made from its arguments: they stay",) == report.refused
    assert "a batch of 1048576" == str(sys.last_value)
    assert 0 == report.freed


# Iterators that keep what they went through.


def test_iterator_that_a_loop_goes_through_stays_until_the_loop_is_over(patient):
    patient.run("import itertools\nround = itertools.cycle([torch.ones(1 << 20)]); next(round);")
    age(patient)
    patient.run("""
for item in round:
    del item
    report = nbmem.reclaim_memory("round")
    break""")
    assert "it is in use" in patient.names["report"].refused[0]
    age(patient)
    assert 4 << 20 == nbmem.reclaim_memory("round").freed


# What is promised comes back.


def test_small_storages_that_go_with_a_graph_are_promised_too(patient):
    patient.run("""
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Flatten(), torch.nn.Linear(64, 8))
big, small = net(torch.ones(20_000, 64)), net(torch.ones(50, 64))
losses = [big.exp().sum(), small.exp().sum(), (big[:9].T @ big[:9]).sum()]
del big, small""")
    age(patient)
    plan = nbmem.reclaim_memory("losses[*]", dry_run=True)
    report = nbmem.reclaim_memory("losses[*]")
    assert plan.promised == report.promised == report.freed > 5 << 20


def test_call_at_exit_is_unregistered_and_its_closure_goes(patient):
    patient.run("""
import atexit, weakref
def start():
    held = torch.ones(1 << 20)
    def save():
        told.append(held.shape)
    atexit.register(save)
    return weakref.ref(save)
told = []
saved = start()""")
    age(patient)
    (leak,) = [leak for leak in nbmem.find_leaks() if leak.holder == "interpreter_callback"]
    report = nbmem.reclaim_memory(leak)
    assert 4 << 20 == report.promised == report.freed
    assert patient.names["saved"]() is None


def test_argument_of_a_call_at_exit_is_promised_to_nobody(patient):
    patient.run("import atexit\natexit.register(print, torch.ones(1 << 20));")
    age(patient)
    try:
        (leak,) = [leak for leak in nbmem.find_leaks() if leak.holder == "interpreter_callback"]
        report = nbmem.reclaim_memory(leak)
        assert 0 == report.promised == report.freed
        assert "" == leak.remedy, "no line can be pasted: which function it was, nobody tells"
        assert "(atexit.unregister(function) takes a call at exit back)" in leak.reason
        assert "(atexit.unregister(function) takes a call at exit back)" in report.refused[0]
    finally:
        atexit.unregister(print)


def test_frozen_cycle_is_promised_and_freed(patient):
    gc.collect()  # what others left must not be frozen with it
    own = gc.get_freeze_count()  # of Python 3.12's own types
    patient.run("import gc\nheld = [torch.ones(1 << 20)]; held.append(held)\ndel held\ngc.freeze()")
    try:
        age(patient)
        plan = nbmem.reclaim_memory(everything=True, dry_run=True)
        assert gc.get_freeze_count() > own
        assert 4 << 20 == plan.promised == nbmem.reclaim_memory(everything=True).freed
        assert own == gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_value_of_a_context_variable_is_promised_and_freed(patient):
    patient.run("""
import contextvars
def start():
    contextvars.ContextVar("current").set(torch.ones(1 << 20))
    contextvars.ContextVar("other").set([torch.ones(1 << 19)])
start()""")
    age(patient)
    report = nbmem.reclaim_memory("current context")
    assert 6 << 20 == report.promised == report.freed
    assert () == report.refused


# Values that the printed line would lose, and zeros that code of one's own expects.


def test_a_result_that_keeps_its_gradient_is_detached_where_it_stands(notebook):
    notebook.run(
        "net = torch.nn.Linear(1024, 1024); h = net(torch.randn(4, 1024)); h.retain_grad()\n"
        "h.pow(2).sum().backward(); del net"
    )
    gradient = notebook.names["h"].grad.clone()
    (leak,) = nbmem.find_leaks()
    assert ("retained_graph", '%gpumem reclaim "h"') == (leak.kind, leak.remedy)
    assert notebook.run(leak.remedy).success
    assert notebook.names["h"].grad.equal(gradient)
    assert () == tuple(nbmem.find_leaks())


def test_zeros_that_a_plain_function_expects_are_not_taken_unasked(notebook):
    notebook.run(
        "net = torch.nn.Linear(1024, 512)\n"
        "def step():\n"
        "    for p in net.parameters(): p.data -= p.grad; p.grad.zero_()\n"
        "net(torch.ones(2, 1024)).sum().backward(); step()"
    )
    report = nbmem.reclaim_memory()
    assert ((), 0) == (report.dropped, report.freed)
    assert notebook.run("net(torch.ones(2, 1024)).sum().backward(); step()").success
