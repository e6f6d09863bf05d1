"""How each type of object is read, without calling anything that the user wrote.

A type is looked at once. From its method resolution order come the real `__dict__` descriptor and
the slots, whatever the class pretends; objects are told apart by `type(o)`, never by `__class__`.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import sysconfig
import types
from collections import deque
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nbmem.heap.nodes import read_node_type
from nbmem.inventory.accessors import Show, accessors_of
from nbmem.inventory.natives import hold_of

_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
type_name = type.__dict__["__name__"].__get__

HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: made by a `class` statement, so instances may have attributes."""

MACHINERY = ("torch._", "torch.fx.", "IPython.", "ipykernel.", "traitlets.", "nbmem.")
"""Plain objects of these modules are walked past: what they hold was not named by the user."""


class Kind(IntEnum):
    """What a walk does with an object."""

    __hash__ = int.__hash__  # an Enum's own is Python code, called for each container

    SKIP = 0
    TENSOR = 1
    """Or a bare `torch.UntypedStorage`."""
    MODULE = 2
    OPTIMIZER = 3
    DICT = 4
    LIST = 5
    TUPLE = 6
    SET = 7
    ARRAY = 8
    INSTANCE = 9
    STATE = 10
    """An optimizer's `state`."""
    FUNCTION = 11
    METHOD = 12
    NODE = 13
    """A node of an autograd graph, kept without its tensor."""
    SPACE = 14
    """A class or a module file that may be the user's own: asked one by one."""
    OPAQUE = 15
    """What Python's own C code holds without names: an iterator, a view of a dict."""
    NATIVE = 16
    """What Python's own C code holds by name: an error, a frame, a cache; `hold` reads it."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How instances of one type are read."""

    cls: type
    """Kept, so that its id stays its own while the reader lives."""
    kind: Kind
    iterate: Any = None
    """Goes through the children in C: `list.__iter__`, `dict.items`, …"""
    dict_of: Any = None
    """The real `__dict__` descriptor; None where instances have none."""
    slots: tuple[tuple[str, Any], ...] = ()
    """Name and member descriptor of each slot."""
    fields: tuple[str, ...] = ()
    """Of a named tuple."""
    hides: str = ""
    """The sentence that tells what instances keep out of Python's sight, if anything."""
    hold: Any = None
    """Returns what an object of Python's own C code holds: one of `natives`."""
    show: Show | None = None
    """How a library's public accessors read what instances keep in private attributes."""
    apart: bool = False
    """It is only walked into as a root: all that waits leads to the event loop, which leads to
    all that waits."""


class _Probe(NamedTuple):
    field: int


_FIELD_GETTER = type(_namespace_of(_Probe)["field"])

_CONTAINERS: tuple[tuple[type, Kind, Any], ...] = (
    (torch.Tensor, Kind.TENSOR, None),
    (torch.UntypedStorage, Kind.TENSOR, None),
    (torch.nn.Module, Kind.MODULE, None),
    (torch.optim.Optimizer, Kind.OPTIMIZER, None),
    (dict, Kind.DICT, dict.items),
    (list, Kind.LIST, list.__iter__),
    (deque, Kind.LIST, deque.__iter__),
    (tuple, Kind.TUPLE, tuple.__iter__),
    (set, Kind.SET, set.__iter__),
    (frozenset, Kind.SET, frozenset.__iter__),
    (type, Kind.SPACE, None),
    (types.ModuleType, Kind.SPACE, None),
)
_ITERABLES: tuple[Any, ...] = ((), [], {}, {}.values(), {}.items(), set(), deque())
_OF_PYTHON: dict[Kind, tuple[type, ...]] = {
    Kind.FUNCTION: (types.FunctionType,),
    Kind.METHOD: (types.MethodType, staticmethod, classmethod),
    Kind.OPAQUE: (
        type({}.keys()),
        type({}.values()),
        type({}.items()),
        *(type(iter(one)) for one in _ITERABLES),
        *(zip, map, filter, enumerate, reversed),
        *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
        *(ContextVar, Token),
    ),
}
_AWAITABLES = frozenset(
    ("FutureIter", "coroutine_wrapper", "async_generator_asend", "async_generator_athrow")
)
"""Names of types of Python's own that nothing gives out; what they wait for is inside."""
_PACKED = (
    "Packed weights, as those of dynamically quantized modules, are not counted: torch keeps their "
    "bytes out of Python's sight."
)
_SCRIPTED = (
    "What TorchScript modules hold is not all counted: torch keeps it out of Python's sight."
)
_TENSOR_BASES = frozenset(map(id, _mro_of(torch.Tensor)))


