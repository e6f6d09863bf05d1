"""The search upwards: what holds objects, over the whole heap, to any depth.

    targets ──> who refers to them ──> who refers to those ──> … ──> roots, what is known, garbage

One pass turns the references of the heap round (`references`); the search then goes from object to
object. What refers to an object but is unseen by the garbage collector shows in the object's
reference count: more references than holders were found for. `beginnings` knows roots, `edges`
labels what was found. Nothing of the user's is called.
"""

from __future__ import annotations

import gc
import inspect
import sys
import types
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap import count_frozen, list_objects
from nbmem.heap.storages import bare_torch, outside_transforms
from nbmem.heap.surroundings import undone_by_interrupt
from nbmem.holders.beginnings import Beginnings
from nbmem.holders.edges import label_edges
from nbmem.holders.found import Edge, Found
from nbmem.holders.loose import keeps_calls
from nbmem.holders.references import References
from nbmem.holders.root import is_exactly
from nbmem.holders.unseen import (
    counts_of,
    find_frozen,
    gradients,
    held_arrays,
    inside_array,
    is_array,
    leads_to,
)
from nbmem.inventory.frames import read_locals
from nbmem.inventory.readers import HEAP_TYPE, names_in_space

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

__all__ = ["Edge", "Found", "search_holders"]
MOST_OBJECTS = 100_000
"""Objects that one search looks up the holders of."""


@undone_by_interrupt
def search_holders(
    targets: Sequence[Any],
    *,
    known: Container[int] = (),
    ours: Container[int] = (),
    most_objects: int = MOST_OBJECTS,
) -> Found:
    """Returns what holds these objects, what holds that, and so on up to where chains begin.

    Args:
        targets: each once.
        known: ids of objects at which to stop.
        ours: ids of the caller's own containers, which are no holders.
        most_objects: objects whose holders are looked up, the nearest to the targets first.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with bare_torch(), outside_transforms():
            return _Search(targets, known, ours).run(most_objects)
    finally:
        if collecting:
            gc.enable()


_FEW = 64
"""References of a class that are looked at one by one."""
_OF_CLASS = (types.GetSetDescriptorType, types.MemberDescriptorType, types.CellType)
"""Types of the objects in a class's namespace that refer to the class."""
_mro_of = type.__dict__["__mro__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_ITEMS = (dict, list, tuple, set)
"""Types of Python's own that are plausible in an array of objects, besides instances."""


def _is_function(frame: types.FrameType) -> bool:
    return bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)


