"""An inventory asked for again tells what is now, however little changed."""

from __future__ import annotations

import collections
import functools
import gc
import threading
import types

import numpy as np
import pytest
import torch
from storage_truth import Look, collected
from torch import nn

from nbmem.heap import StorageTable

N = 300


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """What other tests left is kept from the collector, so that each look is quick."""
    collected()
    gc.freeze()
    yield
    gc.unfreeze()


class Twice:
    """Looks at a namespace, and again after each change: the second must be as a fresh one."""

    def __init__(self, namespace, outputs=None):
        self.namespace, self.outputs = namespace, outputs or {}
        self.table = StorageTable()
        self.last = Look(namespace, self.outputs, self.table)
        self.last = Look(namespace, self.outputs, self.table)

    def check(self):
        gc.disable()
        try:
            self.last = Look(self.namespace, self.outputs, self.table)
            fresh = Look(self.namespace, self.outputs)
        finally:
            gc.enable()
        assert names_of(fresh) == names_of(self.last)
        live = {ref.serial: ref.bytes for ref in self.table.live()}
        assert live == {record.key: record.bytes for record in self.last.inventory.storages}
        return self.last


def names_of(look):
    return {
        address: (r.bytes, r.shape, r.dtype, r.category, r.names, r.module, r.saved_by)
        for address, r in look.by_address.items()
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (-1, -2),
        (0, 2**61 - 1),
        (1, 2**61),
        (1, True),
        (0, 0.0),
        (0.0, -0.0),
        (None, "None"),
        (b"a", "a"),
        (2.0**61, 1),
        (-1.0, -2.0),
        ((0, "x"), (1, "x")),
        (("a",), ("b",)),
        (((0,),), ((1,),)),
        (10**30, 10**30 + 1),
        (float("inf"), 314159),
        (1j, 1000003),
        (range(3), range(4)),
        (frozenset((1,)), frozenset((2,))),
    ],
    ids=str,
)
def test_a_key_that_hashes_as_another_is_not_taken_for_it(old, new):
    box = {old: torch.ones(N)}
    twice = Twice({"box": box})
    box[new] = box.pop(old)
    twice.check()


def test_a_new_key_where_an_old_one_lay_is_seen():
    for n in range(50):
        box, more = {}, ["x"]  # a list, so that each key is a tuple made anew
        box[(n, *more)] = torch.ones(N)
        twice = Twice({"box": box})
        tensor = box.popitem()[1]
        box[(n + 1, *more)] = tensor
        del tensor
        (name,) = {n for r in twice.check().inventory.storages for n in r.names}
        assert f"box[({n + 1}, 'x')]" == name


def test_a_new_tensor_where_an_old_one_lay_is_another_storage():
    namespace = {"x": torch.ones(N)}
    twice = Twice(namespace)
    for _ in range(50):
        del namespace["x"]
        namespace["x"] = torch.ones(N)
        twice.check()


def test_a_new_gradient_where_an_old_one_lay_is_another_storage():
    w = torch.ones(N, requires_grad=True)
    twice = Twice({"w": w})
    for _ in range(30):
        w.grad = None
        (w * 2).sum().backward()
        twice.check()


def test_a_new_graph_where_an_old_one_lay_is_another():
    namespace = {"w": torch.ones(N, requires_grad=True)}
    namespace["loss"] = namespace["w"].exp().sum()
    twice = Twice(namespace)
    for n in range(30):
        del namespace["loss"]
        operation = torch.sin if n % 2 else torch.exp
        namespace["loss"] = operation(namespace["w"]).sum()
        twice.check()


def test_graphs_of_other_threads_with_the_same_numbers_are_told_apart():
    namespace = {"a": nn.Linear(N, N, bias=False), "b": nn.Linear(N, N, bias=False)}
    x = namespace["x"] = torch.ones(4, N)

    def build(first, second):
        namespace["loss"] = second(first(x).relu()).relu().sum()

    twice = None
    for n in range(10):
        pair = (namespace["a"], namespace["b"])[:: 1 if n % 2 else -1]
        namespace.pop("loss", None)
        thread = threading.Thread(target=build, args=pair)
        thread.start()
        thread.join()
        twice = twice or Twice(namespace)
        twice.check()


@pytest.mark.filterwarnings("ignore")
def test_an_array_in_another_shape_gives_other_names():
    array = np.empty((2, 3), dtype=object)
    array[1, 0] = torch.ones(N)
    twice = Twice({"array": array})
    array.shape = (3, 2)
    twice.check()
    array.shape = (6,)
    twice.check()


