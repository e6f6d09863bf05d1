"""Variables that are only a part of a model: what loops over modules and parameters leave behind.

    for layer in model: ...          # leaves `layer`
    for p in model.parameters(): ... # leaves `p`

The part is told as the model's, not as a model of its own. What the user made first, and put into
a larger model or a wrapper then, keeps its own name:

    net = Net(); fast = torch.compile(net); mll = ExactMarginalLogLikelihood(likelihood, net)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from nbmem.inventory.readers import Kind, Reader, read_type


def parts_of_models(values: Sequence[Any]) -> set[int]:
    """Returns the ids of parameters and submodules that are told as parts of these modules.

    Modules that an object of the user's holds as an attribute count too. A module that stands
    before all that contain it is none, nor is the only thing in a wrapper.

    Args:
        values: those of the variables, in the order in which they were first assigned.
    """
    places = dict[int, int]()
    for at, value in enumerate(values):
        places.setdefault(id(value), at)
    parts = _Parts(places)
    readers: dict[int, Reader] = {}
    for at, value in enumerate(values):
        for module in _modules_at(value, readers):
            parts.gather(module, at)
    return parts.found


def _modules_at(value: Any, readers: dict[int, Reader]) -> list[Any]:
    cls = type(value)
    if issubclass(cls, torch.nn.Module):
        return [value]
    reader = readers.get(id(cls))
    if reader is None:
        reader = readers[id(cls)] = read_type(cls)
    if reader.kind is not Kind.INSTANCE or reader.dict_of is None:
        return []
    held = list(dict.values(reader.dict_of.__get__(value)))
    return [child for child in held if issubclass(type(child), torch.nn.Module)]


class _Parts:
    """Gathers the parts of one module after the other.

    Args:
        places: by the `id` of a variable's value, the place of the first such variable.
    """

    def __init__(self, places: dict[int, int]) -> None:
        self.found: set[int] = set()
        self._places = places

    def gather(self, module: Any, at: int) -> None:
        """Gathers the parts of a module that the variable at this place leads to."""
        stack, walked = [module], set[int]()
        while stack:
            attributes = _DICT_OF(stack.pop())
            if id(attributes) in walked:
                continue
            walked.add(id(attributes))
            parameters = _held_in(attributes, "_parameters")
            self.found.update(map(id, parameters.values()))
            children = _held_in(attributes, "_modules")
            wraps = len(children) == 1 and not parameters
            if children and not wraps:
                self._take(children, at)
            stack += [c for c in children.values() if issubclass(type(c), torch.nn.Module)]

    def _take(self, children: dict[Any, Any], at: int) -> None:
        places = self._places
        ids = set(map(id, children.values()))
        if ids.isdisjoint(places):
            return
        numbered = all(type(name) is str and name.isdecimal() for name in children)
        composed = ids <= places.keys()  # as `nn.Sequential(backbone, head)` is, of variables
        for one in ids & places.keys():
            later = places[one] > at
            if (not composed or later) if numbered else (later and not composed):
                self.found.add(one)


def _held_in(attributes: dict[Any, Any], name: str) -> dict[Any, Any]:
    part: Any = dict.get(attributes, name)
    if not issubclass(type(part), dict):
        return {}
    return {key: child for key, child in list(dict.items(part)) if child is not None}


_DICT_OF = vars(torch.nn.Module)["__dict__"].__get__
