"""When the panel acts and looks: after the cell that runs, and holders only when asked."""

import asyncio
import threading
import time

import pytest
from pages import Page
from panel_hands import choose, error_leak, find, output_leak, press, text, title, unfold
from panel_session import MIB, ScriptedSession, cell, storage

from nbmem.panel import Panel
from nbmem.panel.held import held_html
from nbmem.records import Chain, HeldStorage, PathStep


@pytest.fixture
def session():
    made = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    made.storages = [storage(11, 2 * MIB, ["feats"]), storage(12, MIB, ["model.0.weight"])]
    made.leaks = [error_leak(), output_leak()]
    return made


@pytest.fixture(params=["full", "plain"])
def panel(session, request):
    made = Panel(session, kind=request.param)
    yield made
    made.close()


def test_a_press_while_a_cell_runs_waits_for_its_end_and_says_so(panel, session):
    unfold(panel)
    choose(panel, 1)
    session.watcher.begin("cell [9]")
    press(panel, "Free 64.0 MiB")
    assert "Free 64.0 MiB waits for cell [9] to end." in text(panel)
    assert [] == session.acts
    assert find(panel, "Free all…").disabled
    session.end_cell()
    assert [("reclaim", ["_"])] == session.acts
    assert "Freed 64.0 MiB" in text(panel)
    assert not find(panel, "Free all…").disabled


def test_a_press_that_waits_can_be_called_off(panel, session):
    unfold(panel)
    session.watcher.begin("cell [9]")
    press(panel, "Free all that costs nothing")
    panel._page.turn.stop.click()
    session.end_cell()
    assert [] == session.acts
    assert "Free all that costs nothing was called off." in text(panel)


def test_a_confirmed_plan_waits_too(panel, session):
    unfold(panel)
    choose(panel, 0)
    press(panel, "Free 1.14 GiB…")
    session.watcher.begin("a cell")
    press(panel, "Free 1.14 GiB")
    assert "Free 1.14 GiB waits for a cell to end." in text(panel)
    session.end_cell()
    assert ["plan", "reclaim"] == [act for act, _targets in session.acts]


@pytest.mark.parametrize(
    ("label", "acted"), [("gc.collect()", ("collect",)), ("del feats (2.00 MiB)", ("drop", (11,)))]
)
def test_the_other_acts_wait_as_well(session, label, acted):
    panel = Panel(session)
    panel._body.tensors.selected = [11]
    session.watcher.begin("cell [3]")
    press(panel, label)
    assert f"{label} waits for cell [3] to end." in panel._acts.line.value
    assert [] == session.acts
    session.end_cell()
    assert acted == session.acts[-1]
    panel.close()


def test_nothing_is_looked_for_while_a_cell_runs(panel, session):
    session.watcher.begin("cell [9]")
    unfold(panel)
    panel.refresh()
    assert 0 == session.searches
    assert "Looking for leaks waits for cell [9] to end." in text(panel)
    session.end_cell()
    assert 1 <= session.searches
    assert "Leaks · 2 · 1.20 GiB" == title(panel)
    assert "waits" not in text(panel)


def test_while_a_cell_runs_the_sections_that_act_say_so_after_a_second(panel, session):
    session.watcher.begin("cell [9]")
    for section in (panel._alive, panel._leaks):
        said = '<span class="nbmem-later">cell [9] is running: acts wait for its end</span>'
        assert said in section._aside.value
    session.end_cell()
    assert "is running" not in panel._alive._aside.value + panel._leaks._aside.value


def test_that_a_cell_runs_is_taken_back_at_its_end_before_anything_is_drawn(session):
    async def run():
        panel = Panel(session)
        session.watcher.begin("cell [9]")
        assert "is running" in panel._leaks._aside.value
        session.end_cell()
        assert "is running" not in panel._leaks._aside.value
        panel.close()

    asyncio.run(run())


def test_a_press_in_another_thread_acts_in_the_main_one(session):
    acted = []
    collect = session.collect

    def on_which_thread():
        acted.append(threading.current_thread())
        return collect()

    session.collect = on_which_thread

    async def run():
        panel = Panel(session)
        await asyncio.to_thread(press, panel, "gc.collect()")
        async with asyncio.timeout(30):
            while not acted:
                await asyncio.sleep(0.01)
        panel.close()

    asyncio.run(run())
    assert [threading.main_thread()] == acted


