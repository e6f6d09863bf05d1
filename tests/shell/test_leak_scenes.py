"""The scenes of leaks are what they say, proved without nbmem: what lives, and what frees it."""

from __future__ import annotations

import difflib
import gc

import leak_probes
import pytest
from leak_clean_scenes import CLEAN
from leak_scenarios import SCENARIOS
from leak_stage import stage_in, without

from nbmem.records import LEAK_HOLDERS, LEAK_KINDS

each_leak = pytest.mark.parametrize("scene", SCENARIOS, ids=lambda scene: scene.name)


@pytest.fixture
def stage(shell):
    with stage_in(shell, loaded=False) as made:
        yield made


def test_there_are_two_scenes_a_kind_and_one_a_holder():
    kinds = [scene.kind for scene in SCENARIOS]
    assert [] == [kind for kind in LEAK_KINDS if kinds.count(kind) < 2]
    shown = {scene.holder for scene in SCENARIOS}
    assert ["cuda_graph"] == [holder for holder in LEAK_HOLDERS if holder not in shown]
    assert len(SCENARIOS) == len({scene.name for scene in SCENARIOS})
    assert len(CLEAN) == len({scene.name for scene in CLEAN})


@each_leak
def test_twin_differs_by_one_line(scene):
    leak, clean = ("\n".join(cells).splitlines() for cells in (scene.cells, scene.clean))
    changes = [row[0] for row in difflib.ndiff(leak, clean) if row[0] in "+-"]
    assert ["+", "-"] == sorted(changes)


@each_leak
def test_it_lives_without_a_name_until_it_is_cut_where_the_scene_says(stage, scene, capsys):
    stage.play(scene.cells, fails=scene.fails)
    if scene.collects:
        gc.collect()
    probed = leak_probes.alive()
    assert scene.bytes - sum(probed.values()) in range(64)  # numbers that a graph saves
    assert scene.by_name or not set(probed) & stage.named()
    values, made = stage.values(), stage.made.alive() | probed
    stage.act(scene.cure)
    gc.collect()
    assert {} == leak_probes.alive()
    left = stage.made.alive() | leak_probes.alive()
    gone = {address: size for address, size in made.items() if address not in left}
    assert scene.bytes == sum(gone.values())
    assert scene.left == sum(size for address, size in left.items() if address not in made)
    assert without(values, scene.lost) == without(stage.values(), scene.lost)
    stage.run(scene.after)


@each_leak
def test_twin_keeps_nothing_that_no_name_leads_to(stage, scene, capsys):
    stage.play(scene.clean)
    if scene.collects:
        gc.collect()
    assert set() == set(leak_probes.alive()) - stage.named()
    stage.run(scene.after)


@pytest.mark.parametrize("scene", CLEAN, ids=lambda scene: scene.name)
def test_clean_scene_goes_on(stage, scene, capsys):
    stage.play(scene.cells)
    stage.run(scene.after)
    assert stage.told is not None
