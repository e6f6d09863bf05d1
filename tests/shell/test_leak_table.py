"""All scenes in one shell, one after another: misses and false alarms, counted together."""

from __future__ import annotations

import gc
import sys

from leak_checks import misses_of_act, misses_of_finding
from leak_clean_scenes import CLEAN
from leak_scenarios import SCENARIOS
from leak_stage import stage_in

import nbmem


def found_after(stage, cells, known, *, fails=False, collects=True):
    """Plays a scene and returns the leaks that were not there before."""
    stage.play(cells, fails=fails)
    if collects:
        gc.collect()
    return [leak for leak in nbmem.find_leaks() if not known & set(leak.storages)]


def storages_of_leaks():
    return {key for leak in nbmem.find_leaks() for key in leak.storages}


def play_all(stage):
    """Yields (scene, what it is, what is wrong)."""
    for scene in SCENARIOS:
        known = storages_of_leaks()
        found = found_after(stage, scene.cells, known, fails=scene.fails, collects=scene.collects)
        wrong = misses_of_finding(scene, found, stage.counts)
        if not wrong:
            wrong = misses_of_act(scene, stage, found)
        stage.clear()
        gc.collect()
        yield scene.name, "leak", wrong
    twins = [(scene.name, "twin", scene.clean) for scene in SCENARIOS]
    for name, what, cells in (*twins, *((scene.name, "clean", scene.cells) for scene in CLEAN)):
        known = storages_of_leaks()
        found = found_after(stage, cells, known)
        stage.clear()
        gc.collect()
        yield name, what, [f"{leak.kind} of {leak.path_text}" for leak in found]


def test_no_leak_is_missed_and_nothing_clean_is_told(shell, capsys):
    with stage_in(shell, loaded=True) as stage:
        rows = list(play_all(stage))
        capsys.readouterr()
    lines = [f"{what:6}{name}: {'; '.join(wrong)}" for name, what, wrong in rows if wrong]
    missed = sum(1 for _, what, wrong in rows if wrong and what == "leak")
    alarms = sum(1 for _, what, wrong in rows if wrong and what != "leak")
    leaks, clean = len(SCENARIOS), len(SCENARIOS) + len(CLEAN)
    lines.append(f"leaks  {leaks:4}  missed or told wrong {missed:3}")
    lines.append(f"clean  {clean:4}  false alarms {alarms:11}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert (0, 0) == (missed, alarms)
