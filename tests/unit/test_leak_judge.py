"""What is a leak and what is none, over facts written by hand; sentences stand here in full."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leak_cases import CASES, CYCLE, NEW, OLD, graph_world, grown
from leak_worlds import MIB, NOW, THRESHOLD, World, chain, held_by, made, storage

from nbmem.leaks import CellRuns, explain_holder, explain_kind
from nbmem.leaks.words import HOLDERS, KINDS
from nbmem.records import (
    LEAK_HOLDERS,
    LEAK_KINDS,
    GradientFact,
    GraphFact,
    HeldStorage,
    Leak,
    PathStep,
    SuspendedFact,
    ViewFact,
    from_json,
    to_json,
)

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_leak_is_told_with_its_reason_its_remedy_and_its_cost(case):
    leak = case.world.leak()
    assert (case.kind, case.holder) == (leak.kind, leak.holder)
    assert case.reason == leak.reason
    assert case.remedy == leak.remedy
    assert case.cost == leak.cost
    assert case.path == leak.path_text
    assert case.bytes == leak.bytes
    assert case.growth == leak.growth_per_run
    assert (case.on_request, case.reclaimable) == (leak.on_request, leak.reclaimable)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_told_of_the_twin_that_differs_in_one_fact(case):
    report = case.twin.judge()
    assert () == report.leaks
    assert 0 == report.below


def test_there_is_a_case_for_every_holder_and_two_for_every_kind():
    kinds = [case.kind for case in CASES]
    assert set(LEAK_HOLDERS) == {case.holder for case in CASES}
    assert [] == [kind for kind in LEAK_KINDS if kinds.count(kind) < 2]


def test_every_kind_and_every_holder_is_explained_in_one_sentence():
    assert set(LEAK_KINDS) == set(KINDS)
    assert set(LEAK_HOLDERS) == set(HOLDERS)
    told = [explain_kind(kind) for kind in LEAK_KINDS]
    told += [explain_holder(holder) for holder in LEAK_HOLDERS]
    assert [] == [sentence for sentence in told if not sentence.endswith(".")]
    assert len(set(told)) == len(told)


# -- two holders of one storage -------------------------------------------------------------------

OUT = chain("output_cache", "Out[12]", cell=12)
ERROR = chain("traceback", "traceback of cell [7]", "traceback of cell [7]", "train()", cell=7)
THREAD = chain("thread", "thread 'loader'", "thread 'loader'", "work()")
LOSS = chain("autograd_graph", "loss", "loss", "graph", "saved by ExpBackward0")


def test_two_holders_are_both_named_and_cutting_one_is_said_to_free_nothing():
    leak = World((storage(1),), {1: [OUT, ERROR]}).leak()
    assert ("Out[12]", "traceback of cell [7]") == leak.cuts
    assert "stale_output" == leak.kind
    assert (
        "Out[12] keeps what cell [12] showed, and no variable of yours needs that; traceback of "
        "cell [7] holds it too, so cutting one alone frees nothing." == leak.reason
    )
    assert '%gpumem reclaim "Out[12]"' == leak.remedy  # it takes the leak with all its cuts
    assert "Out[12], %debug for the error of [7]" == leak.cost


def test_three_holders_read_as_a_sentence():
    other = chain("closure", "add → list 'seen'")
    leak = World((storage(1),), {1: [OUT, ERROR, other]}).leak()
    assert leak.reason.endswith(
        "needs that; add → list 'seen' and traceback of cell [7] hold it too, so cutting one alone "
        "frees nothing."
    )


def test_storages_are_one_leak_where_all_their_holders_are_the_same():
    world = World(
        (storage(1), storage(2, size=2 * MIB), storage(3)),
        {1: [OUT], 2: [replace(OUT, steps=(*OUT.steps, *ERROR.steps[1:]))], 3: [ERROR, OUT]},
    )
    first, second = world.judge().leaks
    assert ((1, 2), 3 * MIB, 2) == (first.storages, first.bytes, first.count)
    assert "Out[12] → train()" == first.path_text
    assert ((3,), ("traceback of cell [7]", "Out[12]")) == (second.storages, second.cuts)


def test_one_cut_with_two_ways_is_one_holder():
    ways = [OUT, replace(OUT, steps=(*OUT.steps, *ERROR.steps[1:]))]
    leak = World((storage(1),), {1: ways}).leak()
    assert ("Out[12]",) == leak.cuts
    assert "too" not in leak.reason


def test_garbage_is_named_after_what_holds_for_longer():
    litter = chain("garbage", "garbage: list object")
    leak = World((storage(1),), {1: [litter, OUT]}).leak()
    assert ("stale_output", "Out[12]") == (leak.kind, leak.path_text)
    assert ("Out[12]", "garbage: list object") == leak.cuts
    assert '%gpumem reclaim "Out[12]"' == leak.remedy
    assert (
        "Out[12] keeps what cell [12] showed, and no variable of yours needs that; objects that "
        "wait for the garbage collector hold some of it as well." == leak.reason
    )


def test_garbage_that_holds_a_part_makes_no_leak_of_its_own():
    litter = chain("garbage", "garbage: Line object")
    leak = World((storage(1), storage(2)), {1: [ERROR], 2: [ERROR, litter]}).leak()
    assert (2 * MIB, (1, 2)) == (leak.bytes, leak.storages)
    first, second = World((storage(1), storage(2)), {1: [ERROR], 2: [litter]}).judge().leaks
    assert {"stale_error", "unreachable"} == {first.kind, second.kind}


def test_what_a_running_thread_holds_as_well_can_only_be_explained():
    leak = World((storage(1),), {1: [ERROR, THREAD]}).leak()
    assert not leak.reclaimable
    assert "" == leak.remedy
    assert "thread 'loader' holds it too" in leak.reason


def test_holders_that_are_not_listed_are_owned_up_to():
    world = World((storage(1),), {1: [OUT]})
    (held,) = world.holders.held
    holders = replace(world.holders, held=(replace(held, more=3),))
    assert (
        judge(world, holders)
        .leaks[0]
        .reason.endswith("needs that; more holders exist than are listed here.")
    )


def judge(world, holders):
    class Told(World):
        @property
        def holders(self):
            return holders

    return Told(world.storages, origins=world.origins, last=world.last).judge()


# -- graphs and generators at work ----------------------------------------------------------------


def test_what_a_pending_graph_needs_is_no_leak_although_a_traceback_holds_it_too():
    fact = GraphFact("loss", "autograd_graph", 1, (1,), 1)
    world = World((storage(1),), {1: [ERROR, LOSS]}, facts={"graphs": (fact,)}, origins=NEW)
    assert () == world.judge().leaks
    leak = world.but(origins=OLD).leak()
    assert ("traceback of cell [7]", "loss") == leak.cuts
    assert "%debug for the error of [7], backward() through loss" == leak.cost


def test_a_graph_of_which_nobody_knows_the_age_is_pending():
    assert () == graph_world(origins={}).judge().leaks
    assert 1 == len(graph_world(origins={}, stepped=True).judge().leaks)


LOSSES = {
    "cut": "losses[*]",
    "holder": "container",
    "texts": ("losses", "[3]"),
    "places": (PathStep("list", "losses"),),
}


@pytest.mark.parametrize(
    "origins", [NEW, {}, OLD], ids=["last cell", "nobody knows which cell", "earlier cell"]
)
def test_several_losses_of_whatever_age_cost_their_backward(origins):
    leak = graph_world(**LOSSES, roots=3, origins=origins).leak()
    assert ("backward() through losses", False) == (leak.cost, leak.on_request)
    assert "losses[:] = [x.detach() for x in losses]" == leak.remedy


def test_several_losses_cost_nothing_once_the_step_is_made():
    world = graph_world(**LOSSES, roots=3, origins=NEW)
    (fact,) = world.facts["graphs"]
    stepped = world.but(facts={"graphs": (replace(fact, stepped=True),)})
    assert "" == stepped.leak().cost
    retained = world.but(facts={"graphs": (replace(fact, backpropagated=True),)})
    assert "another backward() through losses" == retained.leak().cost


def test_what_one_forward_pass_returned_in_a_dict_is_pending_like_a_single_loss():
    out = {"cut": "out[*]", "holder": "container", "texts": ("out", "['loss']")}
    assert () == graph_world(**out, roots=1, origins=NEW).judge().leaks
    leak = graph_world(**out, roots=1, origins=OLD).leak()
    assert ("backward() through out", True) == (leak.cost, leak.on_request)


def test_a_pending_graph_of_an_earlier_cell_goes_by_name_only_until_it_is_over():
    assert graph_world(origins=OLD).leak().on_request
    assert not graph_world(origins=OLD, stepped=True).leak().on_request
    assert not graph_world(origins=OLD, backpropagated=True).leak().on_request


def test_what_the_last_cell_made_is_told_from_older_ones_by_records_as_well():
    script = {1: made(None)}
    assert () == graph_world(origins=script).judge().leaks
    world = graph_world(origins={1: replace(made(3), serial=70)}).but(last=4)
    assert "retained_graph" == world.leak().kind
    assert () == world.but(last=3).judge().leaks


def test_a_graph_that_only_its_fact_tells_of_is_named_by_the_inventory():
    places = (PathStep("variable", "loss"),)
    fact = GraphFact("loss", "autograd_graph", 1, (1,), 1, stepped=True, places=places)
    named = storage(1, "loss → graph[2] MulBackward0.self", category="saved for backward")
    leak = World((named,), facts={"graphs": (fact,)}).leak()
    assert "loss → graph[2] MulBackward0.self" == leak.path_text
    assert "loss = loss.detach()" == leak.remedy


ONLY_PLACES = [
    ((("dict", "logs"),), "logs.update({key: x.detach() for key, x in logs.items()})"),
    (
        (("dict entry", "logs['a']"), ("list item", "logs['b'][2]")),
        "logs['a'] = logs['a'].detach()\nlogs['b'][2] = logs['b'][2].detach()",
    ),
    ((("node", "node"),), "del node"),
    ((), '%gpumem reclaim "logs[*]"'),
    ((("attribute", "net.1.last"),), '%gpumem reclaim "logs[*]"'),
    (tuple(("list item", f"logs[{n}]") for n in range(7)), '%gpumem reclaim "logs[*]"'),
]


@pytest.mark.parametrize(("places", "remedy"), ONLY_PLACES)
def test_results_are_detached_where_they_stand_and_by_nbmem_where_no_line_can(places, remedy):
    steps = tuple(PathStep(*place) for place in places)
    world = graph_world("logs[*]", "container", ("logs", "['a']"), roots=2, places=steps)
    assert remedy == world.leak().remedy


def test_a_generator_at_work_is_silent_even_if_older_parts_of_it_are_known():
    old = chain("suspended_frame", "steps", "steps", "local 'data'")
    fact = SuspendedFact("steps", "suspended_frame", (1, 2), 2)
    world = World(
        (storage(1), storage(2)),
        {1: [old], 2: [old]},
        facts={"suspended": (fact,)},
        origins={1: made(3), 2: made(9)},
    )
    assert () == world.judge().leaks
    assert (1, 2) == world.but(origins={1: made(3), 2: made(4)}).leak().storages


def test_what_a_hook_closes_a_cycle_with_goes_without_being_asked_for_by_name():
    assert not held_by("hook", CYCLE).leak().on_request


# -- copies of earlier runs -----------------------------------------------------------------------


def test_an_older_copy_is_none_before_the_newest_run_has_made_its_own():
    world = BY_NAME["an old model in an optimizer"].world
    before = world.but(storages=world.storages[:1])
    assert "stale_optimizer_state" == before.leak().kind


def test_an_optimizer_that_has_stepped_is_told_by_its_state():
    world = BY_NAME["an old model in an optimizer"].world
    (fact,) = world.facts["states"]
    state = storage(2, "opt.state[…]['exp_avg']", category="optimizer state")
    stepped = world.but(
        storages=(*world.storages, state), facts={"states": (replace(fact, keys=(1, 2)),)}
    )
    assert "stale_optimizer_state" == stepped.leak().kind


def test_a_shown_tensor_of_an_older_run_is_the_output_caches_and_no_copy_of_the_cells():
    world = BY_NAME["an old model that was shown"].world
    tensor = replace(world.storages[0], category="user")
    assert "stale_output" == world.but(storages=(tensor, world.storages[1])).leak().kind


def test_what_the_graph_of_a_shown_value_keeps_is_said_with_the_number_of_its_cell():
    way = chain("output_cache", "Out[7]", "Out[7]", "graph", "saved by ExpBackward0")
    assert (
        "Out[7] keeps what cell [7] showed, and no variable of yours needs that."
        == World((storage(1),), {1: [way]}).leak().reason
    )


def test_five_shown_tensors_of_one_cell_are_one_growth():
    outputs = range(1, 6)
    world = World(
        tuple(storage(n) for n in outputs),
        {n: [chain("output_cache", f"Out[{n}]", cell=n)] for n in outputs},
        origins={n: made(n, run=n) for n in outputs},
        runs=(CellRuns(1, 6, {"cpu": MIB}),),
    )
    leaks = world.judge().leaks
    assert [MIB] * 5 == [leak.growth_per_run for leak in leaks]
    assert ["Out[1]", "Out[2]", "Out[3]", "Out[4]", "Out[5]"] == [k.path_text for k in leaks]
    still = world.but(runs=(CellRuns(1, 6, {"cpu": 0}),)).judge().leaks
    assert [None] * 5 == [leak.growth_per_run for leak in still]


def test_growth_tells_the_older_runs_part_and_leaves_the_newest_alone():
    leak = grown().leak()
    assert (1, 2, 3) == leak.storages
    assert ("kept",) == leak.cuts


def test_a_replay_buffer_that_fills_is_no_growth():
    filled = grown(name="buffer[{}]")
    assert 3 * MIB == filled.leak().bytes
    assert () == filled.but(facts={"bounded": (1, 2, 3, 4)}).judge().leaks


def test_growth_is_told_by_device():
    world = grown().but(runs=(CellRuns(1, 4, {"cuda:0": MIB}),))
    assert () == world.judge().leaks


def test_the_gradient_of_a_layer_without_a_name_of_its_own_is_cleared_through_the_model():
    frozen = GradientFact(1, MIB, "net.1.weight.grad", False, True, None, module="net")
    layer = storage(1, frozen.name, category="gradient", module="net.1")
    leak = World((layer,), facts={"gradients": (frozen,)}).leak()
    line = '[setattr(p, "grad", None) for p in net.parameters() if not p.requires_grad];'
    assert line == leak.remedy
    assert (
        "net.1.weight.grad belongs to a parameter with requires_grad=False, which no training "
        "changes." == leak.reason
    )


# -- sums, order, threshold -----------------------------------------------------------------------


def two(first, second):
    """Two leaks of these bytes; the second has the path that comes first."""
    b, a = chain("traceback", "b", "b"), chain("traceback", "a", "a")
    return World((storage(1, size=first), storage(2, size=second)), {1: [b], 2: [a]})


def test_the_largest_leak_stands_first_and_equals_stand_by_their_paths():
    assert ["b", "a"] == [k.path_text for k in two(2 * MIB, MIB).judge().leaks]
    assert ["a", "b"] == [k.path_text for k in two(MIB, MIB).judge().leaks]


def test_small_leaks_are_only_summed():
    report = two(THRESHOLD, THRESHOLD - 1).judge()
    assert ["b"] == [leak.path_text for leak in report.leaks]
    assert (THRESHOLD - 1, THRESHOLD) == (report.below, report.threshold)


def test_small_storages_of_one_holder_add_up_to_a_leak():
    world = World(tuple(storage(n, size=1024) for n in range(256)), {n: [OUT] for n in range(256)})
    assert (256 * 1024, 256) == (world.leak().bytes, world.leak().count)


def test_the_cell_and_the_device_are_those_of_most_bytes():
    storages = (storage(1, made_by=3), storage(2, made_by=5, size=3 * MIB, device="cuda:0"))
    leak = World((*storages, storage(3, made_by=3)), {1: [OUT], 2: [OUT], 3: [OUT]}).leak()
    assert (5, "cuda:0") == (leak.created_by, leak.device)


def test_a_cell_that_nobody_knows_stays_unknown():
    unknown = storage(1, made_by=None, size=2 * MIB)
    leak = World((unknown, storage(2, made_by=3)), {1: [OUT], 2: [OUT]}).leak()
    assert leak.created_by is None


def test_a_storage_that_has_gone_since_is_not_told():
    assert () == World((storage(2),), {1: [OUT]}).judge().leaks


def test_a_storage_that_somebody_asked_for_and_a_value_needs_is_no_leak():
    needed = [chain("variable", "x", wanted=True), OUT]
    assert () == World((storage(1, "x"),), {1: needed}, needed=(1,)).judge().leaks


def test_a_small_view_in_the_output_cache_is_told_once():
    world = World((storage(1, "Out[12]"),), {1: [OUT]}, facts={"views": (ViewFact(1, MIB, 4, ()),)})
    assert "stale_output" == world.leak().kind


def test_a_view_without_a_name_is_explained_and_left_alone():
    world = World((storage(1),), facts={"views": (ViewFact(1, MIB, 4096, ()),)})
    leak = world.leak()
    assert (
        "A view without a name shows 4.00 KiB and keeps the whole 1.00 MiB that it was cut from."
        == leak.reason
    )
    assert (False, "") == (leak.reclaimable, leak.remedy)


def test_a_text_with_quotes_is_handed_to_python_instead_of_the_magic():
    world = held_by("closure", "f → dict 'x'[\"a\"]")
    line = "import nbmem; nbmem.reclaim_memory('f → dict \\'x\\'[\"a\"]');"
    assert line == world.leak().remedy
    brackets = held_by("closure", "f → dict 'x'['{$a}']")
    line = "import nbmem; nbmem.reclaim_memory(\"f → dict 'x'['{$a}']\");"
    assert line == brackets.leak().remedy


def test_names_of_any_alphabet_can_be_pasted():
    assert (
        "del ошибка.кэш"
        == held_by("tensor_attribute", "ошибка.кэш", "ошибка", ".кэш").leak().remedy
    )


# -- names incomplete -----------------------------------------------------------------------------


def test_nothing_is_called_unneeded_for_want_of_a_name_when_the_search_was_cut():
    gradient = GradientFact(3, MIB, "w.grad", True, False, None)
    world = World(
        tuple(map(storage, (1, 2, 3, 4))),
        {1: [OUT], 2: [ERROR], 4: [ERROR, OUT]},
        facts={"gradients": (gradient,)},
    )
    assert 4 == len(world.judge().leaks)
    report = world.but(complete=False).judge()
    assert ["stale_error", "unused_gradient"] == [leak.kind for leak in report.leaks]
    assert [
        "Names incomplete: a budget cut the search for them, so that only what rests on no missing "
        "name is told: errors, gradients, views and growth"
    ] == [note.sentence for note in report.notes]


# -- what has no words ----------------------------------------------------------------------------


def test_a_holder_without_words_is_told_as_unknown_and_left_alone():
    world = World((storage(1), storage(2)), {1: [chain("wormhole", "IPython's Shell")], 2: [OUT]})
    (strange, known) = sorted(world.judge().leaks, key=lambda leak: leak.storages)
    assert ("forgotten_reference", "unknown", "") == (strange.kind, strange.holder, strange.remedy)
    assert not strange.reclaimable
    assert (
        "nbmem did not find what keeps this memory, and no value that you can name needs that."
        == strange.reason
    )
    assert ("stale_output", True) == (known.kind, known.reclaimable)


def test_a_holder_without_words_beside_another_keeps_both_from_being_touched():
    leak = World((storage(1),), {1: [OUT, chain("wormhole", "IPython's Shell")]}).leak()
    assert ("stale_output", "", False) == (leak.kind, leak.remedy, leak.reclaimable)


def test_asking_for_words_that_do_not_exist_gives_the_sentence_of_the_unknown():
    assert "Something that nbmem did not find." == explain_holder("wormhole")
    assert explain_kind("wormhole").startswith("Something holds it that no value of yours needs")


# -- the same facts, the same list ----------------------------------------------------------------

CUTS = (
    *(OUT, ERROR, THREAD, LOSS),
    chain("variable", "x", wanted=True),
    chain("suspended_frame", "steps"),
    chain("hook", "hook 'save' on net → list 'acts'"),
    chain("garbage", "garbage: list object"),
    chain("autograd_graph", CYCLE, CYCLE, "graph"),
)
KEYS = range(1, 9)


@st.composite
def worlds(draw):
    """Any world of up to eight storages, with facts that may speak of the same ones."""
    some = st.lists(st.sampled_from(KEYS), unique=True, max_size=4)
    storages = tuple(
        storage(
            key,
            *draw(st.lists(st.sampled_from(("kept[0]", "kept[1]", "Out[12]")), max_size=1)),
            size=draw(st.sampled_from((4, 1000, THRESHOLD, MIB))),
            category=draw(st.sampled_from(("user", "parameter", "gradient"))),
        )
        for key in draw(some)
    )
    chains = st.lists(st.sampled_from(CUTS), max_size=3, unique_by=id)
    held = {key: draw(chains) for key in draw(some)}
    needed = tuple(k for k, ways in held.items() if any(way.wanted for way in ways))
    sizes = {one.key: one.bytes for one in storages}
    flags = st.booleans()
    facts = {
        "graphs": (GraphFact("loss", "autograd_graph", 1, tuple(draw(some)), 1, draw(flags)),),
        "gradients": tuple(
            GradientFact(k, sizes.get(k, 0), f"net.{k}.grad", draw(flags), draw(flags), None)
            for k in draw(some)
        ),
        "views": tuple(
            ViewFact(k, sizes.get(k, 0), draw(st.integers(0, MIB)), ()) for k in draw(some)
        ),
    }
    runs = st.integers(1, 4)
    origins = {k: made(draw(runs) + 6, run=draw(runs), name="kept[*]") for k in draw(some)}
    return World(
        storages,
        held,
        needed,
        facts,
        origins,
        (CellRuns(1, 4, {"cpu": draw(st.sampled_from((0, MIB)))}),),
        complete=draw(flags),
        threshold=draw(st.sampled_from((0, 1, THRESHOLD))),
    )


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_no_byte_is_told_twice_and_none_that_is_not_there(world):
    report = world.judge()
    alive = {one.key: one.bytes for one in world.storages}
    keys = [key for leak in report.leaks for key in leak.storages]
    assert len(set(keys)) == len(keys)
    assert set(keys) <= set(alive)
    told = sum(leak.bytes for leak in report.leaks)
    assert 0 <= told + report.below <= sum(alive.values())
    for leak in report.leaks:
        assert leak.count == len(leak.storages) > 0
        assert 0 < leak.bytes <= sum(alive[key] for key in leak.storages) or not world.threshold


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_leaks_stand_in_order_and_above_the_threshold(world):
    report = world.judge()
    order = [(-leak.bytes, leak.path_text) for leak in report.leaks]
    assert sorted(order) == order
    assert all(leak.bytes >= world.threshold for leak in report.leaks)
    low = world.but(threshold=0).judge()
    assert report.below + sum(k.bytes for k in report.leaks) == sum(k.bytes for k in low.leaks)


@settings(max_examples=200, deadline=None)
@given(worlds(), st.integers(0, 99))
def test_the_same_facts_give_the_same_list_in_whatever_order_they_come(world, seed):
    report = world.judge()
    assert report == world.judge()
    assert NOW == report.taken_at
    mixed = list(world.held.items())
    random.Random(seed).shuffle(mixed)
    facts = {name: tuple(reversed(listed)) for name, listed in world.facts.items()}
    assert report == world.but(held=dict(mixed), facts=facts).judge()


@settings(max_examples=200, deadline=None)
@given(worlds())
def test_what_a_value_needs_is_never_called_unneeded(world):
    needed = {key for key, ways in world.held.items() if any(way.wanted for way in ways)}
    unneeded = {"stale_output", "stale_error", "unreachable", "forgotten_reference"}
    for leak in world.judge().leaks:
        assert leak.kind not in unneeded or not needed & set(leak.storages)


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_a_leak_survives_being_written_to_json(world):
    for leak in world.judge().leaks:
        assert leak == from_json(Leak, to_json(leak))


def test_a_held_storage_without_any_chain_is_not_passed_over():
    world = World((storage(1),))
    holders = replace(world.holders, held=(HeldStorage(1, MIB, ()),))
    (leak,) = judge(world, holders).leaks
    assert ("forgotten_reference", "unknown", False) == (leak.kind, leak.holder, leak.reclaimable)
