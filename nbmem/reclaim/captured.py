"""Captured graphs of operations (CUDA graphs): they replay at the addresses memory had then."""

from __future__ import annotations

import torch

from nbmem.heap.scan import find_instances


def any_captured() -> bool:
    """Returns whether a captured graph is alive, of torch's own types or of a vendor's."""
    return bool(find_instances(_graph_types()))


def _graph_types() -> list[type]:
    """Returns the types of captured graphs, with those derived from them."""
    stack: list[type] = [
        kind
        for module, name in _places()
        if (kind := getattr(module, name, None)) is not None and issubclass(type(kind), type)
    ]
    found: dict[int, type] = {}
    while stack:
        kind = stack.pop()
        found[id(kind)] = kind
        stack.extend(type.__subclasses__(kind))
    return list(found.values())


def _places() -> list[tuple[object, str]]:
    found = torch.accelerator.current_accelerator()
    types = {"cuda", "xpu"} if found is None else {"cuda", "xpu", found.type}
    vendors = [(getattr(torch, type_, None), f"{type_.upper()}Graph") for type_ in sorted(types)]
    return [*vendors, (torch.accelerator, "Graph")]
