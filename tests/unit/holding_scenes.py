"""Scenes in which hooks, functions, classes and optimizers hold what no variable shows."""

from __future__ import annotations

import functools

import torch
from hidden_scenes import CALLS, N, weight
from torch import nn


def closing_over(tensor):
    def hook(*_):
        CALLS.append("hook")
        return tensor if CALLS is None else None

    return hook


def hook_on_a_tensor():
    w = weight()
    w.register_hook(closing_over(torch.ones(N)))
    hidden = w.exp()
    hidden.register_hook(closing_over(torch.ones(N)))
    return {"w": w, "hidden": hidden}


def hook_after_accumulation():
    w = weight()
    w.register_post_accumulate_grad_hook(closing_over(torch.ones(N)))
    return {"w": w}


def hooks_on_a_module():
    model = nn.Linear(N, 2)
    model.register_forward_hook(closing_over(torch.ones(N)))
    model.register_forward_pre_hook(closing_over(torch.ones(N)))
    model.register_full_backward_hook(closing_over(torch.ones(N)))
    model.register_full_backward_pre_hook(closing_over(torch.ones(N)))
    model.register_state_dict_pre_hook(closing_over(torch.ones(N)))
    return {"model": model}


def hooks_on_an_optimizer():
    optimizer = torch.optim.SGD([weight()], 0.1)
    optimizer.register_step_post_hook(closing_over(torch.ones(N)))
    return {"opt": optimizer}


def hook_on_a_node():
    loss = weight().exp().sum()
    node = loss.grad_fn.next_functions[0][0]
    node.register_hook(closing_over(torch.ones(N)))
    node.register_prehook(closing_over(torch.ones(N)))
    return {"loss": loss}


def hook_on_a_hidden_tensor():
    hidden = weight().exp()
    hidden.register_hook(closing_over(torch.ones(N)))
    return {"loss": (hidden * hidden).sum()}


def hook_that_collects():
    model, seen = nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, N)), {}

    def keep(name):
        def hook(module, args, output):
            seen[name] = output.detach().clone()

        return hook

    for name, child in model.named_children():
        child.register_forward_hook(keep(name))
    model(torch.ones(4, N))
    return {"model": model}


def closure():
    held = [torch.ones(N)]

    def f():
        CALLS.append("f")
        return held

    return {"f": f}


def nested_closure():
    held = torch.ones(N)

    def outer():
        def inner():
            return held

        return inner

    return {"f": outer(), "g": outer}


class Method:
    def __init__(self):
        self.kept = torch.ones(N)

    def call(self):
        CALLS.append("method")


def functions_that_hold():
    held = torch.ones(N), torch.ones(N), torch.ones(N)

    def defaults(a=held[0], *, b=held[1]):
        CALLS.append("defaults")

    def attribute():
        pass

    attribute.cache = {"k": torch.ones(N)}

    @functools.lru_cache
    def cached(n):
        return torch.ones(N + n)

    cached(1)
    return {
        "defaults": defaults,
        "attribute": attribute,
        "partial": functools.partial(print, torch.ones(N), end=torch.ones(N)),
        "method": Method().call,
        "nested": functools.partial(functools.partial(Method().call)),
        "lam": lambda t=held[2]: t,
        "wrapped": functools.wraps(defaults)(lambda: None),
    }


def suspended():
    def produce():
        kept = torch.ones(N)
        yield 1
        CALLS.append("resumed")
        yield kept

    generator = produce()
    next(generator)
    return {"generator": generator}


def classes_that_hold():
    held = torch.ones(N)

    class Config:
        table = torch.ones(N)
        tables = {"a": [torch.ones(N)]}  # noqa: RUF012

        @staticmethod
        def helper(t=held):
            pass

    return {"Config": Config, "config": Config()}


def optimizer_without_a_name():
    model = nn.Linear(N, N)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, N)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return {"model": model, "schedule": schedule}


def optimizer_in_a_closure():
    model = nn.Linear(N, N)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, N)).sum().backward()
    optimizer.step()

    def step():
        optimizer.step()

    return {"model": model, "step": step}


HOLDING_SCENES = {
    "hook on a tensor": hook_on_a_tensor,
    "hook after accumulation": hook_after_accumulation,
    "hooks on a module": hooks_on_a_module,
    "hooks on an optimizer": hooks_on_an_optimizer,
    "hook on a node": hook_on_a_node,
    "hook on a hidden tensor": hook_on_a_hidden_tensor,
    "hook that collects": hook_that_collects,
    "closure": closure,
    "nested closure": nested_closure,
    "functions": functions_that_hold,
    "generator": suspended,
    "classes": classes_that_hold,
    "optimizer without a name": optimizer_without_a_name,
    "optimizer in a closure": optimizer_in_a_closure,
}
