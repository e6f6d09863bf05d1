"""The one owner of peak resets.

An allocator has one peak for everybody. Each raw reset would destroy what others wait for, so all
go through here: before one, the peak so far is folded into every open window and into the
running maxima of the user's own view.

    raw peak   ──reset──┬─────────reset──┬────────
    window A   [────────┴── max of folds ┴──]
    window B            [────────────────┴──────]
    the user   [── folds, unless the user resets ──]
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from nbmem.devices.protocols import reading_failed, sample_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.devices.protocols import PeakCounter, Sample
    from nbmem.records import Note


class UserView(Protocol):
    """The user's own reads and resets of some devices' peaks."""

    def keep(self, device: str) -> None:
        """Folds what the user would read now into the user's running maxima."""

    def install(self, owner: PeakOwner) -> None:
        """Starts answering the user's calls."""

    def uninstall(self) -> None:
        """Gives the functions back as they were."""


class PeakWindow:
    """The largest allocated bytes of one counter from `PeakOwner.open` until `close`."""

    __slots__ = ("_owner", "_top", "closed", "counter", "end", "note", "start")

    def __init__(self, owner: PeakOwner, counter: PeakCounter) -> None:
        self._owner = owner
        self._top = 0
        self.counter = counter
        self.closed = False
        self.start: Sample | None = None
        """The counter's figures when it opened; None where reading failed."""
        self.end: Sample | None = None
        """The counter's figures when it closed; None where reading failed."""
        self.note: Note | None = None
        """Why the peak is None."""

    def peak(self) -> int | None:
        """Returns the most bytes allocated so far, or until `close`; None where reading failed."""
        if not self.closed:
            self._owner.fold(self.counter)
        return None if self.note else self._top

    def so_far(self, raw_peak: int | None) -> int | None:
        """Returns the peak so far, for a thread that only looks.

        Args:
            raw_peak: the counter's, read before this call: whoever resets it meanwhile folds first.
        """
        return None if self.note else max(self._top, 0 if self.closed else raw_peak or 0)

    def close(self) -> int | None:
        """Returns the final peak; closing again returns the same."""
        if not self.closed:
            self._owner.close(self)
        return self.peak()

    def raise_to(self, peak: int | None) -> None:
        """Takes one more observation of the counter's peak. Called by the owner."""
        self._top = max(self._top, peak or 0)


class PeakOwner:
    """Opens windows on counters and answers the user's own peak reads and resets."""

    def __init__(self, views: Iterable[UserView] = ()) -> None:
        self._views = tuple(views)
        self._installed = False
        self._windows: dict[str, list[PeakWindow]] = {}
        # Re-entrant: a finalizer that runs within a read may read again on the same thread.
        self.lock = threading.RLock()

    def open(self, counter: PeakCounter) -> PeakWindow:
        """Returns a window that starts at the bytes allocated now."""
        window = PeakWindow(self, counter)
        self.begin(window)
        return window

    def begin(self, window: PeakWindow) -> None:
        """Opens a window that was made a moment ago. Raises nothing but an interrupt."""
        counter = window.counter
        with self.lock:
            try:
                window.start = start = sample_of(counter)
                self._fold_in(counter, start.peak)
                if start.peak != start.allocated:  # equal: a reset would change nothing
                    self._reset(counter)
                window.raise_to(start.allocated)
            except Exception as error:
                window.note = reading_failed(counter.device, "peak", error)
            self._windows.setdefault(counter.device, []).append(window)

    def _reset(self, counter: PeakCounter) -> None:
        for view in self._views:
            view.keep(counter.device)
        counter.reset_peak()

    def _fold_in(self, counter: PeakCounter, peak: int | None) -> None:
        for window in self._windows.get(counter.device, ()):
            window.raise_to(peak)

    def close(self, window: PeakWindow) -> None:
        """Ends a window at the bytes allocated now. Raises nothing but an interrupt."""
        with self.lock:
            window.end = self.fold(window.counter)
            windows = self._windows.get(window.counter.device, [])
            if window in windows:
                windows.remove(window)
            window.closed = True  # last: after an interrupt it is closed once more

    def fold(self, counter: PeakCounter) -> Sample | None:
        """Takes the counter's peak into all its open windows; a failure becomes their note.

        Returns the counter's figures, None where reading failed.
        """
        with self.lock:
            try:
                sample = sample_of(counter)
            except Exception as error:
                note = reading_failed(counter.device, "peak", error)
                for window in self._windows.get(counter.device, ()):
                    window.note = window.note or note
                return None
            self._fold_in(counter, sample.peak)
            return sample

    def fold_device(self, device: str) -> None:
        """Folds the counter of `device`, because somebody else is about to reset it."""
        with self.lock:
            for window in self._windows.get(device, ())[:1]:
                self.fold(window.counter)

    def add(self, view: UserView) -> None:
        """Takes one more view: of a device that comes later."""
        self._views = (*self._views, view)
        if self._installed:
            view.install(self)

    def install(self) -> None:
        """Stands in for the functions by which the user reads and resets the same peaks."""
        self._installed = True
        for view in self._views:
            view.install(self)

    def uninstall(self) -> None:
        """Gives those functions back as they were.

        The allocator's own peak then starts at nbmem's last reset: torch has no way to set it.
        """
        self._installed = False
        for view in reversed(self._views):  # the last one stands in for what those before do
            view.uninstall()
