"""Variables that are only a part of a model: what loops over modules and parameters leave behind.

    for layer in model: ...          # leaves `layer`
    for p in model.parameters(): ... # leaves `p`

The part is told as the model's, not as a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from nbmem.inventory.readers import Kind, Reader, read_type


def parts_of_models(values: Iterable[Any]) -> set[int]:
    """Returns the ids of all submodules and parameters of the modules among these values.

    Modules that an object of the user's holds as an attribute count too.
    """
    inside: set[int] = set()
    readers: dict[int, Reader] = {}
    for value in values:
        for module in _modules_at(value, readers):
            _gather(module, inside)
    return inside


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


def _gather(module: Any, inside: set[int]) -> None:
    stack, walked = [module], set[int]()
    while stack:
        attributes = _DICT_OF(stack.pop())
        if id(attributes) in walked:
            continue
        walked.add(id(attributes))
        for name in ("_parameters", "_modules"):
            part: Any = dict.get(attributes, name)
            held = list(dict.values(part)) if issubclass(type(part), dict) else []
            inside.update(id(child) for child in held if child is not None)
            if name == "_modules":
                stack += [c for c in held if issubclass(type(c), torch.nn.Module)]


_DICT_OF = vars(torch.nn.Module)["__dict__"].__get__
