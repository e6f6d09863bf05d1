"""What breaks in the panel becomes one line of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.columns import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


class ErrorLine:
    """A context manager that says an error inside in one line, and swallows it.

    An interrupt is said, too, and goes on. It is a class and no generator: on Python 3.12.1 and
    3.13.0 an error that a generator swallows stays in a cycle with its frames, and so does what the
    failed call had in its variables.

    Args:
        what: what is done inside, as the beginning of a sentence.
        say: takes the line.
    """

    def __init__(self, what: str, say: Callable[[str], None]) -> None:
        self._what = what
        self._say = say

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self._say(_error_sentence(self._what, error))
            return True
        if isinstance(error, KeyboardInterrupt):  # what is shown stays as it was
            self._say(f"{self._what} was interrupted.")
        return False


def _error_sentence(what: str, error: BaseException) -> str:
    """Returns one line about an error inside the panel; nothing of the error is kept."""
    try:
        said = one_line(" ".join(str(error)[:4000].split()), 300)
    except Exception:  # a user's __str__ may raise
        said = "(its message could not be read)"
    return f"{what} did not work: {type(error).__name__}: {said}. Press ⟳ to read everything again."
