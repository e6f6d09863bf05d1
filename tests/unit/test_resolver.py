"""The way back: each name that an inventory prints leads to the storage that it was printed for."""

from __future__ import annotations

import gc
import types
import weakref
from collections import OrderedDict, deque

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from nbmem.errors import NameNotFoundError
from nbmem.heap import StorageTable
from nbmem.inventory import resolve_name, take_inventory


@given(st.none())
def warm_up(_):
    """Hypothesis leaves a gc callback when it first runs; better here than within a test."""


warm_up()


def address(tensor):
    return tensor.untyped_storage()._cdata


def take(namespace, outputs, table=None):
    return take_inventory(
        table or StorageTable(), namespace, output_cache=outputs, budget=60, now=0.0
    )


class Opaque:
    """A key that prints nothing."""


KEYS = st.one_of(
    st.text(max_size=4),
    st.integers(-2, 300),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=True),
    st.binary(max_size=2),
    st.tuples(st.text(max_size=2), st.integers(0, 3)),
    st.builds(Opaque),
)
ATTRIBUTES = st.one_of(st.sampled_from(["weight", "x", "items", "keys"]), st.text(max_size=3))


def attach(pairs):
    holder = types.SimpleNamespace()
    vars(holder).update(pairs)
    return holder


def build_module(parameter_names, children, attributes):
    """Returns a module with parameters, child modules and plain attributes of the same names."""
    module = nn.Module()
    for name, tensor in parameter_names:
        module._parameters[name] = tensor
    for name, child in children:
        module._modules[name] = child
    vars(module).update(attributes)
    return module


def modules_over(children):
    names = st.sampled_from(["a", "b", "0", "1", "a.b", "weight"])
    leaves = TENSORS.map(lambda tensor: nn.Parameter(tensor) if tensor.is_leaf else tensor)
    sub = st.deferred(lambda: MODULES)
    return st.builds(
        build_module,
        st.lists(st.tuples(names, leaves), max_size=2),
        st.lists(st.tuples(names, sub), max_size=2),
        st.lists(st.tuples(ATTRIBUTES, children), max_size=2),
    )


SHARED = [torch.ones(n + 1) for n in range(4)]
"""Tensors that appear in several places of one graph: ties and views."""

TENSORS = st.one_of(
    st.integers(0, 9).map(torch.ones),
    st.sampled_from(SHARED),
    st.sampled_from(SHARED).map(lambda tensor: tensor[:1]),
    st.integers(1, 4).map(lambda n: torch.ones(n, requires_grad=True) * 2),
    st.integers(1, 3).map(lambda n: torch.eye(n).to_sparse()),
)


def with_gradient(tensor):
    if tensor.is_leaf and tensor.layout is torch.strided:
        tensor.grad = torch.ones_like(tensor)
    return tensor


def containers(children):
    pairs = st.lists(st.tuples(KEYS, children), max_size=3)
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=3).map(tuple),
        st.lists(children, max_size=3).map(deque),
        pairs.map(dict),
        pairs.map(OrderedDict),
        st.lists(TENSORS, max_size=3).map(set),
        st.lists(st.tuples(ATTRIBUTES, children), max_size=3).map(attach),
        modules_over(children),
    )


LEAVES = st.one_of(
    TENSORS, TENSORS.map(torch.Tensor.detach).map(with_gradient), st.none(), st.text(max_size=2)
)
GRAPHS = st.recursive(LEAVES, containers, max_leaves=14)
MODULES = modules_over(LEAVES)
NAMES = st.one_of(st.sampled_from(["x", "model", "a", "loss"]), st.text(min_size=1, max_size=3))
NAMESPACES = st.dictionaries(NAMES, GRAPHS, max_size=4)
OUTPUTS = st.dictionaries(st.sampled_from(["Out[1]", "Out[2]", "_", "__"]), GRAPHS, max_size=2)


