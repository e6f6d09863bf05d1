"""Gradients that nobody steps with, and an optimizer's state for parameters that left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nbmem.heap.storages import bare_torch, gradient_of
from nbmem.reclaim.detaching import set_grad
from nbmem.reclaim.outcome import Outcome, count_of, type_name
from nbmem.reclaim.rebinding import instance_dict

_LISTED = ("params", "param_names")


def drop_gradients(tensors: Sequence[torch.Tensor]) -> Outcome:
    """Sets `grad` of these tensors to None, as `optimizer.zero_grad()` does."""
    dropped = 0
    with bare_torch():
        for tensor in tensors:
            if gradient_of(tensor) is not None:
                set_grad(tensor, None)
                dropped += 1
    return Outcome([f"set {count_of(dropped, 'gradient')} to None"] if dropped else [])


def drop_state(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> Outcome:
    """Takes these parameters, and what an optimizer keeps for them, out of it.

    Its next steps give the other parameters the same values as they would have had. The groups
    themselves stay, with their settings, for schedulers.

    Args:
        optimizer: of any class that keeps its state by parameter.
        parameters: told by identity.
    """
    name = type_name(optimizer)
    held = instance_dict(optimizer) or {}
    doomed, total = {id(parameter) for parameter in parameters}, _parameters_of(held)
    if issubclass(type(optimizer), torch.optim.LBFGS) and not total <= doomed:
        reason = f"{name} keeps one state for all of its parameters; make a new {name} of the rest"
        return Outcome(refused=[reason])
    dropped = _drop_entries(held.get("state"), doomed)
    outcome = Outcome()
    if dropped:
        outcome.done.append(f"drop the state of {count_of(dropped, 'parameter')} from {name}")
    left = sum(_drop_listed(group, doomed) for group in _groups_of(held))
    if left:
        outcome.done.append(f"take {count_of(left, 'parameter')} out of the groups of {name}")
    return outcome


def _groups_of(held: dict[Any, Any]) -> list[dict[Any, Any]]:
    groups = held.get("param_groups")
    return [group for group in groups if type(group) is dict] if type(groups) is list else []


def _parameters_of(held: dict[Any, Any]) -> set[int]:
    return {id(one) for group in _groups_of(held) for one in group.get("params", ())}


def _drop_entries(state: Any, doomed: set[int]) -> int:
    if not issubclass(type(state), dict):
        return 0
    keys = [key for key in dict.keys(state) if id(key) in doomed]
    for key in keys:
        dict.pop(state, key)
    return len(keys)


def _drop_listed(group: dict[Any, Any], doomed: set[int]) -> int:
    """Takes the parameters out of one group, with their names where it has any."""
    listed = group.get("params")
    if type(listed) is not list:
        return 0
    stay = [at for at, one in enumerate(listed) if id(one) not in doomed]
    count = len(listed) - len(stay)
    for name in _LISTED:
        values = group.get(name)
        if type(values) is list and len(values) == len(stay) + count:
            values[:] = [values[at] for at in stay]
    return count
