"""Storages added up, filtered, sorted: sums are worked out by hand or by another way of adding."""

import random
from collections import Counter

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from samples import GIB, KIB, MIB, storage

from nbmem.records import CATEGORIES
from nbmem.totals import (
    SORTINGS,
    filter_storages,
    group_storages,
    module_tree,
    parse_filter,
    places_by_category,
    sort_storages,
    split_module,
    total_storages,
)

WEIGHT = storage(1, 64 * MIB, "parameter", "model.fc.weight", module="model.fc", created_by=3)
BIAS = storage(2, 4 * KIB, "parameter", "model.fc.bias", module="model.fc", created_by=3)
CONV = storage(
    3, 9 * MIB, "parameter", "model.layer.0.conv.weight", module="model.layer.0.conv", created_by=3
)
RUNNING = storage(4, 512, "buffer", "model.layer.0.bn.mean", module="model.layer.0.bn")
MOMENT = storage(
    5,
    64 * MIB,
    "optimizer state",
    "opt.state[model.fc.weight]['exp_avg']",
    module="model.fc",
    device="cpu",
    pinned=True,
)
SAVED = storage(
    6,
    20 * MIB,
    "saved for backward",
    "losses[3] → graph[17] ConvolutionBackward0.input of model.layer.0.conv",
    module="model.layer.0.conv",
    saved_by="ConvolutionBackward0.input",
    visible=False,
)
LABELS = storage(7, 8 * KIB, "user", "Out[3][0]", dtype="int64", shape=(1024,), device="cpu")
LOST = storage(8, 3 * MIB, "unknown", created_by=None, created_in=None)
SMALL = storage(0, 100, "gradient", dtype="", shape=(), stands_for=5)
EVERY = (WEIGHT, BIAS, CONV, RUNNING, MOMENT, SAVED, LABELS, LOST, SMALL)


def keys(storages):
    return [one.key for one in storages]


def sums(groups):
    return {group.key: (group.bytes, group.count) for group in groups}


def test_everything_is_added_up_once_in_each_way():
    totals = total_storages(EVERY)
    whole = 64 * MIB + 4 * KIB + 9 * MIB + 512 + 64 * MIB + 20 * MIB + 8 * KIB + 3 * MIB + 100
    assert (whole, 13) == (totals.bytes, totals.count)
    assert {
        "parameter": (73 * MIB + 4 * KIB, 3),
        "optimizer state": (64 * MIB, 1),
        "saved for backward": (20 * MIB, 1),
        "unknown": (3 * MIB, 1),
        "user": (8 * KIB, 1),
        "buffer": (512, 1),
        "gradient": (100, 5),
    } == sums(totals.by_category)
    assert {
        "model.fc": (128 * MIB + 4 * KIB, 3),
        "model.layer.0.conv": (29 * MIB, 2),
        "no module": (3 * MIB + 8 * KIB + 100, 7),
        "model.layer.0.bn": (512, 1),
    } == sums(totals.by_module)
    assert {
        "[3]": (73 * MIB + 4 * KIB, 3),
        "[7]": (84 * MIB + 8 * KIB + 612, 9),
        "no cell": (3 * MIB, 1),
    } == sums(totals.by_cell)
    assert {
        "model": (73 * MIB + 4 * KIB + 512, 4),
        "opt": (64 * MIB, 1),
        "losses": (20 * MIB, 1),
        "Out[3]": (8 * KIB, 1),
        "no name": (3 * MIB + 100, 6),
    } == sums(totals.by_name)
    assert {"float32": 7, "int64": 1, "mixed": 5} == {g.key: g.count for g in totals.by_dtype}
    assert {"cuda:0": 11, "cpu": 1, "cpu (pinned)": 1} == {g.key: g.count for g in totals.by_device}


def test_groups_come_largest_first_with_their_bytes_per_category():
    (first, *_, last) = total_storages(EVERY).by_module
    assert ("model.fc", "model.layer.0.bn") == (first.key, last.key)
    expected = [("parameter", 64 * MIB + 4 * KIB), ("optimizer state", 64 * MIB)]
    assert expected == list(first.by_category.items())


