"""Taking a tensor's graph away: the numbers stay, in the same object wherever torch allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbmem.heap.storages import bare_torch
from nbmem.reclaim.outcome import Outcome, count_of, list_of
from nbmem.reclaim.rebinding import put_instead

_BASE = torch._C.TensorBase
_FIELDS = vars(_BASE)
grad_fn_of: Callable[[torch.Tensor], Any] = _FIELDS["grad_fn"].__get__
grad_of: Callable[[torch.Tensor], torch.Tensor | None] = _FIELDS["grad"].__get__
set_grad: Callable[[torch.Tensor, torch.Tensor | None], None] = _FIELDS["grad"].__set__
is_leaf: Callable[[torch.Tensor], bool] = _FIELDS["is_leaf"].__get__
retains_grad: Callable[[torch.Tensor], bool] = _FIELDS["retains_grad"].__get__
_holders_in_torch: Callable[[torch.Tensor], int] = _FIELDS["_use_count"]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A tensor that an act is about, and how the user comes to it."""

    name: str
    """In the user's words: `losses[3]`."""
    tensor: torch.Tensor
    way: tuple[Any, ...] = ()
    """What leads to it, outermost first: the dict of the variables, containers, objects."""


def become(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Makes the object `tensor` what `other` is now; returns whether torch allowed it.

    Names, attributes and class of the object stay. Not where a graph or C++ also holds what
    `tensor` is: that would go on with the old one.
    """
    if _holders_in_torch(tensor) > 1 or not hasattr(torch._C, "_swap_tensor_impl"):
        return False
    try:
        torch._C._swap_tensor_impl(tensor, other)
    except RuntimeError:  # C++ holds it weakly, as after `retain_grad()`
        return False
    return True


def has_own_rules(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor's class answers torch's operations with Python code of its own."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def detach_graphs(targets: Sequence[Target]) -> Outcome:
    """Takes the graphs of these tensors away; each keeps its numbers and its gradient.

    Afterwards `requires_grad` is False, as of `loss.detach()`, and backward through them is over.
    The object stays the same, but for a tensor that another graph saved for its backward: then a
    detached one takes its place, and that other graph works on.
    """
    outcome, detached = Outcome(), []
    with bare_torch():
        for target in sorted(targets, key=_order, reverse=True):
            if _made_by(target.tensor) is None:
                continue
            reason = _detach(target)
            if reason:
                way_out = f"`{target.name} = {target.name}.detach()`"
                outcome.refused.append(f"{target.name} keeps its graph: {reason}; {way_out}")
            else:
                detached.append(target.name)
    if detached:
        whose = list_of(sorted(detached))
        outcome.done.append(f"detach {count_of(len(detached), 'tensor')}: {whose}")
    return outcome


def _order(target: Target) -> int:
    """Later operations first: each may hold what an earlier one made."""
    with bare_torch():
        node = _made_by(target.tensor)
        return -1 if node is None else int(node._sequence_nr())


def _made_by(tensor: torch.Tensor) -> Any:
    try:
        return grad_fn_of(tensor)
    except RuntimeError:  # a view whose base was changed in place under no_grad
        return None


def _detach(target: Target) -> str:
    """Returns why the tensor keeps its graph; empty where it has none any more."""
    tensor = target.tensor
    if has_own_rules(tensor):
        return "its class has code of its own for that"
    if _holders_in_torch(tensor) == 1 and not _BASE._is_view(tensor):
        _BASE.detach_(tensor)
        return ""
    new = _detached(tensor)
    if become(tensor, new):
        return ""
    return put_instead(target.way, tensor, new)


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    new: torch.Tensor = _BASE.detach(tensor)
    if type(new) is not type(tensor):
        new = _BASE.as_subclass(new, type(tensor))
    gradient = grad_of(tensor) if retains_grad(tensor) else None
    if gradient is not None:
        set_grad(new, gradient)
    return new
