"""The line of the panel that moves while a cell runs."""

from __future__ import annotations

import pytest
from pages import Page
from panel_session import MIB, ScriptedSession, cell

from nbmem.panel import Panel
from nbmem.records import LiveReading

GIB = 1024 * MIB


def reading(**more):
    facts = {
        "number": 7,
        "cell_id": "c7",
        "title": "train one epoch",
        "seconds": 12.4,
        "device": "cuda:0",
        "allocated": 2 * GIB,
        "peak": 3 * GIB,
        "capacity": 8 * GIB,
        "taken_at": 1000.5,
    }
    return LiveReading(**{**facts, **more})


@pytest.fixture
def session():
    return ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))


@pytest.fixture(params=["full", "plain"])
def panel(session, request):
    made = Panel(session, kind=request.param)
    yield made
    made.close()


def line(panel):
    (found,) = [part for part in panel.widget.children if "nbmem-live" in part._dom_classes]
    return found


def test_between_cells_there_is_no_line(panel):
    assert "none" == line(panel).layout.display


def test_the_line_follows_the_running_cell_and_goes_with_it(panel, session):
    session.sampler.tell(reading())
    assert (
        "● [7] train one epoch 12 s · now 2.00 GiB · peak 3.00 GiB" == Page(line(panel).value).text
    )
    assert line(panel).layout.display is None
    session.sampler.tell(reading(seconds=13.0, allocated=3 * GIB, peak=4 * GIB))
    assert "13 s · now 3.00 GiB · peak 4.00 GiB" in Page(line(panel).value).text
    session.sampler.tell(reading(running=False))
    assert "none" == line(panel).layout.display
    assert "" == line(panel).value


def test_the_line_is_in_the_units_that_are_set(panel, session):
    session.settings.units = "SI"
    session.sampler.tell(reading(allocated=2_000_000_000, peak=3_000_000_000))
    assert "now 2.00 GB · peak 3.00 GB" in Page(line(panel).value).text


def test_why_a_figure_is_not_known_stands_in_the_line(panel, session):
    note = "not measured: %gpumem on records every cell"
    session.sampler.tell(reading(allocated=None, peak=None, note=note))
    assert f"12 s · {note}" in Page(line(panel).value).text


def test_a_hostile_label_is_text(panel, session):
    session.sampler.tell(reading(title="<img src=x onerror=alert(1)>"))
    assert "<img" not in line(panel).value
    assert "[7] <img src=x onerror=alert(1)>" in Page(line(panel).value).text


def test_a_panel_that_closed_listens_no_more(panel, session):
    closed = line(panel)
    (show,) = session.sampler.listeners
    panel.close()
    assert [] == session.sampler.listeners
    show(reading())
    assert "" == closed.value


def test_a_panel_whose_page_has_a_line_of_its_own_does_not_listen(session):
    made = Panel(session, live=False)
    assert [] == session.sampler.listeners
    made.close()
