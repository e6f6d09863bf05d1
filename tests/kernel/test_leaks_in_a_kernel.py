"""Leaks in a real kernel: what a user would run, told and freed, known by C++'s weak references."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SHELL_TESTS = Path(__file__).resolve().parents[1] / "shell"
sys.path.append(str(SHELL_TESTS))

from leak_scenarios import BY_NAME  # noqa: E402

SCENES = (
    "a displayed tensor after del",
    "an error with good cells after it",
    "a list of losses",
    "the last loss of a loop whose model is gone",
    "zero gradients of an optimizer that somebody wrote",
    "activations that a forward hook gathers",
    "Adam's state of a head that was replaced",
    "a slice of a batch",
    "a task that waits",
)
ANSWER = "sum(leak_probes.alive().values())"


@pytest.fixture
def scene_kernel(kernel):
    """The kernel, which knows `probe` and records every cell."""
    prepare = (
        f"import sys; sys.path.append({str(SHELL_TESTS)!r})\n"
        "import leak_probes; leak_probes.install()\nfrom torch import nn"
    )
    for cell in (prepare, "%gpumem on"):
        reply, _ = kernel.run(cell)
        assert reply["status"] == "ok", reply
    yield kernel
    kernel.run("leak_probes.clean_up(); leak_probes.uninstall(); leak_probes.forget_outputs()")


def play(kernel, cells):
    """Runs the cells; returns their execution counts."""
    counts = []
    for number, cell in enumerate(cells):
        reply, _ = kernel.run(cell, cell_id=f"cell-{cells.index(cell)}", stop_on_error=False)
        counts.append(reply["execution_count"])
        assert reply["status"] == "ok" or "train" in cell, (number, reply)
    kernel.value("__import__('gc').collect()")
    return counts


def told(kernel):
    """What the kernel finds: (kind, holder, bytes, cell) of each leak."""
    return eval(
        kernel.value(
            "[(leak.kind, leak.holder, leak.bytes, leak.created_by) for leak in nbmem.find_leaks()]"
        )
    )


@pytest.mark.parametrize("name", SCENES)
def test_scene_in_a_kernel(scene_kernel, name):
    scene, kernel = BY_NAME[name], scene_kernel
    counts = play(kernel, scene.cells)
    made_by = counts[scene.made_by - 1] if scene.made_by else None
    ((kind, holder, size, cell),) = told(kernel)
    assert (scene.kind, scene.holder, scene.told_bytes) == (kind, holder, size)
    assert made_by in (None, cell)
    assert str(scene.bytes) == kernel.value(ANSWER)
    if scene.target == "found":
        return
    targets = {"default": "", "everything": "everything=True", "leak": "nbmem.find_leaks()"}
    if scene.target == "refused":
        act = "nbmem.reclaim_memory(nbmem.find_leaks())"
        assert "((), True)" == kernel.value(f"(lambda r: (r.dropped, bool(r.refused)))({act})")
        assert str(scene.bytes) == kernel.value(ANSWER)
        return
    asked = targets[scene.target]
    freed = kernel.value(f"(lambda r: (r.promised, r.freed))(nbmem.reclaim_memory({asked}))")
    assert f"({scene.told_bytes}, {scene.told_bytes})" == freed
    assert "0" == kernel.value(ANSWER)
    assert [] == told(kernel)
    reply, _ = kernel.run(scene.after)
    assert "ok" == reply["status"]


@pytest.mark.parametrize("name", SCENES)
def test_twin_is_silent_in_a_kernel(scene_kernel, name):
    play(scene_kernel, BY_NAME[name].clean)
    assert [] == told(scene_kernel)


def test_leaks_are_told_and_freed_by_magic(scene_kernel):
    counts = play(scene_kernel, BY_NAME["an error with good cells after it"].cells)
    reply, outputs = scene_kernel.run("%gpumem leaks")
    assert "ok" == reply["status"]
    shown = " ".join(
        part
        for message in outputs
        for part in (
            message["content"].get("text", ""),
            message["content"].get("data", {}).get("text/plain", ""),
        )
    )
    assert f"traceback of cell [{counts[1]}]" in shown
    assert "1.00 MiB" in shown
    reply, _ = scene_kernel.run("%gpumem reclaim --all")
    assert "ok" == reply["status"]
    assert "0" == scene_kernel.value(ANSWER)
