"""How the user's code ended, as text and figures: the exception itself is never kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nbmem.records import Note

if TYPE_CHECKING:
    from nbmem.records import OutOfMemory

_MESSAGE_LIMIT = 500


class Ending(NamedTuple):
    """How a cell or a block ended."""

    status: str
    """`ok`, `error`, `interrupted` or `oom`."""
    error: str | None = None
    """`TypeName: message`."""
    oom: OutOfMemory | None = None
    notes: tuple[Note, ...] = ()
    """What the error leaves open."""


def ending_of(result: Any) -> Ending:
    """Returns how the cell of IPython's `ExecutionResult` ended.

    None stands for an await cell that Ctrl-C cancelled: IPython has no result for it.
    """
    if result is None:
        return Ending("interrupted", "KeyboardInterrupt")
    error = error_of(result)
    return Ending("ok") if error is None else failure_of(type(error), error)


def error_of(result: Any) -> BaseException | None:
    """Returns the error that ended a cell; an error may call itself false."""
    before: BaseException | None = result.error_before_exec
    inside: BaseException | None = result.error_in_exec
    return inside if before is None else before


def failure_of(kind: type[BaseException], error: BaseException | None) -> Ending:
    """Returns how code ended that raised an error: the one place that tells `oom` from `error`."""
    names = {cls.__name__ for cls in kind.__mro__}
    text = _message(error)
    told = f"{kind.__name__}: {text[:_MESSAGE_LIMIT]}" if text else kind.__name__
    if names & {"KeyboardInterrupt", "CancelledError"}:
        return Ending("interrupted", told)
    try:
        from nbmem.failures import find_out_of_memory, maybe_out_of_memory  # the table: 50 ms

        oom, maybe = find_out_of_memory(kind, error, text), maybe_out_of_memory(text)
    except Exception as trouble:  # the record is kept, whatever an error is made of
        why = f"nbmem could not read the error ({type(trouble).__name__})"
        return Ending("error", told, notes=(Note("oom", "broken", why),))
    if oom is not None:
        return Ending("oom", told, oom)
    return Ending("error", told, notes=() if maybe is None else (maybe,))


def _message(error: BaseException | None) -> str:
    try:
        return "" if error is None else str(error).strip()
    except Exception:  # a user's __str__ may raise
        return ""