def test_an_act_that_waited_comes_after_the_call_that_ends_the_cell(session):
    """IPython still holds the cell's error inside that call."""

    async def run():
        panel = Panel(session)
        session.watcher.begin("cell [9]")
        press(panel, "gc.collect()")
        session.end_cell()
        assert [] == session.acts
        async with asyncio.timeout(30):
            while not session.acts:
                await asyncio.sleep(0.01)
        panel.close()

    asyncio.run(run())
    assert [("collect",)] == session.acts


def test_looking_takes_at_most_a_tenth_of_the_time(session):
    spent = []
    look = session.find_leaks

    def slowly():
        started = time.perf_counter()
        while time.perf_counter() < started + 0.05:
            pass
        spent.append(time.perf_counter() - started)
        return look()

    session.find_leaks = slowly

    async def run():
        panel = Panel(session)
        started = time.perf_counter()
        unfold(panel)
        async with asyncio.timeout(60):
            while len(spent) < 3:
                session.tell()
                await asyncio.sleep(0.01)
        panel.close()
        return time.perf_counter() - started - spent[-1]

    took = asyncio.run(run())
    assert sum(spent[:-1]) <= 0.1 * took + 0.001


def test_a_closed_panel_does_nothing_more(session):
    panel = Panel(session)
    unfold(panel)
    session.watcher.begin("cell [9]")
    press(panel, "Free all that costs nothing")
    panel.close()
    session.end_cell()
    assert [] == session.acts
    assert ([], []) == (session.watcher.listeners, session.subscribers)


# What holds a chosen tensor.


def chain(*steps, **more):
    facts = {"holder": "variable", "wanted": True, "cut": steps[0]}
    return Chain(tuple(PathStep("step", text) for text in steps), **{**facts, **more})


def test_what_holds_a_chosen_tensor_is_found_when_asked(session):
    session.held = [
        HeldStorage(
            11,
            2 * MIB,
            (
                chain("feats"),
                chain("Out[4]", "[0]", wanted=False, cost="Out[4]", remedy="Out.pop(4)"),
            ),
            more=2,
            wanted=True,
        )
    ]
    panel = Panel(session)
    assert find(panel, "held by").disabled
    panel._body.tensors.selected = [11]
    assert [] == session.acts
    press(panel, "held by")
    assert [("holders", (11,))] == session.acts
    assert (
        "feats · 2.00 MiB held by feats a value that you can name needs it Out[4][0] goes with"
        " Out[4], which costs Out[4] Out.pop(4) and 2 more ways."
    ) == Page(panel._held.text.value).text
    session.tell()
    assert "As it was before the last cell or act" in panel._held.text.value
    panel._body.tensors.selected = [12]
    assert "" == panel._held.text.value
    panel.close()


def test_two_holders_that_nobody_needs_must_both_go():
    ways = (chain("Out[4]", wanted=False), chain("traceback of cell [9]", wanted=False))
    found = LeakHolders(HeldStorage(11, MIB, ways))
    told = Page(held_html(found, [storage(11, MIB, ["x"])], "IEC")).text
    assert "cutting one of them frees nothing, cutting both frees 1.00 MiB." in told


def test_a_tensor_that_nothing_can_be_found_for_says_so():
    told = Page(held_html(LeakHolders(), [storage(11, MIB, ["x"])], "IEC")).text
    assert "x · 1.00 MiB held by Nothing that can be followed holds it" in told


class LeakHolders:
    def __init__(self, *held):
        self.held, self.notes = held, ()


def test_leaks_that_an_act_left_are_drawn_by_themselves(session):
    async def run():
        panel = Panel(session)
        unfold(panel)
        assert "Leaks · 2" in title(panel)
        session.leaks = []
        session.tell()
        async with asyncio.timeout(60):
            while "Leaks · 2" in title(panel):
                await asyncio.sleep(0.01)
        panel.close()

    asyncio.run(run())


def test_what_a_subshell_asks_for_is_drawn_on_the_main_thread(session):
    threads = []
    look = session.take_inventory
    session.take_inventory = lambda: threads.append(threading.current_thread()) or look()

    async def run():
        panel = Panel(session)
        threads.clear()
        beside = threading.Thread(target=panel._view_made)
        beside.start()
        async with asyncio.timeout(60):
            while not threads:
                await asyncio.sleep(0.01)
        beside.join()
        panel.close()

    asyncio.run(run())
    assert {threading.main_thread()} == set(threads)
