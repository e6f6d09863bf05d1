"""The panel over a scripted session: what it says, what it asks for, what it leaves."""

import asyncio
import sys
import weakref

import pytest
import torch
from panel_hands import messages
from panel_session import MIB, ScriptedSession, cell, reading, storage

from nbmem.panel import Panel
from nbmem.records import Note, ReclaimReport

GIB = 1024 * MIB


@pytest.fixture
def session():
    made = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    made.storages = [storage(11, 2 * MIB, ["feats"]), storage(12, MIB, ["model.0.weight"])]
    return made


@pytest.fixture
def panel(session):
    made = Panel(session)
    yield made
    made.close()


def press(panel, text):
    (button,) = [b for b in buttons(panel) if b.description == text]
    assert not button.disabled
    button.click()


def buttons(panel):
    return [w for w in tree(panel.widget) if type(w).__name__ == "Button"]


def tree(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from tree(child)


def dropdown(panel, tip):
    kinds = [w for w in tree(panel.widget) if type(w).__name__ == "Dropdown"]
    (found,) = [w for w in kinds if w.tooltip == tip]
    return found


def texts(panel):
    return " ".join(w.value for w in tree(panel.widget) if type(w).__name__ == "HTML")


def named(panel, text):
    return [b for b in buttons(panel) if b.description == text]


def test_a_new_record_is_drawn_by_itself(panel, session):
    session.list.append(cell(2, 0, MIB, MIB))
    session.tell()
    assert ["[1]", "[2]"] == panel._body.chart.data.labels
    assert [2, 1] == panel._body.cells.data.keys


def test_blocks_are_not_counted_as_cells(panel, session):
    assert "1 cell on cpu" in texts(panel)
    session.list += [cell(2, 0, MIB, MIB), cell(3, 0, MIB, MIB, parent=2)]
    session.tell()
    assert "2 cells and 1 block on cpu" in texts(panel)


def test_one_plain_variable_goes_at_once(panel, session):
    panel._body.tensors.selected = [11]
    press(panel, "del feats (2.00 MiB)")
    assert [("plan", (11,)), ("drop", (11,))] == session.acts
    assert "Freed 2.00 MiB (3.00 → 1.00 MiB, torch storages on cpu)." in texts(panel)
    assert [12] == panel._body.tensors.data.keys
    assert [] == panel._body.tensors.selected
    assert named(panel, "del")[0].disabled


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["feats", "_"], "a displayed value has more holders"),
        (["Out[4]"], "an output costs its number"),
        (["model.weight"], "an attribute is part of something"),
        (["batches[3]"], "an item is part of something"),
        ([], "nothing of the user's names it"),
    ],
)
def test_anything_but_a_plain_variable_shows_its_plan_first(session, names, why):
    session.storages = [storage(11, 2 * MIB, names)]
    panel = Panel(session)
    panel._body.tensors.selected = [11]
    press(panel, "del 1 (2.00 MiB)…")
    assert [("plan", (11,))] == session.acts, why
    assert "<li>del x11</li>" in texts(panel)
    press(panel, "del 1 (2.00 MiB)")
    assert ("drop", (11,)) == session.acts[-1]
    panel.close()


def test_keeping_drops_nothing(panel, session):
    panel._body.tensors.selected = [11, 12]
    press(panel, "del 2 (3.00 MiB)…")
    press(panel, "Keep all")
    assert [("plan", (11, 12))] == session.acts
    assert "Nothing was dropped." in texts(panel)


def test_choosing_something_else_forgets_the_plan(panel, session):
    panel._body.tensors.selected = [11, 12]
    press(panel, "del 2 (3.00 MiB)…")
    confirm = named(panel, "del 2 (3.00 MiB)")[0]
    panel._body.tensors.selected = [12]
    confirm.click()
    assert [("plan", (11, 12))] == session.acts


def test_what_is_refused_stands_beside_what_is_planned(panel, session):
    session.refused = ("model.0.weight is an attribute: `model.0 = None` drops it",)
    panel._body.tensors.selected = [11]
    press(panel, "del feats (2.00 MiB)")
    assert [("plan", (11,))] == session.acts
    assert "<b>Stays</b>" in texts(panel)
    press(panel, "Drop only these")
    assert "model.0.weight is an attribute" in texts(panel)


