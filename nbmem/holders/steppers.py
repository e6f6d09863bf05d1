"""Who else may step with a gradient: whatever has its parameter in a list or an attribute.

    model ──> weight <── [0] <── list <── .params <── sgd       told: sgd.params

A model has its parameters, and so has an optimizer of torch's that is known. Anything else may be
an optimizer that somebody wrote, whatever its class is called; and so may an object that has the
model and a method `step` or `zero_grad`.
"""

from __future__ import annotations

import types
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.root import is_exactly
from nbmem.holders.ties import ROOT, Tie
from nbmem.holders.wanted import is_throwaway
from nbmem.holders.ways import Way, ways_to
from nbmem.inventory.paths import Step
from nbmem.records import write_path

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from nbmem.holders.roots import Root
    from nbmem.holders.ties import Ties
    from nbmem.holders.words import WordWriter

_PLAIN = (list, tuple, dict, set, frozenset, deque)
_AT_WORK = ("running", "thread", "async_task", "hook", "widget_callback", "ipython_event")
"""Kinds of roots whose code may still step; what an error or a shown value holds never will."""
_METHODS = ("step", "zero_grad")
_namespace_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_LISTED = ("module", "class", "thread", "ipython", "interpreter")
"""Where chains begin that were found upwards, in libraries for the most part."""


class Steppers:
    """Finds who may step with the gradients of parameters.

    Args:
        ties: all ways between objects, those found upwards included.
        writer: writes ways.
        roots: by their texts.
        optimizers: ids of the optimizers that are told already.
    """

    def __init__(
        self,
        ties: Ties,
        writer: WordWriter,
        roots: Mapping[str, Root],
        optimizers: Container[int],
    ) -> None:
        self._ties = ties
        self._writer = writer
        self._roots = roots
        self._optimizers = optimizers
        self._texts: dict[int, str | None] = {}
        """By `id` of a container: what it is called if its owner may step."""

    def find(self, owners: Sequence[Any]) -> str | None:
        """Returns what has one of these parameters besides models; None where nothing does.

        A list or an attribute says more than a dict that has them as keys.
        """
        found = [
            (tie.step is Step.KEY_AT, text)
            for owner in owners
            for tie in self._ties.incoming.get(id(owner), ())
            if (text := self._text_of(owner, tie))
        ]
        if found:
            return min(found, key=lambda one: (one[0], len(one[1])))[1]
        return next(filter(None, map(self._engine_of, owners)), None)

    def _engine_of(self, owner: Any) -> str | None:
        """Returns what has a model of this parameter and methods that step; None: nothing has."""
        stack, seen = [owner], {id(owner)}
        while stack:
            held = stack.pop()
            for tie in self._ties.incoming.get(id(held), ()):
                if tie.holder == ROOT or tie.holder in seen or tie.holder in self._optimizers:
                    continue
                seen.add(tie.holder)
                holder = self._ties.objects[tie.holder]
                if issubclass(type(holder), torch.nn.Module) or is_exactly(holder, *_PLAIN):
                    stack.append(holder)
                elif _steps(type(holder)) and (text := self._name(holder, (tie, held))):
                    return text
        return None

    def _text_of(self, owner: Any, tie: Tie) -> str | None:
        if tie.holder == ROOT or tie.step is Step.GRADIENT or tie.holder in self._optimizers:
            return None
        holder = self._ties.objects[tie.holder]
        if issubclass(type(holder), torch.nn.Module | torch.Tensor):
            return None
        if not is_exactly(holder, *_PLAIN):
            return self._name(holder, (tie, owner))
        if tie.holder not in self._texts:
            self._texts[tie.holder] = self._name(holder)
        return self._texts[tie.holder]

    def _name(self, holder: Any, last: tuple[Tie, Any] | None = None) -> str | None:
        """Returns the shortest name of a holder whose code may still run; None: it has none."""
        for way in ways_to(self._ties, holder, but=self._optimizers)[0]:
            if self._may_run(way.ties[0]) and not _is_of_module(way):
                if last is not None:
                    way = Way((*way.ties, last[0]), (*way.objects, last[1]))
                return write_path(self._writer.steps(way))
        return None

    def _may_run(self, first: Tie) -> bool:
        if first.step is Step.VARIABLE:
            return not is_throwaway(first.key)
        if first.step is Step.ROOT:
            root = self._roots.get(first.key)
            return root is not None and root.kind in _AT_WORK
        return first.step is None and first.kind in _LISTED


def _steps(kind: type) -> bool:
    """Returns whether a class that somebody wrote has a method by which optimizers work."""
    spaces = (_namespace_of(base) for base in _mro_of(kind))
    return any(type(space.get(name)) is types.FunctionType for space in spaces for name in _METHODS)


def _is_of_module(way: Way) -> bool:
    """Returns whether a way ends in containers that a model has as its own attribute."""
    owners = (one for one in reversed(way.objects) if not is_exactly(one, *_PLAIN))
    return issubclass(type(next(owners, None)), torch.nn.Module)