@pytest.mark.parametrize("by", ["category", "module", "cell", "name", "dtype", "device"])
def test_groups_hold_their_members_largest_first(by):
    groups = group_storages(EVERY, by)
    assert sorted(keys(EVERY)) == sorted(key for group in groups for key in keys(group.storages))
    for group in groups:
        sizes = [one.bytes for one in group.storages]
        assert sorted(sizes, reverse=True) == sizes
        assert sum(sizes) == group.bytes
        assert sum(one.stands_for for one in group.storages) == group.count
    assert sums(getattr(total_storages(EVERY), f"by_{by}")) == sums(groups)


def test_nothing_alive_is_nothing_everywhere():
    totals = total_storages([])
    assert (0, 0, ()) == (totals.bytes, totals.count, totals.by_name)
    assert ((), 0) == (module_tree([]).roots, module_tree([]).none.bytes)
    assert ((), (), 0) == (
        places_by_category([]).devices,
        places_by_category([]).categories,
        places_by_category([]).total.total,
    )


def test_a_grouping_that_is_none_is_refused_with_those_that_are():
    expected = "grouped by category, module, cell, name, dtype, device, not by 'shape'"
    with pytest.raises(ValueError, match=expected):
        group_storages(EVERY, "shape")


@pytest.mark.parametrize(
    ("root", "name"),
    [
        ("model", "model.layer3.0.conv1.weight.grad"),
        ("losses", "losses[*] → graph"),
        ("Out[12]", "Out[12]['x']"),
        ("_12", "_12"),
        ("opt", "opt.state[model.0.weight]['exp_avg']"),
        ("globals()['a b']", "globals()['a b'].weight"),
        ("globals()['it\\'s']", "globals()['it\\'s'][0]"),
        ("d", "list(d.values())[3].weight"),
        ("x", "list(vars(x).values())[0]"),
        ("list", "list[0]"),
        ("größe", "größe[0]"),
        ("特徴", "特徴"),
        ("?!", "?! what is this"),
    ],
)
def test_a_name_belongs_to_the_variable_that_it_begins_with(root, name):
    (group,) = group_storages([storage(1, 4, "user", name)], "name")
    assert root == group.key


