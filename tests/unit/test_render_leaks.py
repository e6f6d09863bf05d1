"""Leaks, holders and acts as people see them: sorted, with reason, remedy and cost in words."""

import re
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest
from leak_samples import (
    DONE,
    EVIL,
    FEATS,
    GIB,
    HOSTILE,
    KIB,
    LEAKS,
    LOSSES,
    MIB,
    MODEL,
    NAMES,
    ONE,
    PLAN,
    SHOWN,
    THREAD,
    TRACEBACK,
    chain,
    leak,
    report,
)
from pages import Page
from samples import cell, delta, storage

from nbmem.records import LEAK_HOLDERS, LEAK_KINDS, HeldStorage, Holders, Note, ReclaimReport
from nbmem.render import (
    cell_report_text,
    holders_bundle,
    holders_text,
    leaks_bundle,
    leaks_html,
    leaks_text,
    reclaim_bundle,
    reclaim_text,
)
from nbmem.render.names import width_of

DATA = Path(__file__).parents[1] / "data"
LEFT = report(SHOWN, TRACEBACK, THREAD)
TEXTS = {
    "leaks": lambda width: leaks_text(LEAKS, width=width),
    "leaks_few": lambda width: leaks_text(LEAKS, rows=2, width=width),
    "leaks_by_kind": lambda width: leaks_text(LEAKS, by="kind", width=width),
    "leaks_none": lambda width: leaks_text(report(below=12 * KIB), width=width),
    "leaks_hostile": lambda width: leaks_text(HOSTILE, width=width),
    "reclaim_plan": lambda width: reclaim_text(PLAN, plan=True, width=width),
    "reclaim_done": lambda width: reclaim_text(DONE, left=LEFT, width=width),
}
BUNDLES = {
    "leaks": lambda: leaks_bundle(LEAKS),
    "leaks_by_kind": lambda: leaks_bundle(LEAKS, by="kind"),
    "none": lambda: leaks_bundle(report()),
    "hostile": lambda: leaks_bundle(HOSTILE),
    "holders": lambda: holders_bundle(ONE, "feats", NAMES),
    "holders_of_model": lambda: holders_bundle(MODEL, "model", NAMES),
    "plan": lambda: reclaim_bundle(PLAN, plan=True),
    "done": lambda: reclaim_bundle(DONE, left=LEFT),
}


def golden(name):
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.parametrize("name", TEXTS)
def test_it_reads_as_its_golden_text(name):
    assert golden(name) == TEXTS[name](78)


@pytest.mark.parametrize("name", ["leaks", "reclaim_done"])
def test_it_reads_as_its_golden_text_in_40_columns(name):
    assert golden(f"{name}_40") == TEXTS[name](40)


@pytest.mark.parametrize("width", [40, 55, 63, 64, 78, 100, 120])
@pytest.mark.parametrize("name", TEXTS)
def test_no_line_is_wider_than_the_terminal_but_code_to_be_pasted(name, width):
    wide = [line for line in TEXTS[name](width).splitlines() if width_of(line) > width]
    assert [] == [line for line in wide if not line.startswith(("   free   ", "   or     "))]


# Leaks.


def test_no_leak_says_what_was_looked_at():
    sentence = "No leaks of 256 KiB or more: every storage is needed by a value you can name."
    assert sentence == leaks_text(report())
    assert "No leaks: every storage is needed by a value you can name." == leaks_text(
        report(threshold=0)
    )
    assert "No leaks of 256 KiB or more on cuda:1: every storage there is needed" in leaks_text(
        LEAKS, device="cuda:1"
    )


def test_no_leak_after_a_search_that_was_cut_short_claims_less():
    cut = report(notes=(Note("leaks", "budget", "The search was cut short after 2 s."),))
    expected = "No leaks of 256 KiB or more were found.\nThe search was cut short after 2 s."
    assert expected == leaks_text(cut)


def test_each_leak_says_why_where_which_cell_what_frees_it_and_what_that_costs():
    lines = leaks_text(report(TRACEBACK)).splitlines()
    assert [
        "1 leak · 1.14 GiB in 3 storages beyond what your values need",
        "       size  why          where                  cell",
        "1  1.14 GiB  stale error  traceback of cell [9]   [9]",
        "   traceback of cell [9] → train() → local 'acts'",
        "   The error of [9] keeps what train() was working on.",
        '   free   %gpumem reclaim "traceback of cell [9]"',
        "   costs  %debug for the error of [9]",
    ] == lines[:7]