def test_del_and_held_by_take_their_texts_and_can_be_pressed_by_one_message_each(
    panel, monkeypatch
):
    (delete,), (held,) = named(panel, "del"), named(panel, "held by")
    deletes, helds = messages(delete, monkeypatch), messages(held, monkeypatch)
    panel._body.tensors.selected = [11]
    tip = "Deletes the variable; the bytes that came back are shown."
    assert [{"description": "del feats (2.00 MiB)", "tooltip": tip, "disabled": False}] == deletes()
    tip = "Finds every way that holds the chosen tensors."
    assert [{"tooltip": tip, "disabled": False}] == helds()


def test_what_is_gone_already_is_said_by_its_name(panel, session, monkeypatch):
    plan = ReclaimReport("del", (), (), ("storage 11 is gone already",), None, None, "bytes")
    monkeypatch.setattr(session, "plan_drop", lambda _keys: plan)
    panel._body.tensors.selected = [11]
    del session.storages[0]
    press(panel, "del feats (2.00 MiB)")
    assert "feats is gone already: nothing was dropped." in texts(panel)
    assert "none" == panel._acts._plan.widget.layout.display
    assert [12] == panel._body.tensors.data.keys


def test_a_plan_that_drops_nothing_has_nothing_to_keep(panel, session, monkeypatch):
    plan = ReclaimReport("del", (), (), ("model.0.weight is part of model",), None, None, "bytes")
    monkeypatch.setattr(session, "plan_drop", lambda _keys: plan)
    panel._body.tensors.selected = [12]
    press(panel, "del 1 (1.00 MiB)…")
    assert "none" == named(panel, "Drop only these")[0].layout.display
    assert not named(panel, "Keep all")
    press(panel, "Close")
    assert "model.0.weight is part of model" in panel._acts._plan.text.value
    assert "none" == panel._acts._plan.widget.layout.display
    assert "Nothing was dropped." not in texts(panel)


def test_an_error_inside_an_act_is_one_line_of_text(panel, session):
    session.readings = [reading("cuda:0", "accelerator", GIB, reserved=2 * GIB)]
    session.tell()
    press(panel, "empty cache")
    assert (
        "empty cache did not work: RuntimeError: the driver said &lt;b&gt;no&lt;/b&gt;."
        in texts(panel)
    )
    assert not named(panel, "gc.collect()")[0].disabled


def test_an_error_while_reading_is_one_line_and_the_next_reading_works(panel, session):
    session.read_devices = lambda **_: 1 / 0
    session.tell()
    assert "Drawing the panel did not work: ZeroDivisionError" in texts(panel)
    del session.read_devices
    session.list.append(cell(2, 0, MIB, MIB))
    press(panel, "⟳")
    assert [2, 1] == panel._body.cells.data.keys
    assert "did not work" not in texts(panel)


def test_an_act_that_frees_nothing_says_so(panel):
    press(panel, "gc.collect()")
    assert "gc.collect() freed nothing (1.00 MiB, torch storages on cpu)." in texts(panel)


def test_empty_cache_is_off_with_a_reason_where_nothing_is_cached(panel):
    (button,) = named(panel, "empty cache")
    assert button.disabled
    expected = "Only the allocator of an accelerator keeps a cache, and there is none here."
    assert expected == button.tooltip


def test_closing_ends_the_subscription_and_every_comm(session):
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    panel = Panel(session)
    other = Panel(session)
    assert set(_instances) > before
    panel.close()
    panel.close()
    assert 1 == len(session.subscribers)
    other.close()
    assert [] == session.subscribers
    assert set(_instances) == before
    session.tell()


def test_two_panels_show_the_same(session):
    first, second = Panel(session), Panel(session)
    first._body.tensors.selected = [11]
    press(first, "del feats (2.00 MiB)")
    assert [12] == second._body.tensors.data.keys
    first.close()
    session.list.append(cell(2, 0, MIB, MIB))
    session.tell()
    assert [2, 1] == second._body.cells.data.keys
    second.close()


def test_the_panel_of_an_unloaded_session_closes_with_a_sentence(session):
    panel = Panel(session)
    session.closed = True
    session.tell()
    bundle = panel._repr_mimebundle_()
    assert panel.closed
    assert "application/vnd.jupyter.widget-view+json" not in bundle
    assert "`%load_ext nbmem` and `%gpumem panel` bring the panel back." in bundle["text/plain"]


