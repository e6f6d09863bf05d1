"""Names: the texts that people read for each way of holding a tensor."""

from __future__ import annotations

import collections
import functools
import types
from dataclasses import dataclass
from typing import NamedTuple

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory


def names_of(tensor, namespace, outputs=None):
    """Returns the names of the tensor's storage in an inventory of the namespace."""
    table = StorageTable()
    inventory = take_inventory(table, namespace, output_cache=outputs or {}, budget=60, now=0.0)
    serial = table.find(tensor.untyped_storage()).serial
    (names,) = [record.names for record in inventory.storages if record.key == serial]
    return names


class Slotted:
    __slots__ = ("kept", "never_set")

    def __init__(self, kept):
        self.kept = kept


@dataclass
class Config:
    weights: torch.Tensor


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


def in_deque(tensor):
    return collections.deque([1, 2, tensor])


def as_attribute(tensor):
    return types.SimpleNamespace(inner=[tensor])


def as_keyword(tensor):
    return types.SimpleNamespace(**{"lambda": tensor})


def as_strange_attribute(tensor):
    holder = types.SimpleNamespace()
    vars(holder)["two words"] = tensor
    return holder


def in_array(tensor):
    array = numpy.empty(3, dtype=object)
    array[1] = tensor
    return array


def in_table(tensor):
    array = numpy.empty((2, 2), dtype=object)
    array[1, 0] = tensor
    return array


class Key:
    """A key that prints nothing useful."""


@pytest.mark.parametrize(
    ("hold", "name"),
    [
        (lambda t: t, "v"),
        (lambda t: [0, t], "v[1]"),
        (lambda t: (t,), "v[0]"),
        (lambda t: {"x": t}, "v['x']"),
        (lambda t: {3: t}, "v[3]"),
        (lambda t: {-1.5: t}, "v[-1.5]"),
        (lambda t: {None: t}, "v[None]"),
        (lambda t: {True: t}, "v[True]"),
        (lambda t: {b"raw": t}, "v[b'raw']"),
        (lambda t: {("a", 1): t}, "v[('a', 1)]"),
        (lambda t: {"it's": t}, 'v["it\'s"]'),
        (lambda t: {"a\nb": t}, "v['a\\nb']"),
        (lambda t: {Key(): 1, Key(): t}, "list(v.values())[1]"),
        (lambda t: {float("nan"): t}, "list(v.values())[0]"),
        (lambda t: {10**5000: t}, "list(v.values())[0]"),
        (lambda t: {t: 1}, "list(v)[0]"),
        (lambda t: {(t, 2): 1}, "list(v)[0][0]"),
        (lambda t: {t}, "list(v)[0]"),
        (lambda t: frozenset([t]), "list(v)[0]"),
        (in_deque, "v[2]"),
        (lambda t: collections.OrderedDict(a=t), "v['a']"),
        (lambda t: collections.defaultdict(list, {"a": [t]}), "v['a'][0]"),
        (lambda t: collections.UserDict(a=t), "v['a']"),
        (lambda t: Config(t), "v.weights"),
        (lambda t: Slotted(t), "v.kept"),
        (lambda t: Pair(t, 1), "v.left"),
        (as_attribute, "v.inner[0]"),
        (as_keyword, "vars(v)['lambda']"),
        (as_strange_attribute, "vars(v)['two words']"),
        (in_array, "v[1]"),
        (in_table, "v[1, 0]"),
        (torch.Tensor.numpy, "v.base"),
        (lambda t: t.numpy()[1:], "v.base.base"),
        (lambda t: functools.partial(torch.add, t), "v.args[0]"),
        (lambda t: DataLoader(TensorDataset(t)), "v.dataset.tensors[0]"),
        (lambda t: nn.utils.rnn.PackedSequence(t, torch.ones(1).long()), "v.data"),
        (lambda t: [[[{"a": (0, t)}]]], "v[0][0][0]['a'][1]"),
        (lambda t: t.max(0), None),
    ],
)
def test_a_tensor_is_called_as_python_would_reach_it(hold, name):
    tensor = torch.ones(3)
    if name is None:
        held = hold(tensor)
        assert ("v.values",) == names_of(held.values, {"v": held})
    else:
        assert (name,) == names_of(tensor, {"v": hold(tensor)})


def test_a_tensor_kept_as_an_attribute_of_another_is_named():
    x, kept = torch.ones(3), torch.ones(4)
    x.kept = [kept]
    assert ("x.kept[0]",) == names_of(kept, {"x": x})


