"""Objects that fight back, sizes and threads: the inventory bears them, and tells what it cuts."""

from __future__ import annotations

import collections
import gc
import threading
import time
import types
import weakref
from unittest import mock

import numpy as np
import pytest
import torch
from storage_truth import Look, MadeStorages, collected, nothing_of_ours_runs
from torch import nn

N = 300


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """What other tests left is kept from the collector, so that each look is quick."""
    collected()
    gc.freeze()
    yield
    gc.unfreeze()


def quiet_look(namespace, **options):
    """Returns an inventory during which no function of this file ran."""
    with nothing_of_ours_runs(__file__):
        return Look(namespace, **options)


def categories(look):
    return {name: record.category for record in look.inventory.storages for name in record.names}


# -- objects that fight back ---------------------------------------------------------------------


class Trap(BaseException):
    pass


def spring(*_, **__):
    raise Trap


class RaisingModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(N))
        self.kept = torch.ones(N)

    def __getattr__(self, name):
        if name in ("_parameters", "weight", "armed"):
            return super().__getattr__(name)
        raise Trap

    @property
    def device(self):
        raise Trap

    __dir__ = named_parameters = named_modules = children = state_dict = spring


def test_a_module_whose_attributes_raise_is_walked():
    model = RaisingModule()
    look = quiet_look({"model": model})
    assert ("model.weight",) == look.names_of(vars(model)["_parameters"]["weight"])
    assert ("model.kept",) == look.names_of(vars(model)["kept"])


@pytest.mark.parametrize("part", ["_parameters", "_buffers", "_modules"])
@pytest.mark.parametrize("make", [list, tuple, lambda items: None, iter, lambda items: 7])
def test_a_module_whose_parts_are_no_dicts_is_walked(part, make):
    model, x = nn.Linear(N, 2), torch.ones(N)
    model.own = x
    vars(model)[part] = make([torch.ones(N)])
    look = quiet_look({"model": model, "x": x})
    assert "x" in look.names_of(x)
    assert [] == look.lost_names()


def test_a_module_whose_parts_are_missing_or_belong_to_another_is_walked():
    one, two = nn.Linear(N, 2), nn.Linear(N, 2)
    vars(one)["_parameters"] = two._parameters
    bare = nn.Linear.__new__(nn.Linear)
    vars(bare)["x"] = torch.ones(N)
    half = nn.Module()
    del vars(half)["_buffers"]
    look = quiet_look({"one": one, "two": two, "bare": bare, "half": half})
    assert {"one.weight", "two.weight"} == set(look.names_of(two.weight))
    assert ("bare.x",) == look.names_of(vars(bare)["x"])
    assert [] == look.lost_names()


def test_a_part_of_a_module_that_is_no_tensor_is_walked_past():
    model = nn.Linear(N, 2)
    model._parameters["odd"] = "text"
    model._parameters[5] = torch.ones(N)
    model._modules["none"] = None
    model._modules["fn"] = print
    model._buffers["deep"] = [torch.ones(N)]
    look = quiet_look({"model": model})
    assert [] == look.lost_names()
    assert 1 == len(look.names_of(model._parameters[5]))
    assert 1 == len(look.names_of(model._buffers["deep"][0]))


class EvilKey:
    def __init__(self):
        self.kept = torch.ones(N)
        self.armed = False

    def __hash__(self):
        if self.armed:
            raise Trap
        return 5

    def __eq__(self, other):
        raise Trap

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __format__ = spring


def test_keys_that_raise_when_hashed_or_compared_are_walked():
    keys = [EvilKey()]
    box, group = {keys[0]: torch.ones(N)}, {keys[0]}
    optimizer = types.SimpleNamespace(state=collections.defaultdict(dict, {keys[0]: box}))
    keys[0].armed = True
    look = quiet_look({"box": box, "group": group, "optimizer": optimizer})
    assert 1 <= len(look.names_of(keys[0].kept))
    assert [] == look.lost_names()
    keys[0].armed = False
    box.clear(), group.clear(), optimizer.state.clear()


def evil_namespace():
    class Loud(str):
        __eq__ = __repr__ = __str__ = __format__ = spring
        __hash__ = str.__hash__

    return {Loud("loud"): torch.ones(N), "x": torch.ones(N), 5: [torch.ones(N)]}


def test_a_namespace_with_keys_that_are_no_plain_strings_is_walked():
    namespace = evil_namespace()
    look = quiet_look(namespace)
    assert ("x",) == look.names_of(namespace["x"])
    assert 3 * N * 4 <= sum(record.bytes for record in look.inventory.storages)


class Dispatching(torch.Tensor):
    """A wrapper that counts what is asked of it."""

    asked = 0

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked += 1
        raise Trap

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked += 1
        raise Trap


