"""What the values that a user can name need: by which steps a value holds what it is made of.

A list needs its items, a model its parameters, a function what its closure holds. A hook, a frame,
an autograd graph, a list that only a closure knows: what these hold goes beyond any value.
"""

from __future__ import annotations

import re
import types
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.scan import find_instances, with_subclasses
from nbmem.holders.root import is_exactly
from nbmem.holders.ties import ROOT, Tie, Ties
from nbmem.inventory.paths import Step
from nbmem.inventory.readers import type_name

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

NOT, HIDDEN, PART, VALUE = range(4)
"""Not needed; inside a container that only a function knows; part of something that is needed (a
function, a hook); a value."""

_THROWAWAY = re.compile(r"_+\Z")
_BEYOND = frozenset((Step.ROOT, Step.OUTPUT, Step.FRAME, Step.LOCAL, Step.CACHED))
_HOOKED = (torch.nn.Module, torch.Tensor, torch.optim.Optimizer)
_WHOLE = (torch.Tensor, torch.UntypedStorage, torch.nn.Module, torch.optim.Optimizer)
_PLAIN = (list, tuple, dict, set, deque)
_GROWING = (list, dict, set, deque)
_CODE = (types.FunctionType, staticmethod, classmethod, property)
_PER_PARAMETER = ({1.0}, {2.0}, {3.0}, {4.0})
"""Tensors that an optimizer keeps for each parameter."""
_BUFFERS = frozenset(("_tee_dataobject", "_tee", "cycle", "_lru_cache_wrapper"))
_WAITING = frozenset(("SimpleQueue", "Future"))
"""What somebody else puts something into, to be taken out once."""
_mro_of = type.__dict__["__mro__"].__get__
_is_leaf = vars(torch._C.TensorBase)["is_leaf"].__get__
_requires_grad = vars(torch._C.TensorBase)["requires_grad"].__get__
_shape_of = vars(torch._C.TensorBase)["shape"].__get__


def is_throwaway(name: object) -> bool:
    """Returns whether a variable's name, made of `_` alone, says that nobody wants its value."""
    return type(name) is str and _THROWAWAY.match(name) is not None


def find_wanted(
    ties: Ties, in_use: set[int], *, roots: Container[str] = (), without_optimizers: bool = False
) -> dict[int, int]:
    """Returns how each object is needed (`PART`, `VALUE`, …), by id; what is not needed is absent.

    Args:
        ties: all ways between objects.
        in_use: see `find_in_use`.
        roots: texts of roots other than variables whose objects are in use.
        without_optimizers: do not go through optimizers: what is left is needed besides them.
    """
    found: dict[int, int] = {}
    queue = deque[int]()

    def reach(key: int, state: int) -> None:
        if state > found.get(key, NOT):
            found[key] = state
            queue.append(key)

    for key, tie in ties.outgoing.get(ROOT, ()):
        reach(key, _state_at(tie, roots))
    while queue:
        key = queue.popleft()
        holder, state = ties.objects[key], found[key]
        if without_optimizers and issubclass(type(holder), torch.optim.Optimizer):
            continue
        for child, tie in ties.outgoing.get(key, ()):
            reach(child, _state_of(state, holder, tie, ties.objects[child], in_use))
    return found


def state_along(
    steps: Iterable[tuple[Tie, Any]], in_use: set[int], roots: Container[str] = ()
) -> int:
    """Returns how a way needs what it leads to.

    Args:
        steps: the ties from the root down, each with the object that it leads to.
        in_use: see `find_in_use`.
        roots: see `find_wanted`.
    """
    holder, state = None, NOT
    for tie, thing in steps:
        if tie.holder == ROOT:
            state = _state_at(tie, roots)
        else:
            state = _state_of(state, holder, tie, thing, in_use)
        if state == NOT:
            return NOT
        holder = thing
    return state


def _state_at(tie: Tie, roots: Container[str]) -> int:
    named = tie.step is Step.VARIABLE and not is_throwaway(tie.key)
    return VALUE if named or tie.key in roots else NOT


def wants(state: int, thing: Any) -> bool:
    """Returns whether a tensor that was reached in this state is needed."""
    if state != HIDDEN:
        return state > NOT
    if issubclass(type(thing), torch.UntypedStorage):
        return False
    return _is_parameter(thing)


