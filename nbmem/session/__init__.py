"""One session a kernel: IPython's events, the settings, and the records they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.session.core import Session

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["Session", "close_session", "current_session"]

_current: Session | None = None


def current_session(shell: InteractiveShell | None = None) -> Session:
    """Returns the session of this process, begun now where there is none.

    With a shell, the session listens to it from now on.
    """
    global _current
    if _current is None:
        _current = Session(shell)
    if shell is not None:
        _current.attach(shell)
    return _current


def close_session() -> None:
    """Ends the session of this process, if there is one."""
    global _current
    session, _current = _current, None
    if session is not None:
        session.close()
