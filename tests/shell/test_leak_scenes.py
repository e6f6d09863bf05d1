"""The scenes of leaks are enough, and each twin differs by what makes the leak alone."""

from __future__ import annotations

import difflib

import pytest
from leak_clean_scenes import CLEAN
from leak_scenarios import SCENARIOS

from nbmem.records import LEAK_HOLDERS, LEAK_KINDS

ELSEWHERE = ["cuda_graph", "unknown"]
"""The one needs a GPU; the other is told where a search ends before it has found anything."""


def test_there_are_two_scenes_a_kind_and_one_a_holder():
    kinds = [scene.kind for scene in SCENARIOS]
    assert [] == [kind for kind in LEAK_KINDS if kinds.count(kind) < 2]
    shown = {scene.holder for scene in SCENARIOS}
    assert ELSEWHERE == [holder for holder in LEAK_HOLDERS if holder not in shown]
    assert len(SCENARIOS) == len({scene.name for scene in SCENARIOS})
    assert len(CLEAN) == len({scene.name for scene in CLEAN})


@pytest.mark.parametrize("scene", SCENARIOS, ids=lambda scene: scene.name)
def test_twin_differs_by_one_line(scene):
    leak, clean = ("\n".join(cells).splitlines() for cells in (scene.cells, scene.clean))
    changes = [row[0] for row in difflib.ndiff(leak, clean) if row[0] in "+-"]
    assert ["+", "-"] == sorted(changes)
