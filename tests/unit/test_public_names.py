"""Which of several names stands first, which others are taken back, and what is told as code."""

from __future__ import annotations

import collections
import functools
import itertools
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from nbmem.errors import NameNotFoundError
from nbmem.heap import StorageTable
from nbmem.inventory import explain_property, find_thing, resolve_name, take_inventory

sys.path.insert(0, str(Path(__file__).parent))
from model_zoo import MODELS, loss_of
from storage_truth import Look


def names_of(tensor, namespace, outputs=None):
    return Look(namespace, outputs).names_of(tensor)


def small():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def step(net, parameters=None):
    opt = torch.optim.AdamW(parameters or net.parameters())
    net(torch.ones(2, 4)).sum().backward()
    opt.step()
    return opt


class Frozen(nn.Module):
    """A wrapper of the user's own, with a private child as torch's have."""

    def __init__(self, net):
        super().__init__()
        self._wrapped = net


WRAPPERS = {
    "compiled": (torch.compile, "_orig_mod"),
    "parallel": (nn.DataParallel, "module"),
    "own": (Frozen, "_wrapped"),
}


# -- wrappers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(("net", "wrapper", "opt"))))
@pytest.mark.parametrize("kind", WRAPPERS)
def test_the_users_own_variable_stands_before_a_wrapper(kind, order):
    wrap, attribute = WRAPPERS[kind]
    net = small()
    values = {"net": net, "wrapper": wrap(net), "opt": step(net)}
    look = Look({name: values[name] for name in order})
    weight = net[0].weight
    assert "net.0.weight" == look.names_of(weight)[0]
    assert "net.0.weight.grad" == look.names_of(weight.grad)[0]
    state = values["opt"].state[weight]["exp_avg"]
    assert "opt.state[net.0.weight]['exp_avg']" == look.names_of(state)[0]
    assert [] == look.lost_names()
    for way in (f"wrapper.{attribute}.0.weight", "net[0].weight", "net.0.weight"):
        assert weight is look.resolve(way)
    for name in ("net.0.weight", f"wrapper.{attribute}.0.weight"):
        assert state is look.resolve(f"opt.state[{name}]['exp_avg']")


@pytest.mark.parametrize("kind", WRAPPERS)
def test_a_model_that_only_a_wrapper_has_is_called_as_torch_calls_it(kind):
    wrap, attribute = WRAPPERS[kind]
    wrapper = wrap(small())
    inner = getattr(wrapper, attribute)
    opt = step(inner)
    look = Look({"opt": opt, "wrapper": wrapper})
    for name, parameter in wrapper.named_parameters():
        assert (f"wrapper.{name}", look.names_of(parameter)[1]) == look.names_of(parameter)
        assert look.names_of(parameter)[1].startswith("opt.param_groups[0]['params'][")
        state = opt.state[parameter]["exp_avg"]
        assert (f"opt.state[wrapper.{name}]['exp_avg']",) == look.names_of(state)
    assert [] == look.lost_names()


def test_parts_that_were_made_first_keep_their_names_in_a_model_made_of_them():
    class Both(nn.Module):
        def __init__(self, encoder, decoder):
            super().__init__()
            self.encoder, self.decoder, self.between = encoder, decoder, nn.Linear(5, 5)

    encoder, decoder = small(), small()
    model = Both(encoder, decoder)
    names = {"encoder": encoder, "decoder": decoder, "model": model}
    assert "encoder.0.weight" == names_of(encoder[0].weight, names)[0]
    assert "model.between.weight" == names_of(model.between.weight, names)[0]
    later = {"model": model, "encoder": encoder, "decoder": decoder}  # as a loop leaves them
    assert "model.encoder.0.weight" == names_of(encoder[0].weight, later)[0]