def test_two_holders_of_one_leak_are_counted_beside_the_first():
    both = replace(SHOWN, cuts=("Out[4]", "losses[*]"), path=())
    assert "Out[4] and 1 more" in leaks_text(report(both))


def test_the_last_lines_say_which_command_takes_what():
    advice = leaks_text(LEAKS).splitlines()[-4:]
    assert [
        "%gpumem reclaim frees 96.0 MiB at no cost.",
        "%gpumem reclaim 1 takes one that costs something; %gpumem reclaim --all takes",
        "1.30 GiB.",
        "Only when asked for by number: %gpumem reclaim 4.",
    ] == advice
    assert "--all" not in leaks_text(report(LOSSES))
    assert "at no cost" not in leaks_text(report(SHOWN))
    assert "%gpumem reclaim leaves it alone." == leaks_text(report(THREAD)).splitlines()[-1].strip()


def test_a_leak_keeps_its_number_whatever_is_left_out():
    other = replace(SHOWN, device="cuda:0")
    told = leaks_text(report(TRACEBACK, other, LOSSES), device="cuda:0")
    assert "1 leak on cuda:0 · 64.0 MiB in 1 storage" in told
    assert ["2", "64.0", "MiB", "stale", "output", "Out[4]", "[4]"] == told.splitlines()[2].split()
    assert "%gpumem reclaim 2 takes" in told


def test_the_device_is_a_column_where_leaks_are_on_two():
    assert "device" not in leaks_text(LEAKS)
    assert "cuda:0" in leaks_text(report(TRACEBACK, replace(SHOWN, device="cuda:0")))


def test_leaks_that_are_not_shown_are_summed():
    assert "3 smaller leaks of 74.0 MiB in all are not shown." in leaks_text(LEAKS, rows=2)


@pytest.mark.parametrize("by", ["kind", "holder", "cell", "device"])
def test_groups_of_leaks_add_up_to_the_title(by):
    lines = leaks_text(LEAKS, by=by).splitlines()
    assert "5 leaks · 1.31 GiB in 48 storages beyond what your values need" == lines[0]
    counts = [int(re.split(r"\s{2,}", line)[-1]) for line in lines[3:-1]]
    assert 5 == sum(counts)


def test_leaks_are_not_grouped_by_anything():
    with pytest.raises(ValueError, match="grouped by kind, holder, cell, device, not by 'colour'"):
        leaks_text(LEAKS, by="colour")


def test_every_kind_and_holder_is_told_in_words():
    for kind in LEAK_KINDS:
        assert kind.replace("_", " ") in leaks_text(report(leak(GIB, kind, "unknown")))
    for holder in LEAK_HOLDERS:
        assert holder.replace("_", " ") in leaks_text(report(leak(GIB, "unreachable", holder)))


def test_growth_is_told_once():
    assert "grows  12.0 MiB with each run of the cell" in leaks_text(report(LOSSES))
    assert "grows" not in leaks_text(report(replace(LOSSES, kind="growing")))


def test_a_remedy_of_several_lines_can_be_taken_as_it_stands():
    code = "\n".join(f"value_{n} = [x.detach() for x in value_{n}]" for n in range(8))
    told = leaks_text(report(replace(SHOWN, remedy=code)), width=40)
    assert "   free by all of these lines:\n" + indent(code, "   ") + "\n   costs" in told
    html = leaks_html(report(replace(SHOWN, remedy=code.replace("x.d", " x.d"))))
    assert html.count("white-space:pre-wrap") == 8
    assert "[ x.detach() for x in value_7]" in html


def test_code_to_be_pasted_is_never_broken():
    code = "%gpumem reclaim \"hook 'save' on model.encoder.layers.11 → list 'activations'\""
    assert f"   free   {code}\n" in leaks_text(report(replace(SHOWN, remedy=code)), width=40)


