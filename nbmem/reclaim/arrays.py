"""Small numpy arrays over large tensors: each is replaced by a copy wherever it stands."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from nbmem.reclaim.detaching import Target
from nbmem.reclaim.outcome import Outcome, list_of, type_name
from nbmem.reclaim.rebinding import count_places, instance_dict, put_instead


def is_array(thing: Any) -> bool:
    """Returns whether it is an array of numpy's own class."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(thing) is numpy.ndarray


def why_not_copy(targets: Sequence[Target]) -> str:
    """Returns why `copy_arrays` would leave these alone; empty where it would replace them."""
    return _find_places(targets)[1]


def copy_arrays(targets: Sequence[Target]) -> Outcome:
    """Puts a copy in the place of each of these arrays, which show parts of a large tensor.

    Names, entries and attributes then have an array of its own memory, with the same numbers, the
    same order of dimensions, and as writeable as it was.

    Args:
        targets: every array that shows the memory.
    """
    names, (places, reason) = list_of(target.name for target in targets), _find_places(targets)
    if reason:
        return Outcome(refused=[f"{names}: {reason}; `{targets[0].name}.copy()`"])
    for target, holders in zip(targets, places, strict=True):
        array: Any = target.tensor
        copied = array.copy(order="K")
        copied.flags.writeable = array.flags.writeable
        for holder in holders:
            put_instead([holder], array, copied)
    return Outcome([f"replace {names} by a copy"])


def _find_places(targets: Sequence[Target]) -> tuple[list[list[Any]], str]:
    """Returns what holds each array, and why not all of them can be replaced, if so."""
    if not all(is_array(target.tensor) for target in targets):
        return [], "arrays of numpy's and tensors show the same memory"
    numpy, places = sys.modules["numpy"], []
    for one, other in combinations(targets, 2):
        if numpy.may_share_memory(one.tensor, other.tensor):
            return [], "they share memory, and copies would not"
    lone = Target("", numpy.empty(0))
    alone = sys.getrefcount(lone.tensor)
    for target in targets:
        holders = _holders_of(target)
        known = sum(count_places(holder, target.tensor) for holder in holders)
        fixed = [one for one in holders if not count_places(one, target.tensor)]
        if fixed:
            return [], f"{type_name(fixed[0])} holds it and can't be changed"
        if sys.getrefcount(target.tensor) > alone + known:
            return [], "something that Python does not list holds it too"
        places.append(holders)
    return places, ""


def _holders_of(target: Target) -> list[Any]:
    """Returns what holds an array, but for what holds it for the act's sake.

    Python lists no dict that has only arrays in it: the one on the way is added.
    """
    found = [one for one in gc.get_referrers(target.tensor) if type(one) is not Target]
    found += target.way[-1:]
    return list({id(one): one for one in found}.values())


def way_to(name: str, names: dict[str, Any]) -> tuple[Any, ...]:
    """Returns what a name such as `parts['first'].row` leads through, the dict of names first.

    Nothing of the user's is called; empty where the name is no such path.
    """
    try:
        node = ast.parse(name, mode="eval").body
    except SyntaxError:
        return ()
    steps: list[Any] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        constant = isinstance(node, ast.Attribute) or isinstance(node.slice, ast.Constant)
        if not constant:
            return ()
        steps.append(node)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ()
    way: list[Any] = [names]
    held = names[node.id]
    for step in reversed(steps):
        way.append(held)
        held = _follow(held, step)
    return tuple(way)


def _follow(held: Any, step: Any) -> Any:
    if isinstance(step, ast.Attribute):
        return (instance_dict(held) or {}).get(step.attr)
    key = step.slice.value
    if type(held) in (list, tuple) and type(key) is int and key < len(held):
        return held[key]
    return dict.get(held, key) if issubclass(type(held), dict) else None
