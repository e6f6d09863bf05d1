"""The comms of a kernel: which pages opened one, and how to speak to one page or to all.

A page that is reloaded never closes its comm, so what concerns every page is broadcast once: a
`comm_msg` of an id that nobody opened, which pages with the extension listen for.

nbmem sends no `comm_close`: it would reach every page, and one that does not know the comm any
more takes that for an error. A page closes its comm itself, `bye` or not.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nbmem.frontend import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    Message = dict[str, Any]
    Handler = Callable[["Page", Message], None]


class Page:
    """One comm that a page opened."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        # Not by the page's own comm: ipykernel would send what the page says next to the thread
        # that has spoken here last, and that thread may be gone.
        self._voice = _voice_of(comm.comm_id)
        self.closed = False

    def send(self, message: Message) -> None:
        """Says something to this page alone, from any thread."""
        if not self.closed:
            self._voice.send(message)


class Channel:
    """The comm target `nbmem`, and the pages behind it. Its calls come from any thread.

    Args:
        manager: the kernel's comm manager.
        on_open: takes a page and the whole `comm_open` message.
        on_message: takes a page and the whole `comm_msg` message.
    """

    def __init__(self, manager: Any, on_open: Handler, on_message: Handler) -> None:
        self._manager, self._on_open, self._on_message = manager, on_open, on_message
        self._lock = threading.Lock()
        self._pages: dict[str, Page] = {}
        self._everyone = _voice_of(messages.BROADCAST)
        self._closed = False
        manager.register_target(messages.TARGET, self._opened)

    def broadcast(self, message: Message) -> None:
        """Says something to every page that listens."""
        if not self._closed:
            self._everyone.send(message)

    def close(self, last: Message) -> None:
        """Says the last message to every page, and hears no page any more."""
        self.broadcast(last)
        self._closed = True
        with self._lock:
            pages = list(self._pages.values())
            self._pages.clear()
        for page in pages:
            page.closed = True
            page.comm.on_msg(None)
            page.comm.on_close(None)
            page.comm._closed = True  # else it would send `comm_close` when it is collected
            self._manager.comms.pop(page.comm.comm_id, None)
        if self._manager.targets.get(messages.TARGET) == self._opened:
            with suppress(KeyError):
                self._manager.unregister_target(messages.TARGET, self._opened)

    def _opened(self, comm: Any, message: Message) -> None:
        page = Page(comm)
        comm.on_msg(lambda told: self._on_message(page, told))
        comm.on_close(lambda _told: self._left(page))
        with self._lock:
            self._pages[comm.comm_id] = page
        self._on_open(page, message)

    def _left(self, page: Page) -> None:
        page.closed = True
        with self._lock:
            self._pages.pop(page.comm.comm_id, None)


def _voice_of(comm_id: str) -> Any:
    """Returns what sends `comm_msg` under an id: it opens nothing and closes nothing."""
    import comm

    made = comm.create_comm(target_name=messages.TARGET, comm_id=comm_id, primary=False)
    made._closed = True  # else it would send `comm_close` when it is collected
    return made
