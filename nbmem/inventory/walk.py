"""The walk from the names that a user can see to every tensor they lead to.

    variables ─┐   breadth first,      ┌─ tensors, with the links that lead to each
               ├─  each container   ───┤
    outputs  ──┘   visited once        └─ nodes: the containers on the way

A tree of modules counts as one container, as it does in `named_parameters`. An optimizer's state
waits until its parameters have names; what very long containers hold waits for all the rest.
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any

import torch

from nbmem.heap.graphs import HOOKS
from nbmem.inventory.aliases import parts_of_models
from nbmem.inventory.callables import held_by_function, held_by_method
from nbmem.inventory.paths import NAMELESS, Step, prints_itself
from nbmem.inventory.readers import Kind, Reader, names_in_space, read_type, type_name
from nbmem.inventory.trail import NOWHERE, OPTIMIZER, Trail
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
_DictSteps = tuple[Step, Step, Step | None]
"""For a key that prints itself, for another key, and for what the key itself is or holds."""
_MODULE_PARTS = (
    ("_parameters", Step.PARAMETER),
    ("_buffers", Step.BUFFER),
    ("_modules", Step.MODULE),
)


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

    def run(self, variables: Mapping[str, object], outputs: Mapping[str, object]) -> Trail:
        """Returns the trail of a walk through the variables first, then through the outputs."""
        try:
            for roots, step in ((variables, Step.VARIABLE), (outputs, Step.OUTPUT)):
                pairs = [pair for pair in list(roots.items()) if type(pair[0]) is str]
                parts = parts_of_models(value for _, value in pairs)
                for name, value in pairs:
                    if id(value) in parts:
                        self._aliases.append((value, step, name))
                    else:
                        self._look_at(value, NAMELESS, step, name)
                self._spend(len(roots))
                self._visit_all()
        except BudgetReached:
            pass
        finally:
            for queue in (self._modules, self._near, self._optimizers, self._states, self._far):
                queue.clear()
            self._aliases.clear()
        return self.trail

    def reach_apart(self, tensor: Any, step: Step, key: Any) -> None:
        """Adds a tensor that no container holds, and what it holds itself."""
        if self.trail.index_of(tensor) is None and type(tensor) is not torch.Tensor:
            self._look_at(tensor, NAMELESS, step, key)
            self._visit_all()
        else:
            self.trail.reach(tensor, NAMELESS, step, key)

    def _visit_all(self) -> None:
        while True:
            if self._modules:
                self._next, queue = self._near, self._modules
            elif self._near:
                self._next = queue = self._near
            elif self._aliases:
                value, step, name = self._aliases.popleft()
                self._look_at(value, NAMELESS, step, name)
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

    def _visit(self, value: Any, reader: Reader, node: int) -> None:
        try:
            _VISITS[reader.kind](self, value, reader, node)
        except BudgetReached:
            raise
        except Exception as error:  # another thread may change what is being looked into
            self._note_once(
                "broken",
                f"a {type_name(reader.cls)} could not be looked into ({type(error).__name__}); "
                "what it holds has no name here",
            )

    def _spend(self, count: int) -> None:
        self._objects += count + 1
        if self._objects > MAX_OBJECTS:
            reached = f"{MAX_OBJECTS:,} objects"
        elif self._deadline is not None and time.perf_counter() > self._deadline:
            reached = f"{self._seconds:g} s reached after {self._objects:,} objects"
        else:
            return
        self._note_once("budget", f"names incomplete: budget of {reached}")
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

    def _look_at(self, child: Any, node: int, step: Step, key: Any) -> None:
        reader = self._readers.get(id(type(child))) or self._learn(type(child))
        if reader.kind is not Kind.SKIP:
            self._offer(child, reader, node, step, key)

    def _offer(self, child: Any, reader: Reader, node: int, step: Step, key: Any) -> None:
        kind = reader.kind
        if kind is Kind.TENSOR:
            if not self.trail.reach(child, node, step, key) or len(gc.get_referents(child)) < 2:
                return
        elif kind is Kind.DICT or reader.cls is tuple:
            if not gc.is_tracked(child) or not gc.get_referents(child):
                return  # Python knows that only plain values are inside
        elif kind is Kind.SPACE and names_in_space(child) is None:
            return
        within = OPTIMIZER if kind is Kind.OPTIMIZER else NOWHERE
        entered = self.trail.enter(child, node, step, key, within, kind is Kind.TENSOR)
        if entered is None:
            return
        if self.trail.nodes[entered].depth > MAX_STEPS:
            self._note_once("budget", f"names incomplete: budget of {MAX_STEPS:,} steps")
            return
        self._queue_for(kind).append((child, reader, entered))

    def _queue_for(self, kind: Kind) -> deque[_Visit]:
        if kind is Kind.MODULE:
            return self._modules
        return self._optimizers if kind is Kind.OPTIMIZER else self._next

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

    def _look_at_all(self, children: list[Any], node: int, step: Step) -> None:
        far = len(children) > LONG
        if far:
            self._next = self._far
        readers, offer = self._readers, self._offer
        for start in range(0, len(children), _CHUNK):
            chunk = children[start : start + _CHUNK]
            self._spend(len(chunk))
            if self._nothing_in(chunk) or (far and self._nothing_below(chunk)):
                continue
            for position, child in enumerate(chunk, start):
                reader = readers.get(id(type(child))) or self._learn(type(child))
                if reader.kind:
                    offer(child, reader, node, step, position)

    def _look_at_pairs(self, pairs: list[tuple[Any, Any]], node: int, steps: _DictSteps) -> None:
        far = len(pairs) > LONG
        if far:
            self._next = self._far
        for start in range(0, len(pairs), _CHUNK):
            chunk = pairs[start : start + _CHUNK]
            self._spend(len(chunk))
            if not (far and self._nothing_in_pairs(chunk)):
                self._look_at_chunk(chunk, start, node, steps)

    def _nothing_in_pairs(self, pairs: list[tuple[Any, Any]]) -> bool:
        keys, values = zip(*pairs, strict=True)
        return self._nothing_in(keys) and (self._nothing_in(values) or self._nothing_below(values))

    def _look_at_chunk(
        self, pairs: list[tuple[Any, Any]], start: int, node: int, steps: _DictSteps
    ) -> None:
        by_key, by_position, of_key = steps
        readers, offer = self._readers, self._offer
        for position, (key, child) in enumerate(pairs, start):
            reader = readers.get(id(type(child))) or self._learn(type(child))
            if reader.kind:
                if prints_itself(key):
                    offer(child, reader, node, by_key, key)
                else:
                    offer(child, reader, node, by_position, position)
            if of_key is not None and type(key) is not str:
                self._look_at(key, node, of_key, position)

    # -- containers --------------------------------------------------------------------------

    def _visit_dict(self, value: Any, reader: Reader, node: int) -> None:
        self._look_at_pairs(list(dict.items(value)), node, _ENTRIES)
        self._visit_attributes(value, reader, node)

    def _visit_list(self, value: Any, reader: Reader, node: int) -> None:
        self._look_at_all(list(reader.iterate(value)), node, Step.ITEM)
        self._visit_attributes(value, reader, node)

    def _visit_tuple(self, value: Any, reader: Reader, node: int) -> None:
        items = list(tuple.__iter__(value))
        if len(reader.fields) == len(items) > 0:
            for name, item in zip(reader.fields, items, strict=True):
                self._look_at(item, node, Step.FIELD, name)
            self._spend(len(items))
        else:
            self._look_at_all(items, node, Step.TUPLE_ITEM)
        self._visit_attributes(value, reader, node)

    def _visit_set(self, value: Any, reader: Reader, node: int) -> None:
        self._look_at_all(list(reader.iterate(value)), node, Step.MEMBER_AT)
        self._visit_attributes(value, reader, node)

    def _visit_array(self, value: Any, _reader: Reader, node: int) -> None:
        self._look_at(value.base, node, Step.ATTRIBUTE, "base")  # the tensor, after `.numpy()`
        if value.dtype.kind != "O":
            return
        if value.ndim == 1:
            self._look_at_all(value.tolist(), node, Step.ELEMENT)
            return
        for indices in product(*map(range, value.shape)):
            self._spend(1)
            self._look_at(value.item(*indices), node, Step.ELEMENT, ", ".join(map(str, indices)))

    def _visit_instance(self, value: Any, reader: Reader, node: int) -> None:
        # Reading `__dict__` makes Python build it; most objects hold nothing worth that.
        referents = gc.get_referents(value)
        if any((self._readers.get(id(type(r))) or self._learn(type(r))).kind for r in referents):
            self._visit_attributes(value, reader, node)

    def _visit_attributes(self, value: Any, reader: Reader, node: int) -> None:
        for name, slot in reader.slots:
            try:
                child = slot.__get__(value)
            except AttributeError:
                continue  # declared and never set
            self._look_at(child, node, Step.ATTRIBUTE, name)
        self._spend(len(reader.slots))
        if reader.dict_of is not None:
            self._look_at_attributes(list(dict.items(reader.dict_of.__get__(value))), node)

    def _look_at_attributes(
        self, pairs: list[tuple[Any, Any]], node: int, but: Collection[str] = ()
    ) -> None:
        skipped = self._skipped
        for position, (name, child) in enumerate(pairs):
            cls = type(child)
            if id(cls) in skipped or (cls is OrderedDict and not child):
                continue  # a module has ten empty dicts of hooks
            if type(name) is not str:
                self._look_at(child, node, Step.ATTRIBUTE_AT, position)
            elif name not in but:
                self._look_at(child, node, Step.ATTRIBUTE, name)
        self._spend(len(pairs))

    def _visit_callable(self, value: Any, reader: Reader, node: int) -> None:
        held = held_by_function if reader.kind is Kind.FUNCTION else held_by_method
        steps = held(value)
        for step, name, child in steps:
            self._look_at(child, node, step, name)
        self._spend(len(steps))

    def _visit_opaque(self, value: Any, _reader: Reader, node: int) -> None:
        # Not by `f_locals`: reading that of a live frame can pin what is looked at.
        self._look_at_all(gc.get_referents(value), node, Step.INSIDE_AT)

    def _visit_space(self, value: Any, _reader: Reader, node: int) -> None:
        self._look_at_attributes(list((names_in_space(value) or {}).items()), node)

    def _visit_node(self, value: Any, _reader: Reader, node: int) -> None:
        self.trail.graphs.append((value, node))

    def _visit_tensor(self, value: Any, reader: Reader, node: int) -> None:
        self._visit_attributes(value, reader, node)
        if issubclass(reader.cls, torch.Tensor):
            for name, hooks_of in HOOKS:
                self._look_at(hooks_of(value), node, Step.ATTRIBUTE, name)

    def _visit_module(self, value: Any, reader: Reader, node: int) -> None:
        attributes = reader.dict_of.__get__(value)
        parts = []
        for name, step in _MODULE_PARTS:
            part: Any = dict.get(attributes, name)
            if _is_module_part(part):
                parts.append(name)
                if dict.__len__(part):
                    self._look_at_pairs(list(dict.items(part)), node, (step, step, None))
        self._look_at_attributes(list(dict.items(attributes)), node, but=parts)

    def _visit_optimizer(self, value: Any, reader: Reader, node: int) -> None:
        pairs = list(dict.items(reader.dict_of.__get__(value)))
        self._look_at_attributes(pairs, node, but=("state",))
        for state in (part for name, part in pairs if type(name) is str and name == "state"):
            if issubclass(type(state), dict):
                self._states.append((state, _STATE, node))
            else:
                self._look_at(state, node, Step.ATTRIBUTE, "state")

    def _visit_state(self, state: Any, _reader: Reader, optimizer: int) -> None:
        trail = self.trail
        node = trail.enter_state(state, optimizer)
        for position, (key, kept) in enumerate(list(dict.items(state))):
            if trail.index_of(key) is None:
                self._look_at(key, node, Step.KEY_AT, position)
            index = trail.index_of(key)
            if index is None:
                self._look_at(kept, node, Step.VALUE_AT, position)
            else:
                self._look_at(kept, optimizer, Step.STATE, trail.first_link(index))
            self._spend(1)


def _is_module_part(part: Any) -> bool:
    """Returns whether it is `_parameters`, `_buffers` or `_modules` as `nn.Module` keeps them."""
    return issubclass(type(part), dict) and all(type(key) is str for key in list(dict.keys(part)))


_STATE = Reader(dict, Kind.STATE)
_ENTRIES = (Step.KEY, Step.VALUE_AT, Step.KEY_AT)
_VISITS: dict[Kind, Callable[[NameWalk, Any, Reader, int], None]] = {
    Kind.TENSOR: NameWalk._visit_tensor,
    Kind.MODULE: NameWalk._visit_module,
    Kind.OPTIMIZER: NameWalk._visit_optimizer,
    Kind.STATE: NameWalk._visit_state,
    Kind.DICT: NameWalk._visit_dict,
    Kind.LIST: NameWalk._visit_list,
    Kind.TUPLE: NameWalk._visit_tuple,
    Kind.SET: NameWalk._visit_set,
    Kind.ARRAY: NameWalk._visit_array,
    Kind.INSTANCE: NameWalk._visit_instance,
    Kind.FUNCTION: NameWalk._visit_callable,
    Kind.METHOD: NameWalk._visit_callable,
    Kind.NODE: NameWalk._visit_node,
    Kind.OPAQUE: NameWalk._visit_opaque,
    Kind.SPACE: NameWalk._visit_space,
}