def test_a_leak_that_goes_with_another_one_is_told():
    both = '%gpumem reclaim "losses[*]"'
    other = replace(SHOWN, cuts=("Out[4]", "losses[*]"), storages=(9,), remedy=both)
    told = leaks_text(report(SHOWN, other))
    assert "What frees 2 frees 1 as well." in told
    assert "What frees 1 frees" not in told
    assert "as well" not in leaks_text(report(SHOWN, LOSSES))
    same = leaks_text(report(SHOWN, replace(other, remedy=SHOWN.remedy)))
    assert "What frees 1 frees 2 as well." in same


def test_the_two_ways_to_be_rid_of_what_a_hook_gathered_are_told_below_each_other():
    told = leaks_text(LEAKS)
    assert (
        "   free   %gpumem reclaim \"closure of hook 'save' on model.layer3\"\n"
        "   or     %gpumem reclaim \"hook 'save' on model.layer3\"\n"
        "   The second line removes the hook 'save' on model.layer3 too.\n"
    ) in told


def test_si_units_reach_every_size():
    for text in (
        leaks_text(LEAKS, units="SI"),
        holders_text(MODEL, "model", NAMES, units="SI"),
        reclaim_text(replace(PLAN, planned=("x",)), plan=True, units="SI"),
        reclaim_text(replace(DONE, still_held=()), left=LEFT, units="SI"),
    ):
        assert "iB" not in text


# Holders.


def test_two_holders_are_both_named_and_cutting_one_frees_nothing():
    told = holders_text(ONE, "feats", NAMES).splitlines()
    assert "feats · 64.0 MiB" == told[0]
    assert "3 holders: cutting one frees nothing, cutting all of them frees 64.0 MiB." == told[1]
    two = Holders((replace(FEATS, chains=FEATS.chains[:2]),))
    assert (
        "Two holders: cutting one frees nothing, cutting both frees 64.0 MiB."
        == holders_text(two, "feats", NAMES).splitlines()[1]
    )


def test_one_holder_says_what_goes_with_it():
    one = Holders((replace(FEATS, chains=FEATS.chains[:1]),))
    told = holders_text(one, "feats", NAMES)
    assert "One holder: cutting it frees 64.0 MiB." in told
    assert ["1", "feats", "by", "you"] == told.splitlines()[3].split()
    assert "del feats" in told


def test_ways_that_go_with_one_cut_are_one_holder():
    ways = (chain("cache", "[0]"), chain("cache", "[1]", cut="cache"))
    told = holders_text(Holders((HeldStorage(3, MIB, ways),)), "feats", NAMES)
    assert "One holder: cutting it frees 1.00 MiB." in told
    assert "goes together with 1" in told


def test_two_ways_from_one_variable_of_the_users_are_one_holder():
    ways = tuple(chain("pair", f"[{n}]", wanted=True, cut=f"pair[{n}]") for n in range(2))
    told = holders_text(Holders((HeldStorage(3, MIB, ways),)), "pair", NAMES)
    assert "One holder: cutting it frees 1.00 MiB." in told
    both = tuple(HeldStorage(n, MIB, ways[n : n + 1]) for n in range(2))
    table = holders_text(Holders(both), "pair", NAMES).splitlines()[:3]
    assert ["2.00", "MiB", "2.00", "MiB", "2", "by", "you", "pair"] == table[2].split()


def test_a_storage_that_nothing_was_found_to_hold_says_so():
    none = HeldStorage(3, MIB, ())
    told = holders_text(Holders((none,)), "feats", NAMES)
    assert "No holder was found: what holds it is no Python object that can be listed." in told
    cut = holders_text(Holders((none,), complete=False), "feats", NAMES)
    assert "No holder was found before the search was cut short." in cut
    assert "feats holds no storage." == holders_text(Holders(()), "feats", NAMES)


def test_ways_that_are_not_listed_forbid_a_count():
    hidden = replace(FEATS, chains=FEATS.chains[:1], more=4)
    told = holders_text(Holders((hidden,)), "feats", NAMES)
    assert "One holder was listed; there may be more." in told
    assert "4 more ways not listed." in told
    many = replace(FEATS, chains=tuple(chain(f"x{n}") for n in range(15)))
    assert "3 more ways not listed." in holders_text(Holders((many,)), "feats", NAMES)