# Filters.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [1, 2, 3, 4, 5, 6, 7, 8, 0]),
        ("  ", [1, 2, 3, 4, 5, 6, 7, 8, 0]),
        ("FC", [1, 2, 5]),
        ("fc bias", [2]),
        ("exp_avg", [5]),
        ("['exp_avg']", [5]),
        ("[3]", [1, 2, 3, 6, 7]),
        ("int64", [7]),
        ("[1024]", [7]),
        ("pinned", [5]),
        ("convolutionbackward0", [6]),
        ("unknown", [8]),
        ("nothing at all", []),
        ("category=parameter", [1, 2, 3]),
        ("category=optimizer", [5]),
        ('category="optimizer state"', [5]),
        ("category='saved for backward'", [6]),
        ("category!=parameter", [4, 5, 6, 7, 8, 0]),
        ("category = user", [7]),
        ("Category=User", [7]),
        ("module=model.layer", [3, 4, 6]),
        ("module=model.lay", []),
        ("module=none", [7, 8, 0]),
        ("module!=none", [1, 2, 3, 4, 5, 6]),
        ("cell=3", [1, 2, 3]),
        ("cell=[3]", [1, 2, 3]),
        ("cell>3", [4, 5, 6, 7, 0]),
        ("cell=none", [8]),
        ("cell!=none", [1, 2, 3, 4, 5, 6, 7, 0]),
        ("size>20MiB", [1, 5]),
        ("size>=20MiB", [1, 5, 6]),
        ("size >= 20 MiB", [1, 5, 6]),
        ("size<8KiB", [2, 4, 0]),
        ("size<=8192", [2, 4, 7, 0]),
        ("size=512", [4]),
        ("size>1MiB size<10MiB", [3, 8]),
        ("size>9.2MB size<9.5mb", [3]),
        ("size>0.05g", [1, 5]),
        ("device=cuda", [1, 2, 3, 4, 6, 8, 0]),
        ("device=cuda:0 category=unknown", [8]),
        ("device=cpu", [5, 7]),
        ("device=cpu pinned=yes", [5]),
        ("device=cpu pinned=no", [7]),
        ("dtype=torch.int64", [7]),
        ("dtype!=float32", [7, 0]),
        ("shape=[1024]", [7]),
        ("shape=1024", [7]),
        ("shape=[]", [0]),
        ("name=model", [1, 2, 3, 4, 5, 6]),
        ("name=none", [8, 0]),
        ("views>1", []),
    ],
)
def test_a_filter_finds(text, found):
    assert found == keys(filter_storages(EVERY, text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind=user", "no 'kind' to filter by, only name, category, module, cell, size, dtype"),
        ("category=gradeint", "no category 'gradeint', only parameter, buffer, gradient"),
        ("category>user", "category is compared with = or !=, not with >"),
        ("size>", "'size>' lacks a value; for example: category=gradient size>1MiB"),
        ("size>big", "'big' is no size, as 4096, 64KiB, 1.5GiB or 2MB are"),
        ("size>1.2.3MiB", "'1.2.3MiB' is no size"),
        ("size>3parsecs", "'3parsecs' is no size"),
        ("cell=abc", "'abc' is no number for cell; for example: cell>=3"),
        ("cell>none", "'none' is no number for cell"),
        ("cell=" + "9" * 5000, "is no number for cell"),
        ("shape=big", "'big' is no shape; for example: shape=[64,3,7,7]"),
        ("pinned=maybe", "pinned is yes or no, not 'maybe'"),
        ("dtype<int8", "dtype is compared with = or !=, not with <"),
        ('name=""', "lacks a value"),
    ],
)
def test_a_filter_that_makes_no_sense_says_what_does(text, problem):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the sentence is compared below
        parse_filter(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_signs_within_a_key_of_the_users_are_no_comparison():
    odd = storage(1, 4, "user", "d['a=b']")
    assert [odd] == filter_storages([odd, LABELS], "d['a=b']")


# Order.


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("size", [1, 5, 6, 3, 8, 7, 2, 4, 0]),
        ("name", [7, 6, 2, 1, 4, 3, 5, 8, 0]),
        ("cell", [5, 6, 7, 4, 0, 1, 3, 2, 8]),
        ("category", [1, 3, 2, 4, 0, 5, 6, 7, 8]),
        ("module", [1, 5, 2, 4, 6, 3, 8, 7, 0]),
        ("device", [7, 5, 1, 6, 3, 8, 2, 4, 0]),
    ],
)
def test_storages_are_sorted_with_ties_largest_first(by, expected):
    assert expected == keys(sort_storages(EVERY, by))


def test_numbers_within_names_are_sorted_as_numbers():
    names = ["layer.10", "layer.2", "layer.2.a", "2", "x" + "9" * 30]
    made = [storage(n, 4, "user", name) for n, name in enumerate(names)]
    expected = ["2", "layer.2", "layer.2.a", "layer.10", "x" + "9" * 30]
    assert expected == [one.names[0] for one in sort_storages(made, "name")]


def test_an_order_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"sorted by size, name, cell, .* not by 'colour'"):
        sort_storages(EVERY, "colour")


# Modules.


