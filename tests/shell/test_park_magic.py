"""`%gpumem park` and `unpark` in a shell, on a machine with accelerators that are simulated."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path

import pytest
from IPython.core.error import UsageError

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from simulated_carrier import SimulatedCarrier

from nbmem.session import current_session


@pytest.fixture
def carrier(notebook):
    """Accelerators of main memory in place of the real ones."""
    made = current_session().lot.carrier = SimulatedCarrier()
    return made


def shown(notebook, line):
    """Returns the text that a line magic displays."""
    before = len(notebook.shell.shown)
    notebook.shell.run_line_magic("gpumem", line)
    return "\n".join(each["data"]["text/plain"] for each in notebook.shell.shown[before:])


def test_a_model_is_parked_listed_and_brought_back(notebook, carrier):
    notebook.run("model = torch.nn.Linear(100, 10); x = torch.zeros(1000)")
    carrier.place_model(notebook.names["model"])
    carrier.place(notebook.names["x"])
    assert (
        "Parked 7.85 KiB (8.50 KiB → 0 B, allocated on cuda:0).\n"
        "  moved  model: 3.95 KiB in 2 storages from cuda:0 to pinned CPU memory\n"
        "         x: 3.91 KiB in 1 storage from cuda:0 to pinned CPU memory"
    ) == shown(notebook, "park model x")
    assert "cpu" == carrier.where(notebook.names["model"].weight)
    listed = shown(notebook, "park").splitlines()
    assert "Parked · 7.85 KiB" == listed[0]
    assert ["model", "3.95", "2", "cuda:0"] == listed[3].split()
    assert "%gpumem unpark [NAME…] brings it back" == listed[-1]
    assert "Unparked 3.91 KiB (0 B → 4.00 KiB, allocated on cuda:0)." in shown(notebook, "unpark x")
    assert "Unparked 3.95 KiB" in shown(notebook, "unpark")
    assert "cuda:0" == carrier.where(notebook.names["model"].weight)
    assert "Nothing is parked." in shown(notebook, "park")


def test_a_dry_run_only_tells(notebook, carrier):
    notebook.run("x = torch.zeros(1000)")
    carrier.place(notebook.names["x"])
    assert (
        "Would park 3.91 KiB.\n  moves  x: 3.91 KiB in 1 storage from cuda:0 to pinned CPU memory"
    ) == shown(notebook, "park x --dry-run")
    assert "cuda:0" == carrier.where(notebook.names["x"])


def test_names_with_blanks_stand_in_quotes(notebook, carrier):
    notebook.run("box = {'first batch': torch.zeros(1000)}")
    carrier.place(notebook.names["box"]["first batch"])
    assert "Parked 3.91 KiB" in shown(notebook, "park \"box['first batch']\"")


def test_a_machine_without_an_accelerator_says_so_in_one_sentence(notebook, carrier):
    carrier.has_accelerators = False
    notebook.run("model = torch.nn.Linear(100, 10)")
    lines = shown(notebook, "park model").splitlines()
    assert "Nothing was parked." == lines[0]
    assert (
        "refused there is no accelerator here, and parking moves what is on one: `%gpumem tensors`"
        " tells what takes the CPU's memory, and `del` gives it back"
    ) == " ".join(" ".join(lines[1:]).split())


def test_an_html_bundle_escapes_names(notebook, carrier):
    notebook.run("box = {'<b>x</b>': torch.zeros(1000)}")
    carrier.place(notebook.names["box"]["<b>x</b>"])
    shown(notebook, "park \"box['<b>x</b>']\"")
    html = notebook.shell.shown[-1]["data"]["text/html"]
    assert "<b>x" not in html
    assert "&lt;b&gt;x" in html


def test_a_dry_run_without_a_name_is_a_usage_error(notebook, carrier):
    with pytest.raises(UsageError, match="for example: %gpumem park model opt"):
        notebook.shell.run_line_magic("gpumem", "park --dry-run")


def test_what_is_parked_survives_a_reload_of_the_extension(notebook, carrier):
    notebook.run("x = torch.zeros(1000)")
    carrier.place(notebook.names["x"])
    shown(notebook, "park x")
    assert notebook.run("%reload_ext nbmem").success
    assert ["x"] == [thing.name for thing in current_session().parked()]
    shown(notebook, "unpark")
    assert "cuda:0" == carrier.where(notebook.names["x"])


def test_parking_inside_a_measured_cell_is_counted_there_and_leaves_nothing_behind(
    notebook, carrier
):
    notebook.run("x = torch.zeros(100_000)")
    carrier.place(notebook.names["x"])
    old = weakref.ref(notebook.names["x"].untyped_storage())
    assert notebook.run("%%gpumem -q -o record\n%gpumem park x").success
    assert old() is None
    record = notebook.names["record"]
    assert 400_000 == sum(storage.bytes for storage in record.created)
    assert 400_000 == record.freed["cpu"]
    parked = weakref.ref(notebook.names["x"].untyped_storage())
    assert notebook.run("del x, record").success
    assert parked() is None
    assert () == current_session().parked()


def test_panels_hear_of_a_move(notebook, carrier):
    notebook.run("x = torch.zeros(1000)")
    carrier.place(notebook.names["x"])
    heard = []
    current_session().subscribe(lambda: heard.append(1))
    shown(notebook, "park x --dry-run")
    assert [] == heard
    shown(notebook, "park x")
    assert [1] == heard
