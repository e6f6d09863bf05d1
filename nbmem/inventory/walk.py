"""The walk from the names that a user can see to every tensor they lead to.

    variables ─┐   breadth first,      ┌─ tensors, with the links that lead to each
               ├─  each container   ───┤
    outputs  ──┤   visited once        └─ nodes: the containers on the way
    others   ──┘

A tree of modules counts as one container, as it does in `named_parameters`. What only private
attributes (`._orig_mod`) lead to waits for all that public ones do; an optimizer waits for what may
be its parameters, and its state until these have names; what very long containers hold waits for
all the rest.
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict, deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from nbmem.inventory.aliases import parts_of_models
from nbmem.inventory.natives import may_hold
from nbmem.inventory.paths import MODULE_STEPS, NAMELESS, Step, is_private, prints_itself
from nbmem.inventory.readers import (
    Kind,
    Reader,
    may_hold_tensors,
    names_in_space,
    read_type,
    type_name,
)
from nbmem.inventory.trail import NOWHERE, OPTIMIZER, Trail
from nbmem.inventory.visits import VISITS as _VISITS
from nbmem.inventory.visits import DictSteps
from nbmem.records import Note

MAX_OBJECTS = 5_000_000
"""Objects looked at in one walk."""
MAX_STEPS = 1_100
"""Steps from a root."""
LONG = 1_000
"""Containers inside a container of more entries than this are visited last."""
_CHUNK = 4_096
_MANY = 1_000_000
_BUILTIN = frozenset(map(id, (list, tuple, dict, set, frozenset)))

_Visit = tuple[Any, Reader, int]
_Way = tuple[Any, Reader, int, Step, Any]
_STATE = Reader(dict, Kind.STATE)


class BudgetReached(Exception):  # noqa: N818  it is no error: the walk ends here
    """The walk has looked at as much as it may."""


class NameWalk:
    """Walks, writing into a `Trail`."""

    def __init__(self, seconds: float | None = None, trail: Trail | None = None) -> None:
        """A walk of at most `seconds`, of any length where None, that writes on a trail."""
        self.trail = Trail() if trail is None else trail
        self._objects = 0
        self._seconds = seconds
        self._deadline = None if seconds is None else time.perf_counter() + seconds
        self._readers: dict[int, Reader] = {}
        self._skipped: set[int] = set()
        self._modules: deque[_Visit] = deque()
        self._near: deque[_Visit] = deque()
        self._optimizers: deque[_Visit] = deque()
        self._states: deque[_Visit] = deque()
        self._far: deque[_Visit] = deque()
        self._next = self._near
        self._aliases: deque[tuple[Any, Step, str]] = deque()
        """Roots that are parts of models which have names of their own."""
        self._wrapped: list[_Way] = []
        """Private parts of modules: what a wrapper wraps."""
        self._private: list[_Way] = []
        """What private attributes lead to."""

    def run(
        self,
        variables: Mapping[str, object],
        outputs: Mapping[str, object],
        others: Sequence[tuple[str, Any]] = (),
    ) -> Trail:
        """Returns the trail of a walk through the variables first, then the outputs, the others.

        Args:
            variables: the user's, by name.
            outputs: entries of IPython's caches, by the expression that reads each.
            others: whatever else keeps things alive, each with the text that says what it is.
        """
        try:
            for roots, step in ((variables, Step.VARIABLE), (outputs, Step.OUTPUT)):
                pairs = [pair for pair in list(roots.items()) if type(pair[0]) is str]
                parts = parts_of_models([value for _, value in pairs])
                for name, value in pairs:
                    if id(value) in parts:
                        self._aliases.append((value, step, name))
                    else:
                        self.look_at(value, NAMELESS, step, name)
                self.spend(len(roots))
                self._visit_all()
            self._run_others(others)
        except BudgetReached:
            pass
        finally:
            for queue in (self._modules, self._near, self._optimizers, self._states, self._far):
                queue.clear()
            for waiting in (self._aliases, self._wrapped, self._private):
                waiting.clear()
        return self.trail

    def _run_others(self, others: Sequence[tuple[str, Any]]) -> None:
        if others:
            self.trail.count_anew()
        for text, thing in others:
            self.look_at(thing, NAMELESS, Step.ROOT, text)
        self.spend(len(others))
        self._visit_all()

    def reach_apart(self, tensor: Any, step: Step, key: Any) -> None:
        """Adds a tensor that no container holds, and what it holds itself."""
        if self.trail.index_of(tensor) is None and type(tensor) is not torch.Tensor:
            self.look_at(tensor, NAMELESS, step, key)
            self._visit_all()
        else:
            self.trail.reach(tensor, NAMELESS, step, key)

    def _visit_all(self) -> None:
        while True:
            if self._modules:
                self._next, queue = self._near, self._modules
            elif self._near:
                self._next = queue = self._near
            elif self._wrapped:
                self._offer_all(self._wrapped)
                continue
            elif self._aliases:
                value, step, name = self._aliases.popleft()
                self.look_at(value, NAMELESS, step, name)
                continue
            elif self._private:
                self._offer_all(self._private)
                continue
            elif self._optimizers:
                self._next, queue = self._near, self._optimizers
            elif self._states:
                self._next, queue = self._near, self._states
            elif self._far:
                self._next = queue = self._far
            else:
                return
            self._visit(*queue.popleft())

    def _offer_all(self, ways: list[_Way]) -> None:
        """Looks at what waited; what that leads to by further private attributes waits anew."""
        self._next, waited = self._near, ways[:]
        ways.clear()
        for way in waited:
            self._offer(*way)

    def _visit(self, value: Any, reader: Reader, node: int) -> None:
        try:
            _VISITS[reader.kind](self, value, reader, node)
        except BudgetReached:
            raise
        except Exception as error:  # another thread may change what is being looked into
            self._note_once(
                "broken",
                f"A {type_name(reader.cls)} could not be looked into ({type(error).__name__}); "
                "what it holds has no name here",
            )

    def spend(self, count: int) -> None:
        """Counts objects that were looked at; raises `BudgetReached` beyond the budget."""
        self._objects += count + 1
        if self._objects > MAX_OBJECTS:
            reached = f"{MAX_OBJECTS:,} objects"
        elif self._deadline is not None and time.perf_counter() > self._deadline:
            reached = f"{self._seconds:g} s reached after {self._objects:,} objects"
        else:
            return
        self._note_once("budget", f"Names incomplete: budget of {reached}")
        raise BudgetReached

    def _note_once(self, code: str, sentence: str) -> None:
        if all(note.code != code for note in self.trail.notes):
            self.trail.notes.append(Note("names", code, sentence))

    # -- one child ---------------------------------------------------------------------------

    def _learn(self, cls: type) -> Reader:
        reader = self._readers[id(cls)] = read_type(cls)
        if reader.kind is Kind.SKIP:
            self._skipped.add(id(cls))
        if reader.hides:
            self._note_once("hidden", reader.hides)
        return reader

    def look_at(self, child: Any, node: int, step: Step, key: Any) -> None:
        """Notes a step from a container (an index of the trail's nodes) to one child.

        One that is no public step is kept for later.
        """
        reader = self._readers.get(id(type(child))) or self._learn(type(child))
        if reader.kind is Kind.SKIP:
            return
        if node != NAMELESS and is_private(step, key):
            self._private.append((child, reader, node, step, key))
        else:
            self._offer(child, reader, node, step, key)

    def _offer(self, child: Any, reader: Reader, node: int, step: Step, key: Any) -> None:
        kind = reader.kind
        if kind is Kind.TENSOR:
            if not self.trail.reach(child, node, step, key) or len(gc.get_referents(child)) < 2:
                return
        elif kind is Kind.DICT or reader.cls is tuple:
            if not may_hold_tensors(child) or not gc.get_referents(child):
                return
        elif kind is Kind.SPACE:
            if names_in_space(child) is None:
                return
        elif kind is Kind.NATIVE:
            if not may_hold(child):
                return
        elif reader.apart and node != NAMELESS:
            return
        within = OPTIMIZER if kind is Kind.OPTIMIZER else NOWHERE
        entered = self.trail.enter(child, node, step, key, within, kind is Kind.TENSOR)
        if entered is None:
            return
        if self.trail.nodes[entered].depth > MAX_STEPS:
            self._note_once("budget", f"Names incomplete: budget of {MAX_STEPS:,} steps")
            return
        self._queue_for(kind).append((child, reader, entered))

    def _queue_for(self, kind: Kind) -> deque[_Visit]:
        if kind is Kind.MODULE:
            return self._modules
        return self._optimizers if kind is Kind.OPTIMIZER else self._next

    def is_walked(self, child: Any) -> bool:
        """Returns whether it is not of a type that is walked past."""
        return bool((self._readers.get(id(type(child))) or self._learn(type(child))).kind)

    def put_off_state(self, state: Any, optimizer: int) -> None:
        """Has an optimizer's state visited when its parameters have names."""
        self._states.append((state, _STATE, optimizer))

    def _nothing_in(self, chunk: Sequence[Any]) -> bool:
        """Returns whether all of it is of types that are walked past."""
        kinds = set(map(id, map(type, chunk))) - self._skipped
        if kinds.isdisjoint(self._readers):
            for child in chunk if kinds else ():
                if id(type(child)) not in self._readers:
                    self._learn(type(child))
            kinds -= self._skipped
        return not kinds

    def _nothing_below(self, chunk: Sequence[Any]) -> bool:
        """Returns whether it is of Python's own containers, and they hold nothing to walk into.

        One question in C for many of them: tokenized texts are a million short lists of numbers.
        """
        if not _BUILTIN.issuperset(map(id, map(type, chunk))) or sum(map(len, chunk)) > _MANY:
            return False
        return self._nothing_in(gc.get_referents(*chunk))

    def look_at_all(self, children: list[Any], node: int, step: Step) -> None:
        """Notes the steps to children that stand in an order; the key is the position."""
        far = len(children) > LONG
        if far:
            self._next = self._far
        readers, offer = self._readers, self._offer
        for start in range(0, len(children), _CHUNK):
            chunk = children[start : start + _CHUNK]
            self.spend(len(chunk))
            if self._nothing_in(chunk) or (far and self._nothing_below(chunk)):
                continue
            for position, child in enumerate(chunk, start):
                reader = readers.get(id(type(child))) or self._learn(type(child))
                if reader.kind:
                    offer(child, reader, node, step, position)

    def look_at_pairs(self, pairs: list[tuple[Any, Any]], node: int, steps: DictSteps) -> None:
        """Notes the steps to the values of a dict, and to its keys where `steps` has one for it."""
        far = len(pairs) > LONG
        if far:
            self._next = self._far
        for start in range(0, len(pairs), _CHUNK):
            chunk = pairs[start : start + _CHUNK]
            self.spend(len(chunk))
            if not (far and self._nothing_in_pairs(chunk)):
                self._look_at_chunk(chunk, start, node, steps)

    def _nothing_in_pairs(self, pairs: list[tuple[Any, Any]]) -> bool:
        keys, values = zip(*pairs, strict=True)
        return self._nothing_in(keys) and (self._nothing_in(values) or self._nothing_below(values))

    def _look_at_chunk(
        self, pairs: list[tuple[Any, Any]], start: int, node: int, steps: DictSteps
    ) -> None:
        by_key, by_position, of_key = steps
        readers, offer = self._readers, self._offer
        for position, (key, child) in enumerate(pairs, start):
            reader = readers.get(id(type(child))) or self._learn(type(child))
            if reader.kind:
                if by_key in MODULE_STEPS and key[:1] == "_":
                    self._wrapped.append((child, reader, node, by_key, key))
                elif prints_itself(key):
                    offer(child, reader, node, by_key, key)
                else:
                    offer(child, reader, node, by_position, position)
            if of_key is not None and type(key) is not str:
                self.look_at(key, node, of_key, position)

    def look_at_attributes(
        self, pairs: list[tuple[Any, Any]], node: int, but: Collection[str] = ()
    ) -> None:
        """Notes the steps to the values of a `__dict__`, `but` for these names."""
        skipped = self._skipped
        for position, (name, child) in enumerate(pairs):
            cls = type(child)
            if id(cls) in skipped or ((cls is OrderedDict or cls is set) and not child):
                continue  # a module has ten empty dicts of hooks
            if type(name) is not str:
                self.look_at(child, node, Step.ATTRIBUTE_AT, position)
            elif name not in but:
                self.look_at(child, node, Step.ATTRIBUTE, name)
        self.spend(len(pairs))
