"""How the nodes of an autograd graph are read: by torch's own accessors, never by the user's."""

from __future__ import annotations

from dataclasses import dataclass
from types import GetSetDescriptorType, MethodDescriptorType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_RAW = "_raw_saved_"
_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_name_of = type.__dict__["__name__"].__get__
_FUNCTION: dict[str, Any] = dict(vars(torch._C._FunctionBase))
_dict_of_function: Callable[[Any], dict[str, Any]] = vars(
    torch.autograd.function.BackwardCFunction
)["__dict__"].__get__

SAVED: Any = torch._C._autograd.SavedTensor
HIDE = frozenset(("CopySlices", "CppFunction", "DifferentiableGraphBackward"))
"""Types of nodes that show nothing of what they keep, if they keep anything."""
FREED = "already been freed"
"""In torch's words where backward has freed what a node kept: then there is nothing to see."""


@dataclass(frozen=True, slots=True)
class NodeType:
    """One type of node: `MulBackward0`, `AccumulateGrad`, the type of a user's Function."""

    cls: type
    """Kept, so that its id stays its own while this lives."""
    name: str
    sequence_of: Callable[[Any], int]
    inputs_of: Callable[[Any], tuple[tuple[Any, int], ...]]
    saved: tuple[tuple[str, Callable[[Any], Any]], ...]
    """Short name and accessor of each value that is stored raw, as hooks left it."""
    leaf_of: Callable[[Any], torch.Tensor] | None
    """The leaf of an `AccumulateGrad`; None for all other types."""
    attributes_of: Callable[[Any], dict[str, Any]] | None
    """What the user put on the `ctx` of a Function; None for torch's own types."""


def read_node_type(cls: type) -> NodeType | None:
    """Returns how nodes of this type are read; None where instances are no nodes."""
    if issubclass(cls, torch._C._FunctionBase):
        found = _FUNCTION
    else:
        found = dict(_namespace_of(cls))
        if not _is_node(found):
            return None
    leaf = found.get("variable")
    return NodeType(
        cls,
        str(_name_of(cls)),
        found["_sequence_nr"],
        found["next_functions"].__get__,
        _saved_of(found),
        leaf.__get__ if type(leaf) is GetSetDescriptorType else None,
        _dict_of_function if found is _FUNCTION else None,
    )


def _is_node(found: dict[str, Any]) -> bool:
    """Returns whether a type made in C++ is a node: nobody else has these two in this form."""
    return (
        type(found.get("next_functions")) is GetSetDescriptorType
        and type(found.get("_sequence_nr")) is MethodDescriptorType
    )


def _saved_of(found: dict[str, Any]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(
        (name.removeprefix(_RAW), accessor.__get__)
        for name, accessor in sorted(found.items())
        if name.startswith(_RAW) and type(accessor) is GetSetDescriptorType
    )
