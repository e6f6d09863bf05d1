"""What a page is answered by the kernel's side of the sidebar, whatever it sends."""

from __future__ import annotations

import contextvars
import gc
import json
import re
import subprocess
import sys
import weakref
from dataclasses import replace
from types import SimpleNamespace

import comm
import pytest
import torch
from comm.base_comm import BaseComm, CommManager
from panel_session import MIB, cell, leak, reading, storage

from nbmem import frontend
from nbmem._version import __version__
from nbmem.frontend.main_thread import MainThread
from nbmem.frontend.sidebar import copy_of
from nbmem.panel.snapshot import Snapshot
from nbmem.panel.static import copy_html
from nbmem.records import Inventory, LeakReport
from nbmem.session import current_session

OPENING = {"protocol": 1, "version": "0.1.0", "client": "page-1"}
KEEPS = "import torch\nkept = torch.zeros(25_000_000)"
"""100,000,000 bytes, 95.4 MiB: beside it the small tensors of other tests don't show."""


class Wire:
    """What every comm of the process sent, as JSON would carry it."""

    def __init__(self):
        self.sent = []
        wire = self

        class Recorded(BaseComm):
            def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
                told = json.loads(json.dumps(data, allow_nan=False)) if not buffers else {}
                wire.sent.append((msg_type, self.comm_id, told))

        self.make = Recorded


class Browser:
    """A page: opens a comm, sends, and hears its own comm and what is said to all."""

    def __init__(self, wire, manager, name="page-1"):
        self.wire, self.manager, self.name = wire, manager, name

    def open(self, data=OPENING, **more):
        content = {"comm_id": self.name, "target_name": "nbmem", "data": data}
        self.manager.comm_open(None, None, {"content": content, **more})

    def send(self, data, **more):
        content = {"comm_id": self.name, "data": data}
        self.manager.comm_msg(None, None, {"content": content, **more})

    def leave(self):
        self.manager.comm_close(None, None, {"content": {"comm_id": self.name}})

    @property
    def own(self):
        return [data for kind, to, data in self.wire.sent if (kind, to) == ("comm_msg", self.name)]

    @property
    def broadcasts(self):
        return [data for _kind, to, data in self.wire.sent if to == "nbmem-broadcast"]

    def told(self, kind):
        return [data for data in self.broadcasts if data["type"] == kind]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)


@pytest.fixture
def wire(monkeypatch):
    made = Wire()
    monkeypatch.setattr(comm, "create_comm", lambda **traits: made.make(**traits))
    return made


@pytest.fixture
def manager(shell, wire, monkeypatch):
    made = CommManager()
    monkeypatch.setattr(comm, "get_comm_manager", lambda: made)
    shell.kernel = SimpleNamespace(comm_manager=made)
    shell.run_line_magic("load_ext", "nbmem")
    yield made
    if "nbmem" in shell.extension_manager.loaded:
        shell.run_line_magic("unload_ext", "nbmem")
    del shell.kernel


@pytest.fixture
def page(wire, manager):
    return Browser(wire, manager)


@pytest.fixture
def panel(page):
    page.open()
    made = frontend._current._panel
    made._bodies._probe._receive(None, {"type": "here"}, [])  # as a page that loads anywidgets
    return made


def run(shell, code, **options):
    result = shell.run_cell(code, store_history=True, **options)
    assert result.success, result.error_in_exec


def test_a_page_that_comes_is_greeted_and_then_gets_the_panel_and_the_present(page):
    page.open()
    (hello,) = page.own
    assert ("hello", 1, __version__) == (hello["type"], hello["protocol"], hello["version"])
    assert (None, "The panel is being built.") == (hello["model_id"], hello["waits"])
    assert ([], None, None) == (hello["marks"], hello["state"], hello["live"])
    assert ["panel", "state"] == [told["type"] for told in page.broadcasts]
    (built,) = page.told("panel")
    assert frontend._current._panel.widget.model_id == built["model_id"]
    assert "" == built["trouble"]
    (state,) = page.told("state")
    assert ("cpu", "nothing is measured yet") == (state["device"], state["hint"])
    assert '<div class="nbmem-copy"' in state["copy"]


