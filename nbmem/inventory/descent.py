"""The way from a variable down to what a name says, whichever of several ways the name takes.

An inventory names each container by one way. A user may write another, and so may a chain of
holders: `fast._orig_mod.0.weight` for what is `net.0.weight`. Each step is read as a walk reads it
and written as a walk writes it; what does not fit the name is left aside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any

import torch

from nbmem.heap.storages import gradient_of
from nbmem.inventory.paths import MODULE_STEPS, Step, prints_itself, write_explicit, write_step
from nbmem.inventory.readers import Kind, Reader, read_type
from nbmem.inventory.visits import VISITS, DictSteps

MOST = 100_000
"""Containers that are looked into for one name."""
Row = tuple[Step, Any, Any]


class _Children:
    """Takes down what a container holds, as a `NameWalk` is told it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.trail = self
        self.graphs: list[Any] = []

    def spend(self, _count: int) -> None:
        """Does nothing: one container is never too much."""

    def is_walked(self, child: Any) -> bool:
        return read_type(type(child)).kind is not Kind.SKIP

    def put_off_state(self, state: Any, _node: int) -> None:
        self.rows.append((Step.ATTRIBUTE, "state", state))

    def look_at(self, child: Any, _node: int, step: Step, key: Any) -> None:
        self.rows.append((step, key, child))

    def look_at_all(self, children: list[Any], _node: int, step: Step) -> None:
        self.rows.extend((step, at, child) for at, child in enumerate(children))

    def look_at_pairs(self, pairs: list[tuple[Any, Any]], _node: int, steps: DictSteps) -> None:
        by_key, by_position, of_key = steps
        for at, (key, child) in enumerate(pairs):
            plain = prints_itself(key)
            self.rows.append((by_key, key, child) if plain else (by_position, at, child))
            if of_key is not None and type(key) is not str:
                self.rows.append((of_key, at, key))

    def look_at_attributes(
        self, pairs: list[tuple[Any, Any]], _node: int, but: Collection[str] = ()
    ) -> None:
        for at, (name, child) in enumerate(pairs):
            if type(name) is not str:
                self.rows.append((Step.ATTRIBUTE_AT, at, child))
            elif name not in but:
                self.rows.append((Step.ATTRIBUTE, name, child))


class Descent:
    """Looks for what one name after the other says. Holds nothing but the roots."""

    def __init__(self, *roots: Mapping[str, object]) -> None:
        self._roots = [(text, thing) for names in roots for text, thing in list(names.items())]
        self._readers: dict[int, Reader] = {}
        self.last: tuple[str, Any] | None = None
        """The longest beginning of a name that was not found that leads somewhere, and where."""

    def find(self, name: str) -> list[Any]:
        """Returns what a name leads to, in a list of one; an empty list where it is nothing."""
        self.last = None
        order = count()
        waiting: list[tuple[int, int, str, Any]] = []
        for text, thing in self._roots:
            if text == name:
                return [thing]
            if text and text in name:
                heappush(waiting, (-len(text), next(order), text, thing))
        seen = set[tuple[str, int]]()
        while waiting and len(seen) < MOST:
            _, _, text, thing = heappop(waiting)
            if (text, id(thing)) in seen:
                continue
            seen.add((text, id(thing)))
            if name.startswith(text) and (self.last is None or len(self.last[0]) < len(text)):
                self.last = text, thing
            for told, child in self._below(text, thing, name):
                if told == name:
                    return [child]
                heappush(waiting, (-len(told), next(order), told, child))
        return []

    def _below(self, text: str, thing: Any, name: str) -> Iterator[tuple[str, Any]]:
        """Goes through what a thing holds that the name, or a part of it, stands for."""
        for step, key, child in self._children_of(thing):
            for told in _texts(text, step, key):
                if told in name:
                    yield told, child
        if issubclass(type(thing), torch.optim.Optimizer) and f"{text}.state[" in name:
            yield from self._states(text, thing, name)

    def _states(self, text: str, optimizer: Any, name: str) -> Iterator[tuple[str, Any]]:
        """Goes through what an optimizer keeps for a parameter that the name names in brackets."""
        rows = self._children_of(optimizer)
        state: Any = next(
            (one for _, key, one in rows if type(key) is str and key == "state"), None
        )
        if not issubclass(type(state), dict):
            return
        kept = {id(key): value for key, value in list(dict.items(state))}
        begin = name.index(f"{text}.state[") + len(f"{text}.state[")
        end, tried = name.find("]", begin), 0
        while end != -1 and tried < _MOST_BRACKETS:
            inner = name[begin:end]
            found = Descent(dict(self._roots)).find(inner)
            if found and id(found[0]) in kept:
                yield f"{text}.state[{inner}]", kept[id(found[0])]
            end, tried = name.find("]", end + 1), tried + 1

    def _children_of(self, thing: Any) -> list[Row]:
        kind = type(thing)
        reader = self._readers.get(id(kind))
        if reader is None:
            reader = self._readers[id(kind)] = read_type(kind)
        children = _Children()
        visit = VISITS.get(reader.kind)
        if visit is not None:
            visit(children, thing, reader, 0)  # type: ignore[arg-type]
        if reader.kind is Kind.TENSOR and issubclass(kind, torch.Tensor):
            gradient = gradient_of(thing)
            if gradient is not None:
                children.rows.append((Step.GRADIENT, None, gradient))
        return children.rows


_HELD_BY_FUNCTION = ("closure", "default argument", "list", "dict", "set", "tuple")
_MOST_BRACKETS = 8
_KEYED = MODULE_STEPS | {Step.KEY}


def _texts(base: str, step: Step, key: Any) -> set[str]:
    """Returns the ways in which a step is written, the walk's and a user's."""
    if step is Step.GRADIENT or step is Step.SHOWN:
        return {write_step(base, step, key)}
    texts = {write_step(base, step, key), write_explicit(base, step, key)}
    if step is Step.CLOSURE or step is Step.DEFAULT:  # as chains of holders are written
        texts.update(f"{base} → {word} {key!r}" for word in _HELD_BY_FUNCTION)
    if step in _KEYED:
        if type(key) is str:
            texts.add(f"{base}[{key}]" if key.isdecimal() else f"{base}[{key!r}]")
            texts.add(f'{base}["{key}"]')
        elif type(key) is tuple and len(key) > 1:
            texts.add(f"{base}[{repr(key)[1:-1]}]")
    return texts