def test_a_wrapper_that_counts_is_never_asked():
    wrapper = Dispatching(torch.ones(N))
    Dispatching.asked = 0
    model = nn.Module()
    model._parameters["weight"] = wrapper
    look = quiet_look({"w": wrapper, "model": model})
    assert 0 == Dispatching.asked
    inner = vars(wrapper)["inner"]
    assert "model.weight.inner" in look.names_of(inner)  # `w` is a part of the model
    assert N * 4 == look.record_of(inner).bytes


def test_tensors_within_a_transform_are_walked():
    from torch.func import grad, jvp, vmap

    looks, kept = [], torch.ones(N)

    def inside(x):
        y = x.sin()
        looks.append(Look({"x": x, "y": y, "kept": kept, "box": [y]}))
        return y.sum()

    vmap(inside)(torch.ones(4, N))
    grad(inside)(torch.ones(N))
    jvp(inside, (torch.ones(N),), (torch.ones(N),))
    vmap(grad(inside))(torch.ones(4, N))
    assert 4 == len(looks)
    for look in looks:
        names = {name for record in look.inventory.storages for name in record.names}
        assert "kept" in names


def test_mocks_are_neither_called_nor_grown():
    model = mock.MagicMock(spec=nn.Module)
    tensor = mock.MagicMock(spec=torch.Tensor)
    loose = mock.MagicMock()
    loose.kept = x = torch.ones(N)
    before = [len(m.mock_calls) for m in (model, tensor, loose)]
    children = len(vars(loose)["_mock_children"])
    look = quiet_look({"model": model, "tensor": tensor, "loose": loose})
    assert before == [len(m.mock_calls) for m in (model, tensor, loose)]
    assert children == len(vars(loose)["_mock_children"])
    assert 1 == len(look.names_of(x))


def test_proxies_and_references_dead_or_alive_are_walked_past():
    class Owner:
        pass

    alive, dead = Owner(), Owner()
    alive.kept = x = torch.ones(N)
    namespace = {
        "alive": weakref.proxy(alive),
        "dead": weakref.proxy(dead),
        "ref": weakref.ref(dead),
        "values": weakref.WeakValueDictionary({"x": x}),
        "keys": weakref.WeakKeyDictionary({alive: x}),
        "x": x,
    }
    del dead
    look = quiet_look(namespace)
    assert "x" == look.names_of(x)[0]
    assert [] == look.lost_names()


def test_things_that_run_when_asked_are_not_asked():
    def produce():
        yield torch.ones(N)
        raise Trap

    class Lazy:
        @property
        def tensor(self):
            raise Trap

        def __call__(self):
            raise Trap

        def __del__(self):
            pass

    x = torch.ones(N)
    namespace = {
        "generator": produce(),
        "mapped": map(spring, [x]),
        "filtered": filter(spring, [x]),
        "zipped": zip([x], [x], strict=True),
        "counted": enumerate([x]),
        "function": lambda: spring(),
        "lazy": Lazy(),
        "x": x,
        "memory": memoryview(b"abc"),
        "module": types.ModuleType("m"),
        "code": spring.__code__,
    }
    look = quiet_look(namespace)
    assert "x" in look.names_of(x)
    assert [] == look.lost_names()


def test_arrays_of_objects_are_walked():
    array = np.empty((2, 3), dtype=object)
    array[1, 2] = x = torch.ones(N)
    array[0, 0] = array
    structured = np.zeros(2, dtype=[("a", "f4"), ("b", "O")])
    structured["b"][1] = y = torch.ones(N)
    zero = np.array(None, dtype=object)
    zero[()] = z = torch.ones(N)
    look = quiet_look({"array": array, "structured": structured, "zero": zero})
    assert ("array[1, 2]",) == look.names_of(x)
    assert N * 4 == look.record_of(y).bytes
    assert N * 4 == look.record_of(z).bytes
    assert [] == look.lost_names()
    array[0, 0] = None


def test_numpy_over_torchs_memory_leads_to_the_storage():
    x = torch.ones(N)
    namespace = {"array": x.numpy()[3:]}
    address = x.untyped_storage()._cdata
    del x
    look = quiet_look(namespace)
    assert N * 4 == look.by_address[address].bytes
    assert [] == look.lost_names()
    assert look.by_address[address].names


# -- size and depth --------------------------------------------------------------------------------


def test_a_namespace_of_fifty_thousand_tensors_is_named_whole():
    namespace = {f"v{n}": torch.ones(1) for n in range(50_000)}
    look = Look(namespace)
    assert [] == look.codes()
    assert namespace.keys() <= {n for r in look.inventory.storages for n in r.names}


def nest(depth, wrap):
    x = deep = torch.ones(N)
    for _ in range(depth):
        deep = wrap(deep)
    return x, deep


class Link:
    __slots__ = ("next",)

    def __init__(self, following):
        self.next = following


@pytest.mark.parametrize("depth", [2_000, 100_000])
@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t,), lambda t: {"k": t}, Link], ids=str)
def test_what_is_deeper_than_the_walk_goes_is_counted_and_told(depth, wrap):
    x, deep = nest(depth, wrap)
    look = Look({"deep": deep})
    assert N * 4 == look.record_of(x).bytes
    assert () == look.names_of(x)
    assert ["budget"] == look.codes()
    assert "steps" in look.sentences()


