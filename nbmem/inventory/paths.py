"""How a step from a container to what it holds is written down, and read back by people."""

from __future__ import annotations

from enum import IntEnum
from keyword import iskeyword
from typing import Any

NAMELESS = -1
"""The parent of a root."""


class Step(IntEnum):
    """The kinds of step; the key that goes with each is in brackets."""

    __hash__ = int.__hash__  # an Enum's own is Python code, called for each tensor

    VARIABLE = 0
    """A user variable (its name)."""
    OUTPUT = 1
    """An entry of the output cache (`Out[3]`, `_`)."""
    KEY = 2
    """A dict entry (its key, which prints as itself)."""
    VALUE_AT = 3
    """A dict entry whose key is an object of the user's (position)."""
    KEY_AT = 4
    """A dict key (position)."""
    ITEM = 5
    """An item of a list or deque (position)."""
    TUPLE_ITEM = 6
    """An item of a tuple (position)."""
    FIELD = 7
    """A field of a named tuple (its name)."""
    MEMBER_AT = 8
    """A member of a set (position)."""
    ELEMENT = 9
    """An element of a numpy array of objects (indices)."""
    ATTRIBUTE = 10
    """An attribute (its name)."""
    ATTRIBUTE_AT = 11
    """An attribute whose name is no string (position)."""
    PARAMETER = 12
    """A module's parameter (its name)."""
    BUFFER = 13
    """A module's buffer (its name)."""
    MODULE = 14
    """A module's child (its name)."""
    STATE = 15
    """What an optimizer keeps for one parameter (the parameter's name)."""
    GRADIENT = 16
    """The `.grad` of a tensor."""
    CLOSURE = 17
    """What a function's closure holds (the variable's name)."""
    DEFAULT = 18
    """The default of a function's argument (its name or position)."""
    INSIDE_AT = 19
    """What a generator's frame, an iterator or a cache of Python's own holds (position)."""
    ROOT = 20
    """Where a way begins that is neither a variable nor an output (the text that says it)."""
    FRAME = 21
    """A function's frame, or a generator or coroutine that waits (the function's name)."""
    LOCAL = 22
    """A variable of a frame (its name)."""
    CACHED = 23
    """A result that `lru_cache` keeps (position)."""
    CALLBACK = 24
    """What a future calls when it is done (position)."""
    CONTEXT = 25
    """The value of a context variable (the variable's name)."""
    QUEUED = 26
    """What waits in a queue of Python's own C code (position)."""
    RUNNING = 27
    """A variable of a function that runs right now (its name)."""
    THREAD = 28
    """What a `threading.local` keeps for another thread than the one that made it (position)."""
    SHOWN = 29
    """What a library's accessor reads (the accessor as it is written: `['acts'][0]`)."""


HOLDERS: dict[Step, str] = {
    Step.VARIABLE: "variable",
    Step.OUTPUT: "output",
    Step.KEY: "dict entry",
    Step.VALUE_AT: "dict value",
    Step.KEY_AT: "dict key",
    Step.ITEM: "list item",
    Step.TUPLE_ITEM: "tuple item",
    Step.FIELD: "tuple item",
    Step.MEMBER_AT: "set member",
    Step.ELEMENT: "array element",
    Step.ATTRIBUTE: "attribute",
    Step.ATTRIBUTE_AT: "attribute value",
    Step.PARAMETER: "module parameter",
    Step.BUFFER: "module buffer",
    Step.MODULE: "submodule",
    Step.STATE: "optimizer state",
    Step.GRADIENT: "gradient",
    Step.CLOSURE: "closure",
    Step.DEFAULT: "default argument",
    Step.INSIDE_AT: "iterator or cache",
    Step.ROOT: "root",
    Step.FRAME: "frame",
    Step.LOCAL: "local",
    Step.CACHED: "cached result",
    Step.CALLBACK: "callback",
    Step.CONTEXT: "context variable",
    Step.QUEUED: "queued item",
    Step.RUNNING: "running variable",
    Step.THREAD: "thread's values",
    Step.SHOWN: "library item",
}
"""What a step is taken in, in words."""

_PLAIN = frozenset((str, int, bool, bytes, type(None)))
_MAX_INT_BITS = 2048
"""Larger ones are shown by position: Python refuses to print the very large."""