def test_one_tensor_among_very_many_short_lists_is_named():
    x = torch.ones(3)
    rows = [[n] for n in range(50_000)]
    rows[40_000].append({"x": x})
    assert ("rows[40000][1]['x']",) == names_of(x, {"rows": rows})


def test_one_tensor_in_a_very_long_dict_is_named():
    x = torch.ones(3)
    rows = {str(n): (n, []) for n in range(50_000)}
    rows["40000"][1].append(x)
    assert ("rows['40000'][1][0]",) == names_of(x, {"rows": rows})


def test_a_tensor_as_one_key_of_a_very_long_dict_is_named():
    x = torch.ones(3)
    rows = dict.fromkeys(range(50000), 0) | {x: 1}
    assert ("list(rows)[50000]",) == names_of(x, {"rows": rows})


def test_a_view_gives_its_storage_a_second_name():
    x = torch.ones(10)
    assert ("x", "head") == names_of(x, {"x": x, "head": x[:2]})


def test_the_variable_that_shows_all_of_a_storage_comes_before_its_views():
    x = torch.ones(10)
    assert ("x", "head", "batch[0]") == names_of(x, {"head": x[:2], "x": x, "batch": [x]})


def test_shorter_ways_come_first_and_outputs_last():
    x = torch.ones(3)
    namespace = {"deep": [[[x]]], "shallow": [x], "x": x}
    assert ("x", "shallow[0]", "deep[0][0][0]", "Out[3]", "_") == names_of(
        x, namespace, {"Out[3]": x, "_": x}
    )


def test_a_container_is_walked_once_under_its_first_name():
    x = torch.ones(3)
    batch = {"x": x}
    assert ("a['x']",) == names_of(x, {"a": batch, "b": batch, "c": [batch]})


def test_a_container_only_in_the_output_cache_has_names_there():
    x = torch.ones(3)
    assert ("Out[12][0]",) == names_of(x, {}, {"Out[12]": [x]})


def test_modules_are_named_as_torch_names_them():
    model = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"head": nn.BatchNorm1d(2)}))
    expected = dict(model.named_parameters())
    expected |= dict(model.named_buffers())
    for name, tensor in expected.items():
        assert (f"net.{name}",) == names_of(tensor, {"net": model})


def test_parameter_lists_and_dicts_are_named_as_torch_names_them():
    model = nn.Module()
    model.many = nn.ParameterList([torch.ones(1), torch.ones(2)])
    model.by_name = nn.ParameterDict({"a": torch.ones(3)})
    assert ("m.many.1",) == names_of(model.many[1], {"m": model})
    assert ("m.by_name.a",) == names_of(model.by_name["a"], {"m": model})


def test_a_tensor_kept_by_a_module_as_a_plain_attribute_is_named():
    model = nn.Linear(1, 1)
    model.cache = {"last": torch.ones(4)}
    assert ("m.cache['last']",) == names_of(model.cache["last"], {"m": model})


def test_tied_weights_carry_all_their_names():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert ("m.0.weight", "m.1.weight") == names_of(model[0].weight, {"m": model})


def test_a_gradient_is_named_after_its_parameter():
    model = nn.Linear(3, 1)
    model(torch.ones(2, 3)).sum().backward()
    assert ("m.weight.grad",) == names_of(model.weight.grad, {"m": model})


def test_a_retained_gradient_of_a_result_is_named():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert ("y.grad",) == names_of(y.grad, {"y": y})


def test_optimizer_state_is_named_after_the_parameters_shortest_name():
    model = nn.Sequential(nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    state = optimizer.state[model[0].weight]
    namespace = {"opt": optimizer, "model": model}
    assert ("opt.state[model.0.weight]['exp_avg']",) == names_of(state["exp_avg"], namespace)
    assert ("model.0.weight", "opt.param_groups[0]['params'][0]") == names_of(
        model[0].weight, namespace
    )


def test_the_state_of_a_parameter_without_another_name_is_named_after_the_optimizers():
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], momentum=0.9)
    parameter.grad = torch.ones(3)
    optimizer.step()
    buffer = optimizer.state[parameter]["momentum_buffer"]
    assert ("o.state[o.param_groups[0]['params'][0]]['momentum_buffer']",) == names_of(
        buffer, {"o": optimizer}
    )


