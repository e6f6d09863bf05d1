"""An error and those that it stands for: its causes, and the members of a group.

    raise RuntimeError("step failed") from oom      cause: counts
    ExceptionGroup("workers", [oom, other])         member: counts
    except …: raise RuntimeError("step failed")     raised where `oom` was caught: counts
    except …: print(undefined)                      an error of its own: does not count
    raise … from None                               the author says that it does not belong: neither

Reading runs no code of the user's: attributes are read by Python's own descriptors, messages from
the arguments that are texts.
"""

from __future__ import annotations

from opcode import opmap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_MOST = 64
"""Errors of one chain that are looked at."""
_RAISE = opmap["RAISE_VARARGS"]

_error = vars(BaseException)
_cause_of: Callable[[BaseException], BaseException | None] = _error["__cause__"].__get__
_context_of: Callable[[BaseException], BaseException | None] = _error["__context__"].__get__
_is_hidden: Callable[[BaseException], bool] = _error["__suppress_context__"].__get__
_traceback_of: Callable[[BaseException], TracebackType | None] = _error["__traceback__"].__get__
_args_of: Callable[[BaseException], tuple[Any, ...]] = _error["args"].__get__
_members_of: Callable[[Any], tuple[BaseException, ...]]
_members_of = vars(BaseExceptionGroup)["exceptions"].__get__
_errno_of: Callable[[OSError], Any] = vars(OSError)["errno"].__get__


def errors_behind(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors that `error` stands for, itself not included, nearest first."""
    waiting, seen = [error], {id(error)}
    while waiting and len(seen) <= _MOST:
        for linked in _linked(waiting.pop(0)):
            if id(linked) not in seen:
                seen.add(id(linked))
                waiting.append(linked)
                yield linked


def arguments_text(error: BaseException) -> str:
    """Returns the texts among an error's arguments: its message, without asking the error."""
    return ": ".join(each for each in _args_of(error) if type(each) is str)


def errno_of(error: BaseException) -> int | None:
    """Returns the number that the system gave a failed call; None for other errors."""
    number = _errno_of(error) if issubclass(type(error), OSError) else None  # type: ignore[arg-type]
    return number if type(number) is int else None


def _linked(error: BaseException) -> Iterator[BaseException]:
    cause, context = _cause_of(error), _context_of(error)
    if cause is not None:
        yield cause
    elif context is not None and not _is_hidden(error) and _is_raised_for(error, context):
        yield context
    if issubclass(type(error), BaseExceptionGroup):
        yield from _members_of(error)


def _is_raised_for(error: BaseException, context: BaseException) -> bool:
    """Returns whether a `raise` of the very call that had caught `context` raised `error`."""
    caught, trace = _traceback_of(context), _traceback_of(error)
    if caught is None or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    raised = 0 <= trace.tb_lasti < len(code) and code[trace.tb_lasti] == _RAISE
    return raised and trace.tb_frame is caught.tb_frame