def _state_of(state: int, holder: Any, tie: Tie, child: Any, in_use: set[int]) -> int:
    kind, step = type(holder), tie.step
    if step is None:
        return NOT  # found by looking upwards: no value leads there
    if step in _BEYOND or (step is Step.INSIDE_AT and type_name(kind) in _BUFFERS):
        return NOT
    if step is Step.GRADIENT:
        return VALUE
    if step is Step.ATTRIBUTE and issubclass(kind, _HOOKED) and _is_hooks(tie.key):
        return PART
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return NOT  # an attribute that somebody put on it
    if issubclass(kind, type):
        return VALUE if id(holder) in in_use else _as_part(child)
    if state == HIDDEN:
        return HIDDEN
    if state == PART or kind is types.FunctionType:
        return VALUE if id(child) in in_use else _as_part(child)
    return VALUE


def _as_part(child: Any) -> int:
    """Returns how something is needed that a function, a hook or a class holds."""
    kind = type(child)
    if issubclass(kind, _WHOLE):
        return VALUE
    return HIDDEN if issubclass(kind, _GROWING) or type_name(kind) in _WAITING else PART


def _is_parameter(tensor: torch.Tensor) -> bool:
    return bool(_is_leaf(tensor) and _requires_grad(tensor))


def _is_hooks(name: object) -> bool:
    return type(name) is str and name.endswith("_hooks")


def find_in_use(ties: Ties) -> set[int]:
    """Returns the ids of classes and containers in use, though no way of a value tells so.

    Classes are those that hold more than code and of which an instance lives, containers the
    state of optimizers that are functions.
    """
    return _living_classes(ties) | _states_of_functions(ties)


def _living_classes(ties: Ties) -> set[int]:
    classes: list[Any] = []
    for key, ways in ties.outgoing.items():
        holder = ties.objects.get(key)
        if issubclass(type(holder), type) and any(
            not is_exactly(ties.objects[child], *_CODE) for child, _ in ways
        ):
            classes.append(holder)
    return classes_in_use(classes)


def classes_in_use(classes: Collection[type]) -> set[int]:
    """Returns the ids of those of the classes of which, or of a subclass, an instance lives."""
    if not classes:
        return set()
    kinds = {id(kind): kind for one in classes for kind in with_subclasses(one)}
    living = {id(type(item)): type(item) for item in find_instances(kinds.values())}
    return {id(base) for kind in living.values() for base in _mro_of(kind)}


def _states_of_functions(ties: Ties) -> set[int]:
    """Returns the ids of containers with the state of optimizers that somebody wrote as functions.

    A function that has parameters has such a container where it keeps equally many tensors for
    each of them, of its shape (momentum: one; Adam: two), that await no backward().
    """
    found = set[int]()
    for key, ways in ties.outgoing.items():
        if type(ties.objects.get(key)) is not types.FunctionType:
            continue
        held = {child for child, tie in ways if tie.step in (Step.CLOSURE, Step.DEFAULT)}
        growing = {one for one in held if issubclass(type(ties.objects[one]), _GROWING)}
        if not growing:
            continue
        parameters = Counter(
            tuple(_shape_of(one)) for one in _tensors_in(ties, held) if _is_parameter(one)
        )
        found |= {one for one in growing if _is_state(_tensors_in(ties, {one}), parameters)}
    return found


def _tensors_in(ties: Ties, start: Iterable[int]) -> list[torch.Tensor]:
    """Returns the tensors in some objects, plain containers and models among them looked into."""
    found, stack = [], list(start)
    seen = set(stack)
    while stack:
        key = stack.pop()
        thing = ties.objects[key]
        if issubclass(type(thing), torch.Tensor):
            found.append(thing)
        elif is_exactly(thing, *_PLAIN) or issubclass(type(thing), torch.nn.Module):
            children = {child for child, _ in ties.outgoing.get(key, ())} - seen
            seen |= children
            stack += children
    return found


def _is_state(tensors: list[torch.Tensor], parameters: Counter[tuple[int, ...]]) -> bool:
    states = [one for one in tensors if not _is_parameter(one)]  # which may be keys
    if any(_requires_grad(one) for one in states):
        return False
    kept = Counter(shape for one in states if (shape := tuple(_shape_of(one))) or () in parameters)
    times = {kept[shape] / count for shape, count in parameters.items()}
    return kept.keys() == parameters.keys() and times in _PER_PARAMETER