def test_a_module_has_what_its_children_have():
    tree = module_tree(EVERY)
    (model,) = tree.roots
    assert ("model", 157 * MIB + 4 * KIB + 512, 6, 0) == (
        model.name,
        model.bytes,
        model.count,
        model.own_bytes,
    )
    fc, layer = model.children
    assert ("model.fc", 128 * MIB + 4 * KIB, 3) == (fc.name, fc.own_bytes, fc.own_count)
    (block,) = layer.children
    assert ("model.layer", "model.layer.0") == (layer.name, block.name)
    conv, norm = block.children
    assert [("model.layer.0.conv", 29 * MIB), ("model.layer.0.bn", 512)] == [
        (conv.name, conv.bytes),
        (norm.name, norm.bytes),
    ]
    expected = {"parameter": 9 * MIB, "buffer": 512, "saved for backward": 20 * MIB}
    assert expected == dict(block.by_category)
    assert (3 * MIB + 8 * KIB + 100, 7) == (tree.none.bytes, tree.none.count)


def test_a_module_with_bytes_of_its_own_and_children_keeps_both():
    outer = storage(1, 10, "parameter", module="net")
    inner = storage(2, 5, "parameter", module="net.a")
    (net,) = module_tree([inner, outer]).roots
    assert (15, 10, 1) == (net.bytes, net.own_bytes, len(net.children))


def test_modules_ten_thousand_deep_need_no_recursion():
    deep = ".".join(["m"] * 10_000)
    (root,) = module_tree([storage(1, 7, "parameter", module=deep)]).roots
    depth, node = 1, root
    while node.children:
        (node,) = node.children
        depth += 1
    assert (7, 10_000, 7) == (root.bytes, depth, node.own_bytes)


@pytest.mark.parametrize("name", [".", ".a", "..", "a..b", "a."])
def test_a_module_whose_name_has_empty_steps_is_counted_once(name):
    (root,) = module_tree([storage(1, 7, "parameter", module=name)]).roots
    assert (7, 1) == (root.bytes, root.count)


@pytest.mark.parametrize(
    ("steps", "name"),
    [
        (("model", "layer3", "0", "conv1"), "model.layer3.0.conv1"),
        (("nets['a.b']", "conv"), "nets['a.b'].conv"),
        (("list(d.values())[0]", "fc"), "list(d.values())[0].fc"),
        (("m", "_modules['it\\'s a.b']", "c"), "m._modules['it\\'s a.b'].c"),
        (("m", "_modules['back\\\\']", "c"), "m._modules['back\\\\'].c"),
        (("model",), "model"),
    ],
)
def test_a_modules_name_is_split_where_its_steps_meet(steps, name):
    assert steps == split_module(name)


# Places.


def test_one_look_tells_what_of_a_model_is_on_the_card_and_what_on_the_host():
    places = places_by_category(EVERY)
    assert ("cuda:0", "cpu", "cpu (pinned)") == places.devices
    assert [
        ("parameter", {"cuda:0": 73 * MIB + 4 * KIB}),
        ("buffer", {"cuda:0": 512}),
        ("gradient", {"cuda:0": 100}),
        ("optimizer state", {"cpu (pinned)": 64 * MIB}),
        ("saved for backward", {"cuda:0": 20 * MIB}),
        ("user", {"cpu": 8 * KIB}),
        ("unknown", {"cuda:0": 3 * MIB}),
    ] == [(place.key, dict(place.bytes)) for place in places.categories]
    model, none = places.modules
    assert ("model", {"cuda:0": 93 * MIB + 4 * KIB + 512, "cpu (pinned)": 64 * MIB}) == (
        model.key,
        dict(model.bytes),
    )
    assert ["parameter", "buffer", "optimizer state", "saved for backward"] == [
        part.key for part in model.parts
    ]
    assert ("no module", 3 * MIB + 8 * KIB + 100) == (none.key, none.total)
    assert 13 == places.total.count


def test_accelerators_stand_before_the_host_in_the_order_of_their_numbers():
    devices = ["cpu", "cuda:10", "cuda:2", "mps"]
    made = [storage(n, 4, "user", device=device) for n, device in enumerate(devices)]
    assert ("cuda:2", "cuda:10", "mps", "cpu") == places_by_category(made).devices


