"""When an act may be done: on the kernel's main thread, and never while a cell runs.

A page of today sends presses to a thread beside the cell that runs (JupyterLab's subshells), or
into a cell that awaits. An act in the middle of somebody's cell would take away what its next line
needs, and would read bytes that are on the move. So it waits, and says for what:

    press ──> between cells: now          a cell runs: "del x waits for cell [9] to end." ──> then
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ipywidgets import Button, Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.contract import SessionLike


def main_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop that runs on this thread, if this is the main one."""
    if threading.current_thread() is not threading.main_thread():
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def loop_elsewhere(loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
    """Returns the main thread's loop where this is another thread and that loop runs."""
    on_main = threading.current_thread() is threading.main_thread()
    return None if on_main or loop is None or not loop.is_running() else loop


class Turn:
    """Does one act at a time, each when its turn has come.

    Args:
        session: knows which cell runs.
        on_change: takes the sentence to show: what waits for which cell, or nothing any more.
    """

    def __init__(self, session: SessionLike, on_change: Callable[[str], None]) -> None:
        self._session = session
        self._on_change = on_change
        self._loop = main_loop()
        self._waiting: tuple[str, Callable[[], None]] | None = None
        tip, hidden = "Forgets the act that waits.", Layout(width="auto", display="none")
        self.stop = Button(description="Don't wait", tooltip=tip, layout=hidden)
        self.stop.on_click(lambda _button: self._give_up())

    @property
    def cell(self) -> str | None:
        """The cell that runs, `cell [9]`; None between cells."""
        return self._session.watcher.running

    @property
    def is_waiting(self) -> bool:
        """Whether an act waits for the end of a cell."""
        return self._waiting is not None

    def take(self, what: str, act: Callable[[], None]) -> None:
        """Does `act` now or, while a cell runs, after its end; `what` says which act it is."""
        if self._waiting is not None:
            return
        self._waiting = what, act
        if self.cell is not None:
            self._show_waiting()
        else:
            self.soon(self._go)

    def soon(self, call: Callable[[], None]) -> None:
        """Calls on the main thread: at once if this is it, or if nothing is known of its loop."""
        loop = loop_elsewhere(self._loop)
        if loop is not None:
            loop.call_soon_threadsafe(call)
        else:
            call()

    def cell_ended(self) -> None:
        """Has what waits done as soon as IPython let go of the cell, and of the error in it."""
        if self._waiting is None or self.cell is not None:
            return
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._go)
        else:
            self._go()

    def drop(self) -> None:
        """Forgets what waits."""
        self._waiting = None
        self.stop.layout.display = "none"

    def _go(self) -> None:
        if self._waiting is None:
            return
        if self.cell is not None:
            self._show_waiting()
            return
        act = self._waiting[1]
        self.drop()
        self._on_change("")
        act()

    def _show_waiting(self) -> None:
        if self._waiting is not None:
            self.stop.layout.display = None
            self._on_change(f"{self._waiting[0]} waits for {self.cell or 'a cell'} to end.")

    def _give_up(self) -> None:
        if self._waiting is not None:
            what = self._waiting[0]
            self.drop()
            self._on_change(f"{what} was called off.")
