"""What functions and methods hold besides their code: closures, defaults, attributes, `self`."""

from __future__ import annotations

import types
from typing import Any

from nbmem.inventory.paths import Step

Held = list[tuple[Step, Any, Any]]
"""The step, the name or position that goes with it, and what it leads to."""


def held_by_function(function: types.FunctionType) -> Held:
    """Returns what a function holds; its globals are the user's names already."""
    code, held = function.__code__, Held()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            held.append((Step.CLOSURE, name, cell.cell_contents))
        except ValueError:  # not filled yet
            continue
    defaults = function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    named = zip(arguments[len(arguments) - len(defaults) :], defaults, strict=False)
    held += ((Step.DEFAULT, name, value) for name, value in named)
    keywords = (function.__kwdefaults__ or {}).items()
    held += ((Step.DEFAULT, name, value) for name, value in keywords if type(name) is str)
    attributes = list(vars(function).items())
    return held + [(Step.ATTRIBUTE, name, value) for name, value in attributes if type(name) is str]


def held_by_method(method: Any) -> Held:
    """Returns the function of a method, static or not, and the object that it is bound to."""
    held: Held = [(Step.ATTRIBUTE, "__func__", method.__func__)]
    if type(method) is types.MethodType:
        held.append((Step.ATTRIBUTE, "__self__", method.__self__))
    return held
