"""Every remedy that is printed is run as it stands: the promised bytes come back, values stay.

Scenes follow one another in one shell, as cells of a notebook do. Where a scene has several leaks
it is played once for each, so that no remedy rests on another one.
"""

from __future__ import annotations

import gc

import leak_probes
import pytest
from leak_scenarios import GROUPS
from leak_stage import stage_in, without
from remedy_scenes import SCENES

import nbmem

_SMALL = 64
"""Bytes of numbers that a graph saves, which no scene probes."""


def play(stage, scene):
    """Plays a scene and returns the leaks in it."""
    stage.play(scene.cells, fails=scene.fails)
    if scene.collects:
        gc.collect()
    return nbmem.find_leaks()


def misses_of_remedy(stage, scene, leak, among):
    """Runs the remedy of a leak in a cell; returns what went otherwise than promised."""
    if not leak.remedy:
        return [f"{leak.cuts} can be reclaimed and has no remedy"] if leak.reclaimable else []
    alive, values = leak_probes.alive(), stage.values()
    result = stage.shell.run_cell(leak.remedy)
    failed = result.error_in_exec or result.error_before_exec
    if failed is not None:
        return [f"{leak.remedy!r} fails with {failed!r}"]
    del result
    if scene.collects:
        gc.collect()
    wrong, left = [], leak_probes.alive()
    gone = sum(size for address, size in alive.items() if address not in left) - scene.left
    along = [one for one in among if one is not leak and set(one.cuts) <= set(leak.cuts)]
    promised = leak.bytes + sum(one.bytes for one in along)
    if not -_SMALL < gone - promised <= 0:
        wrong.append(f"{leak.remedy!r} gave back {gone}, promised were {promised}")
    before, after = without(values, scene.lost), without(stage.values(), scene.lost)
    if before != after:
        wrong.append(f"{leak.remedy!r} changed {sorted(set(before.items()) ^ set(after.items()))}")
    return wrong


def misses_of_scene(stage, scene):
    """Plays a scene for each of its leaks; returns what their remedies did otherwise."""
    leaks, wrong = play(stage, scene), []
    if not leaks:
        wrong.append("no leak was found")
    for number in range(len(leaks)):
        if number:
            stage.clear()
            leaks = play(stage, scene)
        wrong += misses_of_remedy(stage, scene, leaks[number], leaks)
    stage.clear()
    return wrong


def misses_of(shell, scenes):
    with stage_in(shell, loaded=True) as stage:
        played = {scene.name: misses_of_scene(stage, scene) for scene in scenes}
    return {name: wrong for name, wrong in played.items() if wrong}


@pytest.mark.parametrize("group", GROUPS)
def test_remedies_of_scenes_give_back_what_they_promise_and_keep_every_value(shell, group, capsys):
    assert {} == misses_of(shell, GROUPS[group])


@pytest.mark.parametrize("group", SCENES)
def test_remedies_do_so_where_the_obvious_line_would_not(shell, group, capsys):
    assert {} == misses_of(shell, SCENES[group])