def test_a_page_that_comes_later_finds_the_panel_the_badges_and_the_present(page, shell, panel):
    run(shell, f"%%gpumem make\n{KEEPS}", cell_id="c1")
    other = Browser(page.wire, page.manager, "page-2")
    other.open()
    (hello,) = other.own
    assert (panel.widget.model_id, "") == (hello["model_id"], hello["waits"])
    (mark,) = hello["marks"]
    assert ("c1", "▲ 95.4 MiB", "+95.4 MiB") == (mark["cell_id"], mark["peak"], mark["stayed"])
    assert page.told("state")[-1] == hello["state"]
    assert 1 == len(page.told("panel"))


def test_a_measured_cell_is_told_by_its_badge_and_the_present(page, shell, panel):
    number = shell.execution_count
    run(shell, f"%%gpumem make\n{KEEPS}", cell_id="c1")
    (marks,) = page.told("marks")
    assert not marks["whole"]
    (mark,) = marks["marks"]
    assert ("c1", number, "▲ 95.4 MiB") == (mark["cell_id"], mark["number"], mark["peak"])
    place = {"cell_id": "c1", "number": number, "serial": mark["serial"]}
    state = page.told("state")[-1]
    assert place == state["costliest"]
    assert ("", "95.4 MiB in tensors") == (state["hint"], state["status"])
    assert "make" in state["copy"]


def test_for_a_page_without_widgets_none_are_built_and_the_present_is_told(
    page, shell, wire, manager
):
    page.open({**OPENING, "widgets": False})
    run(shell, f"%%gpumem make\n{KEEPS}", cell_id="c1")
    assert ["state", "state", "marks"] == [told["type"] for told in page.broadcasts]
    assert "kept" in page.told("state")[-1]["copy"]
    assert frontend._current._panel is None
    page.send({"type": "collect"})
    sentence = "This page draws no panel: `%gpumem` in a cell tells and does the same."
    assert [sentence] == [told["sentence"] for told in page.own if told["type"] == "trouble"]
    Browser(wire, manager, "page-2").open()
    (built,) = page.told("panel")
    assert built["model_id"] is not None


def test_a_page_without_widgets_can_have_everything_read_again(page, shell):
    page.open({**OPENING, "widgets": False})
    run(shell, KEEPS)
    before = len(page.told("state"))
    run(shell, "del kept", silent=True)
    page.send({"type": "refresh"})
    assert page.told("state")[0]["status"] == page.told("state")[-1]["status"]
    assert len(page.told("state")) > before


def test_what_a_user_deletes_is_told_at_once(page, shell, panel):
    run(shell, f"%%gpumem\n{KEEPS}")
    panel._body.tensors.selected = [current_session().history.last().created[0].key]
    assert "95.4 MiB in tensors" == page.told("state")[-1]["status"]
    panel._acts._del.click()
    assert page.told("state")[0]["status"] == page.told("state")[-1]["status"]


def test_the_present_is_not_told_twice(page, shell, panel):
    run(shell, f"%%gpumem\n{KEEPS}")
    panel.refresh()
    before = len(page.broadcasts)
    panel._draw()
    assert before == len(page.broadcasts)


def test_without_a_page_nothing_is_said_and_nothing_built(page, shell):
    page.wire.sent.clear()
    run(shell, f"%%gpumem\n{KEEPS}")
    assert [] == page.wire.sent
    assert frontend._current._panel is None


@pytest.mark.parametrize("protocol", [0, 2, 99, -1])
def test_a_page_of_another_protocol_learns_who_is_here_and_is_told_no_more(page, shell, protocol):
    page.open({**OPENING, "protocol": protocol})
    assert [{"type": "hello", "protocol": 1, "version": __version__}] == page.own
    run(shell, f"%%gpumem\n{KEEPS}")
    assert [] == page.broadcasts
    assert frontend._current._panel is None


def deep():
    nested = []
    for _ in range(200_000):
        nested = [nested]
    return {**OPENING, "more": nested}


def wide():
    return {**OPENING, "more": "x" * 5_000_000}


NO_FIELDS = "nbmem cannot read a message without named fields: reload the page."
NO_VERSION = "This page does not say which nbmem it has: reload the page."
NO_TYPE = "A message to nbmem does not say what it asks for: reload the page."
TOO_LARGE = "nbmem reads messages of at most 64 KiB: this one was larger."
NO_SERIAL = "nbmem finds a cell by its whole number only: reload the page."