def read_type(cls: type) -> Reader:
    """Returns how instances of `cls` are read; runs no code of the class or of its metaclass."""
    if issubclass(cls, torch.ScriptObject):
        return Reader(cls, Kind.SKIP, hides=_PACKED)
    for base, kind, iterate in _CONTAINERS:
        if issubclass(cls, base):
            reader = _container(cls, kind, iterate)
            hides = _SCRIPTED if issubclass(cls, torch.jit.ScriptModule) else ""
            return replace(reader, hides=hides) if hides else reader
    numpy = sys.modules.get("numpy")
    if numpy is not None and cls is numpy.ndarray:
        return Reader(cls, Kind.ARRAY)
    hold, has_attributes = hold_of(cls)
    if hold is not None:
        if not has_attributes:
            return Reader(cls, Kind.NATIVE, hold=hold)
        return Reader(cls, Kind.NATIVE, None, _real_dict(cls), _real_slots(cls), hold=hold)
    for kind, classes in _OF_PYTHON.items():
        if any(cls is one for one in classes):
            return Reader(cls, kind)
    if type_name(cls) in _AWAITABLES and _is_of_python(cls):
        return Reader(cls, Kind.OPAQUE)
    if read_node_type(cls) is not None:
        return Reader(cls, Kind.NODE)
    if _is_machinery(cls):
        return Reader(cls, Kind.SKIP)
    if not (_flags_of(cls) & HEAP_TYPE or cls is types.SimpleNamespace):
        return Reader(cls, Kind.SKIP)
    dict_of, slots = _real_dict(cls), _real_slots(cls)
    kind = Kind.INSTANCE if dict_of or slots else Kind.SKIP
    shown = accessors_of(cls) if dict_of or slots else None
    apart = _is_event_loop(cls)
    return Reader(cls, kind, None, dict_of, slots, show=shown, apart=apart)


def _container(cls: type, kind: Kind, iterate: Any) -> Reader:
    fields = _named_fields(cls) if kind is Kind.TUPLE else ()
    if not _flags_of(cls) & HEAP_TYPE:
        return Reader(cls, kind, iterate, fields=fields)
    slots = tuple(slot for slot in _real_slots(cls) if slot[0] not in fields)
    return Reader(cls, kind, iterate, _real_dict(cls), slots, fields)


def _real_dict(cls: type) -> Any:
    for base in _mro_of(cls):
        found = _namespace_of(base).get("__dict__")
        if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return found
    return None


def _real_slots(cls: type) -> tuple[tuple[str, Any], ...]:
    slots: list[tuple[str, Any]] = []
    for base in _mro_of(cls):
        if _flags_of(base) & HEAP_TYPE and id(base) not in _TENSOR_BASES:
            members = list(_namespace_of(base).items())
            slots += [(name, value) for name, value in members if _is_slot(name, value)]
    return tuple(slots)


def _is_slot(name: Any, value: Any) -> bool:
    real = type(value) is types.MemberDescriptorType and type(name) is str
    return real and not name.startswith("__")


def _named_fields(cls: type) -> tuple[str, ...]:
    """Returns the fields of a named tuple; a class that only pretends to be one has none."""
    for base in _mro_of(cls):
        space = _namespace_of(base)
        if "n_sequence_fields" in space:
            return tuple(name for name, value in space.items() if _is_slot(name, value))
        fields = space.get("_fields")
        if type(fields) is tuple:
            honest = all(_is_field(cls, name, at) for at, name in enumerate(fields))
            return fields if honest else ()
    return ()


def _is_field(cls: type, name: Any, position: int) -> bool:
    if type(name) is not str:
        return False
    for base in _mro_of(cls):
        getter = _namespace_of(base).get(name)
        if getter is not None:
            return type(getter) is _FIELD_GETTER and getter.__reduce__()[1][0] == position
    return False


def _is_event_loop(cls: type) -> bool:
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and issubclass(cls, asyncio.AbstractEventLoop)


def _is_of_python(cls: type) -> bool:
    return not _flags_of(cls) & HEAP_TYPE or _namespace_of(cls).get("__module__") == "_asyncio"


def _is_machinery(cls: type) -> bool:
    module = _namespace_of(cls).get("__module__")
    return type(module) is str and f"{module}.".startswith(MACHINERY) and cls is not partial


def may_hold_tensors(container: Any) -> bool:
    """Returns whether a dict or tuple may lead to a tensor.

    One that the collector does not track holds only what the collector does not track either: plain
    values, others like it, and numpy's arrays, which may show a tensor's memory.
    """
    if gc.is_tracked(container):
        return True
    numpy = sys.modules.get("numpy")
    kinds = set(map(type, gc.get_referents(container)))
    return numpy is not None and not kinds.isdisjoint((numpy.ndarray, dict, tuple))


def names_in_space(space: Any) -> dict[str, Any] | None:
    """Returns the names in a class or a module file of the user's own; None for all others.

    It is the user's where it was made in the notebook, or in a file outside of the folders into
    which packages are installed.
    """
    if issubclass(type(space), type):
        found = _namespace_of(space)
        return dict(found) if _is_own_class(found.get("__module__")) else None
    if type(space) is not types.ModuleType:
        return None
    names = _names_of_module(space)
    return dict(names) if _is_own_file(names) and space is not sys.modules["__main__"] else None


def _is_own_class(module: Any) -> bool:
    if type(module) is not str:
        return False
    found = sys.modules.get(module)
    return module == "__main__" or (
        type(found) is types.ModuleType and _is_own_file(_names_of_module(found))
    )


def _is_own_file(names: dict[str, Any]) -> bool:
    file = names.get("__file__")
    return type(file) is str and not os.path.abspath(file).startswith(_installed())


_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__


@cache
def _installed() -> tuple[str, ...]:
    """Returns the folders of Python, of its packages, and of nbmem."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {Path(folder) for kind in kinds if (folder := sysconfig.get_path(kind))}
    folders.add(Path(__file__).resolve().parents[1])
    return tuple(f"{folder}{os.sep}" for folder in folders)
