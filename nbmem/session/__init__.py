"""One session a kernel: IPython's events, the settings, and the records they lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.session.core import Past, Session

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["Session", "close_session", "current_session"]

_current: Session | None = None
_past: Past | None = None


def current_session(shell: InteractiveShell | None = None) -> Session:
    """Returns the session of this process, begun now where there is none.

    With a shell, the session listens to it from now on. A session that begins after another was
    unloaded goes on with its history.
    """
    global _current
    if _current is None:
        _current = Session(shell, _past)
    if shell is not None:
        _current.attach(shell)
    return _current


def close_session(*, keep_history: bool = False) -> None:
    """Ends the session of this process, if there is one; the next may go on with it."""
    global _current, _past
    session, _current = _current, None
    if session is not None:
        session.close()
        _past = session.past()
    if not keep_history:
        _past = None