@pytest.mark.parametrize(
    ("sentence", "data"),
    [
        (NO_FIELDS, None),
        (NO_FIELDS, [1, 2]),
        (NO_FIELDS, "open"),
        (NO_VERSION, {}),
        (NO_VERSION, {"protocol": "1"}),
        (NO_VERSION, {"protocol": True}),
        (NO_VERSION, {"protocol": float("nan")}),
        (TOO_LARGE, deep()),
        (TOO_LARGE, wide()),
    ],
)
def test_a_bad_opening_is_answered_by_a_sentence(page, capsys, caplog, sentence, data):
    page.open(data)
    assert [{"type": "trouble", "protocol": 1, "sentence": sentence}] == page.own
    assert "" == capsys.readouterr().err
    assert [] == caplog.records


@pytest.mark.parametrize(
    ("sentence", "data"),
    [
        (NO_FIELDS, None),
        (NO_FIELDS, 7),
        (NO_FIELDS, ["refresh"]),
        (NO_TYPE, {}),
        (NO_TYPE, {"type": 3}),
        (NO_TYPE, {"type": None}),
        (NO_SERIAL, {"type": "show_cell"}),
        (NO_SERIAL, {"type": "show_cell", "serial": "5"}),
        (NO_SERIAL, {"type": "show_cell", "serial": 5.0}),
        (NO_SERIAL, {"type": "show_cell", "serial": float("nan")}),
        (NO_SERIAL, {"type": "show_cell", "serial": True}),
        (NO_SERIAL, {"type": "show_cell", "serial": -1}),
        ("This cell's record is not in the history any more.", {"type": "show_cell", "serial": 9}),
        (TOO_LARGE, {"type": "refresh", "more": ["x"] * 100_000}),
        (TOO_LARGE, {**deep(), "type": "refresh"}),
        (TOO_LARGE, {**wide(), "type": "refresh"}),
        (
            "nbmem does not know the message 'dance': update the kernel's nbmem"
            " (`%pip install -U nbmem`) or reload the page.",
            {"type": "dance"},
        ),
        (
            f"nbmem does not know the message '{'d' * 40}…': update the kernel's nbmem"
            " (`%pip install -U nbmem`) or reload the page.",
            {"type": "d" * 5_000},
        ),
    ],
)
def test_a_bad_message_is_answered_by_a_sentence_and_nothing_is_lost(
    page, shell, panel, capsys, caplog, sentence, data
):
    page.send(data)
    assert [{"type": "trouble", "protocol": 1, "sentence": sentence}] == page.own[1:]
    assert "" == capsys.readouterr().err
    assert [] == caplog.records
    assert () == current_session().troubles.all()
    run(shell, f"%%gpumem -q\n{KEEPS}")
    assert "▲ 95.4 MiB" == page.told("marks")[-1]["marks"][0]["peak"]


def test_a_message_with_large_attachments_is_refused(page, panel):
    page.send({"type": "refresh"}, buffers=[memoryview(bytes(5_000_000))])
    assert TOO_LARGE == page.own[-1]["sentence"]


def test_an_error_while_doing_what_a_page_asked_is_a_sentence_to_that_page(
    page, panel, monkeypatch, capsys, caplog
):
    def fail():
        raise RuntimeError("no such luck")

    monkeypatch.setattr(panel, "refresh", fail)
    said = len(page.broadcasts)
    page.send({"type": "refresh"})
    assert (
        "nbmem could not do what the page asked for: RuntimeError: no such luck"
        " (`%gpumem errors` shows where)"
    ) == page.own[-1]["sentence"]
    assert said == len(page.broadcasts)
    assert "" == capsys.readouterr().err
    assert [] == caplog.records


def test_a_page_can_have_a_cell_shown(page, shell, panel):
    run(shell, f"%%gpumem one\n{KEEPS}")
    run(shell, "%%gpumem two\nx = 1")
    serial = current_session().history.records()[0].serial
    panel._history.turn()
    page.send({"type": "show_cell", "serial": serial})
    assert panel._history.is_open
    assert [serial] == panel._body.cells.selected
    assert serial == panel._body.chart.selected
    assert "peak 95.4 MiB" in panel._body.detail.value


def test_the_plain_panel_shows_a_cell_below_its_table(page, shell, panel):
    panel._bodies.show_plain()
    run(shell, f"%%gpumem one\n{KEEPS}")
    page.send({"type": "show_cell", "serial": current_session().history.last().serial})
    assert "peak 95.4 MiB" in panel._body._detail.value