def test_the_bundle_holds_a_copy_that_needs_no_kernel(panel):
    bundle = panel._repr_mimebundle_()
    model = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert panel.widget.model_id == model
    line = "[1] x1 = make() · ok · 250 ms · peak 4.00 MiB · 0 B → 3.00 MiB · +3.00 MiB stayed"
    assert line in bundle["text/plain"]
    assert "feats" in bundle["text/plain"]
    assert "<script" not in bundle["text/html"]
    assert "<style" not in bundle["text/html"]


def test_the_copy_in_the_notebook_follows_and_the_end_takes_the_place_of_the_widgets(
    session, shell
):
    panel = Panel(session)
    panel.show()
    view, copy = shell.shown
    assert "application/vnd.jupyter.widget-view+json" in view["data"]
    assert "application/vnd.jupyter.widget-view+json" not in copy["data"]
    assert "[1] x1 = make()" in copy["data"]["text/plain"]
    session.list.append(cell(2, 0, MIB, MIB))
    session.tell()
    session.tell()
    assert 3 == len(shell.shown)
    assert copy["transient"] == shell.shown[2]["transient"]
    assert shell.shown[2]["update"]
    assert "[2] x2 = make()" in shell.shown[2]["data"]["text/plain"]
    assert "x2 = make()" in shell.shown[2]["data"]["text/html"]
    panel.close()
    last = shell.shown[-1]
    assert view["transient"] == last["transient"]
    expected = "This panel was closed. `%gpumem panel` shows a new one."
    assert expected == last["data"]["text/plain"]


def test_hostile_texts_are_escaped_wherever_they_enter_html(session):
    evil = "<img src=x onerror=alert(1)>"
    session.list.append(cell(2, 0, 1, 1, label=evil, status="error", error=evil))
    session.storages = [storage(11, MIB, [evil])]
    session.readings = [
        reading("cuda:0", "accelerator", 1, name=evil, notes=(Note("peak", "x", evil),)),
        reading("cuda:1", "accelerator", None, name=evil, notes=(Note("peak", "x", evil),)),
    ]
    session.refused = (evil,)
    for kind in ("full", "plain"):
        panel = Panel(session, kind=kind)
        panel._acts.update(panel._snapshot, [11])
        panel._acts._press_del()
        panel._acts.say(evil)
        html = texts(panel) + panel._repr_mimebundle_()["text/html"]
        assert "<img" not in html
        assert "&lt;img" in html
        panel.close()


def test_core_widgets_alone_show_the_same_and_act(session):
    panel = Panel(session, kind="plain")
    kinds = {type(widget).__module__.partition(".")[0] for widget in tree(panel.widget)}
    assert {"ipywidgets"} == kinds
    assert "x1 = make()" in texts(panel)
    panel._body._tensors.value = [11]
    press(panel, "del feats (2.00 MiB)")
    assert ("drop", (11,)) == session.acts[-1]
    assert [12] == [key for _text, key in panel._body._tensors.options]
    panel.close()


