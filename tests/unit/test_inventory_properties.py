"""Whatever a notebook does, in whatever order: each storage once, each name leads back.

A random program of cells works on a namespace; weak references, taken while torch made the
storages, are the truth. What lives after a collection is held by a name, so that it must have one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_truth import BIG, Look, MadeStorages, collected
from torch import nn

from nbmem.heap import StorageTable

CAREFULLY = settings(
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=list(HealthCheck),
)
VARIABLES = ("a", "b", "c", "d")
KEYS = ("k", "weight", 0, 1, (0, "x"), None, "items", "a.b")


REFUSALS = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What torch raises where a cell asks what it refuses: a leaf in place, a freed graph, …"""


class Slotted:
    __slots__ = ("a", "b", "c", "d", "k")


@dataclass
class Batch:
    a: object = None
    rest: list = field(default_factory=list)


Pair = namedtuple("Pair", ["a", "b"])


class Notebook:
    """A namespace, an output cache and the things that a cell may do to them."""

    def __init__(self, made):
        self.variables, self.outputs, self.made = {}, {}, made
        self.run([("new_model", 0, 0), ("new_leaf", 1, 0), ("new_list", 2, 1)])

    def run(self, program):
        for name, one, two in program:
            with self.made, contextlib.suppress(*REFUSALS):
                getattr(self, name)(one, two)

    # -- what there is ------------------------------------------------------------------------

    def things(self):
        """Returns all that the namespace leads to, the nearest first, by a walk of its own."""
        found, queue, seen = [], [self.variables, self.outputs], set()
        while queue:
            thing = queue.pop(0)
            if id(thing) not in seen:
                seen.add(id(thing))
                found.append(thing)
                queue.extend(below(thing))
        return found[2:]

    def pick(self, number, *kinds):
        those = [thing for thing in self.things() if isinstance(thing, kinds or object)]
        if not those:
            raise IndexError
        return those[number % len(those)]

    def tensor(self, number):
        return self.pick(number, torch.Tensor)

    def learner(self, number):
        """Returns a tensor that has a graph or would begin one."""
        those = [t for t in self.things() if isinstance(t, torch.Tensor) and t.requires_grad]
        return those[number % len(those)]

    def result(self, number):
        """Returns a tensor that has a graph."""
        those = [t for t in self.things() if isinstance(t, torch.Tensor) and not t.is_leaf]
        return those[number % len(those)]

    def bind(self, number, value):
        self.variables[VARIABLES[number % len(VARIABLES)]] = value

    # -- cells that make ----------------------------------------------------------------------

    def new(self, one, two):
        self.bind(one, torch.ones(300 + two))

    def new_leaf(self, one, two):
        self.bind(one, torch.ones(300 + two, requires_grad=True))

    def new_list(self, one, two):
        self.bind(one, [torch.ones(300 + two), {"k": torch.ones(300)}])

    def new_odd(self, one, two):
        odd = (
            lambda: torch.eye(300).to_sparse(),
            lambda: torch.eye(300).to_sparse_csr(),
            lambda: torch.ones(300, dtype=torch.complex64).conj(),
            lambda: torch.ones(300).untyped_storage(),
            lambda: nn.Parameter(torch.ones(0)),
        )
        self.bind(one, odd[two % len(odd)]())

    def new_model(self, one, two):
        model = nn.Sequential(nn.Linear(30, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 30))
        if two % 2:
            model[3].weight = model[0].weight
        if two % 3 == 0:
            model.add_module("again", model[0])
        self.bind(one, model)

    def new_container(self, one, two):
        self.bind(one, CONTAINERS[two % len(CONTAINERS)](self.pick(two), self.pick(one)))

    def new_function(self, one, two):
        held, other = self.pick(two), [self.pick(one)]
        functions = (
            lambda: held,
            lambda given=held: given,
            types.MethodType(lambda self: self, other),
        )
        self.bind(one, functions[two % len(functions)])

    def new_output(self, one, two):
        self.outputs[f"Out[{one % 3}]"] = self.pick(two)

    # -- cells that take further ways to what there is ----------------------------------------

    def alias(self, one, two):
        self.bind(one, self.pick(two))

    def view(self, one, two):
        self.bind(one, self.tensor(two)[one % 3 :])

    def detach(self, one, two):
        self.bind(one, self.tensor(two).detach())

    def put(self, one, two):
        fill(self.pick(one, *FILLED), self.pick(two), one + two)

    def put_in_itself(self, one, two):
        box = self.pick(one, *FILLED)
        fill(box, box, two)

    # -- cells that train ---------------------------------------------------------------------

    def forward(self, one, two):
        thing = self.learner(two)
        self.bind(one, (thing * thing.exp()).sin())

    def forward_through_model(self, one, two):
        self.bind(one, self.pick(two, nn.Sequential)(torch.ones(4, 30)).exp().sum())

    def backward(self, one, two):
        loss = self.result(one).sum()
        loss.backward(retain_graph=bool(two % 2))

    def gradient_with_graph(self, one, two):
        loss, leaf = self.result(one).sum(), self.learner(two)
        self.bind(one, torch.autograd.grad(loss, leaf, create_graph=True)[0])

    def keep_gradient(self, one, two):
        self.result(one).retain_grad()

    def drop_gradients(self, one, two):
        thing = self.pick(one, torch.Tensor, nn.Module)
        if isinstance(thing, nn.Module):
            thing.zero_grad()
        else:
            thing.grad = None

    def new_optimizer(self, one, two):
        kind = (torch.optim.Adam, torch.optim.SGD)[two % 2]
        more = {"momentum": 0.9} if two % 2 else {}
        self.bind(one, kind(self.pick(two, nn.Module).parameters(), lr=0.1, **more))

    def step(self, one, two):
        self.pick(one, torch.optim.Optimizer).step()

    def hook(self, one, two):
        held = [torch.ones(300 + two)]  # nothing with a graph: no collector breaks that cycle
        thing = self.pick(one, torch.Tensor, nn.Module)
        if isinstance(thing, nn.Module):
            thing.register_forward_hook(lambda *_: held.clear())
        else:
            thing.register_hook(lambda _: held.clear())

    # -- cells that change things in place ----------------------------------------------------

    def delete(self, one, two):
        self.variables.pop(VARIABLES[one % len(VARIABLES)], None)

    def delete_output(self, one, two):
        self.outputs.pop(f"Out[{one % 3}]", None)

    def swap(self, one, two):
        first, second = VARIABLES[one % 4], VARIABLES[two % 4]
        space = self.variables
        if first in space and second in space:
            space[first], space[second] = space[second], space[first]

    def rename(self, one, two):
        name = VARIABLES[one % 4]
        if name in self.variables:
            self.bind(two, self.variables.pop(name))

    def again(self, one, two):
        """A new tensor where an old one just was: the same id, perhaps the same address."""
        name = VARIABLES[one % 4]
        old = self.variables.get(name)
        if isinstance(old, torch.Tensor) and old.layout is torch.strided:
            count = old.numel()
            del self.variables[name], old
            self.variables[name] = torch.ones(count)

    def take_out(self, one, two):
        box = self.pick(one, list, dict, set, deque)
        if isinstance(box, dict):
            box.pop(list(box)[two % len(box)] if box else None, None)
        elif box:
            box.remove(list(box)[two % len(box)]) if isinstance(box, set) else box.pop()

    def turn_round(self, one, two):
        box = self.pick(one, list, deque, dict)
        if not isinstance(box, dict):
            box.reverse()
        elif len(box) > 1 and type(box) is dict:
            pairs = list(box.items())
            box.clear()
            for (key, _), (_, value) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
                box[key] = value

    def rename_key(self, one, two):
        box = self.pick(one, dict)
        if box:
            box[KEYS[two % len(KEYS)]] = box.pop(next(iter(box)))

    def rename_attribute(self, one, two):
        model = self.pick(one, nn.Module)
        parts = (model._parameters, model._modules, model._buffers)[two % 3]
        if parts:
            parts["renamed"] = parts.pop(next(iter(parts)))

    def replace_parameter(self, one, two):
        model = self.pick(one, nn.Linear)
        model.weight = nn.Parameter(torch.ones(30, 30))

    def point_data_elsewhere(self, one, two):
        self.tensor(one).data = self.tensor(two).detach()

    def point_data_to_new(self, one, two):
        tensor = self.tensor(one)
        tensor.data = torch.ones_like(tensor.detach())

    def set_elsewhere(self, one, two):
        with torch.no_grad():
            self.tensor(one).set_(self.tensor(two).detach())

    def resize(self, one, two):
        with torch.no_grad():
            self.tensor(one).resize_(300 + 7 * two)

    def resize_storage(self, one, two):
        self.tensor(one).untyped_storage().resize_(1200 + 4 * two)

    def detach_in_place(self, one, two):
        self.result(one).detach_()

    def grow_in_place(self, one, two):
        result = self.result(one)
        if result._is_view():
            raise ValueError  # torch shows nobody what it keeps for that
        result.mul_(2).exp_()

    def rebind_grown(self, one, two):
        name = VARIABLES[one % 4]
        if isinstance(self.variables.get(name), torch.Tensor):
            self.variables[name] = self.variables[name].sin()

    def require(self, one, two):
        self.tensor(one).requires_grad_(bool(two % 2))

    def give_gradient(self, one, two):
        tensor = self.tensor(one)
        if not tensor.is_leaf:
            raise ValueError  # torch warns whoever asks for it, and nbmem does not
        tensor.grad = torch.ones_like(tensor)

    def give_attribute(self, one, two):
        self.tensor(one).kept = {"k": torch.ones(300 + two)}

    def drop_attribute(self, one, two):
        vars(self.tensor(one)).pop("kept", None)


