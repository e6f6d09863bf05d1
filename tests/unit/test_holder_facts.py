"""Facts about what a value needs and that is still more than it needs: views, lost parameters."""

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.holders.web import open_web

N = 1 << 16


def facts_of(names, **options):
    with open_web(StorageTable(), names, **options) as web:
        return web.holders


def test_a_view_whose_graph_ends_at_the_weight_is_told_from_one_that_a_copy_frees():
    weight = torch.ones(N, requires_grad=True)
    part = weight[:8]
    del weight
    (fact,) = facts_of({"part": part}, threshold=1).views
    assert (("part",), True) == (fact.names, fact.attached)
    scale = torch.ones(1, requires_grad=True)
    (fact,) = facts_of({"scale": scale, "part": (torch.ones(N) * scale)[:8]}, threshold=1).views
    assert (("part",), False) == (fact.names, fact.attached)


def test_small_views_are_told_down_to_a_part_of_the_threshold():
    rows = [torch.ones(N)[0] for _ in range(3)]
    assert 3 == len(facts_of({"rows": rows}, threshold=64 * 4 * N).views)
    assert () == facts_of({"rows": rows}, threshold=65 * 4 * N).views


def test_weights_that_a_state_dict_still_shows_are_none_that_would_go_with_the_optimizer():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    names = {"optimizer": optimizer, "first": model.state_dict()}
    del model
    table = StorageTable()
    with open_web(table, names) as web:
        (fact,) = web.holders.states
        sizes = sorted(ref.bytes for ref in table.live() if ref.serial in fact.keys)
    momentum = [64 * 4, 64 * 64 * 4]
    assert momentum == sizes


class Descent:
    """An optimizer as people write it."""

    def __init__(self, parameters):
        self.params = list(parameters)


class Engine:
    """One that asks the model for its parameters with every step."""

    def __init__(self, model):
        self.model = model

    def step(self):
        for p in self.model.parameters():
            p.sub_(p.grad)


class Report:
    def __init__(self, model):
        self.model = model


def zeroed():
    model = nn.Linear(64, 64, bias=False)
    model(torch.ones(1, 64)).sum().backward()
    model.zero_grad(set_to_none=False)
    return model


def step_of(model):
    parameters = list(model.parameters())
    return lambda: [p.sub_(p.grad) for p in parameters]


MAY_STEP = {
    "descent.params": lambda model: {"descent": Descent(model.parameters())},
    "params": lambda model: {"params": list(model.parameters())},
    "named": lambda model: {"named": dict(model.named_parameters())},
    "step → list 'parameters'": lambda model: {"step": step_of(model)},
    "engine.model": lambda model: {"engine": Engine(nn.Sequential(model))},
    "run['of'][0].params": lambda model: {"run": {"of": [Descent(model.parameters())]}},
}
NEVER_STEP = {
    "the model alone": lambda model: {},
    "a name that a loop left behind": lambda model: {"p": model.weight},
    "a copy": lambda model: {"average": [p.detach().clone() for p in model.parameters()]},
    "an object that has the model and no such method": lambda model: {"report": Report(model)},
    "another module": lambda model: {"tied": nn.ParameterList(model.parameters())},
    "a list of the model's own": lambda model: {"own": vars(model).update(own=[model.weight])},
    "a name for what nobody wants": lambda model: {"_": list(model.parameters())},
}


@pytest.mark.parametrize(("told", "names"), MAY_STEP.items(), ids=MAY_STEP)
def test_whoever_has_the_parameters_in_a_list_or_an_attribute_may_step(told, names):
    model = zeroed()
    (fact,) = facts_of({"model": model, **names(model)}).gradients
    assert (True, None, told) == (fact.zero, fact.optimizer, fact.held_by)


@pytest.mark.parametrize("names", NEVER_STEP.values(), ids=NEVER_STEP)
def test_models_names_and_copies_do_not_step(names):
    model = zeroed()
    (fact, *_) = facts_of({"model": model, **names(model)}).gradients
    assert (True, None, None) == (fact.zero, fact.optimizer, fact.held_by)


def test_an_optimizer_of_torch_is_told_as_such_and_as_nothing_else():
    model = zeroed()
    model.requires_grad_(False)
    names = {"model": model, "opt": torch.optim.SGD(model.parameters(), lr=0.1)}
    (fact,) = facts_of(names).gradients
    assert ("opt", None) == (fact.optimizer, fact.held_by)


def test_what_else_holds_the_parameters_of_a_stale_optimizer_is_told_with_them():
    model = nn.Linear(64, 64, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(torch.ones(1, 64)).pow(2).sum()
    loss.backward()
    optimizer.step()
    names = {"optimizer": optimizer, "loss": loss, "other": torch.optim.SGD([model.weight])}
    model = None
    facts = {fact.optimizer: fact for fact in facts_of(names).states}
    size = 64 * 64 * 4
    assert [size] * 2 == [held.bytes for held in facts["optimizer"].others]  # weight, gradient
    for held in facts["optimizer"].others:
        assert {"loss", "other"} == {chain.cut for chain in held.chains}
    assert {"loss", "optimizer"} == {c.cut for h in facts["other"].others for c in h.chains}