def test_what_a_holder_frees_alone_is_only_what_no_other_holds():
    rows = [line.split() for line in holders_text(MODEL, "model", NAMES).splitlines()[2:4]]
    assert [
        ["1.18", "GiB", "300", "MiB", "3", "by", "you", "model"],
        ["900", "MiB", "0", "B", "1", "no", "closure", "of", "hook", "'save'", "on", "model.fc"],
    ] == rows


def test_more_storages_than_are_shown_are_counted():
    held = tuple(HeldStorage(n, n * MIB, (chain("x"),)) for n in range(1, 9))
    told = holders_text(Holders(held), "x", {8: "x[7]"})
    assert "x[7] · 8.00 MiB" in told
    assert "a storage without a name · 7.00 MiB" in told
    assert "The ways to 5 smaller storages are not shown one by one." in told


# Acts.


def test_a_plan_says_what_would_come_back_and_what_it_costs():
    lines = reclaim_text(PLAN, plan=True).splitlines()
    assert "Would free 1.23 GiB (2.90 → 1.67 GiB, torch storages on cpu)." == lines[0]
    assert "  costs    %debug for the error of [9]" in lines


@pytest.mark.parametrize(
    ("sentence", "changed"),
    [
        ("There is nothing to reclaim.", {"planned": (), "refused": ()}),
        ("Nothing would be dropped.", {"planned": (), "refused": ("x changed",)}),
        ("How much would come back is unknown (torch storages on cpu).", {"promised": None}),
        ("Would free 1.23 GiB (torch storages on cpu).", {"bytes_before": None}),
    ],
)
def test_a_plan_that_can_not_tell_says_so(sentence, changed):
    assert sentence == reclaim_text(replace(PLAN, **changed), plan=True).splitlines()[0]


def test_an_outcome_says_what_is_gone_and_keeps_the_plan_to_its_promise():
    kept = replace(DONE, promised=DONE.freed, refused=(), still_held=())
    expected = (
        "Freed 1.14 GiB (2.90 → 1.76 GiB, torch storages on cpu). %debug for the error of [9]"
    )
    assert f"{expected} is gone." == " ".join(reclaim_text(kept).splitlines()[:2])
    assert "planned" not in reclaim_text(kept)
    assert "planned  1.23 GiB: 96.0 MiB less came back" in reclaim_text(DONE)
    more = replace(DONE, promised=DONE.freed - 1)
    assert "1 B more came back" in reclaim_text(more)


def test_two_costs_are_both_told_and_a_sentence_stays_one():
    paid = replace(DONE, costs=("%debug for [9]", "Out[4]", "The cache of load() begins anew."))
    told = " ".join(reclaim_text(paid).splitlines()[:2])
    assert told.endswith("%debug for [9] and Out[4] are gone. The cache of load() begins anew.")


def test_nothing_dropped_claims_no_loss():
    nothing = replace(DONE, dropped=(), bytes_after=DONE.bytes_before)
    assert "Nothing was dropped." == reclaim_text(nothing).splitlines()[0]
    assert "gone" not in reclaim_text(nothing)


def test_nothing_to_do_says_whether_something_is_left_that_costs():
    nothing = replace(DONE, planned=(), dropped=(), refused=(), still_held=())
    assert "There is nothing to reclaim." == reclaim_text(nothing, left=report()).splitlines()[0]
    assert "Nothing goes at no cost." == reclaim_text(nothing, left=LEFT).splitlines()[0]
    assert "There is nothing to reclaim." == reclaim_text(nothing, plan=True).splitlines()[0]


def test_what_is_left_is_told_with_the_command_that_takes_it():
    told = reclaim_text(DONE, left=LEFT)
    assert "Left: 1.20 GiB in 3 leaks" in told
    assert "  %gpumem reclaim 1      64.0 MiB of Out[4], costs Out[4]" in told
    assert "  %gpumem reclaim --all  all 2 of these, 1.20 GiB" in told
    assert "Left" not in reclaim_text(DONE, left=report())


def test_many_sentences_are_cut_and_the_rest_counted():
    many = replace(DONE, refused=tuple(f"x{n} changed" for n in range(20)))
    assert "and 8 more" in reclaim_text(many)


def test_other_acts_read_as_before():
    done = ReclaimReport("del", ("x",), ("x",), (), 3 * MIB, 2 * MIB, "torch storages on cpu")
    assert "Freed 1.00 MiB (3.00 → 2.00 MiB, torch storages on cpu)." == reclaim_text(done)


