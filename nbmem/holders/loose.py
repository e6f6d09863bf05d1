"""Objects that only C code refers to: an autograd graph, or a call that is still to be made."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.graphs import HOOKS
from nbmem.holders.root import is_exactly
from nbmem.records import ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.holders.ties import Ties

CYCLE = "a cycle through an autograd graph"
"""Cut of what keeps itself alive by its own graph: no collector breaks it."""
_FUNCTIONS = (types.FunctionType, types.MethodType)
_grad_fn_of = vars(torch._C.TensorBase)["grad_fn"].__get__


def below(ties: Ties, thing: Any) -> list[torch.Tensor]:
    """Returns the tensors that an object leads to."""
    ids = ties.reached_from([id(thing)]) - {id(thing)}
    found = [thing, *(ties.objects[key] for key in ids)]
    return [one for one in found if issubclass(type(one), torch.Tensor)]


def part_of_graph(thing: Any, tensors: Iterable[torch.Tensor]) -> str:
    """Returns what a dict is in the graph of one of these: `hook`, `metadata`, or nothing."""
    if not issubclass(type(thing), dict):
        return ""
    for tensor in tensors:
        if any(hooks_of(tensor) is thing for _, hooks_of in HOOKS):
            return "hook"
        try:
            node: Any = _grad_fn_of(tensor)
        except RuntimeError:  # a view whose base was changed in place under no_grad
            continue
        if node is not None and node.metadata is thing:
            return "metadata"
    return ""


def called_by_c(thing: Any) -> tuple[str, str]:
    """Returns kind and text of the root of what only C code refers to.

    Functions and tuples of arguments are what C code keeps to make a call later; Python's own code
    of that kind is `atexit`: before Python 3.14 nobody sees its list.
    """
    if is_exactly(thing, *_FUNCTIONS):
        return "interpreter_callback", f"C code such as atexit, to call {thing.__name__!r}"
    if type(thing) is tuple:
        return "interpreter_callback", ARGUMENTS
    return "cpp", "C++ code"


def keeps_calls(thing: Any) -> bool:
    """Returns whether it is a list of calls to make later: function, arguments, keywords of each.

    Python 3.14 keeps those of `atexit` in such a list, which the collector sees.
    """
    return (
        type(thing) is list
        and bool(thing)
        and all(
            type(call) is tuple and len(call) == 3 and callable(call[0]) and type(call[1]) is tuple
            for call in thing
        )
    )