def test_state_of_a_parameter_that_left_its_group_is_named_by_position():
    parameter, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter, other], momentum=0.9)
    parameter.grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["params"] = [other]
    buffer = optimizer.state[parameter]["momentum_buffer"]
    assert ("o.state[list(o.state)[0]]['momentum_buffer']",) == names_of(buffer, {"o": optimizer})


def test_what_only_a_graph_keeps_is_named_after_the_result():
    x = torch.ones(3, requires_grad=True)
    saved = x * 2
    storage = saved.untyped_storage()
    loss = saved.pow(2).sum()
    del saved
    # the walk from `loss`: SumBackward0 is node 0, PowBackward0 node 1
    held = torch.empty(0).set_(storage)
    del storage
    names = names_of(held, {"loss": loss})
    assert ("loss → graph[1] PowBackward0.self",) == names


def test_the_parts_of_a_sparse_tensor_have_names_of_their_own():
    indices, values = torch.tensor([[0, 2]]), torch.ones(2)
    sparse = torch.sparse_coo_tensor(indices, values, (3,), check_invariants=True)
    assert ("s (values)",) == names_of(sparse._values(), {"s": sparse})
    assert ("s (indices)",) == names_of(sparse._indices(), {"s": sparse})


def test_a_bare_storage_has_the_name_of_its_variable():
    storage = torch.UntypedStorage(64)
    tensor = torch.empty(0, dtype=torch.uint8).set_(storage)
    assert ("raw",) == names_of(tensor, {"raw": storage})


def test_two_attributes_that_look_alike_get_different_names():
    model = nn.Linear(1, 1)
    model._buffers["twin"] = torch.ones(1)
    vars(model)["twin"] = torch.ones(2)
    names = names_of(model._buffers["twin"], {"m": model}) + names_of(
        vars(model)["twin"], {"m": model}
    )
    assert ("m.twin", "vars(m)['twin']") == names


def test_a_storage_keeps_twenty_names_and_counts_the_rest():
    x = torch.ones(3)
    table = StorageTable()
    inventory = take_inventory(table, {"xs": [x] * 50}, now=0.0)
    serial = table.find(x.untyped_storage()).serial
    (record,) = [record for record in inventory.storages if record.key == serial]
    assert tuple(f"xs[{n}]" for n in range(20)) == record.names
    assert ["It has 30 more names."] == [note.sentence for note in record.notes]


def test_a_walk_that_runs_out_of_time_says_so():
    x = torch.ones(3)
    inventory = take_inventory(StorageTable(), {"x": x, "y": [x]}, budget=-1.0, now=0.0)
    (note,) = [note for note in inventory.notes if note.field == "names"]
    assert note.code == "budget"
    assert note.sentence.startswith("Names incomplete: budget of -1 s reached after ")


def test_a_graph_that_is_too_long_for_the_time_left_says_so(monkeypatch):
    from nbmem.inventory import graphs

    x = torch.ones(3, requires_grad=True)
    for _ in range(50):
        x = x.exp()
    monkeypatch.setattr(graphs, "STEPS_A_LOOK", 10)
    looks = iter([False, False, True])
    monkeypatch.setattr(graphs, "_is_over", lambda deadline: next(looks))
    inventory = take_inventory(StorageTable(), {"x": x}, budget=60, now=0.0)
    named = [name for record in inventory.storages for name in record.names]
    # The twentieth node is not reached, and the leaf neither: x itself, and 19 results above it.
    assert ["x", *(f"x → graph[{n}] ExpBackward0.result" for n in range(1, 20))] == sorted(
        named, key=lambda name: int(name.partition("[")[2].partition("]")[0] or 0)
    )


def test_two_results_over_one_body_are_each_named_from_themselves():
    body = torch.ones(3, requires_grad=True).exp()
    first, second = body.exp().sum(), body.sin().exp().sum()
    names = {
        name
        for record in take_inventory(
            StorageTable(), {"first": first, "second": second}, budget=60, now=0.0
        ).storages
        for name in record.names
    }
    # first: sum 0, exp 1, exp 2, leaf 3. second: sum 0, exp 1, sin 2, exp 3, leaf 4.
    assert {
        "first",
        "second",
        "first → graph[1] ExpBackward0.result",
        "first → graph[2] ExpBackward0.result",
        "first → graph[3] AccumulateGrad.variable",
        "second → graph[1] ExpBackward0.result",
    } == names