CONTAINERS = (
    lambda a, b: [a, b],
    lambda a, b: (a, b),
    lambda a, b: {"k": a, 0: b},
    lambda a, b: OrderedDict(weight=a, items=b),
    lambda a, b: defaultdict(list, {(0, "x"): [a], None: b}),
    lambda a, b: deque([a, b]),
    lambda a, b: Pair(a, b),
    lambda a, b: Batch(a, [b]),
    lambda a, b: {a} if isinstance(a, torch.Tensor) else {id(a)},
    lambda a, b: fill(fill(Slotted(), a, 0), b, 1),
    lambda a, b: types.SimpleNamespace(a=a, b=b),
)
FILLED = (list, dict, deque, Slotted, Batch, types.SimpleNamespace, nn.Module)


def fill(box, value, number):
    if isinstance(box, (list, deque)):
        box.append(value)
    elif isinstance(box, dict):
        box[KEYS[number % len(KEYS)]] = value
    elif isinstance(box, nn.Module):
        setattr(box, VARIABLES[number % 4], value)
    else:
        setattr(box, "abcd"[number % 4] if isinstance(box, Slotted) else "a", value)
    return box


def below(thing):
    """Returns what a thing of these tests holds."""
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, (list, tuple, set, deque)):
        return list(thing)
    if isinstance(thing, Slotted):
        return [getattr(thing, name) for name in Slotted.__slots__ if hasattr(thing, name)]
    if isinstance(thing, nn.Module):
        parts = vars(thing)
        own = [parts[name] for name in VARIABLES if name in parts]
        return [*parts["_parameters"].values(), *parts["_modules"].values(), *own]
    if isinstance(thing, (Batch, types.SimpleNamespace)):
        return list(vars(thing).values())
    return []


