"""The list of live tensors: filtered, grouped, sorted, opened, chosen; figures by hand."""

import json

import pytest
from ipywidgets import Widget
from panel_session import MIB, ScriptedSession, cell, storage

from nbmem.panel import Panel
from nbmem.panel.columns import Asked
from nbmem.panel.live import LiveList
from nbmem.panel.live_columns import live_table


def four():
    return [
        storage(1, 6 * MIB, ["model.a.weight"], "parameter", module="model.a", created_by=2),
        storage(2, 3 * MIB, ["model.a.weight.grad"], "gradient", module="model.a", created_by=4),
        storage(3, 2 * MIB, ["model.b.weight"], "parameter", module="model.b", created_by=2),
        storage(4, MIB, ["feats"], created_by=10, device="cuda:0"),
    ]


def listed(storages, **asked):
    live = LiveList()
    live.follow(storages)
    live.ask(Asked(**asked))
    return live


def text(data, identity):
    (found,) = [column for column in data.columns if column.id == identity]
    return found.text


def test_groups_are_rows_with_their_bytes_count_and_share():
    data = live_table(listed(four(), by="category"), "IEC")
    assert ["parameter", "gradient", "user"] == text(data, "name")
    assert ["8.00", "3.00", "1.00"] == text(data, "size")
    assert ["2", "1", "1"] == text(data, "count")
    (share,) = [column.text for column in data.columns if column.label == "share"]
    assert ["67 %", "25 %", "8.3 %"] == share
    assert ["P", "G", "U"] == text(data, "category")
    assert "2 storages, 8.00 MiB (8,388,608 B), 67 % of all" in data.tips[0]


def test_a_group_of_several_categories_is_a_bar_of_them_beside_the_largest():
    data = live_table(listed(four(), by="module"), "IEC")
    assert ["model.a", "model.b", "no module"] == text(data, "name")
    assert ["", "P", "U"] == text(data, "category")
    (bars,) = [column.bars for column in data.columns if column.kind == "bar"]
    words = [[(data.palette[n][3], percent) for n, percent in parts] for parts in bars]
    assert [("parameter", 66.67), ("gradient", 33.33)] == words[0]
    assert [("parameter", 22.22)] == words[1]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("cell", ["[2]", "[4]", "[10]"]),
        ("name", ["model", "feats"]),
        ("dtype", ["float32"]),
        ("device", ["cpu", "cuda:0"]),
    ],
)
def test_every_grouping_has_its_rows(by, names):
    assert names == text(live_table(listed(four(), by=by), "IEC"), "name")


def test_the_kernel_sorts_all_storages_not_only_those_that_are_sent():
    storages = [storage(n, 4 * (2000 - n), [f"t{n}"]) for n in range(1, 1501)]
    data = live_table(listed(storages, sort="name", turn=-1), "IEC")
    assert ["t1500", "t1499"] == text(data, "name")[:2]
    data = live_table(listed(storages, sort="size", turn=-1), "IEC")
    assert [1500, 1499] == data.keys[:2]
    assert data.unlisted.startswith("1,000 more, ")


def test_groups_are_sorted_by_name_with_numbers_as_numbers():
    data = live_table(listed(four(), by="cell", sort="name"), "IEC")
    assert ["[2]", "[4]", "[10]"] == text(data, "name")
    data = live_table(listed(four(), by="cell", sort="count", turn=-1), "IEC")
    assert "[2]" == text(data, "name")[-1]


def test_a_filter_of_words_is_left_to_the_page_while_it_has_every_row():
    data = live_table(listed(four(), filter="weight"), "IEC")
    assert data.complete
    assert [1, 2, 3, 4] == data.keys
    data = live_table(listed(four(), filter="size>=3MiB"), "IEC")
    assert not data.complete
    assert [1, 2] == data.keys
    assert "2 match “size>=3MiB” of 4" == data.unlisted


def test_a_filter_goes_before_the_grouping():
    data = live_table(listed(four(), filter="module=model.a", by="category"), "IEC")
    assert ["parameter", "gradient"] == text(data, "name")
    assert ["6.00", "3.00"] == text(data, "size")


def test_a_filter_that_makes_no_sense_is_a_sentence_with_an_example():
    data = live_table(listed(four(), filter="colour=red"), "IEC")
    assert [] == data.keys
    assert "no 'colour' to filter by" in data.trouble
    assert "for example: category=gradient" in data.trouble


