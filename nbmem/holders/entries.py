"""How a holder is read: what it holds, by which step, and what only stands between.

Nothing of the user's is called: types are read once, by the descriptors that Python itself made.
"""

from __future__ import annotations

import functools
import gc
import threading
import types
from collections import deque
from collections.abc import Container, Iterator
from itertools import compress
from typing import Any, NamedTuple

import torch

from nbmem.heap.storages import gradient_of
from nbmem.holders.unseen import base_of_array, is_array, items_of_array
from nbmem.inventory.callables import held_by_function, held_by_method
from nbmem.inventory.natives import held_by_native, names_by_thread, traceback_of
from nbmem.inventory.paths import Step, prints_itself
from nbmem.inventory.readers import Kind, Reader, _real_dict, _real_slots, read_type

Entry = tuple[Step, Any, Any]
"""The step, its key, and what it leads to."""
MODULE_PARTS = (
    ("_parameters", Step.PARAMETER),
    ("_buffers", Step.BUFFER),
    ("_modules", Step.MODULE),
)
_namespace_of = type.__dict__["__dict__"].__get__
_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_CACHE = type(functools.cache(len))
_SEQUENCES: tuple[tuple[type, Any, Step], ...] = (
    (list, list.__iter__, Step.ITEM),
    (deque, deque.__iter__, Step.ITEM),
    (set, set.__iter__, Step.MEMBER_AT),
    (frozenset, frozenset.__iter__, Step.MEMBER_AT),
)


class _Type(NamedTuple):
    """What was read of a type, once."""

    reader: Reader
    dict_of: Any
    slots: tuple[tuple[str, Any], ...]


class Entries:
    """Reads holders, each type of them once."""

    def __init__(self) -> None:
        self._types: dict[int, _Type] = {}

    def between(self, holder: Any) -> Iterator[Any]:
        """Goes through the objects that only stand between a holder and what it holds."""
        kind = type(holder)
        if issubclass(kind, type):
            yield next(iter(gc.get_referents(_namespace_of(holder))), None)
        elif issubclass(kind, types.ModuleType):
            yield _names_of_module(holder)
        elif kind is types.FunctionType:
            yield from _parts_of_function(holder)
        elif issubclass(kind, BaseException):
            yield self._attributes_of(holder)
            yield from tracebacks(traceback_of(holder))
        elif kind is types.TracebackType:
            yield from tracebacks(holder.tb_next)
        elif kind is _CACHE:
            yield from (one for one in gc.get_referents(holder) if type(one) is dict)
        elif issubclass(kind, threading.local):
            yield from (one for one in gc.get_referents(holder) if type(one) is dict)
            yield from names_by_thread(holder)[:1]
        elif kind is not dict and kind is not list and kind is not tuple:
            show = self._type_of(holder).reader.show
            yield from [] if show is None else show(holder).between
            names = self._attributes_of(holder)
            yield names
            if names is not None and issubclass(kind, torch.nn.Module):
                yield from (dict.get(names, name) for name, _ in MODULE_PARTS)

    def read(self, holder: Any, wanted: Container[int]) -> Iterator[Entry]:
        """Goes through what an object holds, as far as there are words for it.

        Args:
            holder: the object.
            wanted: ids of what is asked for; the rest may be left out.
        """
        kind = type(holder)
        if issubclass(kind, types.ModuleType):
            yield from _named(_names_of_module(holder))
        elif issubclass(kind, type):
            yield from _named(dict(_namespace_of(holder)))
        elif kind is types.FunctionType:
            yield from held_by_function(holder)
        elif kind in (types.MethodType, staticmethod, classmethod):
            yield from held_by_method(holder)
        elif self._type_of(holder).reader.kind is Kind.NATIVE:
            yield from held_by_native(holder, self._type_of(holder).reader)
        elif is_array(holder):
            yield from _held_by_array(holder)
        else:
            yield from self._held_by_container(holder, wanted)
            yield from self._held_by_instance(holder)

    def _type_of(self, thing: Any) -> _Type:
        kind = type(thing)
        known = self._types.get(id(kind))
        if known is None:
            known = _Type(read_type(kind), _real_dict(kind), _real_slots(kind))
            self._types[id(kind)] = known
        return known

    def _attributes_of(self, thing: Any) -> dict[Any, Any] | None:
        """Returns the real `__dict__`; None where there is none."""
        accessor = self._type_of(thing).dict_of
        found = None if accessor is None else accessor.__get__(thing)
        return found if issubclass(type(found), dict) else None

    def _held_by_container(self, holder: Any, wanted: Container[int]) -> Iterator[Entry]:
        kind = type(holder)
        if issubclass(kind, dict):
            yield from _held_by_dict(holder, wanted)
        elif issubclass(kind, tuple):
            fields = self._type_of(holder).reader.fields
            for at, item in _places(list(tuple.__iter__(holder)), wanted):
                named = len(fields) == tuple.__len__(holder)
                yield (Step.FIELD, fields[at], item) if named else (Step.TUPLE_ITEM, at, item)
        elif issubclass(kind, torch.Tensor):
            gradient = gradient_of(holder)
            yield from [] if gradient is None else [(Step.GRADIENT, "grad", gradient)]
        for base, iterate, step in _SEQUENCES:
            if issubclass(kind, base):
                places = _places(list(iterate(holder)), wanted)
                yield from ((step, at, item) for at, item in places)

    def _held_by_instance(self, holder: Any) -> Iterator[Entry]:
        show = self._type_of(holder).reader.show
        yield from [] if show is None else show(holder).held
        for name, slot in self._type_of(holder).slots:
            try:
                yield Step.ATTRIBUTE, name, slot.__get__(holder)
            except AttributeError:  # declared and never set
                continue
        names = self._attributes_of(holder)
        if names is None:
            return
        yield from _named(names)
        if issubclass(type(holder), torch.nn.Module):
            for part, step in MODULE_PARTS:
                children = dict.get(names, part)
                if children is not None and issubclass(type(children), dict):
                    yield from ((step, name, value) for name, value in dict.items(children))


def _parts_of_function(function: types.FunctionType) -> Iterator[Any]:
    yield function.__closure__
    yield from function.__closure__ or ()
    yield function.__defaults__
    yield function.__kwdefaults__
    yield vars(function)


def tracebacks(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    """Goes through a traceback's parts, the outermost frame's first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _places(items: list[Any], wanted: Container[int]) -> Iterator[tuple[int, Any]]:
    """Goes through the wanted items and their positions: a container may have a million others."""
    places = compress(range(len(items)), map(wanted.__contains__, map(id, items)))
    return ((at, items[at]) for at in places)


def _held_by_dict(holder: Any, wanted: Container[int]) -> Iterator[Entry]:
    keys, values = list(dict.keys(holder)), list(dict.values(holder))
    for at, value in _places(values, wanted):
        plain = prints_itself(keys[at])
        yield (Step.KEY, keys[at], value) if plain else (Step.VALUE_AT, at, value)
    yield from ((Step.KEY_AT, at, key) for at, key in _places(keys, wanted))


def _held_by_array(array: Any) -> Iterator[Entry]:
    yield from ((Step.ELEMENT, at, held) for at, held in enumerate(items_of_array(array)))
    base = base_of_array(array)
    if base is not None:
        yield Step.ATTRIBUTE, "base", base


def _named(names: dict[Any, Any]) -> Iterator[Entry]:
    for at, (name, value) in enumerate(list(dict.items(names))):
        if type(name) is str:
            yield Step.ATTRIBUTE, name, value
        else:
            yield Step.ATTRIBUTE_AT, at, value
