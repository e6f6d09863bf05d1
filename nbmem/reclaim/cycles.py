"""Cycles through C++, which no collector breaks: cut where nothing that has a name is lost."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from nbmem.heap.graphs import HOOKS
from nbmem.heap.nodes import read_node_type
from nbmem.heap.storages import bare_torch, gradient_of
from nbmem.heap.unwinding import KEY
from nbmem.reclaim.detaching import become, grad_fn_of, has_own_rules, set_grad
from nbmem.reclaim.outcome import Outcome, count_of

_BASE = torch._C.TensorBase


def cut_cycle(tensors: Sequence[torch.Tensor], nodes: Sequence[Any] = ()) -> Outcome:
    """Takes from tensors and nodes to which no name leads what may lead back to them.

    That is the graph of a tensor, its gradient, its hooks; a node's hooks, metadata and the
    attributes of a Function's `ctx`. What is garbage in Python only afterwards, `gc.collect()`
    frees.

    Args:
        tensors: all unreachable: they are of no use to anybody afterwards.
        nodes: of autograd graphs, unreachable too.
    """
    cut = 0
    with bare_torch():
        for tensor in tensors:
            cut += _cut_tensor(tensor)
        for node in nodes:
            cut += _cut_node(node)
    where = count_of(len(tensors) + len(nodes), "object")
    return Outcome([f"cut what leads back to {where} without a name"] if cut else [])


def _cut_tensor(tensor: torch.Tensor) -> bool:
    if has_own_rules(tensor):
        return False
    found = [_take_gradient(tensor), _take_graph(tensor)]
    for _, hooks_of in HOOKS:
        found.append(_empty(hooks_of(tensor)))
    return any(found)


def _take_gradient(tensor: torch.Tensor) -> bool:
    if gradient_of(tensor) is None:
        return False
    set_grad(tensor, None)
    return True


def _take_graph(tensor: torch.Tensor) -> bool:
    try:
        if grad_fn_of(tensor) is None:
            return False
        if not _BASE._is_view(tensor):
            _BASE.detach_(tensor)
            return True
        return become(tensor, _BASE.detach(tensor))
    except RuntimeError:  # a view whose base was changed in place
        return False


def _cut_node(node: Any) -> bool:
    kind = read_node_type(type(node))
    if kind is None:
        return False
    found = [_empty(hooks) for hooks in _hooks_of(node)]
    if kind.attributes_of is not None:
        found.append(_empty(kind.attributes_of(node)))
    try:
        metadata = node.metadata
    except RuntimeError:  # torch 2.10: a Function's node of which only its context is left
        metadata = {}
    for key in [key for key in metadata if key != KEY]:
        found.append(metadata.pop(key) is not None)
    return any(found)


def _hooks_of(node: Any) -> Iterator[Any]:
    """Goes through the dicts of a node's hooks, which only the handle of a hook leads to."""
    for register in (node.register_hook, node.register_prehook):
        handle = register(_nothing)
        hooks = handle.hooks_dict_ref()
        handle.remove()
        yield hooks


def _nothing(*_: Any) -> None:
    """A hook that is removed again at once."""


def _empty(held: Any) -> bool:
    if not held or not issubclass(type(held), dict):
        return False
    clear = OrderedDict.clear if issubclass(type(held), OrderedDict) else dict.clear
    clear(held)
    return True
