"""Long chains of autograd nodes, made safe to free after Python has looked at them.

A node that Python has looked at gets a Python object that lives as long as the node (torch 2.11
and later), and torch frees a chain of such nodes by recursion: some 40,000 overflow a stack of
8 MiB and end the process. So a graph that was read is cut into bands of a thousand operations:

    band 7 ──edge──> band 6 ──edge──> band 5
      └─ Breaker: holds the edge's end; when its own node is freed it hands that end over
         to be freed by itself, after the recursion through band 7 has come back

The breaker sits in `node.metadata`, the dict that torch gives each node, under the key `nbmem`. It
holds nothing alive that the node does not hold anyway.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from functools import partial
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

BAND = 1_000
"""Operations that may be freed in one recursion: some 200 KiB of stack."""
KEY = "nbmem"

_waiting: deque[Any] = deque()


def _make_asker() -> Callable[[], object] | None:
    """Returns the call after which the interpreter soon empties `_waiting`, between two steps.

    It and `Breaker` run no line of Python: an interrupt that waited for the end of a long freeing
    would be raised in that line, where nobody can catch it, and be lost.
    """
    try:
        empty = partial(_waiting.__init__, ())  # type: ignore[misc]
        entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(empty)
        return partial(ctypes.pythonapi.Py_AddPendingCall, entry, None)
    except (AttributeError, OSError):  # an interpreter that is not CPython
        return None


_ask_to_free = _make_asker()


class Breaker(partial[Any]):
    """Holds the ends of the edges that lead from its node into earlier bands.

    When it is freed it calls itself, which hands the ends over and asks for them to be freed. All
    that takes is bound in it: at the interpreter's end this module's names are gone before the
    last node.
    """

    __slots__ = ("ends",)

    ends: list[Any]

    def __new__(cls) -> Breaker:
        """Returns a breaker without ends."""
        ends: list[Any] = []
        asked = starmap(_ask_to_free, ((),)) if _ask_to_free is not None else ()
        made = super().__new__(cls, _waiting.extend, chain((ends,), asked))
        made.ends = ends
        return made

    __del__ = partial.__call__


def can_break() -> bool:
    """Returns whether this interpreter can be asked to free something a moment later."""
    return _ask_to_free is not None


def outlive_the_walk(objects: Sequence[Any]) -> bool:
    """Returns whether torch holds the Python objects of these nodes, which a list holds too."""
    return min(map(sys.getrefcount, objects)) > min(map(sys.getrefcount, [object()]))


def break_chains(objects: Sequence[Any], edges: Iterable[tuple[int, int]]) -> None:
    """Makes the graph safe to free.

    Args:
        objects: the nodes.
        edges: (node, input), as indices, of all edges from one band into an earlier one.
    """
    for node, earlier in edges:
        ends = _breaker_of(objects[node]).ends
        end = objects[earlier]
        if all(end is not held for held in ends):
            ends.append(end)


def _breaker_of(node: Any) -> Breaker:
    metadata = node.metadata
    found = metadata.get(KEY)
    if found is None:
        found = metadata[KEY] = Breaker()
    return found  # type: ignore[no-any-return]
