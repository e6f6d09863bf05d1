"""The steps from a holder to what it holds, in words; what Python puts between is left out.

An object holds its `__dict__`, which holds the value: told is `.value`. The same goes for a
module's `_parameters`, the cells of a function's closure, the tuple of its defaults, a class's
namespace.
"""

from __future__ import annotations

import functools
import gc
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.storages import gradient_of
from nbmem.holders.unseen import base_of_array, is_array, items_of_array
from nbmem.inventory.callables import held_by_function, held_by_method
from nbmem.inventory.natives import SUSPENDED, held_by_native, traceback_of
from nbmem.inventory.paths import HOLDERS, Step, prints_itself, write_step
from nbmem.inventory.readers import Kind, _real_dict, _real_slots, read_type, type_name

if TYPE_CHECKING:
    from collections import Counter

    from nbmem.holders.search import Found

_Entry = tuple[Step, Any, Any]
"""The step, its key, and what it leads to."""
_namespace_of = type.__dict__["__dict__"].__get__
_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_PARTS = (
    ("_parameters", Step.PARAMETER),
    ("_buffers", Step.BUFFER),
    ("_modules", Step.MODULE),
)
_CACHE = type(functools.cache(len))
_WITH_CELLS = (types.FrameType, *SUSPENDED)
_BUFFERS = ("_tee", "_tee_dataobject", "cycle")


def label_edges(
    found: Found, holders: dict[int, Counter[int]], targets: int, make: Callable[..., Any]
) -> None:
    """Writes the edges, and takes out objects that only stand between a holder and its value.

    Args:
        found: takes the edges up.
        holders: by index, who refers to an object, how often.
        targets: how many of the objects are targets.
        make: makes an edge of holder, held, kind and text.
    """
    _Labels(found, holders, make).write(targets)


class _Labels:
    def __init__(
        self, found: Found, holders: dict[int, Counter[int]], make: Callable[..., Any]
    ) -> None:
        self._found = found
        self._holders = holders
        self._make = make
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
            self._find_between(at)
        dropped = {at for at in self._owners if at >= targets and self._only_between(at)}
        edges = self._found.edges
        for at in self._held:
            if at not in dropped:
                edges.extend(self._edges_of(at))
        self._drop(dropped)

    # -- what only stands between ----------------------------------------------------------------

    def _find_between(self, at: int) -> None:
        if not self._held[at] - self._found.known:
            return
        holder = self._found.objects[at]
        if type(holder) in _WITH_CELLS:
            mine = {part for part in self._held[at] if self._is_cell(part)}
        else:
            parts = (self._index.get(id(part)) for part in _parts_of(holder))
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

    def _edges_of(self, at: int) -> Iterator[Any]:
        mine = self._between.get(at, set())
        wanted = (self._held[at] | _union(self._held.get(part, ()) for part in mine)) - mine
        told: set[int] = set()
        if wanted:
            holder = self._found.objects[at]
            keys = {id(self._found.objects[held]): held for held in wanted}
            for step, key, value in _entries_of(holder):
                held = keys.get(id(value))
                if held is not None:
                    told.add(held)
                    yield self._make(at, held, *_words(step, key))
            for held in sorted(wanted - told):
                yield self._make(at, held, *_words_of_unknown(holder))


def _union(parts: Iterator[Any]) -> set[int]:
    return {each for part in parts for each in part}


def _words(step: Step, key: Any) -> tuple[str, str]:
    place = _PLACES.get(step)
    text = write_step("", step, key).removeprefix(" → ") if place is None else f"{place} {key}"
    if step in _DOTTED:
        text = f"attribute {key!r}" if text.startswith("vars(") else f".{text}"
    return HOLDERS[step], text


_DOTTED = frozenset((Step.ATTRIBUTE, Step.FIELD, *(step for _, step in _PARTS)))
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


# -- how holders are read ------------------------------------------------------------------------


def _attributes_of(thing: Any) -> dict[Any, Any] | None:
    """Returns the real `__dict__`; None where there is none."""
    reader = _real_dict(type(thing))
    found = None if reader is None else reader.__get__(thing)
    return found if issubclass(type(found), dict) else None


def _space_of(cls: type) -> Any:
    """Returns the dict behind a class's read-only namespace."""
    return next(iter(gc.get_referents(_namespace_of(cls))), None)


