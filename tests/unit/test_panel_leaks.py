"""The Leaks section over a scripted session: what it says, what it shows first, what it frees."""

import pytest
from pages import Page
from panel_hands import (
    choose,
    error_leak,
    find,
    hidden,
    messages,
    output_leak,
    press,
    text,
    title,
    tree,
    unfold,
)
from panel_session import MIB, ScriptedSession, cell, leak, storage

from nbmem.panel import Panel
from nbmem.panel.leaks import LeakList
from nbmem.records import LeakReport, Note

GIB = 1024 * MIB


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


def test_leaks_are_looked_for_when_the_section_is_opened_and_not_before(panel, session):
    session.tell()
    assert ("Leaks", 0) == (title(panel), session.searches)
    unfold(panel)
    assert ("Leaks · 2 · 1.20 GiB", 1) == (title(panel), session.searches)
    session.leaks.pop()
    session.tell()
    assert ("Leaks · 1 · 1.14 GiB", 2) == (title(panel), session.searches)
    unfold(panel)
    session.tell()
    assert 2 == session.searches


def test_a_row_has_bytes_why_the_way_and_the_cell(session):
    session.leaks.append(leak(MIB, "losses[*]", kind="retained_graph", created_by=None))
    panel = Panel(session)
    unfold(panel)
    data = panel._body.leak_rows.data
    told = {column.label: column.text for column in data.columns}
    assert {
        "what holds it": [
            "traceback of cell [9] → train() → local 'acts'",
            "_",
            "losses[*]",
        ],
        "why": ["stale error", "stale output", "retained graph"],
        "cell": ["[9]", "[4]", ""],
        "GiB": ["1.14", "0.06", "<0.01"],
    } == told
    assert (
        "traceback of cell [9] → train() → local 'acts'\n"
        "1.14 GiB, stale error, 3 storages on cpu, made by [9]\n"
        "traceback of cell [9] keeps it.\n"
        "Frees it: drop(it)\n"
        "It costs %debug for the error of [9]."
    ) == data.tips[0]
    panel.close()


def test_core_widgets_list_the_same(session):
    panel = Panel(session, kind="plain")
    unfold(panel)
    assert [
        " 1.14 GiB    [9]  traceback of cell [9] → train() → local 'acts'",
        " 64.0 MiB    [4]  _",
    ] == [line for line, _key in panel._body._leak_rows.options]
    panel.close()


def test_where_leaks_are_on_two_devices_each_row_says_which(session):
    session.leaks.append(leak(MIB, "cache of load()", device="cuda:0"))
    panel = Panel(session)
    unfold(panel)
    (devices,) = [c.text for c in panel._body.leak_rows.data.columns if c.label == "device"]
    assert ["cpu", "cpu", "cuda:0"] == devices
    panel.close()


def test_a_chosen_row_tells_why_what_frees_it_and_what_that_costs(panel, session):
    session.leaks[0] = error_leak(
        reason="the traceback of [9] keeps the locals of train()",
        remedy="import sys\nsys.last_traceback = None",
        growth_per_run=GIB,
    )
    unfold(panel)
    assert "keeps the locals" not in text(panel)
    choose(panel, 0)
    assert "the traceback of [9] keeps the locals of train(). " in text(panel)
    assert "It costs %debug for the error of [9]." in text(panel)
    assert "each run adds 1.00 GiB" in text(panel)
    html = panel._page._detail.value
    assert "import sys\nsys.last_traceback = None</pre>" in html
    assert "user-select:text" in html
    choose(panel, 1)
    assert "It costs nothing." in text(panel)


def test_of_many_chosen_rows_three_are_told_the_one_chosen_last_first(session):
    session.leaks = [leak(MIB, f"x{n}", reason=f"reason {n}") for n in range(5)]
    panel = Panel(session)
    unfold(panel)
    choose(panel, 1, 0, 2, 4)
    told = [word for word in text(panel).split() if word in {"0.", "1.", "2.", "3.", "4."}]
    assert ["4.", "2.", "0."] == told
    assert "and 1 more chosen" in text(panel)
    panel.close()


