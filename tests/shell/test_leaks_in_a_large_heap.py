"""The same among a million other objects: found, told and freed no otherwise, and in time."""

from __future__ import annotations

import gc
import time

import leak_probes
from leak_checks import misses_of_act, misses_of_finding
from leak_clean_scenes import CLEAN
from leak_scenarios import BY_NAME
from leak_stage import stage_in

import nbmem

OTHERS = "others = [[n] for n in range(1_000_000)]"
LEAKS = (
    "an error with good cells after it",
    "a list of losses",
    "activations that a forward hook gathers",
    "a cycle while the collector is off",
    "the state of a library",
)
SECONDS = 60
"""Far more than it takes: a search that asks for each object anew would take hours."""


def test_leaks_are_found_and_freed_among_a_million_other_objects(shell, capsys):
    with stage_in(shell, loaded=True) as stage:
        for name in LEAKS:
            scene = BY_NAME[name]
            stage.act(OTHERS)
            stage.play(scene.cells, fails=scene.fails)
            if scene.collects:
                gc.collect()
            began = time.perf_counter()
            leaks = nbmem.find_leaks()
            assert time.perf_counter() - began < SECONDS
            assert [] == misses_of_finding(scene, leaks, stage.counts), name
            del stage.shell.user_ns["others"][1000:]  # their values are compared
            assert [] == misses_of_act(scene, stage, leaks), name
            stage.clear()


def test_clean_scenes_are_silent_among_a_million_other_objects(shell, capsys):
    with stage_in(shell, loaded=True) as stage:
        for scene in CLEAN[:2]:
            stage.act(OTHERS)
            stage.play(scene.cells)
            gc.collect()
            assert [] == nbmem.find_leaks(), scene.name
            assert {} == leak_probes.alive()
            stage.clear()
