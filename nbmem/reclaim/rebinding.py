"""Putting one object where another was: into a variable, an entry, an item, an attribute."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from nbmem.inventory.readers import read_type
from nbmem.reclaim.outcome import type_name

_namespace_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")


def put_instead(way: Sequence[Any], old: Any, new: Any) -> str:
    """Puts `new` wherever the last object on the way holds `old` itself.

    A tuple can't change: it is made anew and put where the old one was, a step up the way.

    Args:
        way: what leads to `old`, outermost first: the dict of the variables, then containers and
            objects, each held by the one before.
        old: told by identity, never by `==`.
        new: what comes in its place.

    Returns:
        Why it could not be done, in words; empty where it was done.
    """
    if not way:
        return "nothing that could take another object leads to it"
    holder = way[-1]
    kind = type(holder)
    if issubclass(kind, tuple):
        return _put_into_tuple(way, holder, old, new)
    if _is_frozen(kind):
        return f"{type_name(holder)} is frozen"
    setters = [*_setters_of(holder, kind, old)]
    for setter in setters:
        setter(new)
    return "" if setters else f"{type_name(holder)} does not hold it in a place that can be changed"


def count_places(holder: Any, old: Any) -> int:
    """Returns in how many places of the holder another object could be put instead of `old`."""
    kind = type(holder)
    if issubclass(kind, tuple) or _is_frozen(kind):
        return 0
    return sum(1 for _ in _setters_of(holder, kind, old))


def instance_dict(thing: Any) -> dict[Any, Any] | None:
    """Returns the attributes of an object without asking its class; None where it has no dict."""
    for base in _mro_of(type(thing)):
        dict_of = _namespace_of(base).get("__dict__")
        if type(dict_of) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            found = dict_of.__get__(thing)
            return found if issubclass(type(found), dict) else None
    return None


def _put_into_tuple(way: Sequence[Any], holder: Any, old: Any, new: Any) -> str:
    kind = type(holder)
    if kind is not tuple and not read_type(kind).fields:
        return f"{type_name(holder)} is a tuple of its own kind, which can't be changed"
    if instance_dict(holder):
        return f"{type_name(holder)} can't be changed, and a new one would lose its attributes"
    items = [new if item is old else item for item in tuple.__iter__(holder)]
    return put_instead(way[:-1], holder, tuple.__new__(kind, items))


def _is_frozen(kind: type) -> bool:
    for base in _mro_of(kind):
        parameters = _namespace_of(base).get("__dataclass_params__")
        if parameters is not None:
            return bool(getattr(parameters, "frozen", False))
    return False


def _setters_of(holder: Any, kind: type, old: Any) -> Iterator[Callable[[Any], None]]:
    """Goes through the calls that each change one place in which the holder has `old`."""
    if issubclass(kind, (list, deque)):
        yield from _item_setters(holder, list if issubclass(kind, list) else deque, old)
    elif issubclass(kind, dict):
        yield from _entry_setters(holder, old)
    elif issubclass(kind, set):
        yield from _member_setters(holder, old)
    elif kind is types.ModuleType:
        yield from _entry_setters(_names_of_module(holder), old)
    elif kind is types.CellType:
        yield from _cell_setters(holder, old)
    if issubclass(kind, type):
        yield from _class_setters(holder, old)
    else:
        yield from _attribute_setters(holder, kind, old)


def _item_setters(holder: Any, base: Any, old: Any) -> Iterator[Callable[[Any], None]]:
    places = [at for at, item in enumerate(base.__iter__(holder)) if item is old]
    for place in places:
        yield lambda new, at=place: base.__setitem__(holder, at, new)  # type: ignore[misc]


def _entry_setters(holder: dict[Any, Any], old: Any) -> Iterator[Callable[[Any], None]]:
    keys = [key for key, value in dict.items(holder) if value is old]
    for key in keys:
        yield lambda new, at=key: dict.__setitem__(holder, at, new)  # type: ignore[misc]


def _member_setters(holder: set[Any], old: Any) -> Iterator[Callable[[Any], None]]:
    if any(member is old for member in set.__iter__(holder)):

        def change(new: Any) -> None:
            set.discard(holder, old)
            set.add(holder, new)

        yield change


def _cell_setters(holder: types.CellType, old: Any) -> Iterator[Callable[[Any], None]]:
    try:
        held = holder.cell_contents
    except ValueError:  # it is empty
        return
    if held is old:
        yield lambda new: setattr(holder, "cell_contents", new)


def _class_setters(holder: type, old: Any) -> Iterator[Callable[[Any], None]]:
    names = [name for name, value in _namespace_of(holder).items() if value is old]
    for name in names:
        yield lambda new, at=name: type.__setattr__(holder, at, new)  # type: ignore[misc]


def _attribute_setters(holder: Any, kind: type, old: Any) -> Iterator[Callable[[Any], None]]:
    attributes = instance_dict(holder)
    if attributes is not None:
        yield from _entry_setters(attributes, old)
        if issubclass(kind, torch.nn.Module):
            for name in _MODULE_DICTS:
                if issubclass(type(attributes.get(name)), dict):
                    yield from _entry_setters(attributes[name], old)
    for _, slot in read_type(kind).slots:
        try:
            held = slot.__get__(holder)
        except AttributeError:  # it is empty
            continue
        if held is old:
            yield lambda new, at=slot: at.__set__(holder, new)  # type: ignore[misc]