# HTML.


@pytest.mark.parametrize("name", BUNDLES)
def test_pages_use_only_what_an_untrusted_notebook_keeps(name):
    page = Page(BUNDLES[name]()["text/html"])
    assert set() == set(page.tags) - {"div", "span", "b", "table", "tbody", "tr", "td", "th"}
    keys = {key for key, _ in page.attributes}
    assert set() == keys - {"style", "title", "role", "aria-label", "aria-hidden", "scope"}
    styles = [value for key, value in page.attributes if key == "style"]
    assert "max-width:720px" in styles[0]
    assert [] == [style for style in styles if re.search(r"(?<!-)color:#|background:#", style)]


@pytest.mark.parametrize("name", sorted(set(BUNDLES) - {"hostile"}))
def test_pages_say_what_the_text_says(name):
    bundle = BUNDLES[name]()
    page = Page(bundle["text/html"]).text
    assert [] == [word for word in re.findall(r"\w+", bundle["text/plain"]) if word not in page]


def test_hostile_names_stay_text():
    holders = Holders((HeldStorage(3, MIB, (chain(EVIL, EVIL, cost=EVIL, remedy=EVIL),)),))
    act = replace(DONE, dropped=(EVIL,), refused=(EVIL,), costs=(EVIL,), still_held=(EVIL,))
    bundles = (
        leaks_bundle(HOSTILE),
        leaks_bundle(HOSTILE, by="device"),
        holders_bundle(holders, EVIL, {3: EVIL}),
        reclaim_bundle(act, left=HOSTILE),
        reclaim_bundle(replace(act, planned=(EVIL,)), plan=True),
    )
    for bundle in bundles:
        assert set() == {"script", "img"} & set(Page(bundle["text/html"]).tags)
        for text in bundle.values():
            assert [] == re.findall(r"[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
            text.encode("utf-8")


def test_a_name_of_nine_thousand_letters_stays_bounded():
    assert len(leaks_html(HOSTILE)) < 12_000


def test_the_same_records_are_told_the_same():
    assert leaks_bundle(LEAKS) == leaks_bundle(replace(LEAKS))


# The line in a cell's report.


def lines_on_leaks(*created, notes=()):
    record = cell(7, delta(after=GIB, peak=GIB), created=created, notes=notes)
    return [line.strip() for line in cell_report_text(record).splitlines() if "leak" in line]


def test_what_only_a_shown_output_leads_to_is_a_leak_line():
    expected = "leak    64.0 MiB that only Out[7] leads to   %gpumem leaks"
    assert [expected] == lines_on_leaks(storage(1, 64 * MIB, "user", "Out[7]", "_"))
    assert ["leak    3.00 MiB that only _ and 1 more lead to   %gpumem leaks"] == lines_on_leaks(
        storage(1, 2 * MIB, "user", "_"), storage(2, MIB, "user", "_12[0]")
    )


@pytest.mark.parametrize(
    "made",
    [
        storage(1, 64 * MIB, "user", "x", "Out[7]"),
        storage(1, 64 * MIB, "saved for backward", "loss → graph[1] Mul.self", "Out[7]"),
        storage(1, 262_143, "user", "Out[7]"),
        storage(1, 64 * MIB, "user", "_hidden"),
        storage(1, 64 * MIB, "user", "Outer"),
        storage(1, 64 * MIB, "unknown"),
    ],
)
def test_what_is_no_leak_for_sure_is_none_in_the_report(made):
    assert [] == lines_on_leaks(made)


def test_a_leak_on_a_device_that_was_not_measured_is_told_below_that_device():
    made = storage(1, 64 * MIB, "user", "Out[7]", device="cuda:1")
    told = cell_report_text(cell(7, delta(after=GIB, peak=GIB), created=(made,)))
    text = " ".join(told.split())
    device = "64.0 MiB in 1 storage made here; not measured without --device cuda:1"
    assert f"cuda:1 {device} leak 64.0 MiB that only Out[7] leads to" in text


def test_names_cut_by_a_budget_claim_no_leak():
    cut = Note("names", "budget", "Names incomplete: budget of 0.5 s")
    assert [] == lines_on_leaks(storage(1, 64 * MIB, "user", "Out[7]"), notes=(cut,))
