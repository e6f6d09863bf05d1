"""Where a tensor stands alone, so that assigning another one there lets go of it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.ties import ROOT, Tie, Ties
from nbmem.inventory.paths import HOLDERS, Step
from nbmem.records import PathStep, write_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.holders.needs import Needs
    from nbmem.holders.ways import Way
    from nbmem.holders.words import WordWriter

_DICTS = (dict, OrderedDict, defaultdict)
_WHOLE: dict[Any, str] = {list: "list", dict: "dict", OrderedDict: "dict", defaultdict: "dict"}
"""Containers of which all items can be replaced at once."""
_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_SETTERS = (vars(object)["__setattr__"], vars(torch.nn.Module)["__setattr__"])


class Places:
    """Finds the places in which tensors and arrays stand.

    Args:
        ties: all ways between objects.
        needs: which of these are by values.
        writer: writes them.
    """

    def __init__(self, ties: Ties, needs: Needs, writer: WordWriter) -> None:
        self._ties = ties
        self._needs = needs
        self._writer = writer

    def of(self, thing: Any) -> PathStep | None:
        """Returns the place with its kind; None: there are several, or none to be assigned to."""
        found = self._alone(thing)
        return None if found is None else self._step(*found)

    def siblings(self, thing: Any) -> int:
        """Returns how many items the list or dict has in which an object stands; else 0."""
        found = self._alone(thing)
        return 0 if found is None else _length(self._holder(found[0]))

    def of_all(self, things: Iterable[Any]) -> tuple[PathStep, ...]:
        """Returns the places of all, a container of nothing else as one; empty where one has none.

        A step of kind `list` or `dict` stands for every item of that container.
        """
        alone: list[tuple[Tie, Way]] = []
        for thing in things:
            found = self._alone(thing)
            if found is None:
                return ()
            alone.append(found)
        counts: dict[int, int] = {}
        for tie, _ in alone:
            counts[tie.holder] = counts.get(tie.holder, 0) + 1
        steps: dict[PathStep, None] = {}
        for tie, way in alone:
            holder = self._holder(tie)
            whole = _WHOLE.get(type(holder)) if counts[tie.holder] == _length(holder) else None
            if whole is not None and counts[tie.holder] > 1:
                steps[PathStep(whole, self._text(way, len(way.ties) - 1))] = None
            else:
                steps[self._step(tie, way)] = None
        return tuple(steps)

    def _alone(self, thing: Any) -> tuple[Tie, Way] | None:
        ties = ties_to(self._ties, thing)
        if len(ties) != 1 or not _takes(self._holder(ties[0]), ties[0]):
            return None
        way = next(iter(self._needs.ways_of_values(thing)), None)
        return None if way is None else (ties[0], way)

    def _holder(self, tie: Tie) -> Any:
        return None if tie.holder == ROOT else self._ties.objects[tie.holder]

    def _step(self, tie: Tie, way: Way) -> PathStep:
        assert tie.step is not None
        return PathStep(HOLDERS[tie.step], self._text(way, len(way.ties)))

    def _text(self, way: Way, length: int) -> str:
        part = type(way)(way.ties[:length], way.objects[:length])
        return write_path(self._writer.steps(part))


def ties_to(ties: Ties, thing: Any) -> list[Tie]:
    """Returns the ways in which an object is held, each once: two walks tell some twice."""
    found: list[Tie] = []
    for tie in ties.incoming.get(id(thing), ()):
        if not any(_is_same(tie, other) for other in found):
            found.append(tie)
    return found


def _is_same(tie: Tie, other: Tie) -> bool:
    if tie.holder != other.holder or tie.step is not other.step:
        return False
    plain = type(tie.key) is type(other.key) and type(tie.key) in (str, int)
    return tie.key is other.key or (plain and bool(tie.key == other.key))


def _takes(holder: Any, tie: Tie) -> bool:
    """Returns whether `holder.key = other` or `holder[key] = other` does that and nothing else."""
    if tie.step is Step.VARIABLE:
        return True
    kind = type(holder)
    if tie.step is Step.ITEM:
        return kind is list or kind is deque
    if tie.step is Step.KEY:
        return any(kind is one for one in _DICTS)
    if tie.step is Step.ATTRIBUTE or tie.step is Step.BUFFER:
        return not issubclass(kind, (type, torch.Tensor)) and _sets_plainly(kind, tie.key)
    return False


def _sets_plainly(kind: type, name: Any) -> bool:
    spaces = [_namespace_of(base) for base in _mro_of(kind)]
    setter = next((space["__setattr__"] for space in spaces if "__setattr__" in space), None)
    found = next((space[name] for space in spaces if name in space), None)
    return any(setter is one for one in _SETTERS) and type(found) is not property


def _length(holder: Any) -> int:
    kind = type(holder)
    if kind is list:
        return list.__len__(holder)
    return dict.__len__(holder) if any(kind is one for one in _DICTS) else 0