def test_without_anywidget_the_plain_panel_comes_with_a_sentence(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    for name in ("rich", "chart", "table"):
        monkeypatch.delitem(sys.modules, f"nbmem.panel.{name}", raising=False)
    panel = Panel(session)
    assert "anywidget is missing, so this is the plain panel." in texts(panel)
    panel.close()


def test_a_page_that_shows_nothing_can_ask_for_the_plain_panel(panel):
    press(panel, "Chart or tables missing? Show the plain panel")
    kinds = {type(widget).__module__.partition(".")[0] for widget in tree(panel.widget)}
    assert {"ipywidgets"} == kinds
    assert "x1 = make()" in texts(panel)


def test_the_first_view_gets_the_rows_and_hides_the_way_out(panel):
    sent = []
    panel._body.tensors.send = lambda content, buffers=None: sent.append((content, buffers))
    panel._body.tensors._receive(None, {"type": "hello"}, [])
    assert b'"keys":[11,12]' in sent[0][1][0]
    (rescue,) = [b for b in buttons(panel) if b.description.startswith("Chart or tables")]
    assert "none" == rescue.layout.display


def test_bokehjs_goes_as_a_message_and_never_into_the_state(panel):
    sent = []
    chart = panel._body.chart
    chart.send = lambda content, buffers=None: sent.append((content, buffers))
    chart._receive(None, {"type": "need-bokehjs"}, [])
    ((content, (script,)),) = sent
    assert {"type": "bokehjs"} == content
    assert 500_000 < len(script)
    assert 100_000 > sum(len(str(value)) for value in chart.get_state().values())


def test_what_did_not_change_is_not_sent_again(panel, session):
    sent = []
    for part in (panel._body.chart, panel._body.cells, panel._body.tensors):
        part.send = lambda *args, **kw: sent.append(args)
    session.tell()
    session.tell()
    assert [] == sent


def test_many_records_in_a_moment_are_drawn_and_listed_once(session):
    async def run():
        panel = Panel(session)
        scans = session.scans
        drawings = []
        panel._body.chart.send = lambda *message: drawings.append(message)
        for n in range(2, 52):
            session.list.append(cell(n, 0, MIB, MIB))
            session.tell()
        assert [] == drawings
        await wait_until(lambda: drawings and session.scans > scans)
        assert 51 == len(panel._body.chart.data.labels)
        assert 2 >= len(drawings)
        assert 1 == session.scans - scans
        panel.close()

    asyncio.run(run())


async def wait_until(true):
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


def test_a_closed_panel_leaves_no_timer(session):
    async def run():
        panel = Panel(session)
        session.tell()
        panel.close()
        loop = asyncio.get_running_loop()
        assert all(timer.cancelled() for timer in loop._scheduled)

    asyncio.run(run())


def test_a_hundred_thousand_storages_send_five_hundred_and_the_filter_finds_the_rest(session):
    session.storages = [storage(n, 8 * (100_001 - n), [f"t{n}"]) for n in range(1, 100_001)]
    panel = Panel(session)
    tensors = panel._body.tensors
    assert 500 == len(tensors.data.keys)
    assert tensors.data.unlisted.startswith("99,500 more, ")
    tensors._receive(None, {"type": "ask", "filter": "T99999"}, [])
    assert [99_999] == tensors.data.keys
    tensors.selected = [99_999]
    tensors._receive(None, {"type": "ask", "filter": ""}, [])
    assert [99_999] == tensors.selected
    assert named(panel, "del t99999 (16 B)")
    panel.close()


def test_a_chosen_row_and_its_bar_go_together(panel, session):
    panel._body.cells.selected = [1]
    assert 1 == panel._body.chart.selected
    assert "[1] x1 = make() · ok" in texts(panel)
    panel._body.chart.selected = None
    assert [] == panel._body.cells.selected


def test_another_device_can_be_chosen(session):
    session.readings = [
        reading("cuda:0", "accelerator", GIB, capacity=8 * GIB),
        reading("cuda:1", "accelerator", 0, capacity=8 * GIB),
    ]
    session.list = [cell(1, 0, GIB, GIB, device="cuda:0"), cell(2, 0, MIB, MIB, device="cuda:1")]
    panel = Panel(session)
    choice = dropdown(panel, "Device")
    assert ("cuda:0", "cuda:1") == choice.options
    assert ["[1]"] == panel._body.chart.data.labels
    choice.value = "cuda:1"
    assert ["[2]"] == panel._body.chart.data.labels
    panel.close()


def test_the_panel_keeps_no_tensor_and_no_error(session):
    alive = []

    def fail():
        tensor = torch.ones(10)
        alive.append(weakref.ref(tensor))
        raise ValueError(tensor.shape)

    session.take_inventory = fail
    panel = Panel(session)
    assert "Listing what is alive did not work: ValueError" in texts(panel)
    assert [None] == [ref() for ref in alive]
    panel.close()


def test_where_no_widgets_show_text_and_html_name_the_commands_that_do_the_same(shell, session):
    panel = Panel(session)
    panel.show()
    (view,) = [
        told["data"] for told in shell.shown if any("widget-view" in key for key in told["data"])
    ]
    for command in ("history", "tensors", "ledger", "leaks", "reclaim"):
        assert f"`%gpumem {command}`" in view["text/plain"]
        assert f"`%gpumem {command}`" in view["text/html"]
    panel.close()