def prints_itself(key: object) -> bool:
    """Returns whether `key` may be shown by its repr: plain values of Python's own types only."""
    kind = type(key)
    if kind is str:
        return True
    if kind is tuple:
        return all(type(item) is not tuple and prints_itself(item) for item in key)  # type: ignore[attr-defined]
    if kind is float:
        return bool(key == key)  # two NaN keys print the same
    if kind is int:
        return key.bit_length() <= _MAX_INT_BITS  # type: ignore[attr-defined,no-any-return]
    return any(kind is plain for plain in _PLAIN)


def is_private(step: Step, key: Any) -> bool:
    """Returns whether a step is no public one: `._mgr`, the closure of a function.

    What a module wraps (`._orig_mod`) has the name that torch gives it.
    """
    if step is Step.ATTRIBUTE or step is Step.FIELD:
        return bool(key[:1] == "_" and (key[:2] != "__" or key in _BOUND))
    return step in _UNSPOKEN


def write_step(base: str, step: Step, key: Any) -> str:
    """Returns `base` followed by one step, as Python would write it."""
    if step in _DOTTED and _can_follow_dot(step, key):
        return f"{base}.{key}" if base else str(key)
    return write_explicit(base, step, key)


def write_explicit(base: str, step: Step, key: Any) -> str:
    """Returns the longer form, for names that can't stand after a dot or are already taken."""
    return _FORMS[step].format(base=base, key=key)


def _can_follow_dot(step: Step, key: str) -> bool:
    if step in MODULE_STEPS:
        return key.isidentifier() or key.isdecimal()  # as in `named_parameters`
    return key.isidentifier() and not iskeyword(key)


MODULE_STEPS = frozenset((Step.PARAMETER, Step.BUFFER, Step.MODULE))
_BOUND = ("__func__", "__self__", "__wrapped__")
_UNSPOKEN = frozenset(
    (
        *(Step.CLOSURE, Step.DEFAULT, Step.INSIDE_AT, Step.FRAME, Step.LOCAL, Step.CACHED),
        *(Step.CALLBACK, Step.CONTEXT, Step.QUEUED, Step.THREAD),
    )
)
"""Steps for which Python has no expression."""
_DOTTED = MODULE_STEPS | {Step.VARIABLE, Step.FIELD, Step.ATTRIBUTE}

_FORMS: dict[Step, str] = {
    Step.VARIABLE: "globals()[{key!r}]",
    Step.OUTPUT: "{key}",
    Step.KEY: "{base}[{key!r}]",
    Step.VALUE_AT: "list({base}.values())[{key}]",
    Step.KEY_AT: "list({base})[{key}]",
    Step.ITEM: "{base}[{key}]",
    Step.TUPLE_ITEM: "{base}[{key}]",
    Step.FIELD: "{base}.{key}",
    Step.MEMBER_AT: "list({base})[{key}]",
    Step.ELEMENT: "{base}[{key}]",
    Step.ATTRIBUTE: "vars({base})[{key!r}]",
    Step.ATTRIBUTE_AT: "list(vars({base}).values())[{key}]",
    Step.PARAMETER: "{base}._parameters[{key!r}]",
    Step.BUFFER: "{base}._buffers[{key!r}]",
    Step.MODULE: "{base}._modules[{key!r}]",
    Step.STATE: "{base}.state[{key}]",
    Step.GRADIENT: "{base}.grad",
    Step.CLOSURE: "{base} → closure {key}",
    Step.DEFAULT: "{base} → default {key}",
    Step.INSIDE_AT: "{base} → inside {key}",
    Step.ROOT: "{key}",
    Step.FRAME: "{base} → {key}()",
    Step.LOCAL: "{base} → local {key!r}",
    Step.CACHED: "{base} → cached result {key}",
    Step.CALLBACK: "{base} → callback {key}",
    Step.CONTEXT: "{base} → context variable {key!r}",
    Step.QUEUED: "{base} → queued item {key}",
    Step.RUNNING: "{base} → variable {key!r}",
    Step.THREAD: "{base} → thread {key}",
    Step.SHOWN: "{base}{key}",
}
