"""The same among a million other objects: found, told and freed no otherwise.

`make test` plays some scenes so; `make test-large` plays every one.
"""

from __future__ import annotations

import gc
import os

import leak_probes
import pytest
from leak_checks import misses_of_act, misses_of_finding
from leak_clean_scenes import CLEAN
from leak_scenarios import BY_NAME
from leak_stage import stage_in

import nbmem

OTHERS = "others = [[n] for n in range(1_000_000)]"
EVERY = os.environ.get("NBMEM_EVERY_SCENE") == "1"
LEAKS = (
    "an error with good cells after it",
    "a list of losses",
    "activations that a forward hook gathers",
    "a cycle while the collector is off",
    "the state of a library",
)


@pytest.mark.parametrize("name", tuple(BY_NAME) if EVERY else LEAKS)
def test_a_leak_is_found_and_freed_among_a_million_other_objects(shell, capsys, name):
    scene = BY_NAME[name]
    with stage_in(shell, loaded=True) as stage:
        stage.act(OTHERS)
        stage.play(scene.cells, fails=scene.fails)
        if scene.collects:
            gc.collect()
        leaks = nbmem.find_leaks()
        assert [] == misses_of_finding(scene, leaks, stage.counts)
        del stage.shell.user_ns["others"][1000:]  # their values are compared
        assert [] == misses_of_act(scene, stage, leaks)


@pytest.mark.parametrize("scene", CLEAN if EVERY else CLEAN[:2], ids=lambda scene: scene.name)
def test_a_clean_scene_is_silent_among_a_million_other_objects(shell, capsys, scene):
    with stage_in(shell, loaded=True) as stage:
        stage.act(OTHERS)
        stage.play(scene.cells)
        gc.collect()
        assert [] == nbmem.find_leaks()
        stage.clear()
        assert {} == leak_probes.alive()
