"""Gradients: found through the tensors that they belong to."""

from __future__ import annotations

from typing import Any

import torch

from nbmem.inventory.paths import Step
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk

_BASE: Any = torch._C.TensorBase
_is_leaf = _BASE.is_leaf.__get__
_retains_grad = _BASE.retains_grad.__get__
_grad_of = _BASE.grad.__get__


def gradient_of(thing: Any) -> torch.Tensor | None:
    """Returns the gradient of a leaf, or of a tensor told to keep its own; None for all else.

    Asking another tensor would make torch warn. To be called within `bare_torch()`.
    """
    if issubclass(type(thing), torch.UntypedStorage):
        return None
    try:
        has_own = _is_leaf(thing) or _retains_grad(thing)
        gradient: torch.Tensor | None = _grad_of(thing) if has_own else None
        return gradient
    except RuntimeError:  # torch refuses to tell: a view whose base was changed in place
        return None


def reach_gradients(trail: Trail) -> None:
    """Adds to the trail the gradient of each tensor on it, and the gradient's own gradient.

    What a gradient of a wrapper type holds (a shard of it) is reached too.
    """
    storage, walk = torch.UntypedStorage, NameWalk(trail=trail)
    for index, thing in enumerate(trail.tensors):  # grows on the way
        if issubclass(type(thing), storage):
            continue
        try:
            if not (_is_leaf(thing) or _retains_grad(thing)):
                continue
            gradient = _grad_of(thing)
        except RuntimeError:
            continue
        if gradient is not None:
            walk.reach_apart(gradient, Step.GRADIENT, trail.first_link(index))