def test_a_hundred_random_storages_add_up_in_every_view():
    chance = random.Random(3)
    modules = [None, "a", "a.b", "a.b.c", "d[0].e", "d[1].e"]
    every = [
        storage(
            n,
            chance.randrange(GIB),
            chance.choice(CATEGORIES),
            *chance.choice([(), ("x[1]",), ("y",)]),
            device=chance.choice(["cpu", "cuda:0"]),
            module=chance.choice(modules),
            pinned=chance.random() < 0.2,
        )
        for n in range(100)
    ]
    whole = sum(one.bytes for one in every)
    by_hand = Counter()
    for one in every:
        by_hand[one.category] += one.bytes
    assert by_hand == {g.key: g.bytes for g in total_storages(every).by_category}
    tree, places = module_tree(every), places_by_category(every)
    assert whole == sum(root.bytes for root in tree.roots) + tree.none.bytes
    assert whole == places.total.total == sum(place.total for place in places.modules)
    assert whole == sum(sum(p.bytes.values()) for p in places.categories)


# Whatever it is called.

find(st.booleans(), bool)  # Hypothesis' first run adds its gc callback: before a test looks

ANY_NAME = st.one_of(
    st.text(max_size=30), st.text(alphabet="ab.[]()'\"\\\\ 01", min_size=1, max_size=30)
)
ANY_STORAGE = st.builds(
    lambda key, size, category, names, module, device, cell, count: storage(
        key,
        size,
        category,
        *names,
        module=module,
        device=device,
        created_by=cell,
        stands_for=count,
        pinned=key % 2 == 0,
    ),
    st.integers(0, 9),
    st.integers(0, 2**50),
    st.sampled_from([*CATEGORIES, "a new word"]),
    st.lists(ANY_NAME, max_size=2),
    st.none() | ANY_NAME,
    st.sampled_from(["cpu", "cuda:0", "mps"]) | ANY_NAME,
    st.none() | st.integers(0, 99),
    st.integers(1, 3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_STORAGE, max_size=8))
def test_every_view_has_all_bytes_and_all_storages_whatever_they_are_called(every):
    whole, count = sum(one.bytes for one in every), sum(one.stands_for for one in every)
    totals = total_storages(every)
    for by in ("category", "module", "cell", "name", "dtype", "device"):
        groups = getattr(totals, f"by_{by}")
        assert (whole, count) == (sum(g.bytes for g in groups), sum(g.count for g in groups))
        assert sums(groups) == sums(group_storages(every, by))
    tree, places = module_tree(every), places_by_category(every)
    assert whole == sum(root.bytes for root in tree.roots) + tree.none.bytes
    assert count == sum(root.count for root in tree.roots) + tree.none.count
    assert whole == places.total.total == sum(place.total for place in places.modules)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_STORAGE, max_size=8))
def test_a_module_is_its_own_bytes_and_those_of_its_children(every):
    waiting = list(module_tree(every).roots)
    while waiting:
        module = waiting.pop()
        assert module.bytes == module.own_bytes + sum(child.bytes for child in module.children)
        assert module.count == module.own_count + sum(child.count for child in module.children)
        assert module.bytes == sum(module.by_category.values())
        waiting += module.children


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                ["size", "cell", "name", "=", ">=", "!=", "[7]", "1MiB", "'", '"', " ", "none", "x"]
            ),
            max_size=8,
        ).map("".join),
    )
)
def test_a_filter_finds_some_of_them_or_says_in_a_line_what_is_wrong(text):
    found, problem = [], "; for example: "
    try:
        found = filter_storages(EVERY, text)
    except ValueError as error:
        problem = str(error)
    assert "; for example: " in problem
    assert problem.isprintable()
    assert [one for one in EVERY if one in found] == found


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_STORAGE, max_size=8), st.sampled_from(SORTINGS))
def test_sorting_loses_nothing(every, by):
    ordered = sort_storages(every, by)
    assert sorted(every, key=repr) == sorted(ordered, key=repr)
    assert ordered == sort_storages(ordered, by)