def test_an_array_that_is_changed_is_read_again():
    array = np.array([None, None], dtype=object)
    array[0] = torch.ones(N)
    twice = Twice({"array": array})
    array[:] = array[::-1].copy()
    twice.check()


def with_default(held):
    return lambda t=held: t


def with_keyword(held):
    return lambda *, t=held: t


CHANGES = {
    "swapped items": (lambda: [1, torch.ones(N)], lambda box: box.reverse()),
    "swapped tensors": (lambda: [torch.ones(N), torch.ones(N)], lambda box: box.reverse()),
    "rotated": (lambda: collections.deque([1, torch.ones(N), 2]), lambda box: box.rotate(1)),
    "grown": (lambda: [torch.ones(N)], lambda box: box.insert(0, 5)),
    "grown long": (lambda: [*range(100)], lambda box: box.append(torch.ones(N))),
    "nested": (lambda: [[[torch.ones(N)], []]], lambda box: box[0].reverse()),
    "order of keys": (
        lambda: {object: torch.ones(N), "b": 1},
        lambda box: box.update(b=box.pop("b"), c=1),
    ),
    "objects as keys": (
        lambda: {types.SimpleNamespace: 1, object: torch.ones(N)},
        lambda box: box.update({types.SimpleNamespace: box.pop(types.SimpleNamespace)}),
    ),
    "two values swapped": (
        lambda: {"a": torch.ones(N), "b": torch.ones(N)},
        lambda box: box.update(a=box["b"], b=box["a"]),
    ),
    "attribute": (lambda: types.SimpleNamespace(a=torch.ones(N)), lambda s: vars(s).update(b=s.a)),
    "renamed attribute": (
        lambda: types.SimpleNamespace(a=torch.ones(N)),
        lambda s: vars(s).update(b=vars(s).pop("a")),
    ),
    "function's default": (
        lambda: with_default(torch.ones(N)),
        lambda f: setattr(f, "__defaults__", (torch.zeros(N),)),
    ),
    "function's keyword": (
        lambda: with_keyword(torch.ones(N)),
        lambda f: f.__kwdefaults__.update(t=[f.__kwdefaults__["t"]]),
    ),
    "function's attribute": (lambda: lambda: 1, lambda f: vars(f).update(kept=torch.ones(N))),
    "tensor's attribute": (lambda: torch.ones(N), lambda t: vars(t).update(kept=torch.ones(N))),
    "tensor's hook": (
        lambda: torch.ones(N, requires_grad=True),
        lambda t: t.register_hook(functools.partial(print, torch.ones(N))),
    ),
    "data": (lambda: torch.ones(N), lambda t: setattr(t, "data", torch.zeros(N))),
    "data of another shape": (
        lambda: torch.ones(N),
        lambda t: setattr(t, "data", t.data.view(30, 10)),
    ),
    "data of another type": (
        lambda: torch.ones(N),
        lambda t: setattr(t, "data", t.data.view(torch.int32)),
    ),
    "view": (lambda: torch.ones(N), lambda t: t.unsqueeze_(0)),
    "transposed": (lambda: torch.ones(30, 10), lambda t: t.t_()),
    "resized": (lambda: torch.ones(N), lambda t: t.resize_(2 * N)),
    "storage resized": (lambda: torch.ones(N), lambda t: t.untyped_storage().resize_(9999)),
    "set": (lambda: torch.ones(N), lambda t: t.set_(torch.zeros(N))),
    "gradient": (lambda: torch.ones(N), lambda t: setattr(t, "grad", torch.zeros(N))),
    "requires": (lambda: torch.ones(N), lambda t: t.requires_grad_()),
    "grown graph": (lambda: torch.ones(N, requires_grad=True) * 1, lambda t: t.exp_()),
    "detached": (lambda: torch.ones(N, requires_grad=True).exp(), lambda t: t.detach_()),
    "freed graph": (lambda: torch.ones(N, requires_grad=True).exp().sum(), lambda t: t.backward()),
    "class": (lambda: torch.ones(N), lambda t: setattr(t, "__class__", nn.Parameter)),
    "parameter renamed": (
        lambda: nn.Linear(N, 1),
        lambda m: m._parameters.update(other=m._parameters.pop("weight")),
    ),
    "parameter to buffer": (
        lambda: nn.Linear(N, 1),
        lambda m: m._buffers.update(weight=m._parameters.pop("weight")),
    ),
    "parameter to attribute": (
        lambda: nn.Linear(N, 1),
        lambda m: vars(m).update(weight=m._parameters.pop("weight")),
    ),
    "child renamed": (
        lambda: nn.Sequential(nn.Linear(N, 1)),
        lambda m: m._modules.update(other=m._modules.pop("0")),
    ),
    "children swapped": (
        lambda: nn.Sequential(nn.Linear(N, 1), nn.Linear(N, 1)),
        lambda m: m._modules.update({"0": m[1], "1": m[0]}),
    ),
    "tied": (
        lambda: nn.Sequential(nn.Linear(N, N), nn.Linear(N, N)),
        lambda m: setattr(m[1], "weight", m[0].weight),
    ),
    "half": (lambda: nn.Linear(N, N), lambda m: m.half()),
    "hook of a module": (
        lambda: nn.Linear(N, 1),
        lambda m: m.register_forward_hook(functools.partial(print, torch.ones(N))),
    ),
    "train flag": (lambda: nn.Linear(N, 1), lambda m: m.eval()),
    "zeroed gradients": (lambda: torch.ones(N), lambda t: setattr(t, "grad", None)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_is_seen(change):
    make, act = CHANGES[change]
    thing = make()
    twice = Twice({"thing": thing, "box": [thing]})
    act(thing)
    twice.check()
    twice.check()


@pytest.mark.parametrize("change", ["view", "data", "grown graph", "resized", "gradient"])
def test_a_change_of_what_the_collector_does_not_see_is_seen(change):
    make, act = CHANGES[change]
    thing = make()
    gc.freeze()
    twice = Twice({"thing": thing, "box": [thing]})
    act(thing)
    twice.check()


class Config:
    table = torch.ones(N)


def test_a_change_of_a_class_is_seen():
    twice = Twice({"Config": Config})
    Config.table, Config.other = torch.zeros(N), Config.table
    twice.check()
    del Config.other
    twice.check()


def test_a_closure_that_is_bound_anew_is_seen():
    def make():
        held = torch.ones(N)

        def swap():
            nonlocal held
            held = [held]

        return swap

    swap = make()
    twice = Twice({"swap": swap})
    swap()
    twice.check()
    swap()
    twice.check()


def test_a_generator_that_goes_on_is_seen():
    def produce():
        one = torch.ones(N)
        yield 1
        two = [one, torch.zeros(N)]
        yield two
        del one
        yield two

    generator = produce()
    twice = Twice({"generator": generator})
    for _ in range(3):
        next(generator)
        twice.check()


def test_a_variable_that_goes_to_the_output_cache_is_seen():
    namespace, outputs = {"x": torch.ones(N)}, {"Out[1]": 5}
    twice = Twice(namespace, outputs)
    outputs["_"] = namespace["x"]
    twice.check()
    del namespace["x"]
    twice.check()
    outputs["Out[1]"] = outputs.pop("_")
    twice.check()


def test_a_step_of_training_is_seen():
    model = nn.Sequential(nn.Linear(N, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    namespace = {"model": model, "optimizer": optimizer}
    twice = Twice(namespace)
    for _ in range(3):
        namespace["loss"] = model(torch.ones(4, N)).sum()
        twice.check()
        namespace["loss"].backward()
        twice.check()
        optimizer.step()
        twice.check()
        optimizer.zero_grad()
        twice.check()
    optimizer.state.clear()
    twice.check()
    optimizer.param_groups[0]["params"].pop()
    twice.check()


def test_who_made_a_storage_may_change_without_another_change():
    namespace, origin, table = {"x": torch.ones(N)}, [3], StorageTable()
    told = []
    looks = []
    for count in (3, 4, 4):
        origin[0] = count
        looks.append(
            Look(
                namespace, table=table, origin_of=lambda key: (origin[0], key, None), origins=count
            )
        )
        told.append(looks[-1].record_of(namespace["x"]).created_by)
    assert [3, 4, 4] == told


def test_a_longer_budget_after_a_short_one_names_the_rest():
    x = torch.ones(N)
    namespace, table = {"deep": [[[x]]], "many": [[n] for n in range(5000)]}, StorageTable()
    short = Look(namespace, table=table, budget=0)
    assert "budget" in short.codes()
    long = Look(namespace, table=table, budget=60)
    assert ("deep[0][0][0]",) == long.names_of(x)
    assert [] == long.codes()


def test_asked_again_with_nothing_changed_it_is_the_same():
    model = nn.Sequential(nn.Linear(N, 4), nn.ReLU())
    namespace = {"model": model, "loss": model(torch.ones(4, N)).sum(), "f": lambda t=[1]: t}
    twice = Twice(namespace)
    assert twice.last.inventory == twice.check().inventory


@functools.lru_cache
def remembered(n):
    return torch.ones(N + n)


def test_what_a_functions_cache_keeps_is_named():
    remembered.cache_clear()
    tensor = remembered(7)
    look = Look({"remembered": remembered})
    assert 1 == len(look.names_of(tensor))
    assert [] == look.lost_names()
