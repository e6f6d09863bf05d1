"""Places: every way in which the user's names hold a storage, and what each is held in."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.inventory import PlaceStep, find_places


def places_of(tensor, namespace, outputs=None):
    table = StorageTable()
    serial = table.note(tensor.untyped_storage()).serial
    found = find_places(table, namespace, [serial], output_cache=outputs or {})
    assert [serial] == list(found)
    return found[serial]


def test_each_place_says_its_root_its_steps_and_what_holds_it():
    x = torch.ones(3)
    (place,) = places_of(x, {"batches": [0, {"x": x}]})
    assert ("batches[1]['x']", "batches", "dict entry") == (place.name, place.root, place.holder)
    assert (
        PlaceStep("variable", "batches"),
        PlaceStep("list item", 1),
        PlaceStep("dict entry", "x"),
    ) == place.steps


def test_what_holds_a_tensor_is_told_apart():
    x = torch.ones(3)
    model = nn.Linear(1, 1)
    model.register_buffer("kept", x)
    odd = {object(): x}
    namespace = {"v": x, "d": {"x": x}, "xs": [x], "pair": (x,), "some": {x}, "odd": odd}
    places = places_of(x, namespace | {"model": model}, {"_": x})
    assert {
        "v": "variable",
        "d['x']": "dict entry",
        "xs[0]": "list item",
        "pair[0]": "tuple item",
        "list(some)[0]": "set member",
        "list(odd.values())[0]": "dict value",
        "model.kept": "module buffer",
        "_": "output",
    } == {place.name: place.holder for place in places}
    assert ("v", "_") == (places[0].name, places[-1].name)


def test_parameters_gradients_and_optimizer_state_are_told_apart():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    namespace = {"model": model, "opt": optimizer}
    weight = {place.name: place.holder for place in places_of(model.weight, namespace)}
    assert {
        "model.weight": "module parameter",
        "opt.param_groups[0]['params'][0]": "optimizer",
    } == weight
    (gradient,) = places_of(model.weight.grad, namespace)
    assert ("model.weight.grad", "model", "gradient") == (
        gradient.name,
        gradient.root,
        gradient.holder,
    )
    assert (
        PlaceStep("variable", "model"),
        PlaceStep("module parameter", "weight"),
        PlaceStep("gradient", None),
    ) == gradient.steps
    (state,) = places_of(optimizer.state[model.weight]["exp_avg"], namespace)
    assert ("optimizer state", "opt") == (state.holder, state.root)


def test_a_container_with_two_names_names_both_as_roots():
    x = torch.ones(3)
    batch = [x]
    (place,) = places_of(x, {"a": batch, "b": [batch]}, {"Out[3]": batch})
    assert ("a[0]", ("a", "b", "Out[3]")) == (place.name, place.roots)


def test_a_storage_that_no_name_leads_to_has_no_places():
    x = torch.ones(3)
    assert [] == places_of(x, {"y": torch.ones(3)})


def test_a_view_is_a_place_of_its_storage():
    x = torch.ones(3)
    assert ["x", "head"] == [place.name for place in places_of(x, {"x": x, "head": x[:1]})]


def test_a_step_into_a_dict_gives_the_dicts_own_key():
    x = torch.ones(3)
    for key in ("k", 3, None, 2.5, ("a", 1)):
        (place,) = places_of(x, {"d": {key: x}})
        assert PlaceStep("dict entry", key) == place.steps[-1]


def test_places_keep_nothing_alive():
    namespace = {"xs": [torch.ones(3)]}
    watched = weakref.ref(namespace["xs"][0])
    gc.disable()
    try:
        places = places_of(namespace["xs"][0], namespace)
        namespace.clear()
        assert watched() is None
    finally:
        gc.enable()
    assert ["xs[0]"] == [place.name for place in places]
