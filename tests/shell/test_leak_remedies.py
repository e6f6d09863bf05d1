"""Every remedy that is printed is run as it stands: the promised bytes come back, values stay.

Scenes follow one another in one shell, as cells of a notebook do. Where a scene has several leaks
it is played once for each, so that no remedy rests on another one.
"""

from __future__ import annotations

import gc
import os

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


def misses_of_remedy(stage, scene, leak, among, remedy):
    """Runs a remedy of a leak in a cell; returns what went otherwise than promised."""
    if not remedy:
        return [f"{leak.cuts} can be reclaimed and has no remedy"] if leak.reclaimable else []
    alive, values, hooks = leak_probes.alive(), stage.values(), hooks_of(stage, scene)
    result = stage.shell.run_cell(remedy)
    failed = result.error_in_exec or result.error_before_exec
    if failed is not None:
        return [f"{remedy!r} fails with {failed!r}"]
    del result
    if scene.collects:
        gc.collect()
    wrong, left = [], leak_probes.alive()
    gone = sum(size for address, size in alive.items() if address not in left)
    gone -= getattr(scene, "left", 0)
    along = [
        one
        for one in among
        if one is not leak and (set(one.cuts) <= set(leak.cuts) or one.remedy == remedy)
    ]  # the report says so: "What frees 1 frees 2 as well."
    promised = leak.bytes + sum(one.bytes for one in along)
    if not -_SMALL < gone - promised <= 0:
        wrong.append(f"{remedy!r} gave back {gone}, promised were {promised}")
    before, after = without(values, scene.lost), without(stage.values(), scene.lost)
    if before != after:
        wrong.append(f"{remedy!r} changed {sorted(set(before.items()) ^ set(after.items()))}")
    if hooks_of(stage, scene) != ([] if remedy == leak.instead else hooks):
        wrong.append(f"{remedy!r} left other hooks than it says")
    if hooks:
        stage.run(scene.cells[-1])  # the model works on
    return wrong


def hooks_of(stage, scene):
    """Returns the dicts of hooks that are not empty, of a model with all its parts."""
    model = stage.shell.user_ns.get(getattr(scene, "removes", ""))
    if model is None:
        return []
    parts = [*model.modules(), *model.parameters(), stage.shell.user_ns.get("opt")]
    found = [
        (name, getattr(part, name, None))
        for part in parts
        for name in dir(part)
        if name.startswith("_") and "hooks" in name
    ]
    return [(name, len(table)) for name, table in found if isinstance(table, dict) and table]


def misses_of_scene(stage, scene):
    """Plays a scene for each remedy of its leaks; returns what these did otherwise."""
    leaks, wrong, played = play(stage, scene), [], True
    if not leaks:
        wrong.append("no leak was found")
    for number, leak in enumerate(leaks):
        for which in ("remedy", "instead"):
            if which == "instead" and not leak.instead:
                continue
            if not played:
                stage.clear()
                leaks = play(stage, scene)
            now, played = leaks[number], False
            wrong += misses_of_remedy(stage, scene, now, leaks, getattr(now, which))
    stage.clear()
    return wrong


def misses_of(shell, scenes):
    with stage_in(shell, loaded=True) as stage:
        played = {scene.name: misses_of_scene(stage, scene) for scene in scenes}
    return {name: wrong for name, wrong in played.items() if wrong}


EVERY = os.environ.get("NBMEM_EVERY_SCENE") == "1"
PLAIN = ("outputs", "graphs", "training", "functions", "views", "growth")
"""Groups with plain code as remedies; `make test-large` plays all of them."""


@pytest.mark.parametrize("group", GROUPS if EVERY else PLAIN)
def test_remedies_of_scenes_give_back_what_they_promise_and_keep_every_value(shell, group, capsys):
    assert {} == misses_of(shell, GROUPS[group])


@pytest.mark.parametrize("group", SCENES)
def test_remedies_do_so_where_the_obvious_line_would_not(shell, group, capsys):
    assert {} == misses_of(shell, SCENES[group])
