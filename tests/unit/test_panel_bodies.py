"""Which body a panel has: asked of the page, chosen by the user, or known of the front end."""

import sys
import types

import pytest
from panel_hands import tree
from panel_session import MIB, ScriptedSession, cell, storage

from nbmem.panel import Panel, kind_for
from nbmem.panel.bodies import RESCUE
from nbmem.session.settings import NbMem


@pytest.fixture
def session():
    made = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    made.storages = [storage(11, 2 * MIB, ["feats"]), storage(12, MIB, ["other"])]
    return made


@pytest.fixture
def panel(session):
    made = Panel(session, kind="auto")
    yield made
    made.close()


def modules(panel):
    return {type(widget).__module__.partition(".")[0] for widget in tree(panel.widget)}


def answer(panel):
    panel._bodies._probe._receive(None, {"type": "here"}, [])


def rescue(panel):
    (button,) = [b for b in tree(panel.widget) if getattr(b, "description", "") == RESCUE]
    return button


def test_it_has_core_widgets_only_until_a_page_answers(panel):
    assert {"ipywidgets"} == modules(panel)
    assert "none" == rescue(panel).layout.display
    probe = panel._bodies._probe
    answer(panel)
    assert {"ipywidgets", "nbmem"} == modules(panel)
    assert [11, 12] == panel._body.tensors.data.keys
    assert probe.comm is None
    answer_again = probe._receive
    answer_again(None, {"type": "here"}, [])  # another page of the same kernel
    assert [11, 12] == panel._body.tensors.data.keys


def test_what_was_asked_and_chosen_outlives_the_change(panel):
    panel._body._filter.value = "feats"
    panel._body._tensors.value = [11]
    answer(panel)
    assert [11] == panel._body.tensors.selected
    assert "feats" == panel._body.tensors.data.asked.filter
    rescue(panel).click()
    assert "feats" == panel._body._filter.value
    assert (11,) == panel._body._tensors.value
    assert "del feats (2.00 MiB)" == panel._acts._del.description


def test_who_chose_the_plain_panel_keeps_it(panel):
    receive = panel._bodies._probe._receive
    panel._bodies.show_plain()
    receive(None, {"type": "here"}, [])
    assert {"ipywidgets"} == modules(panel)


def test_a_closed_panel_asks_no_page(session):
    panel = Panel(session, kind="auto")
    probe = panel._bodies._probe
    panel.close()
    assert (None, None) == (probe.comm, probe.layout.comm)


def test_without_bokeh_the_answer_changes_nothing_and_says_what_is_missing(panel, monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh", None)
    for name in ("rich", "chart"):
        monkeypatch.delitem(sys.modules, f"nbmem.panel.{name}", raising=False)
    answer(panel)
    assert {"ipywidgets"} == modules(panel)
    assert "bokeh is missing, so this is the plain panel." in panel._acts.line.value


@pytest.mark.parametrize(
    ("url", "setting", "kind"),
    [
        (None, "auto", "plain"),
        ("https://somewhere/manager.js", "auto", "auto"),
        (None, "full", "full"),
        (None, "plain", "plain"),
    ],
)
def test_colab_is_plain_unless_the_user_enabled_other_widgets_there(
    monkeypatch, url, setting, kind
):
    assert setting == kind_for(setting)
    colab = types.ModuleType("google.colab.output")
    colab._widgets = types.SimpleNamespace(_installed_url=url)
    monkeypatch.setitem(sys.modules, "google.colab.output", colab)
    assert kind == kind_for(setting)


def test_the_setting_is_auto_and_takes_three_words():
    assert "auto" == NbMem().panel
    with pytest.raises(Exception, match="auto"):
        NbMem(panel="rich")
