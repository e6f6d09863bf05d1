"""Letting go of what a failed call had in its variables, while the error stays readable."""

from __future__ import annotations

import gc
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbmem.heap import count_frozen
from nbmem.reclaim.outcome import Outcome, count_of, list_of, type_name

_SUSPENDABLE = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
_OWNERS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    kind: (kind.__dict__[f"{prefix}_code"].__get__, kind.__dict__[f"{prefix}_frame"].__get__)
    for kind, prefix in (
        (types.GeneratorType, "gi"),
        (types.CoroutineType, "cr"),
        (types.AsyncGeneratorType, "ag"),
    )
}
"""Whose frame may wait in the middle; how the code and the frame of one are read."""
_NOT_ENDED = sys.version_info < (3, 13)
"""Clearing a frame that waits would end its generator; later Pythons refuse."""

_ERROR = vars(BaseException)
_LINKS = tuple(_ERROR[name].__get__ for name in ("__cause__", "__context__"))
_args: Any = _ERROR["args"]
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_traceback_of: Callable[[BaseException], types.TracebackType | None]
_traceback_of = _ERROR["__traceback__"].__get__
_members_of: Callable[[Any], tuple[BaseException, ...]]
_members_of = vars(BaseExceptionGroup)["exceptions"].__get__
_object = vars(AttributeError)["obj"]


def release_error(*things: BaseException | types.TracebackType | types.FrameType) -> Outcome:
    """Empties the variables of all calls that these errors went through.

    Type, message, arguments, notes and the traceback's text stay; `%debug` shows no variables
    afterwards. Of an error its causes, contexts and the members of a group go along; of a call
    also its callers that are over. A frame that runs, or that waits as a generator's, is left.

    Args:
        things: errors, bare tracebacks or frames.
    """
    outcome = Outcome()
    errors = list(_errors_among(things))
    frames = _frames_of(things, errors)
    waiting = _find_waiting(frames) if _NOT_ENDED else set()
    cleared, left, known = 0, [], {id(frame) for frame in frames}
    for frame in frames:
        if id(frame) not in waiting and _clear(frame):
            cleared += 1 + _clear_callers(frame, known)
        else:
            left.append(f"{frame.f_code.co_name}()")
    for error in errors:
        _drop_object(error)
    whose = list_of(type_name(error) for error in errors) or "a traceback"
    if cleared:
        outcome.done.append(f"empty the variables of {count_of(cleared, 'call')} of {whose}")
    if left:
        outcome.refused.append(f"{list_of(left)} still runs or waits: its variables stay")
    return outcome


class _Told(str):
    """What `str` and `repr` said of an argument of an error, in its place."""

    __slots__ = ("shown",)
    shown: str

    def __repr__(self) -> str:
        return self.shown


def keep_text(error: BaseException) -> Outcome:
    """Puts texts in the place of an error's arguments, which read the same in its message."""
    name, held = type_name(error), _args.__get__(error)
    said = str(error)
    _args.__set__(error, tuple(map(_as_text, held)))
    try:
        same = str(error) == said
    except Exception:  # a `__str__` of the user's that goes through the arguments
        same = False
    if same:
        return Outcome([f"keep only the text of the arguments of {name}"])
    _args.__set__(error, held)
    return Outcome(refused=[f"the message of {name} is made from its arguments: they stay"])


def _as_text(argument: Any) -> Any:
    if type(argument) in _PLAIN:
        return argument
    text = _Told(argument)
    text.shown = repr(argument)
    return text


def _errors_among(things: Iterable[Any]) -> Iterator[BaseException]:
    """Goes through the errors and all that they chain to, each once."""
    stack, seen = [t for t in things if issubclass(type(t), BaseException)], set[int]()
    while stack:
        error = stack.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        linked = [link(error) for link in _LINKS]
        if issubclass(type(error), BaseExceptionGroup):
            linked += _members_of(error)
        stack += [other for other in linked if other is not None]


def _frames_of(things: Iterable[Any], errors: Iterable[BaseException]) -> list[types.FrameType]:
    frames = {id(thing): thing for thing in things if type(thing) is types.FrameType}
    tracebacks = [_traceback_of(error) for error in errors]
    tracebacks += [thing for thing in things if type(thing) is types.TracebackType]
    for traceback in tracebacks:
        while traceback is not None:
            frames[id(traceback.tb_frame)] = traceback.tb_frame
            traceback = traceback.tb_next
    return list(frames.values())


def _clear_callers(frame: types.FrameType, known: set[int]) -> int:
    """Empties the callers that are over too, which only a frame keeps; returns how many."""
    cleared, caller = 0, frame.f_back
    while caller is not None and id(caller) not in known:
        known.add(id(caller))
        if caller.f_code.co_flags & _SUSPENDABLE or not _clear(caller):
            break
        cleared += 1
        caller = caller.f_back
    return cleared


def _clear(frame: types.FrameType) -> bool:
    """Returns whether the frame was over; then its variables are gone."""
    try:
        frame.clear()
    except RuntimeError:  # it runs, or waits in the middle
        return False
    _empty_copy(frame)
    return True


def _empty_copy(frame: types.FrameType) -> None:
    """Empties the dict of variables that Python 3.11 and 3.12 keep once somebody asked for it.

    `locals()` hands out the same dict, and a module's is its globals: one that anything else
    holds too is left. Reading `f_locals` would change it.
    """
    referents = gc.get_referents(frame)
    while referents:
        held = referents.pop()
        if type(held) is dict and sys.getrefcount(held) == _REFERENCES_OF_LONE:
            held.clear()


def _find_waiting(frames: list[types.FrameType]) -> set[int]:
    """Returns the ids of the frames in which a generator or coroutine waits to go on."""
    doubtful = [frame for frame in frames if frame.f_code.co_flags & _SUSPENDABLE]
    if not doubtful:
        return set()
    if count_frozen():  # a frozen generator can't be found
        return {id(frame) for frame in doubtful}
    codes = {id(frame.f_code) for frame in doubtful}
    found = set()
    for item in gc.get_objects():
        read = _OWNERS.get(type(item))
        if read is not None and id(read[0](item)) in codes:
            found.add(id(read[1](item)))
    return found & {id(frame) for frame in doubtful}


def _drop_object(error: BaseException) -> None:
    """Lets go of the object whose attribute was missing: a value of the failed call, no argument.

    It only serves the hint `Did you mean …`; of modules and classes, which live anyway, it stays.
    """
    if issubclass(type(error), AttributeError):
        held = _object.__get__(error)
        if held is not None and not issubclass(type(held), (type, types.ModuleType)):
            _object.__set__(error, None)


_REFERENCES_OF_LONE = 3
"""`sys.getrefcount` of what one frame holds: the frame's, a local variable's, the argument's."""
