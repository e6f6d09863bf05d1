"""Live tensors in groups, as a tree of modules, and by place: what a terminal and a page show."""

import re
from pathlib import Path

import pytest
from pages import Page
from samples import GIB, KIB, MIB, PLACED, storage

from nbmem.records import Inventory, Note
from nbmem.render import tensors_bundle
from nbmem.render.mixtures import letter_bar
from nbmem.render.names import shorten_name, width_of

DATA = Path(__file__).parents[1] / "data"
VIEWS = {
    "tensors_by_module": {"by": "module"},
    "tensors_by_module_few": {"by": "module", "rows": 3},
    "tensors_by_name": {"by": "name", "rows": 3},
    "tensors_by_category": {"by": "category"},
    "tensors_where": {"where": True},
    "tensors_filtered": {"text": "model size>=4MiB", "sort": "name", "rows": 4},
}


def text_of(inventory, **asked):
    return tensors_bundle(inventory, **asked)["text/plain"]


def rows_of(text, *, after=3):
    return [line.split() for line in text.splitlines()[after:]]


def alive(*storages, notes=()):
    return Inventory(tuple(storages), 0.0, notes)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_tensors_reads_as_its_golden_text(name):
    golden = (DATA / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")
    assert golden == text_of(PLACED, **VIEWS[name])


@pytest.mark.parametrize("width", [40, 60, 78, 120])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_tensors_fit_the_terminal(name, width):
    lines = text_of(PLACED, width=width, **VIEWS[name]).splitlines()
    assert [] == [line for line in lines if width_of(line) > width]


@pytest.mark.parametrize("by", ["category", "module", "cell", "name", "dtype", "device"])
def test_every_grouping_says_how_much_is_alive(by):
    first = text_of(PLACED, by=by).splitlines()[0]
    assert f"Live tensors by {by} · 145 MiB in 10 storages" == first


def test_a_filter_that_finds_nothing_says_what_is_alive():
    expected = "None matches “nowhere”: alive are 145 MiB in 10 storages."
    for asked in ({}, {"by": "cell"}, {"by": "module"}, {"where": True}):
        assert expected == text_of(PLACED, text="nowhere", **asked)


def test_no_tensor_is_one_sentence_in_every_view():
    for asked in ({}, {"by": "cell"}, {"by": "module"}, {"where": True}):
        assert "No tensor is alive." == text_of(alive(), **asked)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"by": "colour"}, "grouped by category"),
        ({"sort": "colour"}, "sorted by size"),
        ({"text": "size>big"}, "is no size"),
        ({"by": "cell", "sort": "views"}, "groups are sorted by size or name, not by 'views'"),
    ],
)
def test_what_makes_no_sense_is_refused(asked, problem):
    with pytest.raises(ValueError, match=problem):
        tensors_bundle(PLACED, **asked)


def test_groups_sorted_by_name_count_in_the_order_of_numbers():
    made = [storage(n, n * MIB, "user", f"x{n}", created_by=n) for n in (10, 2, 1)]
    rows = rows_of(text_of(alive(*made), by="cell", sort="name"))
    assert ["[1]", "[2]", "[10]"] == [row[0] for row in rows[:3]]


def test_a_module_that_holds_only_one_other_shares_its_line():
    made = [
        storage(1, 8 * MIB, "parameter", "trainer.model.a.w", module="trainer.model.a"),
        storage(2, 4 * MIB, "parameter", "trainer.model.b.w", module="trainer.model.b"),
    ]
    rows = rows_of(text_of(alive(*made), by="module"))
    assert [("trainer.model", "12.0"), ("a", "8.0"), ("b", "4.0")] == [
        tuple(row[:2]) for row in rows[:3]
    ]


def test_lines_below_a_module_add_up_to_it():
    made = [
        storage(n, (20 - n) * MIB, "parameter", f"net.{n}.w", module=f"net.{n}") for n in range(9)
    ]
    rows = rows_of(text_of(alive(*made), by="module", rows=4))[:5]
    assert [["net"], ["0"], ["1"], ["2"], ["6", "more"]] == [row[:-5] for row in rows]
    assert ["144", "20", "19", "18", "87"] == [row[-5] for row in rows]


