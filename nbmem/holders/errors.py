"""Errors that Python and IPython keep after a cell has failed, each with all that keeps it."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbmem.holders.root import Root, attributes_of, traits_of
from nbmem.inventory.natives import Pieces, traceback_of
from nbmem.inventory.paths import Step

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_KEPT_BY_PYTHON = ("last_value", "last_exc", "last_traceback")
_KEPT_BY_CELL = ("error_in_exec", "error_before_exec")
DEBUGGER = "IPython's debugger"


@dataclass(slots=True, eq=False)
class _Kept:
    thing: Any
    """The error, or its traceback where nobody has the error."""
    places: list[str] = field(default_factory=list)


def find_errors(
    shell: InteractiveShell | None, cell_of_file: Callable[[str], int | None]
) -> list[Root]:
    """Returns a root for each error that is kept, however many places keep it."""
    kept: list[_Kept] = []
    found = sorted(_places(shell), key=lambda pair: issubclass(type(pair[1]), types.TracebackType))
    for place, thing in found:  # errors before tracebacks
        known = next((one for one in kept if _is_same(one.thing, thing)), None)
        if known is None:
            known = _Kept(thing)
            kept.append(known)
        known.places.append(place)
    return [_root_of(one, cell_of_file) for one in kept]


def _places(shell: InteractiveShell | None) -> Iterator[tuple[str, Any]]:
    names = vars(sys)
    candidates = [(f"sys.{name}", names.get(name)) for name in _KEPT_BY_PYTHON]
    if shell is not None:
        shown = attributes_of(attributes_of(shell).get("InteractiveTB"))
        candidates.append(("IPython's InteractiveTB.tb", shown.get("tb")))
        result = attributes_of(traits_of(shell).get("last_execution_result"))
        candidates += ((f"the last cell's {name}", result.get(name)) for name in _KEPT_BY_CELL)
    for place, thing in candidates:
        if issubclass(type(thing), (BaseException, types.TracebackType)):
            yield place, thing


def _is_same(known: Any, thing: Any) -> bool:
    """Returns whether both are of one error: one object, or parts of one traceback."""
    if known is thing:
        return True
    if issubclass(type(known), BaseException) and issubclass(type(thing), BaseException):
        return False
    mine, other = _chain(known), _chain(thing)
    return bool(mine and other) and mine[-1] is other[-1]


def _chain(thing: Any) -> list[types.TracebackType]:
    """Returns the parts of a traceback, the outermost frame's first."""
    one = traceback_of(thing) if issubclass(type(thing), BaseException) else thing
    chain = []
    while one is not None:
        chain.append(one)
        one = one.tb_next
    return chain


def _root_of(kept: _Kept, cell_of_file: Callable[[str], int | None]) -> Root:
    files = (part.tb_frame.f_code.co_filename for part in _chain(kept.thing))
    cell = next((n for file in files if (n := cell_of_file(file)) is not None), None)
    text = "traceback of an earlier error" if cell is None else f"traceback of cell [{cell}]"
    return Root(text, "traceback", kept.thing, cell, tuple(kept.places))


def find_debugged(shell: InteractiveShell | None) -> list[Root]:
    """Returns the frames that `%debug` was left in."""
    shown = attributes_of(attributes_of(shell).get("InteractiveTB")) if shell is not None else {}
    debugger = attributes_of(shown.get("pdb"))
    frames: list[Any] = [debugger.get(name) for name in ("curframe", "botframe")]
    stack = debugger.get("stack")
    if type(stack) is list:
        frames += [entry[0] for entry in stack if type(entry) is tuple and entry]
    frames = [frame for frame in frames if type(frame) is types.FrameType]
    if not frames:
        return []
    named = {id(frame): (Step.FRAME, frame.f_code.co_name, frame) for frame in frames}
    place = "IPython's InteractiveTB.pdb"
    return [Root(DEBUGGER, "saved_frame", Pieces([*named.values()]), None, (place,))]