def test_what_costs_something_is_freed_after_its_plan_was_confirmed(panel, session):
    session.comes_back = 1_224_065_679
    session._report = reported(session, 3_113_851_290)
    unfold(panel)
    choose(panel, 0)
    press(panel, "Free 1.14 GiB…")
    assert [("plan", ["traceback of cell [9] → train() → local 'acts'"])] == session.acts
    assert "To be freed free traceback of cell [9] → train() → local 'acts'" in text(panel)
    assert "1.14 GiB come back: 2.90 → 1.76 GiB, torch storages on cpu." in text(panel)
    assert "It costs %debug for the error of [9]" in text(panel)
    press(panel, "Free 1.14 GiB")
    assert ("reclaim", ["traceback of cell [9] → train() → local 'acts'"]) == session.acts[-1]
    expected = (
        "Freed 1.14 GiB (2.90 → 1.76 GiB, torch storages on cpu)."
        " %debug for the error of [9] is gone."
    )
    assert expected in text(panel)
    assert "To be freed" not in text(panel)
    assert "Leaks · 1 · 64.0 MiB" == title(panel)


def test_what_a_hook_gathered_can_go_with_the_hook(panel, session):
    hook = "hook 'save' on net"
    code = f'%gpumem reclaim "{hook}"'
    session.leaks.append(leak(MIB, "acts", on_request=True, sources=(hook,), instead=code))
    unfold(panel)
    choose(panel, 0)
    assert id(find(panel, "Remove the hook…")) in hidden(panel)
    choose(panel, 2)
    assert id(find(panel, "Remove the hook…")) not in hidden(panel)
    assert f"or, which removes the {hook} too: {code}" in text(panel)
    press(panel, "Remove the hook…")
    assert ("plan", [hook]) == session.acts[-1]
    press(panel, "Free 1.00 MiB")
    assert ("reclaim", [hook]) == session.acts[-1]
    assert "Leaks · 2 · 1.20 GiB" == title(panel)


def reported(session, before):
    """The scripted reports, with other bytes than 4 MiB before."""
    make = type(session)._report

    def report(planned, dropped, _before, after, promised, chosen):
        after = None if after is None else before - promised
        return make(session, planned, dropped, before, after, promised, chosen)

    return report


def test_another_choice_takes_the_last_answer_away(panel, session):
    unfold(panel)
    choose(panel, 1)
    press(panel, "Free 64.0 MiB")
    assert "Freed 64.0 MiB" in text(panel)
    choose(panel, 0)
    assert "Freed 64.0 MiB" not in text(panel)


def test_what_costs_nothing_is_freed_at_once(panel, session):
    unfold(panel)
    choose(panel, 1)
    press(panel, "Free 64.0 MiB")
    assert [("reclaim", ["_"])] == session.acts
    assert "Leaks · 1 · 1.14 GiB" == title(panel)


def test_keeping_frees_nothing(panel, session):
    unfold(panel)
    choose(panel, 0, 1)
    press(panel, "Free 2 (1.20 GiB)…")
    press(panel, "Free nothing")
    assert ["plan"] == [act for act, _targets in session.acts]
    assert "Nothing was freed." in text(panel)
    assert "To be freed" not in text(panel)


def test_all_that_costs_nothing_goes_with_one_press(panel, session):
    unfold(panel)
    assert (
        "Frees 1 leak, 64.0 MiB; nothing that you could use."
        == find(panel, "Free all that costs nothing").tooltip
    )
    press(panel, "Free all that costs nothing")
    assert [("reclaim", None)] == session.acts
    assert ["traceback of cell [9] → train() → local 'acts'"] == [
        each.path_text for each in session.leaks
    ]
    assert find(panel, "Free all that costs nothing").disabled