def _contents(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not filled yet
        return ()


class _Search:
    """One search in the making."""

    def __init__(self, targets: Sequence[Any], known: Container[int], ours: Container[int]) -> None:
        self._references = [References(list_objects(), list(targets))]
        self._given = id(targets)
        self._known = known
        self._ours = ours
        self._beginnings = Beginnings()
        self._found = Found()
        self._index: dict[int, int] = {}
        self._holders: dict[int, Counter[int]] = {}
        """By index, for each object whose holders were looked up: how often each refers to it."""
        self._own: Counter[int] = Counter()
        """By index: references that the caller's own containers have."""
        self._listed: set[int] = set()
        """Indices of objects to which the list of all objects refers."""
        self._behind: set[int] = set()
        """Indices of numpy's arrays that were looked into."""
        self._next = 0
        self._most = 0
        for target in targets:
            self._enter(target)
        self._targets = len(self._found.objects)
        self._listed.update(_find_listed(self._found.objects, self._references[0].objects))

    def run(self, most: int) -> Found:
        found = self._found
        self._most = most
        try:
            self._climb()
            self._count()
            if found.loose and count_frozen():
                self._ask_frozen()
            if found.loose:
                self._ask_frames()
                self._ask_torch()
                self._ask_numpy()
                self._count()
            self._leave_calls_at_exit()
            self._forget_ours()
            self._name_loose()
            self._find_unreachable()
            label_edges(found, self._holders, self._targets)
            return found
        finally:
            for references in self._references:
                references.clear()
            self._beginnings.clear()

    def _enter(self, thing: Any) -> int:
        """Returns the object's index; what is new and may be a holder's end is told as such."""
        index = self._index.get(id(thing))
        if index is not None:
            return index
        found = self._found
        index = self._index[id(thing)] = len(found.objects)
        found.objects.append(thing)
        if id(thing) in self._known:
            found.known.add(index)
        elif (root := self._beginnings.find(thing)) is not None:
            self._enter_root(index, root)
        return index

    def _enter_root(self, index: int, root: tuple[str, str]) -> None:
        if root[0] != "class" or not self._is_forgotten(self._found.objects[index]):
            self._found.roots[index] = root

    def _is_forgotten(self, cls: type) -> bool:
        """Returns whether a class of the user's has neither name nor instance: only itself."""
        if sys.getrefcount(cls) > _FEW or names_in_space(cls) is None:
            return False
        return all(
            holder is _mro_of(cls) or is_exactly(holder, *_OF_CLASS)
            for references in self._references
            for holder in references.holders_of(cls)
        )

    def _climb(self) -> None:
        """Looks up the holders of all that is new."""
        found = self._found
        while self._next < len(found.objects):
            at, self._next = self._next, self._next + 1
            if at in found.known or at in found.roots or at in self._holders:
                continue
            if len(self._holders) >= self._most:
                found.cut = True
                return
            self._look_up(at)

    def _look_up(self, at: int) -> None:
        self._holders[at] = Counter()
        for references in self._references:
            self._look_up_in(references, at)

    def _look_up_in(self, references: References, at: int) -> None:
        holders = self._holders[at]
        for holder in references.holders_of(self._found.objects[at]):
            if self._is_ours(holder):
                self._own[at] += 1
                continue
            if id(holder) not in self._known:
                holder = self._beginnings.owner_of(holder)
            above = self._enter(holder)
            self._listed.add(above)
            holders[above] += 1

    def _is_ours(self, holder: Any) -> bool:
        key = id(holder)
        return key == self._given or key in self._ours or self._beginnings.is_ours(holder)

    # -- what the references say -----------------------------------------------------------------

    def _count(self) -> None:
        """Compares reference counts with the references found."""
        objects, loose = self._found.objects, self._found.loose
        loose.clear()
        counts = list(map(sys.getrefcount, objects))
        for at, holders in self._holders.items():
            thing = objects[at]
            listed = at in self._listed
            unseen = counts[at] - _OVERHEAD - listed - holders.total() - self._own[at]
            unseen -= self._beginnings.references_to(thing)
            if issubclass(type(thing), torch.Tensor):
                shared, said = counts_of(thing)
                unseen += shared - said
            if unseen > 0:
                loose[at] = unseen

    def _ask_frozen(self) -> None:
        """Finds what objects hold that `gc.freeze()` took out of gc's sight."""
        found = self._found
        frozen = find_frozen(self._references[0].objects, found.objects)
        references = References(frozen, list(found.objects))
        self._references.append(references)
        for at in list(found.loose):
            self._look_up_in(references, at)
        listed = set(map(id, frozen))
        self._listed.update(at for at, one in enumerate(found.objects) if id(one) in listed)
        self._climb()
        self._count()

    def _ask_frames(self) -> None:
        """Finds what the frames hold that run now."""
        loose = {id(self._found.objects[at]) for at in self._found.loose}
        cells = self._loose_of(types.CellType)
        functions = self._loose_of(types.FunctionType)
        for frame, _ in list(self._beginnings.frames.values()):
            held = [value for _, value in read_locals(frame)] if _is_function(frame) else []
            inside = {id(value) for value in held}
            held += [cell for cell in cells if not inside.isdisjoint(map(id, _contents(cell)))]
            held += [one for one in functions if one.__code__ is frame.f_code]
            held += [frame.f_globals]
            for value in held:
                if id(value) in loose:
                    self._add(value, frame)
                elif is_array(value) and leads_to(value, loose):
                    self._add(value, frame)
                    self._enter_behind(value, loose)

    def _loose_of(self, kind: type) -> list[Any]:
        objects = self._found.objects
        return [objects[at] for at in self._found.loose if type(objects[at]) is kind]

    def _ask_torch(self) -> None:
        """Finds tensors that are the gradient of another one that was found."""
        for owner, gradient in gradients(list(self._found.objects)):
            if self._index.get(id(gradient)) in self._holders:
                self._add(gradient, owner)

    def _ask_numpy(self) -> None:
        """Finds arrays that are a view of an object, or have it among their items."""
        self._count()
        found = self._found
        if not any(map(self._may_be_in_array, found.loose)):
            return
        loose = {id(found.objects[at]) for at in found.loose}
        for held, holder in held_arrays(self._references[0].objects, loose):
            if not self._is_ours(holder):
                self._add(held, self._beginnings.owner_of(holder))
                if gc.is_tracked(holder) and id(holder) in self._index:
                    self._listed.add(self._index[id(holder)])
                if is_array(held):
                    self._enter_behind(held, loose)
        self._climb()

    def _may_be_in_array(self, at: int) -> bool:
        """Returns whether to look for arrays: the stack of a running frame may explain the rest."""
        kind = type(self._found.objects[at])
        if issubclass(kind, torch.Tensor):
            return not self._is_only_shared(at)
        return not self._holders[at] and (
            any(kind is one for one in _ITEMS) or bool(_flags_of(kind) & HEAP_TYPE)
        )

    def _is_only_shared(self, at: int) -> bool:
        """Returns whether it is a tensor that, of all that is unseen, only C++ refers to."""
        thing = self._found.objects[at]
        is_tensor = issubclass(type(thing), torch.Tensor)
        return is_tensor and counts_of(thing)[0] >= self._found.loose[at]

    def _enter_behind(self, array: Any, loose: set[int]) -> None:
        """Adds what an array leads to, from view to view."""
        if self._index[id(array)] in self._behind:
            return
        self._behind.add(self._index[id(array)])
        for held in inside_array(array):
            if id(held) in loose:
                self._add(held, array)
            elif is_array(held) and leads_to(held, loose):
                self._add(held, array)
                self._enter_behind(held, loose)

    def _add(self, held: Any, holder: Any) -> None:
        holders = self._holders.setdefault(self._enter(held), Counter())
        holders[self._enter(holder)] += 1

    def _leave_calls_at_exit(self) -> None:
        """Takes out the list of calls at exit, so that who is called is C code's.

        Until Python 3.14, which has a list of tuples for them, nobody saw it.
        """
        objects = self._found.objects
        lists = {at for at in self._found.loose if keeps_calls(objects[at])}
        if not lists:
            return
        calls = {at for at, above in self._holders.items() if not lists.isdisjoint(above)}
        for above in self._holders.values():
            for call in calls.intersection(above):
                del above[call]
        for at in lists | calls:
            del self._holders[at]
        self._count()

    def _forget_ours(self) -> None:
        """Takes away what only the caller's containers hold, level by level: it is the caller's."""
        held = _turn_round(self._holders)
        queue = [at for at in self._holders if self._is_only_ours(at)]
        while queue:
            at = queue.pop()
            del self._holders[at]
            for below in held.get(at, ()):
                holders = self._holders.get(below)
                if holders is not None and at in holders:
                    self._own[below] += holders.pop(at)
                    if self._is_only_ours(below):
                        queue.append(below)

    def _is_only_ours(self, at: int) -> bool:
        here = self._holders[at]
        return (
            at >= self._targets and self._own[at] > 0 and not here and at not in self._found.loose
        )

    def _name_loose(self) -> None:
        """Tells what kind of thing holds an object where that can be said."""
        found = self._found
        if count_frozen():
            for at in found.loose:
                if not self._is_only_shared(at):
                    found.roots.setdefault(at, ("frozen", "objects frozen by gc.freeze()"))

    def _find_unreachable(self) -> None:
        found, held = self._found, _turn_round(self._holders)
        alive = [*found.roots, *found.known, *found.loose]
        alive += [at for at in range(len(found.objects)) if found.cut and at not in self._holders]
        reached = set(alive)
        while alive:
            for below in held.get(alive.pop(), ()):
                if below not in reached:
                    reached.add(below)
                    alive.append(below)
        found.unreachable = set(self._holders) - reached


def _find_listed(things: list[Any], objects: list[Any]) -> list[int]:
    """Returns the indices of the things that are among all objects: those that gc tracks."""
    if not count_frozen():
        return [at for at, thing in enumerate(things) if gc.is_tracked(thing)]
    listed = set(map(id, things)).intersection(map(id, objects))
    return [at for at, thing in enumerate(things) if id(thing) in listed]


def _turn_round(holders: dict[int, Counter[int]]) -> dict[int, list[int]]:
    held: dict[int, list[int]] = {}
    for below, above in holders.items():
        for at in above:
            held.setdefault(at, []).append(below)
    return held


def _overhead() -> int:
    """Returns what `sys.getrefcount` counts of ours for an object in one list of ours."""
    return next(map(sys.getrefcount, [object()]))


_OVERHEAD = _overhead()
