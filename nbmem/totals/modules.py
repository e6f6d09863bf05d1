"""Modules as a tree: what each holds, its children included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.totals.groups import NO_MODULE, Group, by_category

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbmem.records import StorageRecord

_MARK = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[\]().]""")
"""A text in quotes, or a sign that parts or groups the steps of a name."""


@dataclass(frozen=True, slots=True)
class ModuleTotal:
    """One module with all that is inside it."""

    name: str
    """As the user names it: `model.layer3.0`."""
    bytes: int
    """Its children's included."""
    count: int
    by_category: Mapping[str, int]
    own_bytes: int
    """Of what no child of it has."""
    own_count: int
    children: tuple[ModuleTotal, ...] = ()
    """Largest first."""


@dataclass(frozen=True, slots=True)
class ModuleTree:
    """All modules, and what belongs to none: together the bytes of all storages."""

    roots: tuple[ModuleTotal, ...]
    """Largest first."""
    none: Group
    """What has no module."""


def module_tree(storages: Iterable[StorageRecord]) -> ModuleTree:
    """Returns what each module holds, as a tree of names: `model.layer3` is within `model`."""
    own: dict[str, _Sum] = {}
    for storage in storages:
        path = storage.module or ""
        found = own.get(path)
        if found is None:
            own[path] = found = _Sum()
        found.add(storage.category, storage.bytes, storage.stands_for)
    none = own.pop("", _Sum())
    group = Group(NO_MODULE, none.bytes, none.count, none.ordered())
    return ModuleTree(_roots(own), group)


def split_module(name: str) -> tuple[str, ...]:
    """Returns the steps of a module's name; dots within brackets and quotes part nothing.

    >>> split_module("nets['a.b'].conv.0")
    ("nets['a.b']", 'conv', '0')
    """
    if not any(mark in name for mark in "[('\""):
        return tuple(name.split("."))
    steps, start, depth = [], 0, 0
    for match in _MARK.finditer(name):
        mark = match[0]
        depth += (mark in "[(") - (mark in "])")
        if mark == "." and depth == 0:
            steps.append(name[start : match.start()])
            start = match.end()
    return (*steps, name[start:])


class _Sum:
    """Bytes by category and a count that are still growing."""

    __slots__ = ("categories", "count")

    def __init__(self) -> None:
        self.categories: dict[str, int] = {}
        self.count = 0

    def add(self, category: str, size: int, count: int) -> None:
        self.categories[category] = self.categories.get(category, 0) + size
        self.count += count

    @property
    def bytes(self) -> int:
        return sum(self.categories.values())

    def ordered(self) -> dict[str, int]:
        return by_category(self.categories.items())


def _roots(own: Mapping[str, _Sum]) -> tuple[ModuleTotal, ...]:
    """Returns the modules at the top; `None` is what they stand below."""
    children: dict[str | None, dict[str, None]] = {None: {}}
    for name in own:
        path: str | None = None
        for step in split_module(name):
            below = step if path is None else f"{path}.{step}"
            children.setdefault(path, {})[below] = None
            path = below
    return _built(own, children)


def _built(
    own: Mapping[str, _Sum], children: Mapping[str | None, dict[str, None]]
) -> tuple[ModuleTotal, ...]:
    """Returns the roots, made from the leaves up without recursion: modules may lie deep."""
    order, waiting = [], list(children[None])
    while waiting:
        path = waiting.pop()
        order.append(path)
        waiting.extend(children.get(path, ()))
    done: dict[str, ModuleTotal] = {}
    for path in reversed(order):
        held = [done.pop(below) for below in children.get(path, ())]
        done[path] = _total(path, own.get(path) or _Sum(), held)
    return tuple(sorted(done.values(), key=_largest_first))


def _total(name: str, own: _Sum, children: list[ModuleTotal]) -> ModuleTotal:
    every = [own.categories, *(child.by_category for child in children)]
    categories = by_category(pair for each in every for pair in each.items())
    return ModuleTotal(
        name=name,
        bytes=sum(categories.values()),
        count=own.count + sum(child.count for child in children),
        by_category=categories,
        own_bytes=own.bytes,
        own_count=own.count,
        children=tuple(sorted(children, key=_largest_first)),
    )


def _largest_first(module: ModuleTotal) -> tuple[int, str]:
    return -module.bytes, module.name
