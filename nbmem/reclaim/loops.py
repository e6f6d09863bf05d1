"""Whether a loop that runs now goes through a generator: Python shows nobody what it holds there.

A loop keeps its iterator on the stack of its frame, which the garbage collector does not go
through. Such an object has more references than the objects that refer to it have.
"""

from __future__ import annotations

import gc
import sys
import types
from typing import Any

from nbmem.inventory.readers import HEAP_TYPE
from nbmem.reclaim.dropping import close_generator
from nbmem.reclaim.outcome import Outcome

IN_USE = "it is in use, as by a loop that goes through it now: end that first"


class Alone:
    """Holds one object for an act; what is held so by nbmem does not count as in use."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing


_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_NO_OWNERS = (Alone, type, types.FunctionType, types.ModuleType, types.FrameType)
_MOST_LEVELS = 6
_MOST_OBJECTS = 500
"""Above that a generator counts as in use: nothing would tell that it is not."""


def close_idle(held: Alone, name: str) -> Outcome:
    """Ends a generator or coroutine, unless something uses it that Python does not list.

    Args:
        held: it; no variable of a caller's holds it besides.
        name: what to call it.
    """
    reason = why_not_close(held)
    return Outcome(refused=[f"{name}: {reason}"]) if reason else close_generator(held.thing, name)


def why_not_close(held: Alone) -> str:
    """Returns why a generator is to be left alone; see `close_idle`."""
    lone = _unlisted(Alone(None for _ in ()))
    if _unlisted(held) > lone:
        return IN_USE
    level, seen = [held.thing], {id(held.thing)}
    for _ in range(_MOST_LEVELS):
        level = _owners_of(level, seen)
        if len(seen) > _MOST_OBJECTS or any(
            _unlisted(Alone(level[at])) > lone
            for at in range(len(level))
            if _is_iterator(level, at)
        ):
            return IN_USE
    return ""


def _unlisted(held: Alone) -> int:
    """Returns how many references to this one object no object has that gc lists."""
    listed = gc.get_referrers(held.thing)
    known = sum(one is held.thing for holder in listed for one in gc.get_referents(holder))
    return sys.getrefcount(held.thing) - known


def _owners_of(level: list[Any], seen: set[int]) -> list[Any]:
    """Returns what holds these and may be an iterator, or a part of one."""
    seen.add(id(level))
    found = [one for one in gc.get_referrers(*level) if id(one) not in seen and _may_own(one)]
    seen.update(map(id, found))
    return found


def _may_own(thing: Any) -> bool:
    kind = type(thing)
    if issubclass(kind, _NO_OWNERS):
        return False
    if kind is dict:  # of an instance; the names of a module hold whatever the user names
        return "__builtins__" not in thing
    return kind in (tuple, list) or _goes_on(kind) or bool(_flags_of(kind) & HEAP_TYPE)


def _is_iterator(level: list[Any], at: int) -> bool:
    return _goes_on(type(level[at]))


def _goes_on(kind: type) -> bool:
    return any("__next__" in _namespace_of(base) for base in _mro_of(kind))
