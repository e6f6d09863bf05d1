"""When to redraw: soon after the first asking, and never so often that it costs the user."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nbmem.panel.turns import loop_elsewhere, main_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Throttle:
    """Calls `act` some time after `ask`, once for any number of askings in between.

    Between two calls lie at least `least` seconds and `share` times what the last call took.
    Where the first call `builds` what the others only change, it does not count.
    Without a running event loop (a terminal, another thread) the call is made at once.
    """

    def __init__(
        self,
        act: Callable[[], None],
        *,
        least: float = 0.2,
        share: float = 10.0,
        builds: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._act = act
        self._least = least
        self._share = share
        self._clock = clock
        self._next = clock()
        self._waiting: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop = main_loop()
        self._counts = not builds

    def ask(self) -> None:
        """Has `act` called soon."""
        if self._closed or self._waiting is not None:
            return
        main = loop_elsewhere(self._loop)
        if main is not None:  # a subshell's thread: reading there would run beside another read
            main.call_soon_threadsafe(self.ask)
            return
        loop = main_loop()
        if loop is None:
            self.now()
        else:
            self._waiting = loop.call_later(max(0.0, self._next - self._clock()), self.now)

    def now(self) -> None:
        """Calls `act` at once; an asking that waits is thereby answered."""
        self._forget()
        if self._closed:
            return
        started = self._clock()
        try:
            self._act()
        finally:
            ended = self._clock()
            share = self._share if self._counts else 0.0
            self._counts = True
            self._next = ended + max(self._least, share * (ended - started))

    def close(self) -> None:
        """Ends it: no call is made after this."""
        self._closed = True
        self._forget()

    def _forget(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