def test_a_module_a_thousand_deep_is_named():
    model = leaf = nn.Linear(N, 1)
    for _ in range(1000):
        model = nn.Sequential(model)
    look = Look({"model": model})
    assert ("model" + ".0" * 1000 + ".weight",) == look.names_of(leaf.weight)


def test_cycles_of_all_kinds_end():
    x, ring, table, model = torch.ones(N), [], {}, nn.Module()
    ring.append(ring)
    table["self"] = table
    table["ring"] = ring
    ring.append(table)
    object.__setattr__(model, "parent", model)
    model._modules["loop"] = model
    spaces = types.SimpleNamespace()
    spaces.me = spaces
    x.me = x
    x.ring = ring
    ring.append(x)
    dq = collections.deque()
    dq.append(dq)
    fn = lambda: fn  # noqa: E731
    look = quiet_look(
        {"ring": ring, "table": table, "model": model, "s": spaces, "x": x, "dq": dq, "fn": fn}
    )
    assert "x" == look.names_of(x)[0]
    assert [] == look.lost_names()
    ring.clear()


@pytest.mark.parametrize(
    "fill",
    [
        lambda: list(range(10**6)),
        lambda: dict.fromkeys(range(10**6)),
        lambda: set(range(10**6)),
        lambda: [[n] for n in range(300_000)],
        lambda: {str(n): {"n": n} for n in range(200_000)},
        lambda: np.arange(10**6).astype(object),
    ],
    ids=["list", "dict", "set", "lists", "dicts", "array"],
)
def test_what_holds_a_million_numbers_costs_no_names(fill):
    x = torch.ones(N)
    look = Look({"huge": fill(), "a": [[[x]]]})
    assert ("a[0][0][0]",) == look.names_of(x)
    assert [] == look.codes()


class Clock:
    """Each time it is asked, a millisecond has passed."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.001
        return self.now


def test_slow_things_are_cut_at_the_budget_and_told(monkeypatch):
    class Thing:
        def __init__(self, n):
            self.inner = [n, {}]

    x = torch.ones(N)
    namespace = {"x": x, "things": [Thing(n) for n in range(100_000)], "last": [[[[x]]]]}
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    look = Look(namespace, budget=0.5)
    assert ("budget", True) == (look.codes()[0], "0.5 s" in look.sentences())
    assert clock.now < 1.5  # the walk of 400,000 objects would have asked the time more often
    assert "x" == look.names_of(x)[0]
    assert N * 4 == look.record_of(x).bytes


def test_no_budget_at_all_still_counts_every_byte():
    made = MadeStorages()
    with made:
        model = nn.Sequential(nn.Linear(N, N), nn.ReLU())
        namespace = {
            "model": model,
            "loss": model(torch.ones(4, N)).sum(),
            "deep": [[torch.ones(N)]],
        }
    look = Look(namespace, budget=0)
    assert made.alive() == look.sizes(made.alive())
    assert "budget" in look.codes()


# -- while the notebook goes on --------------------------------------------------------------------


def test_containers_that_other_threads_change_are_borne():
    x, namespace = torch.ones(N), {}
    box, table, stack, group = [x], {"x": x}, collections.deque([x]), {x}
    namespace.update(box=box, table=table, stack=stack, group=group, model=nn.Module())
    stop = threading.Event()

    def churn():
        n = 0
        while not stop.is_set():
            n += 1
            table[n % 97], table[f"k{n % 89}"] = [torch.ones(3)], n
            table.pop((n * 7) % 97, None)
            box.append(torch.ones(5))
            if len(box) > 50:
                del box[1:30]
            stack.append(n)
            if len(stack) > 50:
                stack.pop()
            group.add(n)
            group.discard(n - 20)
            setattr(namespace["model"], f"a{n % 31}", torch.ones(2))
            namespace[f"v{n % 41}"] = [n]
            namespace.pop(f"v{(n * 3) % 41}", None)

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        looks = [Look(namespace) for _ in range(15)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for look in looks:
        assert N * 4 == look.record_of(x).bytes
        assert "table['x']" in look.names_of(x)
        assert [] == look.codes()


def test_frozen_objects_are_named_and_found():
    x, model = torch.ones(N), nn.Linear(N, 2)
    box = {"a": [x]}
    gc.freeze()
    try:
        look = quiet_look({"box": box, "model": model})
    finally:
        gc.unfreeze()
    assert ("box['a'][0]",) == look.names_of(x)
    assert ("model.weight",) == look.names_of(model.weight)


def test_two_inventories_at_once_are_both_right():
    namespace = {f"v{n}": torch.ones(N) for n in range(50)}
    looks, errors = [], []

    def look():
        try:
            looks.extend(Look(namespace) for _ in range(5))
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == errors
    for one in looks:
        for name, tensor in namespace.items():
            assert (name,) == one.names_of(tensor)
