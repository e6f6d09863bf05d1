"""Acts against what a notebook really does: loops at work, cells run twice, code that fails."""

from __future__ import annotations

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
