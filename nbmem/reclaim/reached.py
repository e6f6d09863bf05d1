"""What a name leads to, as an act that moves memory takes it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from nbmem.heap.storages import bare_torch, begins_graph, read_storages
from nbmem.inventory import find_thing
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.names import write_names
from nbmem.inventory.paths import NAMELESS, Step
from nbmem.inventory.trail import OPTIMIZER, Link, Trail
from nbmem.inventory.walk import NameWalk
from nbmem.reclaim.moves import FOREIGN, STAYING, Carrier, is_wrapper, kind_obstacle
from nbmem.reclaim.names import Holdings


@dataclass(slots=True)
class Reached:
    """The tensors that a name leads to. It holds them: to be cleared after the act."""

    name: str
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """By the name of each, those that can be moved as far as one can see them alone."""
    graphs: dict[str, torch.Tensor] = field(default_factory=dict)
    """Those that an operation made: what it saved would stay where it is."""
    refused: list[str] = field(default_factory=list)
    left: dict[str, torch.Tensor] = field(default_factory=dict)
    """Parameters to which only an optimizer leads: they are a model's."""

    def clear(self) -> None:
        """Lets go of all tensors."""
        self.tensors.clear()
        self.graphs.clear()
        self.left.clear()


def reach(name: str, holdings: Holdings, carrier: Carrier) -> Reached | None:
    """Returns the tensors that a name leads to, gradients included; None where it names nothing.

    The name is a variable, an entry of the output cache, or what an inventory prints for anything
    below one. Of an optimizer it is the state that is taken, its parameters are the model's.
    """
    with bare_torch():
        thing = _find_thing(name, holdings)
        if not thing:
            return None
        trail = NameWalk().run({name: thing[0]}, {})
        try:
            reach_gradients(trail)
            return _sort_out(name, trail, carrier)
        finally:
            trail.clear()
            thing.clear()


def _find_thing(name: str, holdings: Holdings) -> list[Any]:
    """Returns what a name stands for, in a list of one; empty where nothing bears it."""
    return find_thing(name, holdings.names(), holdings.outputs())


def _sort_out(name: str, trail: Trail, carrier: Carrier) -> Reached:
    reached = Reached(name)
    left, inside = _only_in_groups(trail), _inside_wrappers(trail)
    told: set[int] = set()
    for text, link in zip(write_names(trail).texts, trail.links):  # noqa: B905  as above
        index = link.tensor
        if index in told or index in inside:
            continue
        told.add(index)
        if index in left:
            reached.left[text] = trail.tensors[index]
        else:
            _sort_one(reached, text, trail.tensors[index], carrier)
    return reached


def _sort_one(reached: Reached, text: str, thing: Any, carrier: Carrier) -> None:
    bare = issubclass(type(thing), torch.UntypedStorage)
    storages = [thing] if bare else read_storages(thing)
    away = any(carrier.device_of(storage) not in STAYING for storage in storages)
    if not bare and not away:
        reached.tensors[text] = thing
    elif not away:
        return
    elif bare:
        reached.refused.append(f"{text} is a bare storage: park the tensor that shows it")
    elif (reason := kind_obstacle(thing)) is not None:
        # What holds for all that is on a device is told of the name, once.
        reached.refused.append(f"{reached.name if reason == FOREIGN else text} {reason}")
    elif begins_graph(thing):
        reached.graphs[text] = thing
    else:
        reached.tensors[text] = thing


def name_them(keys: Container[int], holdings: Holdings) -> dict[int, str]:
    """Returns the user's first name for each of these tensors (by `id`) that has one."""
    with bare_torch():
        trail = NameWalk().run(holdings.names(), holdings.outputs())
        try:
            reach_gradients(trail)
            named: dict[int, str] = {}
            for text, link in zip(write_names(trail).texts, trail.links):  # noqa: B905  as above
                key = id(trail.tensors[link.tensor])
                if key in keys:
                    named.setdefault(key, text)
            return named
        finally:
            trail.clear()


def _only_in_groups(trail: Trail) -> set[int]:
    """Returns the indices of parameters, and their gradients, that only optimizers lead to."""
    parameters = {id(one) for optimizer in _optimizers(trail) for one in _parameters_of(optimizer)}
    kept = {
        link.tensor
        for link in trail.links
        if link.step is not Step.GRADIENT
        and not (id(trail.tensors[link.tensor]) in parameters and trail.within(link) == OPTIMIZER)
    }
    left = {link.tensor for link in trail.links if link.step is not Step.GRADIENT} - kept
    for link in trail.links:  # a gradient comes after the tensor that it belongs to
        if link.step is Step.GRADIENT and trail.links[link.key].tensor in left - kept:
            left.add(link.tensor)
    return left - kept


def _optimizers(trail: Trail) -> Iterator[Any]:
    for node in range(len(trail.nodes)):
        thing = trail.container(node)
        if issubclass(type(thing), torch.optim.Optimizer):
            yield thing


def _parameters_of(optimizer: Any) -> list[Any]:
    groups: Any = dict.get(object.__getattribute__(optimizer, "__dict__"), "param_groups")
    found: list[Any] = []
    for group in groups if type(groups) is list else ():
        listed: Any = dict.get(group, "params") if issubclass(type(group), dict) else None
        found.extend(listed if type(listed) is list else [])
    return found


def _inside_wrappers(trail: Trail) -> set[int]:
    """Returns the indices of the tensors that a wrapper has inside: it would not hear of a move."""
    return {link.tensor for link in trail.links if _leads_through_wrapper(trail, link)}


def _leads_through_wrapper(trail: Trail, link: Link) -> bool:
    if link.step is Step.GRADIENT:
        return _leads_through_wrapper(trail, trail.links[link.key])
    node = link.node
    while node != NAMELESS:
        thing: Any = trail.container(node)
        if trail.nodes[node].tensor and issubclass(type(thing), torch.Tensor) and is_wrapper(thing):
            return True
        node = trail.nodes[node].parent
    return False