def test_a_page_can_have_the_collector_run_and_the_panel_answers(page, shell, panel):
    run(shell, "import torch\nring = [torch.zeros(25_000_000)]\nring.append(ring)\ndel ring")
    page.send({"type": "collect"})
    assert "Freed 95.4 MiB" in panel._acts.line.value


def test_a_page_can_have_everything_read_again(page, shell, panel):
    shell.user_ns["behind"] = torch.zeros(25_000_000)
    page.send({"type": "refresh"})
    assert "95.4 MiB in tensors" == page.told("state")[-1]["status"]


def test_a_page_that_cannot_draw_the_panel_gets_another(page, shell, panel):
    run(shell, f"%%gpumem make\n{KEEPS}")
    page.send({"type": "rebuild"})
    made = frontend._current._panel
    assert panel.closed
    assert panel is not made
    assert made.widget.model_id == page.told("panel")[-1]["model_id"]
    assert "kept" in copy_html(made.snapshot)
    assert ["hello"] == [told["type"] for told in page.own]


def test_two_pages_that_cannot_draw_the_same_panel_get_one_other(page, shell, panel):
    waiting = []
    frontend._current._main.soon = waiting.append
    page.send({"type": "rebuild"})
    page.send({"type": "rebuild"})
    for call in waiting:
        call()
    assert 2 == len(page.told("panel"))
    assert not frontend._current._panel.closed


def test_another_panel_that_is_asked_for_in_mid_cell_comes_after_it(page, shell, panel):
    shell.user_ns["ask"] = lambda: page.send({"type": "rebuild"})
    run(shell, "%%gpumem ask for it\nask()")
    assert "The panel comes when cell [1] has ended." == page.own[-1]["sentence"]
    assert panel.closed
    assert not frontend._current._panel.closed
    assert frontend._current._panel.widget.model_id == page.told("panel")[-1]["model_id"]


def test_a_page_that_comes_while_a_cell_runs_hears_of_the_cell_and_gets_the_panel_after(
    page, shell
):
    number = shell.execution_count
    shell.user_ns["page"] = page
    run(shell, f"%%gpumem long one\n{KEEPS}\npage.open()\nsaid = list(page.broadcasts)")
    (hello,) = page.own
    assert f"The panel comes when cell [{number}] has ended." == hello["waits"]
    assert hello["model_id"] is None
    assert f"[{number}] long one" == hello["live"]["title"]
    expected = r"\d\.\d s · now 95\.4 MiB · peak 95\.4 MiB"
    assert re.fullmatch(expected, hello["live"]["text"])
    assert [] == shell.user_ns["said"]
    assert [frontend._current._panel.widget.model_id] == [
        told["model_id"] for told in page.told("panel")
    ]


def test_what_is_asked_before_there_is_a_panel_is_answered(page, shell):
    shell.user_ns["page"] = page
    number = shell.execution_count
    run(shell, "page.open()\npage.send({'type': 'collect'})")
    assert f"The panel comes when cell [{number}] has ended." == page.own[-1]["sentence"]


def test_what_is_asked_while_a_cell_runs_waits_for_its_end_and_says_so(page, shell, panel):
    shell.user_ns.update(page=page, panel=panel)
    number = shell.execution_count
    run(shell, "page.send({'type': 'collect'})\nsaid = panel._acts.line.value")
    assert f"gc.collect() waits for cell [{number}] to end." in shell.user_ns["said"]
    assert "gc.collect() freed nothing" in panel._acts.line.value


def test_a_panel_that_cannot_be_built_is_a_sentence_and_the_next_page_tries_again(
    page, shell, monkeypatch
):
    import nbmem.panel

    real = nbmem.panel.Panel

    def broken(*_args, **_kwargs):
        raise ImportError("no widgets here")

    monkeypatch.setattr(nbmem.panel, "Panel", broken)
    page.open()
    (told,) = page.told("panel")
    assert told["model_id"] is None
    assert "nbmem could not build the panel: ImportError: no widgets here" in told["trouble"]
    monkeypatch.setattr(nbmem.panel, "Panel", real)
    Browser(page.wire, page.manager, "page-2").open()
    assert page.told("panel")[-1]["model_id"] is not None


