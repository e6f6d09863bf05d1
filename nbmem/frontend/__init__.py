"""The kernel's side of the sidebar: what JupyterLab's pages are told over a comm, and may ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbmem.frontend.sidebar import Sidebar
    from nbmem.session import Session

__all__ = ["close_sidebar", "open_sidebar"]

_current: Sidebar | None = None


def open_sidebar(session: Session, shell: InteractiveShell) -> None:
    """Lets pages open a comm; does nothing where there is none, as in a terminal."""
    global _current
    kernel: Any = getattr(shell, "kernel", None)
    if getattr(kernel, "comm_manager", None) is None:
        return
    if _current is not None and _current.session is session and not _current.closed:
        return
    close_sidebar()
    with session.troubles.caught("open the sidebar's channel", []):
        from nbmem.frontend.sidebar import Sidebar

        _current = Sidebar(session, kernel)


def close_sidebar() -> None:
    """Says goodbye to every page, where there is a sidebar."""
    global _current
    sidebar, _current = _current, None
    if sidebar is not None:
        sidebar.close()
