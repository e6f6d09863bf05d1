"""Every notebook of examples/ runs from the first cell to the last."""

from __future__ import annotations

import functools
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@functools.cache
def execute(path):
    """The code cells of a notebook by id, as run in a kernel of its own."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": EXAMPLES}}).execute()
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


@pytest.fixture
def quickstart():
    return execute(EXAMPLES / "quickstart.ipynb")


def text_of(cell):
    return "\n".join(
        output["data"].get("text/plain", "") for output in cell.outputs if "data" in output
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_saved_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    assert [] == [cell.id for cell in notebook.cells if cell.get("outputs")]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_to_its_last_cell(path):
    assert None not in {cell.execution_count for cell in execute(path).values()}


def test_quickstart_names_the_model_and_the_optimizer_state(quickstart):
    assert "parameter  model.*.weight, model.*.bias" in text_of(quickstart["model"])
    assert "optimizer state" in text_of(quickstart["train"])


def test_quickstart_shows_the_kept_graphs_and_their_end(quickstart):
    assert "losses[*] → graph" in text_of(quickstart["train"])
    assert "freed" in text_of(quickstart["mend"])


def test_quickstart_tells_a_loop_as_one_record_per_phase(quickstart):
    history = text_of(quickstart["history"])
    for phase in ("forward", "backward", "step"):
        assert 1 == sum(phase in line.split() for line in history.splitlines()), history


@pytest.fixture
def leaks():
    return execute(EXAMPLES / "leaks.ipynb")


TEN = (
    ("shown", "stale output", "4.00 MiB"),
    ("error", "stale error", "8.00 MiB"),
    ("losses", "retained graph", "6.00 MiB"),
    ("hook", "forgotten reference", "6.00 MiB"),
    ("view", "oversized view", "3.98 MiB"),
    ("copy", "stale optimizer state", "4.01 MiB"),
    ("gradients", "unused gradient", "1.00 MiB"),
    ("cache", "forgotten reference", "4.00 MiB"),
    ("cycle", "unreachable", "1.00 MiB"),
    ("list", "forgotten reference", "3.00 MiB"),
)


@pytest.mark.parametrize(("part", "kind", "size"), TEN, ids=[one[0] for one in TEN])
def test_each_of_the_ten_leaks_is_found_alone_and_freed(leaks, part, kind, size):
    found = text_of(leaks[f"{part}-leaks"]).splitlines()
    assert found[0].startswith(f"1 leak · {size} in ")
    assert kind in found[2]
    assert text_of(leaks[f"{part}-reclaim"]).startswith(f"Freed {size} (")


def test_nothing_is_left_of_the_ten_leaks(leaks):
    expected = "No leaks of 256 KiB or more: every storage is needed by a value you can name."
    assert expected == text_of(leaks["end"])


def test_quickstart_learns(quickstart):
    shown = [o for o in quickstart["steps"].outputs if o.output_type == "execute_result"]
    percent = int(shown[0]["data"]["text/plain"].strip("'").partition("%")[0])
    assert percent > 80
