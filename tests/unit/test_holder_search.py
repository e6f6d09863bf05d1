"""What holds an object: every way to it, through whatever the heap has, and what nothing holds."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import itertools
import subprocess
import sys
import threading
import types
import weakref
from collections import deque
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from nbmem.holders.search import search_holders


@pytest.fixture(autouse=True)
def no_collection():
    """Garbage of a test stays until the test looks at it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.fixture
def lib():
    """A module of some library: what is in it is held until it goes."""
    module = types.ModuleType("some_lib")
    sys.modules["some_lib"] = module
    yield module
    del sys.modules["some_lib"]


class Told:
    """What a search found, as plain texts; nothing of it is kept."""

    def __init__(self, targets, **options):
        found = search_holders(targets, **options)
        self.types = [type(one).__name__ for one in found.objects]
        self.ids = [id(one) for one in found.objects]
        self.edges = [tuple(edge) for edge in found.edges]
        self.roots = dict(found.roots)
        self.known = set(found.known)
        self.loose = dict(found.loose)
        self.unreachable = set(found.unreachable)
        self.cut = found.cut
        found.clear()
        assert not any((found.objects, found.edges, found.roots, found.loose))

    def chains(self, at=0):
        """Returns every way from a beginning to an object, as a sentence."""
        return sorted(self._ways(at, ()))

    def _ways(self, at, below):
        beginning = self.roots.get(at)
        if beginning is None and at in self.unreachable and not self._above(at, below):
            beginning = (0, f"garbage {self.types[at]}")
        if beginning is None and at in self.loose:
            beginning = (0, f"? {self.types[at]}")
        if beginning is not None:
            yield beginning[1]
        for holder, text in self._above(at, below):
            for way in self._ways(holder, (*below, at)):
                yield f"{way}{'' if text[0] in '.[' else ' → '}{text}"

    def _above(self, at, below):
        return [(e[0], e[3]) for e in self.edges if e[1] == at and e[0] not in (*below, at)]


class Trainer:
    pass


class Slotted:
    __slots__ = ("__weakref__", "cache")