def test_a_sequence_of_the_users_own_models_leaves_them_their_names():
    backbone, head = small(), nn.Linear(2, 2)
    names = {"backbone": backbone, "head": head, "model": nn.Sequential(backbone, head)}
    assert "head.weight" == names_of(head.weight, names)[0]
    assert "backbone.2.bias" == names_of(backbone[2].bias, names)[0]


def test_what_a_loop_left_before_the_model_had_its_variable_is_a_part_of_the_model():
    net = small()
    names = {"layer": net[2], "p": net[2].bias, "fast": torch.compile(net)}
    assert "fast._orig_mod.2.weight" == names_of(net[2].weight, names)[0]
    assert "fast._orig_mod.2.bias" == names_of(net[2].bias, names)[0]


# -- private attributes ----------------------------------------------------------------------------


class Holder:
    """Keeps things under a private and a public name."""

    def __init__(self, private, public=None):
        self._kept = private
        if public is not None:
            self.kept = public


def test_a_public_way_stands_before_a_shorter_private_one():
    tensor = torch.ones(5)
    deep = Holder(None, Holder(None, {"x": [tensor]}))
    names = {"a": Holder(tensor), "b": deep}
    assert ("b.kept.kept['x'][0]", "a._kept") == names_of(tensor, names)
    gradient = torch.ones(6)
    weight = nn.Parameter(torch.ones(6))
    weight.grad = gradient
    names = {"a": Holder(gradient), "w": weight}
    assert ("w.grad", "a._kept") == names_of(gradient, names)


def test_a_shown_value_stands_last_whatever_else_there_is():
    tensor = torch.ones(5)
    assert ("a._kept", "Out[3]") == names_of(tensor, {"a": Holder(tensor)}, {"Out[3]": tensor})


def test_a_container_is_called_by_its_public_way():
    held = {"x": torch.ones(5)}
    names = {"a": Holder(held), "b": [[Holder(None, held)]]}
    assert ("b[0][0].kept['x']",) == names_of(held["x"], names)


def test_a_closure_stands_behind_what_python_has_an_expression_for():
    tensor = torch.ones(5)

    def use():
        return tensor

    names = {"use": use, "later": {"deep": [[tensor]]}}
    assert ("later['deep'][0][0]", "use → closure tensor") == names_of(tensor, names)
    for way in ("use → closure tensor", "use → closure 'tensor'"):
        assert tensor is resolve_name(way, names)


# -- accessors -------------------------------------------------------------------------------------


class Lower(collections.UserDict):
    """Has another `[]` than its `data` has."""

    def __getitem__(self, key):
        raise AssertionError("code of the user's ran")


class Plain(collections.UserDict):
    """Adds an attribute."""


@pytest.mark.parametrize(
    ("hold", "name"),
    [
        (lambda t: collections.UserDict(a=t), "v['a']"),
        (lambda t: collections.UserDict({(1, "a"): [t]}), "v[(1, 'a')][0]"),
        (lambda t: collections.UserList([0, t]), "v[1]"),
        (lambda t: Plain(a=t), "v['a']"),
        (lambda t: Lower(a=t), "v.data['a']"),
    ],
)
def test_what_python_keeps_in_data_is_called_without_it(hold, name):
    tensor = torch.ones(3)
    namespace = {"v": hold(tensor)}
    assert (name,) == names_of(tensor, namespace)
    assert [] == Look(namespace).lost_names()


def test_attributes_beside_the_data_have_names_too():
    both, entry, attribute = Plain(), torch.ones(3), torch.ones(4)
    both["a"], both.more = entry, attribute
    assert ("v.more",) == names_of(attribute, {"v": both})
    assert ("v['a']",) == names_of(entry, {"v": both})


def test_an_entry_that_gets_another_key_is_told_by_the_new_one():
    table, namespace = StorageTable(), {"v": collections.UserDict(a=torch.ones(3))}
    first = take_inventory(table, namespace, budget=60, now=0.0)  # held: it could be told again
    namespace["v"].data["b"] = namespace["v"].data.pop("a")
    again = take_inventory(table, namespace, budget=60, now=0.0)
    assert ("v['a']",) in [one.names for one in first.storages]
    assert ("v['b']",) in [one.names for one in again.storages]


