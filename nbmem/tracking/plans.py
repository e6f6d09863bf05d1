"""What an operation can do to storages, read once from its schema."""

from __future__ import annotations

from typing import Any

import torch

NOTHING = 0
"""Returns views of its inputs, or no tensor."""
ONE = 1
"""Returns one tensor, which may be new."""
IN_PLACE = 2
"""Returns the tensor it changed: a sparse one gets new storages by that."""
MANY = 3
"""Returns several tensors, or may resize those it was given to write into."""
COMPOSITE = 4
"""Is made of other operations, which come one by one only when it is taken apart."""

_LIFTS = ("aten::lift_fresh", "aten::lift")
"""Called views, but the tensor they are given was made out of sight."""


def plan_of(func: Any) -> int:
    """Returns what to look at after a call of the operation: one of the constants here."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator
        return MANY
    if _is_composite(func):
        return COMPOSITE
    if schema.name in _LIFTS:
        return ONE
    if _may_resize(schema):
        return MANY
    return _plan_of_returns(schema)


def _plan_of_returns(schema: Any) -> int:
    tensors = [value for value in schema.returns if "Tensor" in str(value.type)]
    if not any(_is_fresh(value) for value in tensors):
        return IN_PLACE if any(_is_written(value) for value in tensors) else NOTHING
    if len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor":
        return ONE
    return MANY


def _is_fresh(value: Any) -> bool:
    return value.alias_info is None


def _is_written(value: Any) -> bool:
    return value.alias_info is not None and value.alias_info.is_write


def _may_resize(schema: Any) -> bool:
    """Returns whether the operation may change the size of a storage it was given."""
    name = schema.name.rpartition("::")[2]
    if "resize" in name or name.startswith("set_") or name == "set":
        return True
    return any(argument.is_out for argument in schema.arguments)


def _is_composite(func: Any) -> bool:
    """Returns whether only autograd would have taken the operation apart.

    In inference mode such an operation arrives whole: `linear`, `reshape`, `to`.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return False
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name: str = func.name()  # type: ignore[no-untyped-call]
    return bool(has(name, "CompositeImplicitAutograd")) and not has(name, "CPU")