class Net(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("mean", torch.zeros(2))
        if depth:
            self.inner = torch.nn.Sequential(Net(depth - 1))


# -- plain containers ----------------------------------------------------------------------------


def test_a_tensor_in_a_list_in_a_dict_of_an_object_is_told_with_every_step(lib):
    lib.trainer = Trainer()
    lib.trainer.cache = {"acts": [1, 2, torch.zeros(3)]}
    told = Told([lib.trainer.cache["acts"][2]])
    assert ["module some_lib.trainer.cache['acts'][2]"] == told.chains()
    assert ({}, set(), False) == (told.loose, told.unreachable, told.cut)


def test_each_of_several_ways_is_told(lib):
    tensor = torch.zeros(3)
    lib.one, lib.two, lib.three = [tensor], (0, tensor), deque([0, 0, tensor])
    lib.four, lib.five = {tensor}, {"k": {3: tensor}}
    targets = [tensor]
    del tensor
    expected = ["five['k'][3]", "four → member 0", "one[0]", "three[2]", "two[1]"]
    assert [f"module some_lib.{text}" for text in expected] == Told(targets).chains()


def test_the_same_tensor_twice_in_one_list_is_told_at_both_places(lib):
    tensor = torch.zeros(3)
    lib.twice = [tensor, None, tensor]
    targets = [tensor]
    del tensor
    told = Told(targets)
    assert ["module some_lib.twice[0]", "module some_lib.twice[2]"] == told.chains()
    assert {} == told.loose


def test_an_attribute_in_a_slot_is_told_by_its_name(lib):
    lib.held = Slotted()
    lib.held.cache = torch.zeros(3)
    assert ["module some_lib.held.cache"] == Told([lib.held.cache]).chains()


def test_a_tensor_that_is_a_key_is_told_by_its_place(lib):
    lib.by_tensor = {"first": 1, torch.zeros(3): 2}
    told = Told([list(lib.by_tensor)[1]])
    assert ["module some_lib.by_tensor → key 1"] == told.chains()
    assert ["dict key"] == [kind for _, held, kind, _ in told.edges if held == 0]


def test_an_objects_dict_that_somebody_else_has_too_is_told_both_ways(lib):
    lib.trainer = Trainer()
    lib.trainer.cache = torch.zeros(3)
    lib.state = vars(lib.trainer)
    expected = ["module some_lib.state['cache']", "module some_lib.trainer.cache"]
    if not gc.get_referents(lib.state):  # a defect of Python 3.13.0: it hides such a dict's values
        del expected[0]
    assert expected == Told([lib.trainer.cache]).chains()


def test_modules_parts_are_told_as_named_parameters_tells_them(lib):
    lib.model = Net(2)
    inner = lib.model.inner[0].inner[0]
    targets = [inner.weight, inner.mean]
    del inner
    told = Told(targets)
    assert ["module some_lib.model.inner.0.inner.0.weight"] == told.chains(0)
    assert ["module some_lib.model.inner.0.inner.0.mean"] == told.chains(1)


def test_what_a_class_has_is_told_of_the_class():
    Trainer.shared = [torch.zeros(3)]
    try:
        name = f"class {Trainer.__module__}.Trainer"
        assert [f"{name}.shared[0]"] == Told([Trainer.shared[0]]).chains()
    finally:
        del Trainer.shared


def test_a_class_without_a_name_or_an_instance_is_garbage_with_all_it_has():
    def run_cell():
        class Old:
            cache = [torch.zeros(3)]  # noqa: RUF012

            def method(self):
                return super().__init__()

        return weakref.ref(Old.cache[0]), weakref.ref(Old)

    tensor, old = run_cell()
    told = Told([tensor()])
    assert ({}, {}) == (told.roots, told.loose)
    assert set(range(len(told.types))) == told.unreachable
    assert old() is not None
    gc.collect()
    assert (None, None) == (tensor(), old())


def test_a_class_whose_instance_lives_is_no_garbage(lib):
    class Old:
        cache = [torch.zeros(3)]  # noqa: RUF012

    lib.instance, targets = Old(), [Old.cache[0]]
    name = f"class {__name__}.{Old.__qualname__}.cache[0]"
    del Old
    told = Told(targets)
    assert [name] == told.chains()
    assert set() == told.unreachable


def test_one_item_of_a_very_long_list_is_told_by_its_place(lib):
    lib.data = [[] for _ in range(300_000)]
    lib.data[271_828].append(torch.zeros(3))
    assert ["module some_lib.data[271828][0]"] == Told([lib.data[271_828][0]]).chains()


# -- functions and frames ------------------------------------------------------------------------


def make_function():
    acts = torch.zeros(3)

    def hook(x, acc=[torch.ones(3)], *, scale=torch.ones(1)):  # noqa: B006, B008
        return acts, acc, scale

    return hook


def test_closures_and_defaults_are_told_by_their_names(lib):
    lib.hook = make_function()
    lib.hook.seen = torch.zeros(1)
    closure = lib.hook.__closure__[0].cell_contents
    targets = [closure, lib.hook.__defaults__[0][0], lib.hook.__kwdefaults__["scale"]]
    targets.append(lib.hook.seen)
    del closure
    told = Told(targets)
    assert ["module some_lib.hook → closure acts"] == told.chains(0)
    assert ["module some_lib.hook → default acc[0]"] == told.chains(1)
    assert ["module some_lib.hook → default scale"] == told.chains(2)
    assert ["module some_lib.hook.seen"] == told.chains(3)


def waits():
    acts = torch.zeros(3)
    yield acts
    yield acts + 1


def test_a_generator_that_waits_is_told_by_its_variable(lib):
    lib.steps = waits()
    targets = [next(lib.steps)]
    assert ["module some_lib.steps → local 'acts'"] == Told(targets).chains()


def fails():
    acts = torch.zeros(3)
    ref = weakref.ref(acts)
    raise ValueError(ref)


def test_the_frames_of_a_kept_exception_are_told(lib):
    try:
        fails()
    except ValueError as error:
        lib.error = error
    chains = Told([lib.error.args[0]()]).chains()
    assert "module some_lib.error → fails() → local 'acts'" in chains


def test_a_function_that_runs_now_holds_its_variables():
    def outer():
        acts = [torch.zeros(3)]
        return Told([acts[0]]).chains()

    assert ["outer() in thread 'MainThread' → local 'acts'[0]"] == outer()


def test_a_frame_of_another_thread_holds_its_variables():
    ready, done, refs = threading.Event(), threading.Event(), []

    def work():
        batch = torch.zeros(3)
        refs.append(weakref.ref(batch))
        ready.set()
        done.wait()
        assert batch is not None

    thread = threading.Thread(target=work, name="loader")
    thread.start()
    ready.wait()
    try:
        told = Told([refs[0]()])
    finally:
        done.set()
        thread.join()
    assert ["work() in thread 'loader' → local 'batch'"] == told.chains()
    assert {} == told.loose
    assert refs[0]() is None


def test_a_closures_variable_that_a_running_frame_shares_is_told_of_both(lib):
    def outer():
        acts = torch.zeros(3)
        lib.hook = lambda: acts
        return Told([lib.hook.__closure__[0].cell_contents]).chains()

    expected = ["module some_lib.hook → closure acts"]
    assert [*expected, "outer() in thread 'MainThread' → local 'acts'"] == outer()


def test_asking_leaves_frames_and_what_they_hold_as_they_were():
    def outer():
        acts = torch.zeros(3)
        before = sys.getrefcount(acts)
        for _ in range(3):
            Told([acts])
        ref, after = weakref.ref(acts), sys.getrefcount(acts)
        del acts
        return before, after, ref

    before, after, ref = outer()
    assert before == after
    assert ref() is None


# -- what gc.get_referrers does not show ---------------------------------------------------------


def test_results_of_cached_functions_are_told_of_the_function(lib):
    @functools.cache
    def load(n):
        return torch.zeros(n)

    @functools.lru_cache(maxsize=4)
    def load_some(n):
        return torch.zeros(n)

    lib.load, lib.load_some = load, load_some
    targets = [load(3), load_some(4)]
    del load, load_some
    told = Told(targets)
    assert ["module some_lib.load → cached result 0"] == told.chains(0)
    assert ["module some_lib.load_some → cached result 0"] == told.chains(1)


def test_what_tee_and_cycle_keep_for_later_is_told(lib):
    lib.first, second = itertools.tee(iter([torch.zeros(3)]))
    lib.again = itertools.cycle(iter([torch.zeros(4)]))
    targets = [next(second), next(lib.again)]
    del second
    told = Told(targets)
    assert "module some_lib.first → buffer of tee → buffer of tee" in told.chains(0)
    assert "module some_lib.again → buffer of cycle[0]" in told.chains(1)


def test_a_tensors_attribute_is_told(lib):
    lib.tensor = torch.zeros(3)
    lib.tensor.acts = [torch.zeros(3)]
    assert ["module some_lib.tensor.acts[0]"] == Told([lib.tensor.acts[0]]).chains()


def test_an_array_that_shares_a_tensors_memory_is_told(lib):
    lib.arrays = {"a": torch.zeros(3).numpy()[1:]}
    behind = lib.arrays["a"].base.base
    assert isinstance(behind, torch.Tensor)
    targets = [behind]
    del behind
    told = Told(targets)
    assert ["module some_lib.arrays['a'].base.base"] == told.chains()
    assert {} == told.loose


def test_an_array_that_a_running_function_has_is_told():
    def outer():
        array = torch.zeros(3).numpy()
        return Told([array.base])

    told = outer()
    assert ["outer() in thread 'MainThread' → local 'array'.base"] == told.chains()


def test_an_array_of_objects_is_told(lib):
    import numpy

    lib.table = numpy.empty(3, dtype=object)
    lib.table[1] = torch.zeros(3)
    assert ["module some_lib.table[1]"] == Told([lib.table[1]]).chains()


def test_an_array_in_a_dict_that_two_have_is_told_both_ways(lib):
    lib.one = {"batch": torch.zeros(3).numpy()}
    lib.two = [lib.one]
    told = Told([lib.one["batch"].base])
    expected = ["module some_lib.one['batch'].base", "module some_lib.two[0]['batch'].base"]
    assert expected == told.chains()
    assert {} == told.loose


def test_an_array_that_has_itself_is_no_endless_way(lib):
    import numpy

    lib.table = numpy.empty(2, dtype=object)
    lib.table[0], lib.table[1] = lib.table, torch.zeros(3)
    assert "module some_lib.table[1]" in Told([lib.table[1]]).chains()


def test_what_a_context_variable_and_a_thread_have_of_their_own_is_not_garbage():
    variable, local = contextvars.ContextVar("batch"), threading.local()
    variable.set([torch.zeros(3)])
    local.acts = [torch.zeros(4)]
    told = Told([variable.get()[0], local.acts[0]])
    assert set() == told.unreachable


def test_the_gradient_of_a_tensor_that_was_found_is_told(lib):
    lib.model = [torch.ones(3, requires_grad=True)]
    lib.model[0].sum().backward()
    told = Told([lib.model[0], lib.model[0].grad])
    assert ["module some_lib.model[0].grad"] == told.chains(1)
    assert {} == told.loose


def test_what_only_a_graph_holds_is_loose(lib):
    weight = torch.ones(3, requires_grad=True)
    lib.loss = (weight * 2).exp().sum()
    saved = lib.loss.grad_fn.next_functions[0][0]._raw_saved_result.data
    targets = [saved]
    del saved, weight
    told = Told(targets)
    assert [0] == list(told.loose)
    assert set() == told.unreachable


def test_a_hook_that_only_a_node_keeps_ends_in_something_loose():
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    function = make_function()
    loss.grad_fn.register_hook(function)
    targets = [function.__closure__[0].cell_contents]
    del function
    told = Told(targets)
    [chain] = told.chains()
    assert chain.endswith("→ closure acts")
    assert set() == told.unreachable
    assert loss is not None


def test_what_a_frozen_object_holds_is_told_of_it(lib):
    lib.before = [[]]
    gc.freeze()
    try:
        lib.before[0].append(torch.zeros(3))
        told = Told([lib.before[0][0]])
    finally:
        gc.unfreeze()
    assert ["module some_lib.before[0][0]"] == told.chains()


def test_garbage_that_is_frozen_is_told_as_frozen():
    cycle = [torch.zeros(3)]
    cycle.append(cycle)
    ref = weakref.ref(cycle[0])
    del cycle
    gc.freeze()
    try:
        told = Told([ref()])
    finally:
        gc.unfreeze()
    assert {("frozen", "objects frozen by gc.freeze()")} == set(told.roots.values())
    assert set() == told.unreachable


# -- garbage -------------------------------------------------------------------------------------


def make_garbage(depth):
    model = Net(depth)
    model.me = model
    while hasattr(model, "inner"):
        model = model.inner[0]
        model.me = model
    return weakref.ref(model.weight)


def test_a_nested_model_that_is_garbage_is_unreachable():
    ref = make_garbage(10)
    told = Told([ref()])
    assert ({}, {}) == (told.roots, told.loose)
    assert set(range(len(told.types))) == told.unreachable
    assert 11 == told.types.count("Net")
    gc.collect()
    assert ref() is None


def test_garbage_of_ten_thousand_objects_is_unreachable():
    first = cell = Trainer()
    for _ in range(10_000):
        following = Trainer()
        following.before = cell
        cell = following
    first.before, first.acts = cell, torch.zeros(3)
    ref = weakref.ref(first.acts)
    del first, cell, following
    told = Told([ref()])
    assert 10_002 == len(told.unreachable)
    assert not told.cut


def test_a_chain_of_ten_thousand_links_is_followed_to_its_beginning(lib):
    cell = torch.zeros(3)
    targets = [cell]
    for _ in range(10_000):
        cell = [cell]
    lib.chain = cell
    del cell
    told = Told(targets)
    assert 10_002 == len(told.types)
    assert [("module", "module some_lib")] == list(told.roots.values())
    assert set() == told.unreachable


def test_a_limit_ends_the_search_and_calls_nothing_unreachable():
    ref = make_garbage(10)
    told = Told([ref()], most_objects=5)
    assert told.cut
    assert set() == told.unreachable


# -- what the caller says ------------------------------------------------------------------------


def test_what_the_caller_knows_is_not_searched_further(lib):
    lib.known = {"inner": [torch.zeros(3)]}
    targets = [lib.known["inner"][0]]
    told = Told(targets, known={id(lib.known["inner"])})
    assert ["list"] == [told.types[at] for at in told.known]
    assert (set(), {}) == (told.unreachable, told.roots)
    assert [(1, 0, "list item", "[0]")] == told.edges


def test_the_callers_own_containers_are_no_holders():
    def caller():
        mine = [torch.zeros(3)]
        return Told([mine[0]], ours={id(mine)})

    told = caller()
    assert ([], {}, {0}) == (told.edges, told.loose, told.unreachable)


def test_objects_of_nbmem_and_what_only_they_have_are_no_holders(lib):
    holder = type("Trail", (), {"__module__": "nbmem.inventory.trail"})()
    tensor = torch.zeros(3)
    holder.tensors = {"kept": [tensor]}
    lib.acts = [tensor]
    targets = [tensor]
    del tensor
    told = Told(targets)
    assert ["module some_lib.acts[0]"] == told.chains()
    assert ({}, 2) == (told.loose, len(told.edges))
    assert holder is not None


def test_nothing_is_kept_afterwards(lib):
    lib.model = Net(3)
    ref = weakref.ref(lib.model.inner[0].weight)
    for _ in range(2):
        Told([ref()])
    lib.model = None
    assert ref() is None


class Seen(TorchDispatchMode):
    """Counts operations of torch."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += 1
        return operation(*args, **(kwargs or {}))


MODES = {
    "inference": torch.inference_mode,
    "fake tensors": FakeTensorMode,
    "another default device": lambda: torch.device("meta"),
    "none": contextlib.nullcontext,
}


@pytest.mark.parametrize("mode", MODES)
def test_modes_of_torchs_that_are_on_neither_see_the_search_nor_change_it(lib, mode):
    lib.acts = [torch.zeros(3)]
    threads = torch.get_num_threads()
    with Seen() as seen, MODES[mode]():
        told = Told([lib.acts[0]])
    assert ["module some_lib.acts[0]"] == told.chains()
    assert (0, threads) == (seen.count, torch.get_num_threads())


class Loud:
    """An object all of whose special methods are the user's."""

    calls: ClassVar = []

    def __getattribute__(self, name):
        Loud.calls.append(name)
        return object.__getattribute__(self, name)

    def __eq__(self, other):
        Loud.calls.append("__eq__")
        return True

    def __hash__(self):
        Loud.calls.append("__hash__")
        return 1

    def __len__(self):
        Loud.calls.append("__len__")
        return 0

    def __iter__(self):
        Loud.calls.append("__iter__")
        return iter(())


class LoudDict(Loud, dict):
    def items(self):
        Loud.calls.append("items")
        return ()


def test_no_code_of_the_users_runs(lib):
    loud, inner = Loud(), LoudDict()
    object.__getattribute__(loud, "__dict__")["acts"] = inner
    dict.__setitem__(inner, "x", torch.zeros(3))
    lib.loud = [Loud(), loud]
    targets = [dict.__getitem__(inner, "x")]
    del loud, inner
    Loud.calls.clear()
    told = Told(targets)
    assert [] == Loud.calls
    assert ["module some_lib.loud[1].acts['x']"] == told.chains()


# -- any heap ------------------------------------------------------------------------------------


class Token:
    """Dies with the container that it is in."""


def make_node(kind, token):
    if kind == "object":
        node = Trainer()
        node.token = token
        return node
    if kind in ("slots", "closure"):
        return make_slotted(token) if kind == "slots" else make_hook([token])
    return {"list": [token], "dict": {"token": token}, "deque": deque([token])}[kind]


def make_hook(acts):
    return lambda: acts


def make_slotted(token):
    node = Slotted()
    node.cache = [token]
    return node


def add_child(kind, node, child, number):
    if kind in ("list", "deque"):
        node.append(child)
    elif kind == "closure":
        node.__closure__[0].cell_contents.append(child)
    elif kind == "dict":
        node[number] = child
    elif kind == "object":
        setattr(node, f"child{number}", child)
    else:
        node.cache.append(child)


KINDS = st.sampled_from(["list", "deque", "dict", "object", "slots", "closure"])


@st.composite
def heaps(draw):
    kinds = draw(st.lists(KINDS, min_size=1, max_size=12))
    place = st.integers(0, len(kinds) - 1)
    edges = draw(st.lists(st.tuples(place, place), max_size=30))
    return kinds, edges, draw(st.sets(place, max_size=2)), draw(st.sets(place, min_size=1))


@settings(max_examples=100, deadline=None)
@given(heaps())
def test_every_way_in_any_heap_is_found_and_unreachable_is_what_collecting_frees(heap):
    kinds, edges, rooted, holding = heap
    gc.disable()
    gc.freeze()  # what was there before is put aside: to look and to collect is quick then
    module = sys.modules["some_lib"] = types.ModuleType("some_lib")
    tokens = [Token() for _ in kinds]
    nodes = [make_node(kind, token) for kind, token in zip(kinds, tokens, strict=True)]
    dying = [weakref.ref(token) for token in tokens]
    for number, (holder, held) in enumerate(edges):
        add_child(kinds[holder], nodes[holder], nodes[held], number)
    targets = [Token() for _ in holding]
    for at, target in zip(sorted(holding), targets, strict=True):
        add_child(kinds[at], nodes[at], target, "target")
    for at in rooted:
        setattr(module, f"root{at}", nodes[at])
    ids = {id(node): at for at, node in enumerate(nodes)}
    del tokens, nodes, target
    alive = {at for at, ref in enumerate(dying) if ref() is not None}
    above = ancestors(holding & alive, [e for e in edges if alive.issuperset(e)])
    try:
        told = Told(targets)
        assert above == {ids[key] for key in told.ids if key in ids}
        assert {e for e in edges if e[0] in alive and e[1] in above} <= edges_between(told, ids)
        from_roots = {text for at, _, _, text in told.edges if at in told.roots}
        assert {f".root{at}" for at in rooted & above} == from_roots
        garbage = {ids[told.ids[at]] for at in told.unreachable if told.ids[at] in ids}
        assert {} == told.loose
        del targets[:]
        gc.collect()
        assert {at for at in above if dying[at]() is None} == garbage
    finally:
        del sys.modules["some_lib"]
        gc.unfreeze()


def ancestors(starts, edges):
    above, size = set(starts), 0
    while size != len(above):
        size = len(above)
        above |= {holder for holder, held in edges if held in above}
    return above


def edges_between(told, ids):
    """Returns the pairs of nodes between which there is an edge; some hold theirs in a list."""
    by_vertex = {at: ids[key] for at, key in enumerate(told.ids) if key in ids}
    owner = dict(by_vertex)
    for holder, held, _, text in told.edges:
        if text in (".cache", "closure acts") and holder in by_vertex and held not in by_vertex:
            owner[held] = by_vertex[holder]
    return {(owner.get(e[0]), by_vertex.get(e[1])) for e in told.edges}


AFTER_AWAITS = """
import asyncio, gc
import torch
from nbmem.holders.search import search_holders

async def wait_for_some():
    futures = [asyncio.get_running_loop().create_future() for _ in range(8)]
    waiting = list(map(iter, futures))

asyncio.run(wait_for_some())
data = torch.ones(10)
hidden = [data]
%s
found = search_holders([data])
print(any(holder is hidden for holder in found.objects))
del found
print(gc.collect() >= 0)
"""


@pytest.mark.parametrize("before", ["", "gc.freeze()"])
def test_a_search_leaves_what_asyncio_keeps_for_later_as_it_is(before):
    """Python 3.12 shows it freed iterators; who takes a reference has it collect for ever."""
    told = subprocess.run(
        [sys.executable, "-c", AFTER_AWAITS % before],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "", "True\nTrue\n") == (told.returncode, told.stderr, told.stdout)
