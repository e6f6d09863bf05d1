"""Facts about tensors that a value needs, and that may still be more than it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.storages import gradient_of, layout_of
from nbmem.records import GradientFact, StateFact

if TYPE_CHECKING:
    pass

_BASE = torch._C.TensorBase
_CHUNK = 1 << 20
_requires_grad = vars(_BASE)["requires_grad"].__get__
_dict_of_optimizer = vars(torch.optim.Optimizer)["__dict__"].__get__
_STRIDED = torch.strided
_device_of = vars(_BASE)["device"].__get__


def is_zero(tensor: Any) -> bool | None:
    """Returns whether all numbers are zero; None on an accelerator and where numpy is missing."""
    numpy = sys.modules.get("numpy")
    if numpy is None or _device_of(tensor).type != "cpu" or layout_of(tensor) is not _STRIDED:
        return None
    storage = _BASE.untyped_storage(tensor)
    size = storage.nbytes()
    import ctypes

    memory = (ctypes.c_char * size).from_address(storage.data_ptr())
    view = numpy.frombuffer(memory, dtype=numpy.uint8)
    return not any(view[start : start + _CHUNK].any() for start in range(0, size, _CHUNK))


def gradient_facts(
    owners: Iterable[tuple[Any, str]],
    serials_of: Callable[[Any], Iterable[int]],
    sizes: dict[int, int],
    stepped_by: dict[int, str],
) -> list[GradientFact]:
    """Returns the gradients nobody may step with: of frozen tensors, and those of no optimizer.

    Args:
        owners: tensors with their names.
        serials_of: the storages of a tensor, by their serials.
        sizes: bytes by serial.
        stepped_by: name of the optimizer by the `id` of a parameter.
    """
    facts = []
    for owner, name in owners:
        gradient = gradient_of(owner)
        if gradient is None:
            continue
        optimizer, frozen = stepped_by.get(id(owner)), not _requires_grad(owner)
        if optimizer is not None and not frozen:
            continue
        zero = is_zero(gradient)
        facts += [
            GradientFact(serial, sizes[serial], f"{name}.grad", zero, frozen, optimizer)
            for serial in serials_of(gradient)
            if serial in sizes
        ]
    return facts


def may_be_unused(fact: GradientFact) -> bool:
    """Returns whether no step of an optimizer of torch's needs a gradient."""
    return fact.frozen or (bool(fact.zero) and fact.optimizer is None)


def parameters_of(optimizer: Any) -> list[Any]:
    """Returns the tensors in an optimizer's `param_groups`, read past its own code."""
    held: Any = dict.get(_dict_of_optimizer(optimizer), "param_groups")
    groups = list(held) if type(held) is list else []
    lists = [dict.get(group, "params") for group in groups if issubclass(type(group), dict)]
    return [p for one in lists if type(one) is list for p in one]


def state_of(optimizer: Any) -> dict[Any, Any]:
    """Returns an optimizer's `state` as it stands; empty where it is no dict."""
    held: Any = dict.get(_dict_of_optimizer(optimizer), "state")
    return held if issubclass(type(held), dict) else {}


def state_fact(
    optimizer: Any,
    name: str,
    needed: Container[int],
    serials_of: Callable[[Any], Iterable[int]],
    kept: Container[int] = (),
) -> StateFact | None:
    """Returns what an optimizer holds for parameters that nothing else of the user's needs.

    Args:
        optimizer: read past its own code.
        name: what it is called.
        needed: ids of what is needed besides optimizers.
        serials_of: the storages of a tensor.
        kept: storages that stay without it, as where a state dict shows the weights.
    """
    everything, lost = _all_parameters(optimizer), lost_parameters(optimizer, needed)
    if not lost:
        return None
    keys: dict[int, None] = {}
    for parameter in lost:
        for thing in (
            parameter,
            gradient_of(parameter),
            *_tensors_in(state_of(optimizer), parameter),
        ):
            if thing is not None:
                keys.update((serial, None) for serial in serials_of(thing) if serial not in kept)
    listed = set(map(id, parameters_of(optimizer)))
    in_groups = any(id(p) in listed for p in lost)
    return StateFact(name, len(lost), tuple(keys), in_groups, len(lost) == len(everything))


def lost_parameters(optimizer: Any, needed: Container[int]) -> list[Any]:
    """Returns the parameters that an optimizer has and that are not `needed` (ids) besides it."""
    return [p for p in _all_parameters(optimizer) if id(p) not in needed]


def _all_parameters(optimizer: Any) -> list[Any]:
    """Returns the tensors in its groups, then those it has only state for."""
    both = (*parameters_of(optimizer), *list(dict.keys(state_of(optimizer))))
    tensors = [p for p in both if issubclass(type(p), torch.Tensor)]
    return list({id(p): p for p in tensors}.values())


def _tensors_in(state: dict[Any, Any], parameter: Any) -> list[Any]:
    for key, kept in list(dict.items(state)):
        if key is parameter and issubclass(type(kept), dict):
            return [t for t in list(dict.values(kept)) if issubclass(type(t), torch.Tensor)]
    return []
