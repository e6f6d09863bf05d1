"""Every scene of a leak: told as it is, planned, freed to the byte, nothing else lost."""

from __future__ import annotations

import gc

import pytest
from leak_checks import misses_of_act, misses_of_finding, reclaim
from leak_clean_scenes import CLEAN
from leak_scenarios import SCENARIOS
from leak_stage import stage_in

import nbmem

each_leak = pytest.mark.parametrize("scene", SCENARIOS, ids=lambda scene: scene.name)


@pytest.fixture
def stage(shell):
    with stage_in(shell, loaded=True) as made:
        yield made


def find_leaks(scene):
    if scene.collects:
        gc.collect()
    return nbmem.find_leaks()


def told_without_nbmem(stage, scene):
    """What the last cell of a scene comes to where nothing was looked for or freed."""
    stage.play(scene.cells, fails=getattr(scene, "fails", False))
    stage.run(scene.after)
    told = stage.told
    stage.clear()
    gc.collect()
    return told


@each_leak
def test_leak_is_told_and_freed_and_work_goes_on(stage, scene, capsys):
    expected = told_without_nbmem(stage, scene)
    stage.play(scene.cells, fails=scene.fails)
    leaks = find_leaks(scene)
    assert [] == misses_of_finding(scene, leaks, stage.counts)
    assert leaks == nbmem.find_leaks()
    assert [] == misses_of_act(scene, stage, leaks)
    stage.run(scene.after)
    assert expected == stage.told


@each_leak
def test_twin_is_silent(stage, scene, capsys):
    stage.play(scene.clean)
    assert [] == find_leaks(scene)


@pytest.mark.parametrize("scene", CLEAN, ids=lambda scene: scene.name)
def test_clean_scene_is_silent_and_reclaiming_changes_nothing(stage, scene, capsys):
    expected = told_without_nbmem(stage, scene)
    stage.play(scene.cells)
    gc.collect()
    assert [] == nbmem.find_leaks()
    values = stage.values()
    report = nbmem.reclaim_memory(everything=True)
    assert ((), 0) == (report.dropped, report.freed)
    assert values == stage.values()
    stage.run(scene.after)
    assert expected == stage.told


@pytest.mark.parametrize(
    "scene", [s for s in SCENARIOS if s.target in ("everything", "leak")], ids=lambda s: s.name
)
def test_what_costs_something_is_not_taken_unasked(stage, scene, capsys):
    stage.play(scene.cells, fails=scene.fails)
    leaks = find_leaks(scene)
    values = stage.values()
    assert () == nbmem.reclaim_memory().dropped
    assert leaks == nbmem.find_leaks()
    if scene.target == "leak":
        assert () == nbmem.reclaim_memory(everything=True).dropped
        assert leaks == nbmem.find_leaks()
    assert values == stage.values()
    assert reclaim(scene, leaks, dry_run=True).costs