def test_all_shows_its_plan_and_leaves_what_must_be_chosen_or_can_not_be_freed(panel, session):
    session.leaks += [
        leak(2 * MIB, "hook 'save'", on_request=True, kind="forgotten_reference"),
        leak(MIB, "thread 'loader'", reclaimable=False, remedy=""),
    ]
    unfold(panel)
    press(panel, "Free all…")
    freed = ["traceback of cell [9] → train() → local 'acts'", "_"]
    assert [("plan", freed)] == session.acts
    press(panel, "Free 1.20 GiB")
    assert ("reclaim", freed) == session.acts[-1]


def test_what_nbmem_only_explains_says_so_and_has_no_button(panel, session):
    session.leaks = [leak(MIB, "thread 'loader'", reclaimable=False, remedy="loader.join()")]
    unfold(panel)
    choose(panel, 0)
    assert find(panel, "Free…").disabled
    assert find(panel, "Free all…").disabled
    assert "nbmem only explains this one: what holds it is in use." in text(panel)
    assert "loader.join()" in text(panel)
    assert "It costs" not in text(panel)
    assert "what holds it is in use" in find(panel, "Free…").tooltip.lower()


def test_what_goes_only_when_asked_for_by_name_says_so(panel, session):
    session.leaks = [leak(MIB, "hook 'save'", on_request=True)]
    unfold(panel)
    assert find(panel, "Free all…").disabled
    choose(panel, 0)
    assert "It goes only when chosen: “Free all…” leaves it." in text(panel)
    press(panel, "Free 1.00 MiB…")
    assert [("plan", ["hook 'save'"])] == session.acts


def test_a_leak_that_changed_since_is_refused_in_words(panel, session):
    session.refused = ("_ holds something else by now: nothing was freed",)
    unfold(panel)
    choose(panel, 1)
    session.leaks = [error_leak()]
    press(panel, "Free 64.0 MiB")
    assert "_ holds something else by now: nothing was freed." in text(panel)
    assert "Freed" not in text(panel)
    assert "Leaks · 1 · 1.14 GiB" == title(panel)


def test_a_plan_is_taken_back_when_its_leak_changes(panel, session):
    unfold(panel)
    choose(panel, 0)
    press(panel, "Free 1.14 GiB…")
    confirm = find(panel, "Free 1.14 GiB")
    session.leaks = [error_leak(), output_leak()]
    session.tell()
    assert "To be freed" in text(panel)
    session.leaks = [error_leak(count=4), output_leak()]
    session.tell()
    assert "To be freed" not in text(panel)
    assert "the plan was taken back: press the button again." in text(panel)
    confirm.click()
    assert ["plan"] == [act for act, _targets in session.acts]


def test_choosing_something_else_forgets_the_plan(panel, session):
    unfold(panel)
    choose(panel, 0)
    press(panel, "Free 1.14 GiB…")
    confirm = find(panel, "Free 1.14 GiB")
    choose(panel, 1)
    confirm.click()
    assert ["plan"] == [act for act, _targets in session.acts]


def test_less_than_promised_is_said_with_what_still_holds_it(panel, session):
    session.comes_back = 40 * MIB
    unfold(panel)
    choose(panel, 1)
    press(panel, "Free 64.0 MiB")
    assert "Freed 40.0 MiB" in text(panel)
    assert "The plan promised 64.0 MiB: 24.0 MiB less came back." in text(panel)


def test_where_nothing_leaks_it_says_what_was_looked_at(panel, session):
    session.leaks, session.below = [], 12 * 1024
    session.notes = (Note("leaks", "budget", "the search was cut short after 2 s"),)
    unfold(panel)
    assert "Leaks · none" == title(panel)
    assert (
        "No leak of 256 KiB or more: 2 storages of 3.00 MiB together, and all that holds them,"
        " were looked at. Smaller leaks come to 12.0 KiB. the search was cut short after 2 s."
    ) in text(panel)
    assert id(find(panel, "Free all…")) in hidden(panel)


