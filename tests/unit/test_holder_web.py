"""What values need and what they don't: the chains of a web, over plain dicts of names."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import sys
import types
import warnings
import weakref
from collections import deque

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.holders.web import open_web

N = 1 << 16
BYTES = 4 * N
"""Of one `ones()`: all others of this file are smaller."""


def ones():
    return torch.ones(N)


def holders_of(names, **options):
    """The records of storages that no value needs, of those that these tests make."""
    with open_web(StorageTable(), names, **options) as web:
        return web.holders


def texts(names, **options):
    """The chains, of storages of exactly `BYTES`, that no value needs."""
    held = holders_of(names, **options).held
    return sorted(chain.text for one in held if one.bytes == BYTES for chain in one.chains)


def cuts(names, **options):
    held = holders_of(names, **options).held
    return sorted({(c.holder, c.cut) for one in held if one.bytes == BYTES for c in one.chains})


@pytest.fixture(autouse=True)
def nothing_of_others():
    gc.collect()
    yield
    gc.collect()


class Thing:
    pass


def in_attribute():
    thing = Thing()
    thing.x = ones()
    return {"thing": thing}


def in_nested_containers():
    return {"data": {"train": [(ones(), {1: ones()})], "test": deque([ones()])}}


def in_a_model_and_its_optimizer():
    model = nn.Linear(256, 256, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 256)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer}


def in_a_loss_function():
    weights = ones()

    def loss(x):
        return (x * weights).sum()

    return {"loss": loss}


def in_a_partial():
    return {"scale": functools.partial(torch.mul, ones())}


def in_a_default():
    def scale(x, by=ones()):  # noqa: B008  that is the scene
        return x * by

    return {"scale": scale}


def in_a_hook_that_needs_it():
    model, mask = nn.Linear(2, 2), ones()
    model.register_forward_hook(lambda module, args, out: out * mask[0])
    return {"model": model}


def in_parameters_that_a_closure_keeps():
    weights = {"w": ones().requires_grad_()}

    def forward(x):
        return x @ weights["w"]

    return {"forward": forward}


def in_a_class_with_an_instance():
    class Tracker:
        seen = [ones()]  # noqa: RUF012  that is the scene

    return {"tracker": Tracker()}


def in_an_iterator_of_a_list():
    batches = iter([ones(), ones()])
    next(batches)
    return {"batches": batches}


def in_a_copy_of_the_weights():
    model = nn.Linear(256, 256, bias=False)
    return {"model": model, "average": copy.deepcopy(model), "saved": model.state_dict()}


def in_a_base_class_of_an_instance():
    class Base:
        table = {"a": ones()}  # noqa: RUF012  that is the scene

    class Derived(Base):
        pass

    return {"Base": Base, "v": Derived()}


def objects_of_c_code():
    class Sequence:
        def __init__(self):
            self.items = [ones()]

        def __getitem__(self, index):
            return self.items[index]

    backwards, some = reversed([ones()]), slice(ones(), None)
    return {"backwards": backwards, "some": some, "ahead": [iter(Sequence())]}


NEEDED = [
    in_a_base_class_of_an_instance,
    in_attribute,
    in_nested_containers,
    in_a_model_and_its_optimizer,
    in_a_loss_function,
    in_a_partial,
    in_a_default,
    in_a_hook_that_needs_it,
    in_parameters_that_a_closure_keeps,
    in_a_class_with_an_instance,
    in_an_iterator_of_a_list,
    in_a_copy_of_the_weights,
]


@pytest.mark.parametrize("scene", NEEDED, ids=lambda scene: scene.__name__)
def test_what_a_value_is_made_of_is_needed(scene):
    assert [] == texts(scene())


def test_what_c_code_s_own_objects_hold_for_a_variable_is_needed():
    names = objects_of_c_code()
    shell = dict(names)  # the namespace itself, of which `names` is a copy
    assert [] == texts(names, explained={id(shell)})


def test_what_ipython_shows_is_not_needed_by_a_variable():
    assert [("output_cache", "Out[3]")] == cuts({}, output_cache={"Out[3]": [ones()], "_": None})


def test_every_copy_of_a_shown_value_is_the_same_cut():
    def shown(x):
        return {"Out[3]": x, "_": x, "_3": x}

    found = cuts({}, output_cache=shown(ones()))
    assert [("output_cache", "Out[3]")] == found


def test_a_shown_value_that_has_a_name_is_needed():
    x = ones()
    assert [] == texts({"x": x}, output_cache={"Out[3]": x})


def test_a_name_of_underscores_is_throwaway():
    assert [("throwaway_name", "_")] == cuts({"_": ones()})


def test_a_hook_s_list_is_not_needed_by_the_model():
    def watch(layer):
        kept = [ones()]

        def save(module, args, out):
            kept.append(out)

        layer.register_forward_hook(save)

    model = nn.Sequential(nn.Linear(2, 2))
    watch(model[0])
    assert [("hook", "hook 'save' on model.0 → list 'kept'")] == cuts({"model": model})


def test_a_list_that_only_a_closure_knows_is_not_needed():
    def make():
        seen = []
        return lambda x: seen.append(x)

    log = make()
    log(ones())
    assert [("closure", "log → list 'seen'")] == cuts({"log": log})


def momentum(params, each=1):
    """A hand-written optimizer: a function, decorated as such functions are."""
    params, state = list(params), {}

    @torch.no_grad()
    def step():
        for at, p in enumerate(params):
            state[at] = [torch.zeros_like(p) for _ in range(each)]

    step()
    return step


def adam(params):
    params = list(params)

    def step(state={}):  # noqa: B006  as such functions are written
        for p in params:
            state[p] = {"m": torch.zeros_like(p), "v": torch.zeros_like(p), "step": torch.tensor(1)}

    step()
    return step


def of_a_model(model):
    m, v = [], []

    def step():
        for p in model.parameters():
            m.append(torch.zeros_like(p))
            v.append(torch.zeros_like(p))

    step()
    return step


@pytest.mark.parametrize(
    "make",
    [
        lambda model: momentum(model.parameters()),
        lambda model: momentum(model.parameters(), each=3),
        lambda model: adam(model.parameters()),
        of_a_model,
    ],
)
def test_the_state_of_an_optimizer_that_is_a_function_is_needed(make):
    model = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 3))
    assert [] == texts({"model": model, "step": make(model)})


@pytest.mark.parametrize(
    ("parameters", "gathered"),
    [
        ([(256, 256), (256,)], [(256, 256)]),
        ([(256, 256), (256,)], [(256, 256), (256, 256), (256,)]),
        ([(256, 256)], [(256, 256)] * 5),
        ([(256, 256), (256,)], [(256, 256), (256,), (7,)]),
        ([], [(256, 256)]),
    ],
)
def test_what_a_function_with_parameters_gathers_besides_is_not_needed(parameters, gathered):
    def make():
        params, log = [nn.Parameter(torch.zeros(one)) for one in parameters], []
        log += [torch.zeros(one) for one in gathered]
        return lambda: (params, log)

    assert {("closure", "step → list 'log'")} == set(cuts({"step": make()}))


def test_results_that_await_backward_are_no_state_of_an_optimizer():
    def make(weight):
        log = [weight * 1]
        return lambda: (weight, log)

    assert [("closure", "step → list 'log'")] == cuts({"step": make(nn.Parameter(ones()))})


def test_a_default_that_gathers_is_not_needed():
    def log(x, seen=[]):  # noqa: B006  that is the scene
        seen.append(x)

    log(ones())
    assert [("default_argument", "log → list 'seen'")] == cuts({"log": log})


def test_what_a_cache_remembers_is_not_needed():
    @functools.lru_cache
    def load(index):
        return ones() * index

    load(1)
    assert [("function_cache", "cache of load()")] == cuts({"load": load})


def test_a_class_without_instances_does_not_need_its_list():
    class Tracker:
        seen = [ones()]  # noqa: RUF012  that is the scene

    Tracker.__module__ = "__main__"  # as in a notebook
    assert [("class_attribute", "Tracker.seen")] == cuts({"Tracker": Tracker})


def test_an_attribute_on_a_tensor_is_not_needed():
    x = torch.zeros(3)
    x.before = ones()
    assert [("tensor_attribute", "x.before")] == cuts({"x": x})


def test_what_tee_has_stored_is_not_needed():
    ahead, behind = itertools.tee(iter([ones()]))
    next(ahead)
    assert {"iterator_buffer"} == {holder for holder, _ in cuts({"behind": behind})}


def test_a_list_of_losses_keeps_what_was_saved():
    w = ones().requires_grad_()
    losses = [(w * ones()).sum() for _ in range(2)]
    found = holders_of({"w": w, "losses": losses})
    assert ["losses[*]"] == [fact.cut for fact in found.graphs]
    assert 2 == found.graphs[0].roots
    expected = [f"losses[{n}] → graph → saved by MulBackward0" for n in range(2)]
    assert expected == texts({"w": w, "losses": losses})


def test_a_graph_that_saved_a_view_of_a_nameless_result_is_held_by_nothing_else():
    x = torch.rand(257, 251, requires_grad=True)
    similar = (x * 2) @ (x * 2).T
    found = holders_of({"x": x, "similar": similar}).held
    saved = [one for one in found if one.bytes == 257 * 251 * 4]  # nothing else is of that size
    assert 2 == len(saved)
    assert {"similar"} == {chain.cut for one in saved for chain in one.chains}


def test_results_of_one_forward_pass_are_one_graph():
    w = ones().requires_grad_()
    hidden = w * ones()
    out = {"hidden": hidden, "loss": hidden.exp().sum()}
    (fact,) = holders_of({"w": w, "out": out}).graphs
    assert ("out[*]", 1) == (fact.cut, fact.roots)


def test_every_graph_of_a_container_is_cut_with_it():
    w = ones().requires_grad_()
    hidden = w * ones()
    out = {"hidden": hidden, "loss": hidden.exp().sum()}
    with open_web(StorageTable(), {"w": w, "out": out}) as web:
        cut = {id(point.way.objects[-1]) for point in web.cuts("out[*]")}
    assert {id(out["hidden"]), id(out["loss"])} == cut


def test_holders_are_found_within_a_transform_of_torch():
    seen, shown = [], {"Out[3]": ones()}

    def loss(x):
        seen.append(texts({}, output_cache=shown))
        return (x * x).sum()

    torch.func.grad(loss)(torch.ones(3))
    assert "Out[3]" in seen[0]


def test_losses_after_backward_keep_nothing():
    w = ones().requires_grad_()
    losses = [(w * ones()).sum() for _ in range(2)]
    for loss in losses:
        loss.backward()
    assert () == holders_of({"w": w, "losses": losses}).graphs


def test_a_graph_whose_weights_were_stepped_is_told():
    w = torch.ones(N, requires_grad=True)
    x = torch.ones(N, requires_grad=True)
    loss = (w * x).sum() + (w * torch.ones(N)).sum()
    assert [False] == [fact.stepped for fact in holders_of(locals()).graphs]
    with torch.no_grad():
        w.add_(1)
    assert [True] == [fact.stepped for fact in holders_of(locals()).graphs]


def test_a_step_is_seen_where_only_a_view_of_the_weights_was_saved():
    model, x = nn.Sequential(nn.Linear(9, 256), nn.Linear(256, 9)), torch.ones(256, 9)
    names = {"model": model, "loss": model(x).exp().sum()}
    assert [False] == [fact.stepped for fact in holders_of(names).graphs]
    with torch.no_grad():
        model[1].weight.add_(1)
    assert [True] == [fact.stepped for fact in holders_of(names).graphs]


def test_telling_that_a_graph_was_stepped_runs_no_hook():
    called = []
    w = torch.ones(N, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, called.append):
        loss = (w * w).sum()
    with torch.no_grad():
        w.add_(1)
    holders_of({"w": w, "loss": loss})
    assert [] == called


def test_a_small_view_is_told_with_what_it_shows():
    view = ones()[:100]
    facts = holders_of({"view": view}, threshold=1).views
    assert [(BYTES, 400, ("view",))] == [(f.bytes, f.used, f.names) for f in facts]


def test_a_view_whose_base_is_named_is_no_fact():
    base = ones()
    assert () == holders_of({"base": base, "view": base[:100]}, threshold=1).views


def test_a_view_of_half_is_no_fact():
    assert () == holders_of({"view": ones()[: N // 2]}, threshold=1).views


def test_overlapping_views_count_what_they_show_together():
    base = ones()
    names = {"a": base[:100], "b": base[50:150], "c": base[1000:1010]}
    del base
    (fact,) = holders_of(names, threshold=1).views
    assert 4 * (150 + 10) == fact.used


def test_a_column_of_a_matrix_shows_its_own_numbers_only():
    column = torch.ones(256, 256)[:, 0]
    (fact,) = holders_of({"column": column}, threshold=1).views
    assert 4 * 256 == fact.used


def test_zero_gradients_without_an_optimizer_are_told():
    w = ones().requires_grad_()
    w.grad = torch.zeros(N)
    facts = holders_of({"w": w}).gradients
    assert [("w.grad", True, False, None)] == [
        (f.name, f.zero, f.frozen, f.optimizer) for f in facts
    ]


def test_gradients_that_an_optimizer_steps_with_are_no_fact():
    w = ones().requires_grad_()
    w.grad = torch.zeros(N)
    assert () == holders_of({"w": w, "sgd": torch.optim.SGD([w], lr=1)}).gradients


def test_an_optimizer_of_a_model_that_is_gone_is_told():
    old = nn.Linear(256, 256, bias=False)
    optimizer = torch.optim.Adam(old.parameters())
    old(torch.ones(1, 256)).sum().backward()
    optimizer.step()
    del old
    (fact,) = holders_of({"optimizer": optimizer}).states
    assert ("optimizer", 1, True, True) == (
        fact.optimizer,
        fact.parameters,
        fact.in_groups,
        fact.all_of_it,
    )
    assert 5 == len(fact.keys)  # weight, gradient, two averages, the step


def test_state_of_a_replaced_head_is_told_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(256, 256, bias=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=0.9)
    model[1](torch.ones(1, 256)).sum().backward()
    optimizer.step()
    model[1] = nn.Linear(2, 2)
    (fact,) = holders_of({"model": model, "optimizer": optimizer}).states
    assert (1, True, False) == (fact.parameters, fact.in_groups, fact.all_of_it)


def test_garbage_is_told_by_the_object_it_hangs_on():
    thing = Thing()
    thing.me, thing.x = thing, [ones()]
    gc.disable()
    try:
        del thing
        assert [("garbage", "garbage: Thing object")] == cuts({})
        assert ["garbage: Thing object.x[0]"] == texts({})
    finally:
        gc.enable()


def test_a_library_s_memory_is_told_by_its_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "somebody", types.ModuleType("somebody"))
    sys.modules["somebody"].kept = {"a": [ones()]}
    assert ["module somebody.kept['a'][0]"] == texts({})


@pytest.mark.leaves_graphs
def test_a_gradient_with_a_graph_is_a_cycle_that_nothing_else_holds():
    w = ones().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once a process
        (w * w).sum().backward(create_graph=True)
    del w
    gc.collect()
    assert {"a cycle through an autograd graph"} == {cut for _, cut in cuts({})}
    assert {"autograd_graph"} == {holder for holder, _ in cuts({})}


def test_a_web_lets_go_of_everything():
    x = ones()
    alive = weakref.ref(x)
    with open_web(StorageTable(), {}, output_cache={"Out[1]": x}) as web:
        assert x is web.cuts("Out[1]")[0].target
    del x
    assert alive() is None


def test_looking_frees_nothing_and_collects_nothing():
    thing = Thing()
    thing.me, thing.x = thing, ones()
    alive = weakref.ref(thing.x)
    gc.disable()
    try:
        del thing
        texts({})
        assert alive() is not None
    finally:
        gc.enable()