def test_a_comm_that_closed_hears_no_more_and_the_others_do(page, shell, panel):
    other = Browser(page.wire, page.manager, "page-2")
    other.open()
    page.leave()
    heard = len(page.own)
    other.send({"type": "dance"})
    run(shell, f"%%gpumem\n{KEEPS}")
    assert heard == len(page.own)
    assert "trouble" == other.own[-1]["type"]
    assert 1 == len(page.told("marks"))
    assert "page-1" not in page.manager.comms


def test_a_comm_that_closes_before_its_turn_came_is_no_error(page, shell, panel):
    """The page leaves while its wish waits for the main thread."""
    waiting = []
    sidebar = frontend._current
    sidebar._main.soon = waiting.append
    page.send({"type": "show_cell", "serial": 99})
    page.leave()
    heard = len(page.own)
    waiting[0]()
    assert heard == len(page.own)
    assert () == current_session().troubles.all()


def test_unloading_says_goodbye_last_and_leaves_nothing_behind(page, shell, panel):
    shell.run_line_magic("unload_ext", "nbmem")
    last = page.broadcasts[-1]
    assert ("bye", "nbmem was unloaded in this kernel.") == (last["type"], last["sentence"])
    assert panel.closed
    assert "nbmem" not in page.manager.targets
    heard = len(page.wire.sent)
    page.send({"type": "refresh"})
    page.leave()
    assert heard == len(page.wire.sent)


def test_no_page_is_sent_the_closing_of_a_comm_that_it_may_not_know(page, shell, panel):
    shell.run_line_magic("unload_ext", "nbmem")
    closed = {to for kind, to, _data in page.wire.sent if kind == "comm_close"}
    assert not closed & {"page-1", "nbmem-broadcast"}


def test_loaded_again_pages_are_served_again_with_what_was_measured(page, shell, panel):
    run(shell, f"%%gpumem\n{KEEPS}", cell_id="c1")
    old = panel.widget.model_id
    shell.run_line_magic("reload_ext", "nbmem")
    other = Browser(page.wire, page.manager, "page-2")
    other.open()
    (hello,) = other.own
    assert ["c1"] == [mark["cell_id"] for mark in hello["marks"]]
    assert page.told("panel")[-1]["model_id"] not in (None, old)


def test_widgets_that_the_user_closed_are_made_again(page, shell, panel):
    from ipywidgets import Widget

    old = panel.widget.model_id
    Widget.close_all()
    run(shell, f"%%gpumem -q\n{KEEPS}")
    assert page.told("panel")[-1]["model_id"] not in (None, old)


def test_the_copy_for_a_page_that_loses_its_kernel_leaves_out_what_is_too_large():
    leaks = tuple(leak(MIB, "é" * 300, "step" * 80) for _ in range(40))
    snapshot = Snapshot(
        "IEC",
        tuple(cell(n, 0, MIB, MIB, first_line="ß" * 300) for n in range(1, 30)),
        (reading(),),
        Inventory(tuple(storage(n, MIB, ["é" * 500 + str(n)]) for n in range(60)), 1.0),
        "cpu",
        leaks=LeakReport(leaks, 1.0, 0),
    )
    assert len(copy_html(snapshot).encode()) > 60_000
    copy = copy_of(snapshot)
    assert len(copy.encode()) <= 60_000
    assert "Where tensors are" in copy
    small = replace(snapshot, leaks=LeakReport(leaks[:1], 1.0, 0))
    assert copy_html(small, narrow=True) == copy_of(small)


def test_a_shell_without_comms_has_no_sidebar():
    code = (
        "import json, sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('%load_ext nbmem').raise_error()\n"
        "shell.run_cell('%%gpumem -q\\nx = 1').raise_error()\n"
        "shell.run_cell('%unload_ext nbmem').raise_error()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    loaded = set(json.loads(told.splitlines()[-1]))
    assert set() == {"comm", "ipykernel", "ipywidgets", "nbmem.frontend.sidebar"} & loaded


def test_what_the_users_context_holds_is_not_kept_alive():
    def load():
        contextvars.ContextVar("users").set(torch.zeros(25))
        (held,) = [v for v in contextvars.copy_context().values() if type(v) is torch.Tensor]
        return MainThread(), weakref.ref(held)

    main, held = contextvars.Context().run(load)
    gc.collect()
    assert held() is None
    assert 5 == main.here(lambda: 5)