MAKING = [name for name in vars(Notebook) if name.startswith("new_")]
TRAINING = ["forward", "forward_through_model", "backward", "step", "new_optimizer", "hook"]
HELPERS = {"run", "things", "pick", "tensor", "learner", "result", "bind"}
CHANGING = [
    name
    for name in vars(Notebook)
    if not name.startswith("_") and name not in HELPERS | {*MAKING, *TRAINING}
]
NUMBERS = st.integers(0, 11)
CELLS = st.tuples(st.one_of(map(st.sampled_from, (MAKING, TRAINING, CHANGING))), NUMBERS, NUMBERS)
PROGRAMS = st.lists(CELLS, min_size=2, max_size=16)


@given(st.none())
def warm_up(_):
    """Hypothesis leaves a gc callback when it first runs; better here than within a test."""


warm_up()


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """What other tests left is kept from the collector, so that each look is quick."""
    collected()
    gc.freeze()
    yield
    gc.unfreeze()


@contextlib.contextmanager
def nothing_collected():
    """Within it, garbage stays: both of two looks see it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def facts(look):
    """Returns the inventory as facts that a second table must tell alike, by address."""
    return {
        address: replace(record, key=0, views=0, visible=True, created_in=None)
        for address, record in look.by_address.items()
    }


def storages_after(program):
    """Returns how many storages of each size live after the program, as weak references tell."""
    notebook = Notebook(MadeStorages())
    notebook.run(program)
    collected()
    return Counter(notebook.made.alive().values())


@settings(CAREFULLY, max_examples=30)
@given(PROGRAMS)
def test_every_storage_is_found_once_under_names_that_lead_back(program):
    expected = storages_after(program)
    collected()
    table = StorageTable()
    Look({}, table=table)
    first = table.next_serial
    notebook = Notebook(contextlib.nullcontext())  # so that no weak reference helps to find it
    notebook.run(program)
    collected()
    look = Look(notebook.variables, notebook.outputs, table)
    new = [record for record in look.inventory.storages if record.key >= first]
    found = Counter(record.bytes for record in new)
    assert Counter() == expected - found
    assert [] == [size for size in found - expected if size > 8]  # Python's numbers, saved
    nameless = [record for record in new if record.bytes >= BIG and not record.names]
    assert {"unknown"} >= {record.category for record in nameless}
    assert Counter(record.bytes for record in nameless) <= left_behind(notebook)
    named = [record for record in new if record.bytes >= BIG and record.names]
    assert "unknown" not in {record.category for record in named}
    assert [] == look.lost_names()


def left_behind(notebook):
    """Returns the sizes of what only the base of a view shows, whose data was pointed elsewhere.

    No name leads there without asking torch for the base, which makes a Python object of it.
    """
    views = [t for t in notebook.things() if isinstance(t, torch.Tensor) and t._is_view()]
    moved = [view._base for view in views if storage_of(view._base) != storage_of(view)]
    return Counter({storage_of(base): base.untyped_storage().nbytes() for base in moved}.values())


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


def test_what_only_the_base_of_a_view_shows_has_no_name():
    table = StorageTable()
    x = torch.ones(70_000)
    view = x[10:]
    del x
    view.data = torch.zeros(5)
    look = Look({"view": view}, table=table)
    sizes = {280_000: (), 20: ("view",)}
    mine = [each for each in look.inventory.storages if each.bytes in sizes]
    assert sizes == {each.bytes: each.names for each in mine}


@settings(CAREFULLY, max_examples=15)
@given(PROGRAMS)
def test_looking_changes_nothing_and_twice_is_the_same(program):
    notebook = Notebook(MadeStorages())
    notebook.run(program)
    things = notebook.things()
    with nothing_collected():
        table = StorageTable()
        alive, counts = notebook.made.alive(), [*map(sys.getrefcount, things)]
        collections = [each["collections"] for each in gc.get_stats()]
        one = Look(notebook.variables, notebook.outputs, table)
        two = Look(notebook.variables, notebook.outputs, table)
        three = Look(notebook.variables, notebook.outputs, table)
        assert collections == [each["collections"] for each in gc.get_stats()]
        assert counts == [*map(sys.getrefcount, things)]
        assert alive == notebook.made.alive()
    assert one.inventory == two.inventory == three.inventory


@settings(CAREFULLY, max_examples=15)
@given(PROGRAMS)
def test_what_is_dropped_after_a_look_goes_as_without_it(program):
    left = []
    for looking in (False, True):
        notebook = Notebook(MadeStorages())
        notebook.run(program)
        table = StorageTable()
        if looking:
            Look(notebook.variables, notebook.outputs, table)
            Look(notebook.variables, notebook.outputs, table)
        notebook.variables.clear()
        notebook.outputs.clear()
        collected()
        left.append(sorted(notebook.made.alive().values()))
    assert left[0] == left[1]


def look_twice(notebook, table):
    """Returns what a table that knows the past tells, once what a fresh one tells is the same."""
    with nothing_collected():
        known = Look(notebook.variables, notebook.outputs, table)
        fresh = Look(notebook.variables, notebook.outputs)
        living = {ref.serial: ref.bytes for ref in table.live()}
        total = table.bytes_on("cpu")
    assert facts(fresh) == facts(known)
    assert fresh.inventory.notes == known.inventory.notes
    assert living == {record.key: record.bytes for record in known.inventory.storages}
    assert sum(living.values()) == total
    return known


@settings(CAREFULLY, max_examples=20)
@given(st.lists(PROGRAMS, min_size=2, max_size=4))
def test_a_table_that_knows_the_past_tells_the_present(programs):
    notebook, table = Notebook(contextlib.nullcontext()), StorageTable()
    for program in programs:
        notebook.run(program)
        last = look_twice(notebook, table)
        last = look_twice(notebook, table)  # and once more, nothing changed
    del last


@settings(CAREFULLY, max_examples=20)
@given(PROGRAMS, PROGRAMS)
def test_one_change_between_two_looks_is_seen(first, second):
    notebook, table = Notebook(contextlib.nullcontext()), StorageTable()
    notebook.run(first)
    last = look_twice(notebook, table)
    for cell in second:
        notebook.run([cell])
        last = look_twice(notebook, table)
    del last
