"""Holders that the garbage collector does not show: running frames, numpy's arrays, torch's C++.

They are looked for only where an object has more references than holders were found for.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from typing import Any

import torch

from nbmem.heap import refused_object
from nbmem.heap.storages import gradient_of
from nbmem.holders.references import CHUNK
from nbmem.holders.root import attributes_of

OURS = "nbmem"
_use_count = torch._C.TensorBase._use_count  # type: ignore[attr-defined]


# -- running frames ------------------------------------------------------------------------------


def running_frames() -> list[tuple[types.FrameType, str]]:
    """Returns the frames that run now but the caller's own, each with its thread's name."""
    threads = map(attributes_of, threading.enumerate())
    names = {held.get("_ident"): str(held.get("_name")) for held in threads}
    this = threading.get_ident()
    innermost = sys._current_frames()
    innermost[this] = sys._getframe(2)  # a frame that refers to itself would outlive its call
    found = []
    for ident, frame in innermost.items():
        found += [(each, names.get(ident, str(ident))) for each in _callers(frame)]
    return found


def _callers(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_of_nbmem(frame: types.FrameType) -> bool:
    """Returns whether a frame runs nbmem's own code."""
    return str(dict.get(frame.f_globals, "__name__")).partition(".")[0] == OURS


# -- torch ---------------------------------------------------------------------------------------


def counts_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns how often C++ refers to a tensor, and how many of its Python references say so."""
    shared = max(0, _use_count(tensor) - 1)
    return shared, int(shared > 0 and _python_counts_cpp())


@functools.cache
def _python_counts_cpp() -> bool:
    """Returns whether what C++ holds has one more Python reference for it, as in torch 2.13."""
    owner = torch.zeros(1, device="cpu", dtype=torch.float32)
    gradient = torch.zeros(1, device="cpu", dtype=torch.float32)
    before = sys.getrefcount(gradient)
    owner.grad = gradient
    return sys.getrefcount(gradient) > before


def gradients(things: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Goes through those that are tensors with a gradient, each with that."""
    for thing in things:
        if issubclass(type(thing), torch.Tensor):
            gradient = gradient_of(thing)
            if gradient is not None:
                yield thing, gradient


# -- numpy ---------------------------------------------------------------------------------------


def held_arrays(objects: list[Any], wanted: set[int]) -> list[tuple[Any, Any]]:
    """Returns numpy's arrays that lead to a wanted object, and what untracked containers hold them.

    Python does not track a dict or a tuple that holds nothing but arrays, texts and numbers.

    Args:
        objects: who may hold an array.
        wanted: ids of objects.

    Returns:
        Pairs of what is held and one holder; a pair for each reference.
    """
    kinds = _kinds_of_array()
    look = _ArrayLook(wanted, kinds)
    for start in range(0, len(objects) if kinds else 0, CHUNK):
        chunk = objects[start : start + CHUNK]
        if _have_arrays(chunk, kinds):
            for holder in chunk:
                look.into(holder)
    return look.found


def _have_arrays(holders: list[Any], kinds: set[int]) -> bool:
    level = holders
    for _ in range(_NESTED):
        level = list(filterfalse(gc.is_tracked, gc.get_referents(*level)))
        if not level:
            return False
        if not kinds.isdisjoint(map(id, map(type, level))):
            return True
    return False


_NESTED = 4
"""Untracked tuples in each other, in a dict, that are looked into."""


class _ArrayLook:
    """Looks into holders for arrays; into untracked containers and arrays once."""

    def __init__(self, wanted: set[int], kinds: set[int]) -> None:
        self.found: list[tuple[Any, Any]] = []
        self._wanted = wanted
        self._kinds = kinds
        self._met: dict[int, tuple[bool, Any]] = {}
        """By id: whether it leads to a wanted object, and what it is, so that the id stays its."""

    def into(self, holder: Any) -> bool:
        """Adds what of it leads to a wanted object; returns whether anything does."""
        before = len(self.found)
        for held in filterfalse(gc.is_tracked, gc.get_referents(holder)):
            kind = type(held)
            if (id(kind) in self._kinds or kind is dict or kind is tuple) and self._leads(held):
                self.found.append((held, holder))
        return len(self.found) > before

    def _leads(self, held: Any) -> bool:
        met = self._met.get(id(held))
        if met is None:
            is_one = id(type(held)) in self._kinds
            leads = leads_to(held, self._wanted) if is_one else self.into(held)
            met = self._met[id(held)] = leads, held
        return met[0]


def is_array(thing: Any) -> bool:
    """Returns whether it is an array of numpy's."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(type(thing), numpy.ndarray)


def leads_to(array: Any, wanted: set[int]) -> bool:
    """Returns whether an array is a view of a wanted object, or has one among its items."""
    seen, stack = {id(array)}, [array]
    while stack:
        for held in inside_array(stack.pop()):
            if id(held) in wanted:
                return True
            if is_array(held) and id(held) not in seen:
                seen.add(id(held))
                stack.append(held)
    return False


def inside_array(array: Any) -> list[Any]:
    """Returns what an array holds: its items, if they are objects, and what it is a view of."""
    base = base_of_array(array)
    return items_of_array(array) if base is None else [*items_of_array(array), base]


def items_of_array(array: Any) -> list[Any]:
    """Returns the objects in an array of objects; of a view none, as they are the other's."""
    read = _descriptors_of_array()
    if read["dtype"].__get__(array).kind != "O" or not read["flags"].__get__(array).owndata:
        return []
    return read["tolist"](read["reshape"](array, -1))  # type: ignore[no-any-return]


def base_of_array(array: Any) -> Any:
    """Returns what the array is a view of; None where the memory is its own."""
    return _descriptors_of_array()["base"].__get__(array)


def _descriptors_of_array() -> Any:
    return vars(sys.modules["numpy"].ndarray)


def _kinds_of_array() -> set[int]:
    numpy = sys.modules.get("numpy")
    found, stack = set[int](), [numpy.ndarray] if numpy is not None else []
    while stack:
        kind = stack.pop()
        if id(kind) not in found:
            found.add(id(kind))
            stack.extend(type.__subclasses__(kind))
    return found


# -- frozen objects ------------------------------------------------------------------------------


def find_frozen(listed: list[Any], ours: list[Any]) -> list[Any]:
    """Returns the objects in gc's permanent generation to which a module or an object leads.

    Args:
        listed: all objects that gc lists.
        ours: a list that was made after that.
    """
    seen = {id(listed), id(ours), id(refused_object()), *map(id, listed)}
    level: list[Any] = list(sys.modules.values())
    for start in range(0, len(listed), CHUNK):
        level += _untold(listed[start : start + CHUNK], seen)
    found: list[Any] = []
    while level:
        fresh = {id(one): one for one in level if gc.is_tracked(one) and id(one) not in seen}
        seen.update(fresh)
        found += fresh.values()
        level = gc.get_referents(*fresh.values())
    return found


def _untold(holders: list[Any], seen: set[int]) -> list[Any]:
    held = gc.get_referents(*holders)
    return [one for one in held if gc.is_tracked(one) and id(one) not in seen]
