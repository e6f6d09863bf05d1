"""The kernel's main thread: where panels are built and acts are done."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


class MainThread:
    """Has calls made on the thread that made this object, in the context that was its own then.

    The context says to ipykernel from where it was asked. What a thread beside the running cell
    asks for would else leave its mark on the panel's widgets: presses would be sent to that thread
    for ever, also when it is gone.

    Args:
        kernel: whose loop is taken where none runs yet, as when nbmem is loaded at its start.
    """

    def __init__(self, kernel: Any = None) -> None:
        self._thread = threading.current_thread()
        self._context = _senders_context()
        self._kernel = kernel
        self._loop = _running_loop()

    def soon(self, call: Callable[[], None]) -> None:
        """Makes the call when the thread is free; at once where nothing is known of its loop."""
        self._loop = self._loop or _loop_of(self._kernel)
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(call, context=self._context.copy())
        else:
            self.here(call)

    def here(self, call: Callable[[], Result]) -> Result:
        """Makes the call on this very thread, in the main thread's context."""
        if threading.current_thread() is self._thread:
            return call()
        return self._context.copy().run(call)


def _senders_context() -> contextvars.Context:
    """Returns a context that knows what was asked, and from where; nothing of the user's."""
    context = contextvars.Context()
    for variable, value in contextvars.copy_context().items():
        if variable.name.startswith("shell_parent"):  # ipykernel's
            context.run(variable.set, value)
    return context


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop_of(kernel: Any) -> asyncio.AbstractEventLoop | None:
    loop = getattr(getattr(kernel, "io_loop", None), "asyncio_loop", None)
    return loop if isinstance(loop, asyncio.AbstractEventLoop) else None