def test_an_error_while_looking_is_one_line(panel, session):
    session.find_leaks = lambda: 1 / 0
    unfold(panel)
    assert "Looking for leaks did not work: ZeroDivisionError" in text(panel)


def test_a_row_stays_chosen_while_its_leak_grows():
    found = LeakList()
    found.follow(report(output_leak(), leak(MIB, "losses[*]"), leak(MIB, "losses[*]")))
    first, second, third = found.keys
    found.choose([second])
    found.follow(report(leak(9 * MIB, "losses[*]"), leak(MIB, "losses[*]"), output_leak()))
    assert [second, third, first] == found.keys
    assert [9 * MIB] == [each.bytes for each in found.chosen]
    found.follow(report(output_leak()))
    assert [] == found.chosen


def report(*leaks):
    return LeakReport(tuple(leaks), 1_000_000.0, 256 * 1024)


# What stays in the notebook, and what enters the page.


def test_a_button_takes_its_text_and_can_be_pressed_by_one_message(panel, monkeypatch):
    unfold(panel)
    sent = messages(find(panel, "Free…"), monkeypatch)
    choose(panel, 0)
    tip = "Shows what would be freed, and what that costs, before anything is."
    assert [{"description": "Free 1.14 GiB…", "tooltip": tip, "disabled": False}] == sent()
    choose(panel)
    tip = "Choose rows of the table of leaks first."
    assert [{"description": "Free…", "tooltip": tip, "disabled": True}] == sent()


def test_the_copy_in_the_notebook_has_the_leaks_of_an_open_section(panel, session):
    assert "Leaks" not in panel._repr_mimebundle_()["text/plain"]
    unfold(panel)
    bundle = panel._repr_mimebundle_()
    assert "Leaks · 2 · 1.20 GiB" in bundle["text/plain"]
    assert "64.0 MiB    [4]  _" in bundle["text/plain"]
    told = Page(bundle["text/html"]).text
    assert "Leaks · 2 · 1.20 GiB" in told
    assert "traceback of cell [9] → train() → local 'acts'" in told
    session.leaks = []
    session.tell()
    assert "No leak of 256 KiB or more" in panel._repr_mimebundle_()["text/plain"]
    unfold(panel)
    assert "Leaks" not in panel._repr_mimebundle_()["text/html"]


def test_hostile_texts_are_escaped(session):
    evil = "<img src=x onerror=alert(1)>\u202e\n</pre>"
    session.refused = (evil,)
    session.notes = (Note("leaks", "x", evil),)
    for kind in ("full", "plain"):
        session.leaks = [leak(MIB, evil, reason=evil, remedy=evil, cost=evil, device=evil)]
        panel = Panel(session, kind=kind)
        unfold(panel)
        choose(panel, 0)
        shown = [w.value for w in tree(panel.widget) if type(w).__name__ == "HTML"]
        press(panel, "Free 1.00 MiB…")
        shown += [w.value for w in tree(panel.widget) if type(w).__name__ == "HTML"]
        shown.append(panel._repr_mimebundle_()["text/html"])
        press(panel, "Free 1.00 MiB of it")
        shown += [w.value for w in tree(panel.widget) if type(w).__name__ == "HTML"]
        assert "<img" not in "".join(shown)
        assert "&lt;img" in "".join(shown)
        assert "\u202e" not in "".join(shown)
        panel.close()


def test_two_thousand_leaks_make_two_hundred_rows(session):
    session.leaks = [leak(MIB, f"x{n}") for n in range(2000)]
    panel = Panel(session)
    unfold(panel)
    data = panel._body.leak_rows.data
    assert 200 == len(data.keys)
    assert "1,800 more leaks, 1.76 GiB together" == data.unlisted
    assert "Leaks · 2,000 · 1.95 GiB" == title(panel)
    panel.close()