def test_an_opened_group_has_its_storages_below_it():
    live = listed(four(), by="category")
    first, second, third = live_table(live, "IEC").keys
    live.turn_open(first)
    data = live_table(live, "IEC")
    assert [first, 1, 3, second, third] == data.keys
    assert [0, first, first, 0, 0] == data.parents
    assert [first] == data.opened
    live.turn_open(first)
    assert [first, second, third] == live_table(live, "IEC").keys


def test_of_a_large_group_the_largest_two_hundred_are_rows():
    live = listed([storage(n, 4 * n) for n in range(1, 1001)], by="category")
    (group,) = live_table(live, "IEC").keys
    live.turn_open(group)
    data = live_table(live, "IEC")
    assert [group, 1000, 999] == data.keys[:3]
    assert 201 == len(data.keys)
    assert "800 more in opened groups" == data.unlisted


def test_a_chosen_group_means_the_storages_it_had_when_it_was_chosen():
    live = listed(four(), by="category")
    group = live_table(live, "IEC").keys[0]
    live.choose([group])
    assert [1, 3] == live.chosen
    live.follow([*four(), storage(9, MIB, ["late.weight"], "parameter")])
    assert [1, 3] == live.chosen
    live.follow(four()[1:])
    assert [3] == live.chosen
    live.ask(Asked(by="module"))
    assert [] == live.chosen


def test_what_the_page_filters_and_sorts_by_itself_is_not_sent_again():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.storages = four()
    panel = Panel(session)
    sent, tensors = [], panel._body.tensors
    tensors.send = lambda content, buffers=None: sent.append(content)
    tensors._receive(None, {"type": "ask", "filter": "weight", "sort": "name"}, [])
    assert [] == sent
    tensors._receive(None, {"type": "ask", "filter": "size>2MiB", "sort": "name"}, [])
    assert [{"type": "rows"}] == sent
    assert [1, 2] == tensors.data.keys
    panel.close()


def test_another_filter_keeps_single_rows_chosen():
    live = listed(four())
    live.choose([1, 4])
    live.ask(Asked(filter="feats"))
    assert [1, 4] == live.chosen


def test_choosing_a_group_offers_its_storages_for_del_and_shows_the_plan_first():
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    session.storages = four()
    panel = Panel(session)
    tensors = panel._body.tensors
    tensors._receive(None, {"type": "ask", "filter": "", "by": "category"}, [])
    tensors.selected = [tensors.data.keys[0]]
    assert "del 2 (8.00 MiB)…" == panel._acts._del.description
    panel._acts._del.click()
    assert [("plan", (1, 3))] == session.acts
    panel._acts._plan.confirm.click()
    assert ("drop", (1, 3)) == session.acts[-1]
    assert ["gradient", "user"] == text(tensors.data, "name")
    assert [] == tensors.selected
    panel.close()


def test_ten_thousand_storages_with_long_names_make_messages_under_200_kb(monkeypatch):
    session = ScriptedSession(cell(1, 0, 3 * MIB, 4 * MIB))
    name = "model.encoder.layers.{n}.self_attention.output_projection.äöü.weight" * 3
    session.storages = [
        storage(n, 4 * (20_000 - n), [name.replace("{n}", str(n))] * 5, module=f"model.layer{n}")
        for n in range(10_000)
    ]
    sent = []

    def send(_widget, message, buffers=None):
        sent.append(len(json.dumps(message)) + sum(map(len, buffers or ())))

    panel = Panel(session)
    monkeypatch.setattr(Widget, "_send", send)
    del session.storages[0]
    session.tell()
    rows = len(panel._body.tensors.data.keys)
    for by in ("module", "cell", "name", ""):
        panel._body.tensors._receive(None, {"type": "ask", "filter": "", "by": by}, [])
    panel._body.tensors._receive(None, {"type": "ask", "filter": "size>4", "by": "cell"}, [])
    panel._body.tensors._receive(
        None, {"type": "turn", "key": panel._body.tensors.data.keys[0]}, []
    )
    assert 100 < rows < 500
    assert 100_000 < max(sent) < 200_000
    monkeypatch.undo()
    panel.close()