def test_more_devices_than_there_is_room_for_share_a_column():
    made = [
        storage(n, (n + 1) * MIB, "user", f"x{n}", device=f"cuda:{n}", module="net")
        for n in range(8)
    ]
    text = text_of(alive(*made), where=True, width=66)
    assert ["module", "cuda:5", "cuda:6", "cuda:7", "5", "others", "all"] == text.splitlines()[
        1
    ].split()
    assert ["net", "6.0", "7.0", "8.0", "15.0", "36.0"] == text.splitlines()[3].split()


def test_one_model_is_told_once():
    text = text_of(alive(storage(1, MIB, "parameter", "m.w", module="m.fc")), where=True)
    assert 5 == len(text.splitlines())
    assert "all" not in text


@pytest.mark.parametrize(
    ("letters", "mixture", "largest"),
    [
        ("PPGGUUUU", {"parameter": 30, "gradient": 30, "user": 60}, 120),
        ("PPG", {"parameter": 30, "gradient": 15}, 120),
        ("P", {"parameter": 1, "gradient": 1}, 120),
        ("PPPPPPPP", {"parameter": 10**9, "gradient": 1}, 10**9),
        ("", {}, 120),
        ("", {"parameter": 0}, 0),
        ("?", {"a new word": 12}, 120),
    ],
)
def test_a_bar_of_letters_is_as_long_as_its_row_is_large(letters, mixture, largest):
    assert letters == letter_bar(mixture, largest, 8)


def test_zero_bytes_alive_break_no_view():
    empty = alive(storage(1, 0, "user", "x", shape=(0,), module="m"))
    for asked in ({}, {"by": "cell"}, {"by": "module"}, {"where": True}):
        assert "0 B in 1 storage" in text_of(empty, **asked)


def test_empty_storages_without_a_name_are_counted_and_not_listed():
    empty = [storage(n, 0, "unknown") for n in (2, 3)]
    told = text_of(alive(storage(1, MIB, "user", "x"), *empty))
    assert "Live tensors · 1.00 MiB in 3 storages" == told.splitlines()[0]
    assert [["1.00", "U", "x"]] == [row[:3] for row in rows_of(told)[:-1]]
    assert "Not shown: 2 storages of 0 B without a name." == told.splitlines()[-1]


def test_empty_storages_are_listed_where_there_is_nothing_else():
    told = text_of(alive(storage(1, 0, "unknown")))
    assert ["0", "?", "no", "name,"] == rows_of(told, after=2)[-1][:4]


# Names where there is little room.

KEPT = "total → graph[1399] AddmmBackward0.mat1 of net.2"


@pytest.mark.parametrize(
    ("width", "short"),
    [
        (48, KEPT),
        (44, "total → graph[1399] Addmm….mat1 of net.2"),
        (38, "total → graph[1399] Add….mat1 of net.2"),
        (34, "total → graph[1399] Addmm….mat1"),
        (26, "total → graph[1399] ….mat1"),
        (22, "total → graph[1399]"),
        (18, "to…l → graph[1399]"),
    ],
)
def test_what_a_graph_keeps_loses_its_node_and_operation_last(width, short):
    assert short == shorten_name(KEPT, width)


def test_a_long_root_and_a_long_module_lose_their_middle_first():
    name = f"{'history' * 5}[12] → graph[7] MulBackward0.self after {'encoder.' * 5}out"
    short = shorten_name(name, 78)
    assert re.fullmatch(
        r"history\w*…\w*\[12\] → graph\[7\] MulBackward0\.self after enc\S*…\S*\.out", short
    )
    assert 78 == width_of(short)


