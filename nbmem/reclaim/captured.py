"""Captured graphs of operations (CUDA graphs): they replay at the addresses memory had then."""

from __future__ import annotations

from typing import Any

import torch

from nbmem.heap.scan import find_instances

_ASKED: list[Any] = [
    base
    for name in ("_CUDAGraph", "_XPUGraph")
    if (base := getattr(torch._C, name, None)) is not None and "pool" in vars(base)
]
"""torch's own types of captured graphs, which tell whether they were captured."""


def any_captured() -> bool:
    """Returns whether a captured graph is alive, of torch's own types or of a vendor's.

    One that was made and not captured, or was reset, replays nothing. Of other types than torch's
    CUDA and XPU graphs each counts: what it is can't be asked.
    """
    return any(map(_is_captured, find_instances(_graph_types())))


def _is_captured(graph: Any) -> bool:
    for base in _ASKED:
        if issubclass(type(graph), base):
            try:
                base.pool(graph)
            except RuntimeError:  # not yet, unless just now
                return _is_capturing()
            return True
    return True


def _is_capturing() -> bool:
    ask = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    return ask is not None and bool(ask())


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
