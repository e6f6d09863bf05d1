"""The steps from a holder to what it holds, in words; what Python puts between is left out.

An object holds its `__dict__`, which holds the value: told is `.value`. The same goes for a
module's `_parameters`, the cells of a function's closure, the tuple of its defaults, a class's
namespace.
"""

from __future__ import annotations

import gc
import types
from typing import TYPE_CHECKING, Any

from nbmem.holders.entries import MODULE_PARTS, Entries, tracebacks
from nbmem.holders.found import Edge
from nbmem.holders.root import is_exactly
from nbmem.inventory.frames import copies_of_variables
from nbmem.inventory.natives import SUSPENDED, traceback_of
from nbmem.inventory.paths import HOLDERS, Step, write_step
from nbmem.inventory.readers import type_name

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from nbmem.holders.found import Found

_WITH_CELLS = (types.FrameType, *SUSPENDED)
_TRACEBACK = types.TracebackType
_BUFFERS = ("_tee", "_tee_dataobject", "cycle")


def label_edges(found: Found, holders: dict[int, Counter[int]], targets: int) -> None:
    """Writes the edges, and takes out objects that only stand between a holder and its value.

    Args:
        found: takes the edges up.
        holders: by index, who refers to an object, how often.
        targets: how many of the objects are targets.
    """
    _Labels(found, holders).write(targets)


class _Labels:
    def __init__(self, found: Found, holders: dict[int, Counter[int]]) -> None:
        self._found = found
        self._holders = holders
        self._entries = Entries()
        self._index = {id(found.objects[at]): at for at in holders}
        self._held: dict[int, set[int]] = {}
        for below, above in holders.items():
            for at in above:
                self._held.setdefault(at, set()).add(below)
        self._between: dict[int, set[int]] = {}
        """For each holder: which objects only stand between it and what it holds."""
        self._owners: dict[int, set[int]] = {}

    def write(self, targets: int) -> None:
        for at in self._held:
            self._leave_to_errors(at)
        for at in self._held:
            self._find_between(at)
        dropped = {at for at in self._owners if at >= targets and self._only_between(at)}
        while left := {at for at in dropped if not self._goes_with(at, dropped)}:
            dropped -= left
        edges = self._found.edges
        for at in self._held:
            if at not in dropped:
                edges.extend(self._edges_of(at))
        self._drop(dropped)

    def _leave_to_errors(self, at: int) -> None:
        """Takes out a holder's references to the traceback of an error that it holds as well.

        A finished task has both: they are one holder, the error.
        """
        holder, held = self._found.objects[at], self._held[at]
        parts = [part for part in held if is_exactly(self._found.objects[part], _TRACEBACK)]
        if not parts or issubclass(type(holder), (BaseException, _TRACEBACK)):
            return
        errors = [one for one in gc.get_referents(holder) if issubclass(type(one), BaseException)]
        theirs = {id(part) for error in errors for part in tracebacks(traceback_of(error))}
        for part in parts:
            if id(self._found.objects[part]) in theirs:
                held.discard(part)
                del self._holders[part][at]

    # -- what only stands between ----------------------------------------------------------------

    def _find_between(self, at: int) -> None:
        if not self._held[at] - self._found.known:
            return
        holder = self._found.objects[at]
        if is_exactly(holder, *_WITH_CELLS):
            mine = {part for part in self._held[at] if self._is_cell(part)}
            if is_exactly(holder, types.FrameType):
                held = (self._found.objects[part] for part in self._held[at])
                mine |= {self._index[id(one)] for one in copies_of_variables(holder, held)}
        else:
            parts = (self._index.get(id(part)) for part in self._entries.between(holder))
            mine = {part for part in parts if part is not None}
        self._between[at] = mine
        for part in mine:
            self._owners.setdefault(part, set()).add(at)

    def _is_cell(self, at: int) -> bool:
        return type(self._found.objects[at]) is types.CellType

    def _only_between(self, at: int) -> bool:
        found, owners = self._found, self._owners[at]
        if at in found.loose or at in found.known or at in found.roots:
            return False
        return all(
            above in owners or any(above in self._between[owner] for owner in owners)
            for above in self._holders[at]
        )

    def _goes_with(self, at: int, dropped: set[int]) -> bool:
        """Returns whether all that hold it own it or are left out, too: nobody speaks of it."""
        owners = self._owners[at]
        return all(above in owners or above in dropped for above in self._holders[at])

    def _drop(self, dropped: set[int]) -> None:
        found = self._found
        kept = [at for at in range(len(found.objects)) if at not in dropped]
        new = {at: index for index, at in enumerate(kept)}
        found.objects[:] = [found.objects[at] for at in kept]
        found.edges[:] = [
            edge._replace(holder=new[edge.holder], held=new[edge.held]) for edge in found.edges
        ]
        found.roots = {new[at]: root for at, root in found.roots.items()}
        found.known = {new[at] for at in found.known}
        found.loose = {new[at]: count for at, count in found.loose.items()}
        found.unreachable = {new[at] for at in found.unreachable if at in new}

    # -- edges -----------------------------------------------------------------------------------

    def _edges_of(self, at: int) -> Iterator[Edge]:
        mine = self._all_between(at)
        wanted = (self._held[at] | _union(self._held.get(part, ()) for part in mine)) - mine
        told: set[int] = set()
        if wanted:
            holder = self._found.objects[at]
            keys = {id(self._found.objects[held]): held for held in wanted}
            for step, key, value in self._entries.read(holder, keys):
                held = keys.get(id(value))
                if held is not None:
                    told.add(held)
                    yield Edge(at, held, *_words(step, key))
            for held in sorted(wanted - told):
                yield Edge(at, held, *_words_of_unknown(holder))

    def _all_between(self, at: int) -> set[int]:
        """Returns what stands between a holder and what it holds, and between these in turn."""
        mine, left = set[int](), [at]
        while left:
            new = self._between.get(left.pop(), set()) - mine
            mine |= new
            left += new
        return mine


def _union(parts: Iterator[Any]) -> set[int]:
    return {each for part in parts for each in part}


def _words(step: Step, key: Any) -> tuple[str, str]:
    place = _PLACES.get(step)
    text = write_step("", step, key).removeprefix(" → ") if place is None else f"{place} {key}"
    if step in _DOTTED:
        text = f"attribute {key!r}" if text.startswith("vars(") else f".{text}"
    return HOLDERS[step], text


_DOTTED = frozenset((Step.ATTRIBUTE, Step.FIELD, *(step for _, step in MODULE_PARTS)))
_PLACES = {
    Step.VALUE_AT: "value",
    Step.KEY_AT: "key",
    Step.MEMBER_AT: "member",
    Step.ATTRIBUTE_AT: "attribute",
}
"""What is written, with its position, where Python has no expression for it."""


def _words_of_unknown(holder: Any) -> tuple[str, str]:
    kind = type(holder)
    if type_name(kind) in _BUFFERS:
        return "iterator buffer", f"buffer of {type_name(kind).strip('_').partition('_')[0]}"
    return HOLDERS[Step.INSIDE_AT], f"inside {type_name(kind)}"
