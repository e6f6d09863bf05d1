"""Gradients: found through the tensors that they belong to."""

from __future__ import annotations

import torch

from nbmem.heap.storages import gradient_of
from nbmem.inventory.paths import Step
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk


def reach_gradients(trail: Trail) -> None:
    """Adds to the trail the gradient of each tensor on it, and the gradient's own gradient.

    What a gradient of a wrapper type holds (a shard of it) is reached too.
    """
    storage, walk = torch.UntypedStorage, NameWalk(trail=trail)
    for index, thing in enumerate(trail.tensors):  # grows on the way
        if issubclass(type(thing), storage):
            continue
        gradient = gradient_of(thing)
        if gradient is not None:
            walk.reach_apart(gradient, Step.GRADIENT, trail.first_link(index))
