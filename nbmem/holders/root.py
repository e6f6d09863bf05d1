"""What a root is: where a chain begins that is neither a variable nor a shown value."""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

KINDS = (
    "traceback",
    "saved_frame",
    "running",
    "thread",
    "async_task",
    "context_variable",
    "ipython_event",
    "interpreter_callback",
    "finalizer",
    "log_record",
    "widget_callback",
    "hook",
    "garbage",
    "container",
)
"""Kinds of roots: one of `LEAK_HOLDERS` each, and `running` for the code that runs right now."""

DEBUGGERS = ("debugpy.", "pydevd.", "_pydevd_bundle.", "_pydev_bundle.", "pydevd_")
MACHINERY = ("nbmem.", "IPython.", "ipykernel.", "traitlets.", "matplotlib_inline.", *DEBUGGERS)
"""Modules whose callbacks, widgets and tasks are not the user's."""

_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_name_of_type = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_PLAIN = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """One thing that keeps others alive; holds it strongly, so it must not outlive the look."""

    text: str
    """What it is, in words: `traceback of cell [7]`, `thread 'loader'`. No two have the same."""
    kind: str
    """One of `KINDS`."""
    thing: Any
    """Where to begin to walk."""
    cell: int | None = None
    """Execution count of the cell that it belongs to."""
    places: tuple[str, ...] = ()
    """What holds the thing, by the expression that reads it: `sys.last_value`."""


def told_apart(roots: list[Root]) -> list[Root]:
    """Returns the roots, those that have the text of one before them with a number."""
    counts, found = Counter[str](), list[Root]()
    for root in roots:
        counts[root.text] += 1
        number = counts[root.text]
        found.append(root if number == 1 else replace(root, text=f"{root.text} #{number}"))
    return found


# -- looking without running anybody's code --------------------------------------------------------


def names_of(module: str) -> Mapping[str, Any]:
    """Returns the names of a module if it is loaded; nothing is imported."""
    found = sys.modules.get(module)
    loaded = issubclass(type(found), types.ModuleType)
    return _names_of_module(found) if loaded else {}


def attributes_of(thing: Any) -> dict[str, Any]:
    """Returns what stands in an object's own `__dict__`, whatever its class says."""
    for base in _mro_of(type(thing)):
        accessor = _namespace_of(base).get("__dict__")
        if type(accessor) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            found = accessor.__get__(thing)
            return found if type(found) is dict else {}
    return {}


def traits_of(thing: Any) -> dict[str, Any]:
    """Returns the values of an object's traits as traitlets keeps them; no default is made."""
    found = attributes_of(thing).get("_trait_values")
    return found if type(found) is dict else {}


def is_exactly(thing: Any, *kinds: type) -> bool:
    """Returns whether an object's type is one of these; no metaclass is asked."""
    kind = type(thing)
    return any(kind is one for one in kinds)


def is_plain(thing: Any) -> bool:
    """Returns whether it is a text, a number or None, which hold nothing."""
    return id(type(thing)) in _PLAIN


def type_of(thing: Any) -> str:
    """Returns the name of an object's class."""
    return str(_name_of_type(type(thing)))


def called(function: Any) -> str:
    """Returns what to call something that can be called: `save()`."""
    kind = type(function)
    if kind is types.MethodType:
        return called(function.__func__)
    if kind is functools.partial:
        return called(function.func)
    if kind is types.FunctionType or kind is types.BuiltinFunctionType:
        return f"{function.__name__}()"
    return type_of(function)


def is_of(function: Any, packages: tuple[str, ...] = MACHINERY) -> bool:
    """Returns whether a function, or the class of an object, was written in these packages."""
    kind = type(function)
    if kind is types.MethodType:
        return is_of(function.__func__, packages)
    if kind is functools.partial:
        return is_of(function.func, packages)
    if kind is types.FunctionType:
        module = dict.get(function.__globals__, "__name__")
    else:
        module = _namespace_of(kind).get("__module__")
    return type(module) is str and f"{module}.".startswith(packages)


def is_in(frame: types.FrameType, packages: tuple[str, ...]) -> bool:
    """Returns whether the code of a frame was written in these packages."""
    module = dict.get(frame.f_globals, "__name__")
    return type(module) is str and f"{module}.".startswith(packages)
