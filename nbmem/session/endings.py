"""How the user's code ended, as text: the exception itself is never kept."""

from __future__ import annotations

from typing import Any

_MESSAGE_LIMIT = 500


def ending_of(result: Any) -> tuple[str, str | None]:
    """Returns (status, error) of IPython's `ExecutionResult`.

    None stands for an await cell that Ctrl-C cancelled: IPython has no result for it.
    """
    if result is None:
        return "interrupted", "KeyboardInterrupt"
    error = result.error_before_exec or result.error_in_exec
    return ("ok", None) if error is None else status_of(type(error), error)


def status_of(kind: type[BaseException], error: BaseException | None) -> tuple[str, str]:
    """Returns (`error`, `interrupted` or `oom`; `TypeName: message`)."""
    names = {cls.__name__ for cls in kind.__mro__}
    told = kind.__name__ + _message(error)
    if names & {"KeyboardInterrupt", "CancelledError"}:
        return "interrupted", told
    return ("oom" if _is_out_of_memory(names, told) else "error"), told


def _message(error: BaseException | None) -> str:
    try:
        text = "" if error is None else str(error).strip()
    except Exception:  # a user's __str__ may raise
        return ""
    return f": {text[:_MESSAGE_LIMIT]}" if text else ""


def _is_out_of_memory(names: set[str], told: str) -> bool:
    """Torch has a class for accelerators; its CPU allocator raises a plain RuntimeError."""
    return bool(names & {"OutOfMemoryError", "MemoryError"}) or (
        "RuntimeError" in names and "can't allocate memory" in told
    )
