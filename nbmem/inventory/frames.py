"""The local variables of a frame, read so that the frame is left as it was.

Before Python 3.13 `frame.f_locals` of a function builds a dict that the frame keeps: what is in it
outlives its `del`, and where the user called `locals()` it is the user's own dict that changes. So
the variables are read from where Python keeps them: by `PyFrame_GetVar`, which Python has from 3.12
on, and in 3.11 from the frame's slots, whose layout is checked against the frame itself first.
"""

from __future__ import annotations

import ctypes
import inspect
import struct
import sys
from types import CellType, CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Locals = list[tuple[str, Any]]
"""Names and values; what is not bound is left out."""

_WORD = struct.calcsize("P")
_INNER = 3
"""Place, in words, of what runs in a frame object of Python 3.11."""
_GLOBALS, _BUILTINS, _CODE, _SLOTS = 1, 2, 4, 9
"""Places, in words, in what runs."""


def read_locals(frame: FrameType) -> Locals:
    """Returns the variables of a function's frame; calls nothing and keeps nothing.

    Variables of a class body or of a module are in a namespace: those that no cell shares are
    returned. Where this Python keeps variables in a way that is not known, there are none.
    """
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED:
        return _read_variables(frame, code)
    space = namespace_of(frame)
    return [pair for pair in list(dict.items(space or {})) if type(pair[0]) is str]


def namespace_of(frame: FrameType) -> dict[Any, Any] | None:
    """Returns the namespace in which a module or a class body runs; None for a function.

    None too where variables of it are shared by cells: `f_locals` would write them into it.
    """
    code = frame.f_code
    if code.co_flags & inspect.CO_OPTIMIZED or code.co_cellvars or code.co_freevars:
        return None
    space: Any = None if code.co_varnames else frame.f_locals
    return space if issubclass(type(space), dict) else None


def names_of_variables(code: CodeType) -> tuple[str, ...]:
    """Returns the variables of a function in the order of their slots."""
    plain = code.co_varnames
    shared = [name for name in code.co_cellvars if name not in plain]  # arguments have one slot
    return (*plain, *shared, *code.co_freevars)


def copies_of_variables(frame: FrameType, things: Iterable[Any]) -> list[dict[str, Any]]:
    """Returns which of these are the dict of a function's variables that Python 3.11 and 3.12 keep.

    They keep it once somebody asked for it. One that has more in it than the variables is no copy.

    Args:
        frame: of a function; another has no such dict.
        things: what the frame refers to.
    """
    dicts = [thing for thing in things if type(thing) is dict]
    if not dicts or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return []
    variables = dict(read_locals(frame))
    mine = {id(value) for value in variables.values()}
    return [
        one
        for one in dicts
        if id(one) not in mine
        and all(
            type(name) is str and name in variables and variables[name] is value
            for name, value in list(one.items())
        )
    ]


def is_finished(referents: list[Any]) -> bool:
    """Returns whether a frame with these referents keeps its variables itself: it ran to its end.

    A running frame's belong to the thread that runs it.
    """
    return any(type(one) is CodeType for one in referents)


if sys.version_info >= (3, 12):
    _variable_of = ctypes.pythonapi.PyFrame_GetVar
    _variable_of.restype = ctypes.py_object
    _variable_of.argtypes = (ctypes.py_object, ctypes.py_object)

    def _read_variables(frame: FrameType, code: CodeType) -> Locals:
        found = Locals()
        for name in names_of_variables(code):
            try:
                found.append((name, _variable_of(frame, name)))
            except NameError:  # not bound
                continue
        return found

else:

    def _read_variables(frame: FrameType, code: CodeType) -> Locals:
        begin = _slots_of(frame, code)
        if begin is None:
            return []
        found = Locals()
        shared = {*code.co_cellvars, *code.co_freevars}
        for at, name in enumerate(names_of_variables(code)):
            try:
                value: Any = ctypes.py_object.from_address(begin + at * _WORD).value
                if name in shared and type(value) is CellType:
                    value = value.cell_contents
            except ValueError:  # not bound
                continue
            found.append((name, value))
        return found

    def _slots_of(frame: FrameType, code: CodeType) -> int | None:
        """Returns the address of the variables; None where frames are not as they are known."""
        if object.__basicsize__ != 2 * _WORD or sys.implementation.name != "cpython":
            return None
        inner = _word_at(id(frame) + _INNER * _WORD)
        known = ((_CODE, code), (_GLOBALS, frame.f_globals), (_BUILTINS, frame.f_builtins))
        if inner and all(_word_at(inner + at * _WORD) == id(one) for at, one in known):
            return inner + _SLOTS * _WORD
        return None

    def _word_at(address: int) -> int:
        return ctypes.c_void_p.from_address(address).value or 0