def storages_in(thing, seen, found):
    """Collects the addresses of all storages below `thing`, by a walk of its own."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    if isinstance(thing, torch.Tensor):
        if thing.layout is torch.sparse_coo:
            found.update((address(thing._indices()), address(thing._values())))
        else:
            found.add(address(thing))
        if thing.is_leaf:
            storages_in(thing.grad, seen, found)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            storages_in(key, seen, found)
            storages_in(value, seen, found)
    elif isinstance(thing, list | tuple | set | deque):
        for item in thing:
            storages_in(item, seen, found)
    elif isinstance(thing, nn.Module | types.SimpleNamespace):
        storages_in(vars(thing), seen, found)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(NAMESPACES, OUTPUTS)
def test_every_name_leads_back_and_every_storage_is_found_once(namespace, outputs):
    table = StorageTable()
    inventory = take(namespace, outputs, table)
    expected = set()
    storages_in([*namespace.values(), *outputs.values()], {}, expected)
    addresses = {ref.serial: ref.address for ref in table.live()}
    walked = [r for r in inventory.storages if r.names and " → graph[" not in r.names[0]]
    named = [addresses[record.key] for record in walked]
    assert expected <= set(named)
    assert len(named) == len(set(named))
    printed = [name for record in inventory.storages for name in record.names]
    assert len(printed) == len(set(printed))
    for record in inventory.storages:
        for name in record.names:
            assert addresses[record.key] == address(resolve_name(name, namespace, outputs)), name


def saved_of(loss):
    """Returns the addresses of what the graph saved, by a walk of its own."""
    found, stack, seen = set(), [loss.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_") and isinstance(getattr(node, name), torch.Tensor):
                found.add(address(getattr(node, name)))
        stack.extend(following for following, _ in node.next_functions)
    return found


def test_every_name_through_a_graph_leads_back():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )
    batch = torch.ones(2, 1, 8, 8)
    hidden = model(batch)
    namespace = {"model": model, "hidden": hidden, "loss": hidden.pow(2).sum()}
    table = StorageTable()
    inventory = take(namespace, {}, table)
    addresses = {ref.serial: ref.address for ref in table.live()}
    led = {}
    for record in inventory.storages:
        for name in record.names:
            led[address(resolve_name(name, namespace, {}))] = addresses[record.key]
    assert saved_of(namespace["loss"]) <= set(led)
    assert all(found == wanted for found, wanted in led.items())


def test_a_name_through_a_graph_does_not_change_when_another_result_is_named():
    hidden = torch.ones(3, requires_grad=True).exp()
    loss = hidden.exp().exp().sum()
    alone = take({"loss": loss}, {})
    names = {name for r in alone.storages for name in r.names if name.startswith("loss →")}
    together = {"a": hidden * 2, "hidden": hidden, "loss": loss}
    for name in names:
        assert address(resolve_name(name, {"loss": loss}, {})) == address(
            resolve_name(name, together, {})
        )
    assert 4 == len(names)  # three results of exp, and the leaf that the graph keeps


def test_two_losses_over_one_body_each_name_what_is_their_own():
    body = torch.ones(3, requires_grad=True).exp()
    losses = [body.pow(n).exp().sum() for n in (2, 3)]
    table = StorageTable()
    inventory = take({"losses": losses}, {}, table)
    addresses = {ref.serial: ref.address for ref in table.live()}
    for record in inventory.storages:
        for name in record.names:
            assert addresses[record.key] == address(resolve_name(name, {"losses": losses}, {}))
    assert {
        "losses[0] → graph[1] ExpBackward0.result",
        "losses[1] → graph[1] ExpBackward0.result",
    } <= {name for record in inventory.storages for name in record.names}


def test_what_a_function_of_the_users_saves_is_named_one_by_one():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.exp(), x.sin())
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    loss = Twice.apply(torch.ones(3, requires_grad=True))
    inventory = take({"loss": loss}, {})
    names = [name for r in inventory.storages for name in r.names if name.startswith("loss →")]
    values = {name: resolve_name(name, {"loss": loss}, {}).tolist() for name in names}
    e, sine = torch.ones(3).exp().tolist(), torch.ones(3).sin().tolist()
    assert {"loss → graph[0] TwiceBackward.tensors[0]": e} == {
        name: value for name, value in values.items() if name.endswith("[0]")
    }
    assert sine == values["loss → graph[0] TwiceBackward.tensors[1]"]


def test_a_key_that_looks_like_a_graphs_name_leads_to_its_own_tensor():
    x = torch.ones(3)
    namespace = {"d": {"loss → graph[1] PowBackward0.self": x}}
    (name,) = [n for r in take(namespace, {}).storages for n in r.names]
    assert resolve_name(name, namespace, {}) is x


@pytest.mark.parametrize(
    "name",
    ["gone", "x[0]", "", "x → graph[1] PowBackward0.self", "loss → graph[99] X.y", "x (indices)"],
)
def test_a_name_that_leads_nowhere_is_refused_in_one_sentence(name):
    x = torch.ones(3)
    loss = torch.ones(3, requires_grad=True).exp().sum()
    with pytest.raises(NameNotFoundError) as refused:
        resolve_name(name, {"x": x, "loss": loss}, {})
    assert (
        f"`{name}` leads to no live tensor: it was renamed, deleted or assigned anew. "
        "Run `%gpumem tensors` for the names of now."
    ) == str(refused.value)


def test_a_name_leads_to_what_the_variable_holds_now():
    namespace = {"x": torch.ones(3)}
    later = namespace["x"] = torch.zeros(3)
    assert resolve_name("x", namespace, {}) is later


def test_a_bare_storage_is_given_as_its_bytes():
    raw = torch.UntypedStorage(64)
    found = resolve_name("raw", {"raw": raw}, {})
    assert (raw._cdata, torch.uint8) == (address(found), found.dtype)


def test_resolving_keeps_nothing_alive():
    namespace = {"x": [torch.ones(3)], "loss": torch.ones(3, requires_grad=True).exp().sum()}
    watched = [weakref.ref(namespace["x"][0]), weakref.ref(namespace["loss"])]
    gc.disable()
    try:
        resolve_name("x[0]", namespace, {})
        resolve_name("loss → graph[1] ExpBackward0.result", namespace, {})
        with pytest.raises(NameNotFoundError):
            resolve_name("nothing", namespace, {})
        namespace.clear()
        assert [None, None] == [reference() for reference in watched]
    finally:
        gc.enable()