@pytest.mark.parametrize("name", ["a → graph of mine.weight", "x" * 80, "→ graph[1] ", KEPT * 9])
@pytest.mark.parametrize("width", [0, 1, 2, 5, 17, 30, 60])
def test_any_name_fits_any_room(name, width):
    assert width_of(shorten_name(name, width)) <= width


def listed(width, *, shape=(512, 512, 3, 3)):
    names = [
        "scores[0] → graph[17] ConvolutionBackward0.input of net.layer1.0",
        "scores[0] → graph[19] ConvolutionBackward0.input of net.layer2.0",
        "optimizer.state[net.layer1.0.conv1.weight]['exp_avg_sq']",
        "optimizer.state[net.layer1.0.conv2.weight]['exp_avg_sq']",
    ]
    made = [storage(n, (9 - n) * MIB, "user", name, shape=shape) for n, name in enumerate(names)]
    return text_of(alive(*made), width=width)


@pytest.mark.parametrize("width", [60, 78, 120])
def test_names_that_differ_can_be_told_apart(width):
    names = [re.split(r"  +", row)[2] for row in listed(width).splitlines()[3:]]
    assert 4 == len(set(names))
    assert ["graph[17] Conv", "graph[19] Conv"] == [name[12:26] for name in names[:2]]


@pytest.mark.parametrize(
    ("width", "heading"), [(120, "dtype and shape"), (78, "shape"), (60, None), (40, None)]
)
def test_dtype_then_shape_give_way_before_a_name(width, heading):
    told = listed(width).splitlines()
    headings = re.split(r"  +", told[1])
    assert ["size", "name", *([heading] if heading else []), "cell"] == headings
    assert ("[512, 512, 3, 3]" in told[3]) == (heading is not None)
    assert [] == [line for line in told if width_of(line) > width]


# HTML.


@pytest.mark.parametrize("name", VIEWS)
def test_a_page_of_tensors_uses_only_what_an_untrusted_notebook_keeps(name):
    page = Page(tensors_bundle(PLACED, **VIEWS[name])["text/html"])
    allowed = {"div", "span", "b", "table", "tbody", "tr", "td", "th"}
    assert set() == set(page.tags) - allowed
    keys = {key for key, _ in page.attributes}
    assert set() == keys - {"style", "title", "role", "aria-label", "aria-hidden", "scope"}


def test_a_page_of_modules_has_a_bar_of_what_each_is_made_of():
    bundle = tensors_bundle(PLACED, by="module", rows=3)
    labels = [value for key, value in Page(bundle["text/html"]).attributes if key == "aria-label"]
    # of fc's 100 MiB: 68 and 32; of body's 38 MiB: 10, 8 and 20
    assert "parameter 68 %, optimizer state 32 %" in labels
    assert "parameter 26 %, gradient 21 %, saved for backward 53 %" in labels


def test_hostile_names_stay_text_in_every_view():
    evil = "<img src=x onerror=alert(1)>\x1b[31m\nred\u202e\ud800"
    made = storage(1, MIB, "user", evil, dtype=evil, device=evil, module=evil)
    noted = alive(made, storage(2, KIB, "user"), notes=(Note("", "", evil),))
    views = [{"by": by} for by in ("category", "module", "cell", "name", "dtype", "device")]
    for asked in ({}, {"where": True}, {"text": "<img"}, *views):
        bundle = tensors_bundle(noted, **asked)
        page = Page(bundle["text/html"])
        assert "img" not in page.tags
        for text in bundle.values():
            assert [] == re.findall(r"[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
            text.encode("utf-8")


def test_a_filter_of_a_thousand_letters_is_shown_short():
    bundle = tensors_bundle(PLACED, text="<b>" * 1000)
    assert len(bundle["text/plain"]) < 200
    assert "<b><b>" not in bundle["text/html"]


def test_three_thousand_modules_in_a_chain_are_one_line():
    deep = storage(1, GIB, "parameter", module=".".join(["m"] * 3000))
    rows = rows_of(text_of(alive(deep), by="module"))
    assert 2 == len(rows)
