"""Random heaps of holders: the plan's promise is the outcome, and what is wanted stays."""

from __future__ import annotations

import gc

import leak_probes
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from leak_scene import MIB
from leak_stage import stage_in

import nbmem

PREPARE = """
kept_list, kept_dict = [], {}
def make_meter():
    seen = []
    def add(value): seen.append(value); return len(seen)
    return add
def fail(value):
    raise ValueError("no")
def watch(model, value):
    acts = [value]
    def save(module, inputs, output): return None if acts else output
    model.register_forward_hook(save)
def cached(value, seen={}):
    seen[len(seen)] = value
"""
WANTED = {
    "list": "kept_list.append(t{t})",
    "dict": "kept_dict[{n}] = {{'inside': t{t}}}",
    "name": "kept_{n} = t{t}",
    "view": "view_{n} = t{t}[:]",
}
UNWANTED = {
    "output": "t{t}",
    "shown list": "[t{t}, {n}]",
    "throwaway": "_ = t{t}",
    "closure": "add_{n} = make_meter(); add_{n}(t{t});",
    "hook": "net_{n} = nn.Linear(1, 1); watch(net_{n}, t{t})",
    "default": "cached(t{t})",
    "attribute": "small_{n} = torch.ones(1); small_{n}.cache = t{t}",
    "saved error": "try: fail(t{t})\nexcept ValueError as error: saved_{n} = error",
    "error": "fail(t{t})",
}
holdings = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(sorted(WANTED | UNWANTED))),
    min_size=1,
    max_size=8,
)
some_heaps = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a heap of eight holders needs no shrinking
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def build(stage, rows):
    """Runs a cell for each row; returns probes of what is wanted and of what is not."""
    cells = [PREPARE, "t0, t1, t2, t3 = (torch.full((2**18,), float(n)) for n in range(4))"]
    cells += [
        (WANTED | UNWANTED)[holder].format(t=tensor, n=number)
        for number, (tensor, holder) in enumerate(rows)
    ]
    stage.play(tuple(cells), fails=True)
    leak_probes.PROBES.clear()
    probes = []
    for n in range(4):
        leak_probes.probe(stage.shell.user_ns[f"t{n}"])
        probes.append(list(leak_probes.PROBES.values())[-1])
    stage.run("del t0, t1, t2, t3")
    gc.collect()
    wanted = {tensor for tensor, holder in rows if holder in WANTED}
    return [probes[n] for n in wanted], [probes[n] for n in range(4) if n not in wanted]


@given(rows=holdings)
@some_heaps
def test_promise_is_outcome_and_what_is_wanted_stays(shell, capsys, rows):
    with stage_in(shell, loaded=True) as stage:
        wanted, unwanted = build(stage, rows)
        values = stage.values()
        leaks = nbmem.find_leaks()
        alive = [probe for probe in unwanted if probe.alive]
        assert MIB * len(alive) == sum(leak.bytes for leak in leaks)
        plan = nbmem.reclaim_memory(leaks, dry_run=True)
        assert alive == [probe for probe in unwanted if probe.alive]
        report = nbmem.reclaim_memory(leaks)
        assert MIB * len(alive) == plan.promised == report.promised == report.freed
        assert () == report.still_held
        assert [] == [probe for probe in unwanted if probe.alive]
        assert wanted == [probe for probe in wanted if probe.alive]
        assert values == stage.values()
        assert [] == nbmem.find_leaks()


@given(rows=holdings)
@some_heaps
def test_everything_takes_nothing_that_a_function_gathers_or_that_is_wanted(shell, capsys, rows):
    with stage_in(shell, loaded=True) as stage:
        wanted, unwanted = build(stage, rows)
        values = stage.values()
        expected = sum(leak.bytes for leak in nbmem.find_leaks() if not leak.on_request)
        report = nbmem.reclaim_memory(everything=True)
        assert expected == report.promised == report.freed
        assert wanted == [probe for probe in wanted if probe.alive]
        assert values == stage.values()
        assert [] == [leak for leak in nbmem.find_leaks() if not leak.on_request]
        assert len(unwanted) <= 4