# -- the way back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["mlp", "transformer", "lstm"])
@pytest.mark.parametrize("kind", WRAPPERS)
def test_each_name_of_a_wrapped_model_leads_back_both_ways(model, kind):
    make, inputs = MODELS[model]
    wrap, _ = WRAPPERS[kind]
    net, (x, y) = make(), inputs()
    wrapper, opt = wrap(net), torch.optim.AdamW(net.parameters())
    loss_of(net(x), y).backward()
    opt.step()
    namespace = {"wrapper": wrapper, "opt": opt, "x": x, "y": y}
    look = Look(namespace)
    table, wrong = look.table, []
    for record in look.by_address.values():
        for name in record.names:
            found = find_thing(name, namespace)
            if not found or table.find(found[0].untyped_storage()).serial != record.key:
                wrong.append(name)
    assert [] == wrong
    shown = [p for name, p in wrapper.named_parameters()]
    assert {f"wrapper.{name}" for name, _ in wrapper.named_parameters()} <= {
        name for p in shown for name in look.names_of(p)
    }


def test_a_container_is_found_by_any_way_that_leads_to_it():
    net = small()
    names = {"net": net, "fast": torch.compile(net), "h": Holder([{"m": net}])}
    for way in ("net", "fast._orig_mod", "h._kept[0]['m']", 'h._kept[0]["m"]'):
        assert [net] == find_thing(way, names)
    assert [net[0]] == find_thing("h._kept[0]['m'].0", names)
    assert [] == find_thing("h._kept[0]['n']", names)
    assert [] == find_thing("", names)


# -- properties ------------------------------------------------------------------------------------


class Trainer:
    """Hands its model out by code that must not run."""

    def __init__(self, net):
        self._net = net

    @property
    def model(self):
        raise AssertionError("a property ran")

    @functools.cached_property
    def cached(self):
        raise AssertionError("a cached property ran")


class Lazy(Trainer):
    def __getattr__(self, name):
        raise AssertionError("__getattr__ ran")

    def __getitem__(self, key):
        raise AssertionError("__getitem__ ran")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("t.model.0.weight", "`t.model` is a property, not followed"),
        ("t.model", "`t.model` is a property, not followed"),
        ("t.cached.0.weight", "`t.cached` is a property, not followed"),
        ("[t][0].model", ""),
        ("lazy.net.0.weight", "`lazy.net` is answered by code of Lazy (`__getattr__`)"),
        ("lazy['a'].x", "`lazy['a']` is answered by code of Lazy (`__getitem__`)"),
        ("t.nothing", ""),
        ("net.nothing", ""),
        ("other.model", ""),
    ],
)
def test_a_property_is_told_as_one_and_not_run(name, told):
    net = small()
    namespace = {"t": Trainer(net), "lazy": Lazy(net), "net": net}
    why = explain_property(name, namespace, {}, ["net.0.weight", "net.2.weight"])
    assert why.startswith(told)
    assert bool(why) == bool(told)
    with pytest.raises(NameNotFoundError) as error:
        resolve_name(name, namespace)
    assert bool(told) != ("renamed" in str(error.value))
    if name.endswith(".0.weight"):
        assert "ask for `net.0.weight`" in why


class DataFrame:
    """Says that it is pandas', and keeps something else under the name that pandas has."""

    __module__ = "pandas.core.frame"

    def __init__(self, kept):
        self._mgr = kept


def test_what_is_not_kept_as_the_table_says_is_read_like_any_object():
    tensor = torch.ones(3)
    assert ("v._mgr",) == names_of(tensor, {"v": DataFrame(tensor)})
    assert ("v._mgr['blocks'][0]",) == names_of(tensor, {"v": DataFrame({"blocks": [tensor]})})
