"""Everything nbmem raises, under one base class; each message says what to do next.

What torch raises in a call that nbmem stands in for goes on as if nbmem were not there.
"""

from types import TracebackType
from typing import Any

_traceback_of: Any = vars(BaseException)["__traceback__"]
"""A class of the user's may have its own under this name."""


class NbmemError(Exception):
    """Base class of every error that nbmem raises itself."""


class HistoryFileError(NbmemError):
    """A saved history that can't be read; what was in memory is untouched."""


class MissingPackageError(NbmemError, ImportError):
    """An optional package is not there; the message holds the line that installs it."""


class NameNotFoundError(NbmemError, LookupError):
    """A name or key leads to no live storage."""


class ScopeError(NbmemError):
    """A measured scope was read before it closed, or used after nbmem was unloaded."""


class NbmemWarning(UserWarning):
    """Something that was asked of nbmem does not work as asked; nothing else is affected."""


def hide_frame(error: BaseException) -> None:
    """Takes the frame that caught an error off its traceback, before a bare `raise`.

    The traceback then ends where it does without nbmem, and keeps no operand by this frame.
    """
    trace: TracebackType | None = _traceback_of.__get__(error)
    if trace is not None:
        _traceback_of.__set__(error, trace.tb_next)
