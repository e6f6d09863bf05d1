"""Five hundred cells of random scenes in one shell: nothing breaks, no false alarm stays."""

from __future__ import annotations

import gc
import random

import leak_probes
from leak_clean_scenes import CLEAN
from leak_scenarios import SCENARIOS
from leak_stage import stage_in

import nbmem

CELLS = 500
SEED = 20
LOOK_EVERY = 12
"""Scenes; between two looks leaks and clean work lie beside each other."""
LEFT_OUT = ("ipywidgets", "freeze", "threading", "asyncio", "%reset")
"""Slow ones, and those that change what all scenes share."""


def quick(scene):
    return not any(word in scene.script for word in LEFT_OUT)


def scenes_of(random_one):
    """Yields (scene, cells) without end."""
    leaks, clean = list(filter(quick, SCENARIOS)), list(filter(quick, CLEAN))
    while True:
        scene = random_one.choice(leaks)
        yield scene, scene.cells
        yield scene, scene.clean
        scene = random_one.choice(clean)
        yield scene, scene.cells


def look_and_clean(stage, name):
    """Finds, reclaims and cleans up; returns the alarms that stay after that."""
    gc.collect()
    nbmem.find_leaks()
    probed = leak_probes.alive()
    report = nbmem.reclaim_memory(everything=True)
    assert report.freed == report.promised, (name, report)
    assert set(leak_probes.alive()) <= set(probed)
    stage.clear()
    gc.collect()
    return [(name, leak.path_text, leak.reason) for leak in nbmem.find_leaks()]


def test_five_hundred_cells_of_random_scenes(shell, capsys):
    random_one = random.Random(SEED)
    run, scenes, stayed = 0, 0, []
    with stage_in(shell, loaded=True) as stage:
        for scene, cells in scenes_of(random_one):
            stage.play(cells, fails=getattr(scene, "fails", False))
            run, scenes = run + len(cells), scenes + 1
            if scenes % LOOK_EVERY == 0:
                stayed += look_and_clean(stage, scene.name)
            elif random_one.random() < 0.5:
                stage.clear()
            if run >= CELLS:
                break
        stayed += look_and_clean(stage, scene.name)
    assert [] == stayed
    assert run >= CELLS