def _parts_of(holder: Any) -> Iterator[Any]:
    """Goes through the objects that only stand between a holder and what it holds."""
    kind = type(holder)
    if issubclass(kind, type):
        yield _space_of(holder)
    elif issubclass(kind, types.ModuleType):
        yield _names_of_module(holder)
    elif kind is types.FunctionType:
        yield holder.__closure__
        yield from holder.__closure__ or ()
        yield holder.__defaults__
        yield holder.__kwdefaults__
        yield vars(holder)
    elif issubclass(kind, BaseException):
        yield _attributes_of(holder)
        yield from _tracebacks(traceback_of(holder))
    elif kind is types.TracebackType:
        yield from _tracebacks(holder.tb_next)
    elif kind is _CACHE:
        yield from (one for one in gc.get_referents(holder) if type(one) is dict)
    elif kind is not dict:
        names = _attributes_of(holder)
        yield names
        if names is not None and issubclass(kind, torch.nn.Module):
            yield from (dict.get(names, name) for name, _ in _PARTS)


def _tracebacks(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _entries_of(holder: Any) -> Iterator[_Entry]:
    """Goes through what an object holds, as far as there are words for it."""
    kind = type(holder)
    reader = read_type(kind)
    if reader.kind is Kind.NATIVE:
        yield from held_by_native(holder, reader)
    elif issubclass(kind, types.ModuleType):
        yield from _named(_names_of_module(holder))
    elif issubclass(kind, type):
        yield from _named(dict(_namespace_of(holder)))
    elif kind is types.FunctionType:
        yield from held_by_function(holder)
    elif kind in (types.MethodType, staticmethod, classmethod):
        yield from held_by_method(holder)
    elif is_array(holder):
        yield from _entries_of_array(holder)
    else:
        yield from _entries_of_container(holder)
        yield from _entries_of_instance(holder)


def _entries_of_container(holder: Any) -> Iterator[_Entry]:
    kind = type(holder)
    if issubclass(kind, dict):
        yield from _entries_of_dict(holder)
    elif issubclass(kind, tuple):
        yield from _entries_of_tuple(holder)
    for base, iterate, step in _SEQUENCES:
        if issubclass(kind, base):
            yield from ((step, at, item) for at, item in enumerate(iterate(holder)))
    if issubclass(kind, torch.Tensor):
        gradient = gradient_of(holder)
        yield from [] if gradient is None else [(Step.GRADIENT, "grad", gradient)]


def _entries_of_array(holder: Any) -> Iterator[_Entry]:
    yield from ((Step.ELEMENT, at, held) for at, held in enumerate(items_of_array(holder)))
    base = base_of_array(holder)
    if base is not None:
        yield Step.ATTRIBUTE, "base", base


_SEQUENCES: tuple[tuple[type, Any, Step], ...] = (
    (list, list.__iter__, Step.ITEM),
    (deque, deque.__iter__, Step.ITEM),
    (set, set.__iter__, Step.MEMBER_AT),
    (frozenset, frozenset.__iter__, Step.MEMBER_AT),
)


def _entries_of_dict(holder: Any) -> Iterator[_Entry]:
    for at, (key, value) in enumerate(list(dict.items(holder))):
        plain = prints_itself(key)
        yield (Step.KEY, key, value) if plain else (Step.VALUE_AT, at, value)
        if not plain:
            yield Step.KEY_AT, at, key


def _entries_of_tuple(holder: Any) -> Iterator[_Entry]:
    fields = read_type(type(holder)).fields
    items = list(tuple.__iter__(holder))
    if len(fields) == len(items) > 0:
        yield from ((Step.FIELD, name, item) for name, item in zip(fields, items, strict=True))
    else:
        yield from ((Step.TUPLE_ITEM, at, item) for at, item in enumerate(items))


def _entries_of_instance(holder: Any) -> Iterator[_Entry]:
    kind = type(holder)
    for name, slot in _real_slots(kind):
        try:
            yield Step.ATTRIBUTE, name, slot.__get__(holder)
        except AttributeError:
            continue
    names = _attributes_of(holder)
    if names is None:
        return
    yield from _named(names)
    if issubclass(kind, torch.nn.Module):
        for part, step in _PARTS:
            children = dict.get(names, part)
            if children is not None and issubclass(type(children), dict):
                yield from ((step, name, value) for name, value in dict.items(children))


def _named(names: dict[Any, Any]) -> Iterator[_Entry]:
    for at, (name, value) in enumerate(list(dict.items(names))):
        if type(name) is str:
            yield Step.ATTRIBUTE, name, value
        else:
            yield Step.ATTRIBUTE_AT, at, value
