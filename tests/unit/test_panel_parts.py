"""Modules, places and the ledger in the panel; figures and sentences worked out by hand."""

import re

import pytest
from panel_session import MIB, ScriptedSession, cell, ledger, storage

from nbmem.panel import Panel
from nbmem.panel.ledger import ledger_aside, ledger_html
from nbmem.panel.modules import ModuleWalk, module_table
from nbmem.panel.places import places_aside, places_html
from nbmem.panel.static import copy_html, copy_text
from nbmem.panel.words import with_names
from nbmem.records import (
    AllocatorBlock,
    DeviceLedger,
    Ledger,
    LedgerLine,
    LedgerSum,
    Note,
    ProcessMemory,
    ReclaimReport,
)
from nbmem.totals import places_by_category

GIB = 1024 * MIB


def of_models():
    return [
        storage(1, 4 * MIB, ["net.body.0.weight"], "parameter", module="net.body.0"),
        storage(2, 2 * MIB, ["net.body.0.weight.grad"], "gradient", module="net.body.0"),
        storage(3, MIB, ["net.body.1.weight"], "parameter", module="net.body.1"),
        storage(4, MIB, ["net.scale"], "buffer", module="net"),
        storage(5, 3 * MIB, ["feats"]),
    ]


def words(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def walk_over(storages):
    walk = ModuleWalk()
    walk.follow(storages)
    return walk


def test_the_only_model_stands_open_with_its_children_before_what_is_its_own():
    level = walk_over(of_models()).level("IEC")
    assert (("all modules", ""), ("net", "net")) == level.crumbs
    assert [("body", 7 * MIB, "net.body"), ("net.scale", MIB, None)] == [
        (row.label, row.bytes, row.enters) for row in level.rows
    ]
    data = module_table(level, "IEC")
    assert ["body ›", "net.scale"] == data.columns[0].text
    assert ["7.00", "1.00"] == data.columns[2].text
    named = [[(data.palette[n][3], share) for n, share in bar] for bar in data.columns[1].bars]
    assert [[("parameter", 71.43), ("gradient", 28.57)], [("buffer", 14.29)]] == named


def test_a_module_can_be_entered_down_to_its_storages_and_left_again():
    walk = walk_over(of_models())
    walk.enter("net.body")
    assert ["body.0", "body.1"] == [row.label for row in walk.level("IEC").rows]
    walk.enter("net.body.0")
    level = walk.level("IEC")
    assert ("all modules", "net", "body", "0") == tuple(word for word, _path in level.crumbs)
    assert [("net.body.0.weight", 4 * MIB), ("net.body.0.weight.grad", 2 * MIB)] == [
        (row.label, row.bytes) for row in level.rows
    ]
    walk.enter("")
    assert [("net", 8 * MIB, "net"), ("(no module)", 3 * MIB, None)] == [
        (row.label, row.bytes, row.enters) for row in walk.level("IEC").rows
    ]


def test_a_module_that_is_gone_leaves_the_user_at_the_nearest_one_above():
    walk = walk_over(of_models())
    walk.enter("net.body.0")
    walk.follow(of_models()[2:])
    assert "net.body" == walk.level("IEC").path
    walk.follow(of_models()[4:])
    assert walk.is_empty


def test_names_with_dots_in_brackets_are_one_step():
    made = storage(1, MIB, ["nets['a.b'].conv.weight"], "parameter", module="nets['a.b'].conv")
    level = walk_over([made]).level("IEC")
    assert ["conv"] == [row.label for row in level.rows]


def test_modules_are_shown_only_where_there_is_one_and_can_be_entered_by_a_choice():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.storages = of_models()[4:]
    for kind in ("full", "plain"):
        panel = Panel(session, kind=kind)
        assert "none" == panel._modules.widget.layout.display
        panel.close()
    session.storages = of_models()
    panel = Panel(session)
    assert panel._modules.widget.layout.display is None
    body, own = panel._body.tree.data.keys
    panel._body.tree.selected = [own]
    assert ["body ›", "net.scale"] == panel._body.tree.data.columns[0].text
    panel._body.tree.selected = [body]
    assert [] == panel._body.tree.selected
    assert {body, own}.isdisjoint(panel._body.tree.data.keys)
    assert ["body.0 ›", "body.1 ›"] == panel._body.tree.data.columns[0].text
    panel._body._crumbs.widget.children[0].click()
    assert ["net ›", "(no module)"] == panel._body.tree.data.columns[0].text
    panel.close()


def on_two_devices():
    return [
        storage(1, 4 * MIB, ["net.w"], "parameter", module="net", device="cuda:0"),
        storage(2, 2 * MIB, ["net.v"], "parameter", module="net"),
        storage(3, MIB, ["batch"], pinned=True),
    ]


def test_where_tensors_are_is_a_table_with_pinned_memory_apart():
    places = places_by_category(on_two_devices())
    assert "cuda:0 4.00 MiB · cpu 2.00 MiB · cpu (pinned) 1.00 MiB" == places_aside(places, "IEC")
    told = words(places_html(places, "IEC"))
    assert "cuda:0 MiB cpu MiB cpu (pinned) MiB" in told
    assert "P parameter 4.00 2.00 0" in told
    assert "U user 0 0 1.00" in told
    assert "all 4.00 2.00 1.00" in told
    assert "net 4.00 2.00 0" in told
    assert "no module 0 0 1.00" in told


def test_with_nothing_alive_there_is_no_place_to_show():
    assert "No tensor is alive, so none is anywhere." == words(
        places_html(places_by_category([]), "IEC")
    )


def test_a_ledger_that_closes_says_so():
    told = ledger(("parameter", MIB), ("user", 2 * MIB), total=3 * MIB)
    assert "closes" == ledger_aside(told, "IEC")
    html = ledger_html(told, "IEC")
    assert "storages hold 3.00 MiB" in words(html)
    assert "P parameter 1.00" in words(html)
    assert "closes to the byte" in html
    assert "1,048,576 B" in html


def test_a_ledger_that_does_not_close_says_by_how_much():
    told = ledger(("parameter", MIB), total=3 * MIB)
    assert "2.00 MiB not explained" == ledger_aside(told, "IEC")
    assert "not explained 2.00" in words(ledger_html(told, "IEC"))
    assert "a figure is unknown" == ledger_aside(ledger(("parameter", None), total=1), "IEC")
    assert "" == ledger_aside(None, "IEC")


def test_the_ledger_of_a_card_lists_blocks_without_an_owner_and_processes():
    derived = LedgerLine("other processes", "other processes", GIB, derived=True)
    own = LedgerLine("reserved", "this process", GIB, equals="torch.cuda.memory_reserved(0)")
    total = LedgerSum("total", (own, derived), LedgerLine("total", "the card", 2 * GIB))
    device = DeviceLedger(
        device="cuda:0",
        kind="accelerator",
        name="NVIDIA <b>X</b>",
        sums=(total,),
        blocks=(AllocatorBlock(8 * MIB, None, 2, 0, "live", "large", "library workspace"),),
        processes=(
            ProcessMemory(41, "python", GIB, own=True),
            ProcessMemory(42, "<img src=x>", None),
        ),
        notes=(Note("total", "x", "the driver is old"),),
    )
    html = ledger_html(Ledger((device,), 0.0), "IEC")
    told = words(html)
    assert "Ledger of cuda:0 · NVIDIA &lt;b&gt;X&lt;/b&gt;" in told
    assert "≈ other processes 1.00" in told
    assert "torch.cuda.memory_reserved(0)" in html
    assert "2 × library workspace" in told
    assert "8.00 MiB" in told
    assert "pid 41 · python (this process) 1.00 GiB" in told
    assert "pid 42 · &lt;img src=x&gt;" in told
    assert "the driver is old" in told
    assert "<img" not in html


def test_no_device_to_read_is_a_sentence():
    assert "No device can be read" in ledger_html(Ledger((), 0.0), "IEC")


@pytest.mark.parametrize("kind", ["full", "plain"])
def test_the_ledger_is_taken_when_it_is_opened_and_with_each_listing_after_that(kind):
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    panel = Panel(session, kind=kind)
    session.tell()
    assert 0 == session.ledgers
    assert "Ledger of" not in copy_text(panel._snapshot)
    panel._sums.turn()
    assert 1 == session.ledgers
    assert "closes to the byte" in panel._ledger_sums.value
    session.tell()
    assert 2 == session.ledgers
    panel._sums.turn()
    session.tell()
    assert 2 == session.ledgers
    panel.close()


def test_the_copy_in_the_notebook_has_the_ledger_and_where_tensors_are():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.storages = on_two_devices()
    panel = Panel(session)
    panel._sums.turn()
    text, html = copy_text(panel._snapshot), copy_html(panel._snapshot)
    assert "Live tensors: cuda:0 4.00 MiB · cpu 2.00 MiB · cpu (pinned) 1.00 MiB" in text
    assert "Ledger of cpu" in text
    assert "1,048,576" in text
    assert "Ledger of cpu" in html
    assert "P parameter 4.00 2.00 0" in words(html)
    panel.close()


def test_a_ledger_that_fails_is_one_line_and_the_rest_stays():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.take_ledger = lambda: 1 / 0
    panel = Panel(session)
    panel._sums.turn()
    assert "Taking the ledger did not work: ZeroDivisionError" in panel._acts.line.value
    assert "There is no ledger yet: press ⟳ to take it." in panel._ledger_sums.value
    panel.close()


def test_a_closed_section_is_not_drawn_until_it_is_opened():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    panel = Panel(session)
    panel._alive.turn()
    assert "none" == panel._alive.content.layout.display
    session.storages = [storage(1, MIB, ["feats"])]
    session.tell()
    assert [] == panel._body.tensors.data.keys
    panel._alive.turn()
    assert [1] == panel._body.tensors.data.keys
    assert panel._alive.content.layout.display is None
    panel.close()


def test_a_refusal_has_the_name_of_the_storage_not_its_number():
    refused = ("storage 11 is gone already: nothing to drop", "storage 112 is gone", "y stays")
    report = ReclaimReport("del", (), (), refused, None, None, "bytes")
    told = with_names(report, [storage(11, MIB, ["feats"])])
    assert (
        "feats is gone already: nothing to drop",
        "storage 112 is gone",
        "y stays",
    ) == told.refused


def test_core_widgets_group_filter_sort_and_choose_groups_too():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.storages = of_models()
    panel = Panel(session, kind="plain")
    body = panel._body
    body._by.value = "category"
    assert ["parameter · 2 storages", "user · 1 storage"] == [
        text.split("  ")[-1].strip() for text, _key in body._tensors.options[:2]
    ]
    body._tensors.value = [body._tensors.options[0][1]]
    assert "del 2 (5.00 MiB)…" == panel._acts._del.description
    body._by.value = ""
    body._sort.value = "name"
    assert 5 == body._tensors.options[0][1]
    body._filter.value = "category=gradient"
    assert [2] == [key for _text, key in body._tensors.options]
    body._filter.value = "category="
    assert "lacks a value" in body._more.value
    panel.close()


def test_core_widgets_look_into_modules_and_tell_what_bars_are_made_of():
    alive = {"cpu": {"parameter": 2 * MIB, "user": MIB}}
    session = ScriptedSession(cell(1, 0, 4 * MIB, 4 * MIB, alive=alive))
    session.storages = of_models()
    panel = Panel(session, kind="plain")
    body = panel._body
    assert "not in tensors found 1.00, P 2.00, U 1.00 MiB" in words(body._cells.value)
    assert "body › 7.00" in words(body._tree.value)
    body._inside.value = "net.body"
    assert "body.0 › 6.00 body.1 › 1.00" in words(body._tree.value)
    panel._bars.value = "stayed"
    assert "older than the cell 4.00 MiB" in words(body._cells.value)
    panel.close()
