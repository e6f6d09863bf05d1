"""What moves while a cell runs: a thread that reads counters a few times a second.

    cell begins ── 0.3 s ── reading ── 0.2 s ── reading ── … ── cell ends: one last reading

The thread lives while a cell runs and somebody listens. It takes no inventory, resets no peak,
waits for no device and touches no tensor; what breaks in it is a line in `%gpumem errors`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import TYPE_CHECKING

from nbmem.devices import UnknownDeviceError
from nbmem.records import LiveReading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbmem.devices import DeviceReader, Devices, Glance
    from nbmem.records import Note
    from nbmem.scopes import Scopes
    from nbmem.session.core import Session
    from nbmem.session.running_cell import RunningCell

    Listener = Callable[[LiveReading], None]

FIRST = 0.3
"""Seconds after which a cell is long enough to be told of."""
PERIOD = 0.2
"""Seconds between two readings, at least."""
SHARE = 20.0
"""Times what the last reading took, at least."""
NOT_MEASURED = "not measured: %gpumem on records every cell"
THREAD = "nbmem-sampler"


@dataclass(slots=True)
class _Run:
    """One outermost cell that is being watched."""

    cell: RunningCell
    readers: Sequence[DeviceReader]
    """Of the devices that are measured by default, chosen on the cell's own thread."""
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    told: bool = False
    broken: bool = False
    """A counter failed: that was noted, and is not noted again."""
    deaf: list[Listener] = field(default_factory=list)
    """Listeners that failed: they hear of nothing but the end."""


class Sampler:
    """Tells listeners of the counters of the running cell, at most five times a second."""

    def __init__(self, session: Session, scopes: Scopes, devices: Devices) -> None:
        self._session, self._scopes, self._devices = session, scopes, devices
        self._listeners: list[Listener] = []
        self._run: _Run | None = None
        self._closed = False
        # Readings and what is told of them come one after another: none follows the last one.
        self.lock = threading.RLock()

    def subscribe(self, callback: Listener) -> Callable[[], None]:
        """Calls `callback` with each reading, on another thread; returns the call that ends it.

        A cell that runs already is told of, too.
        """
        with self.lock:
            self._listeners.append(callback)
        cell = self._session.watcher.outermost
        if cell is not None:
            self.begin(cell)

        def end() -> None:
            with self.lock:
                if callback in self._listeners:
                    self._listeners.remove(callback)
                if not self._listeners:
                    self._stop()

        return end

    def begin(self, cell: RunningCell) -> None:
        """Begins to watch a cell, if anybody listens. Never raises."""
        if not self._listeners or self._closed:
            return
        with self._session.troubles.caught("watch the running cell", _unread()), self.lock:
            is_watched = self._run is not None and self._run.cell is cell
            if is_watched or self._session.watcher.outermost is not cell:
                return
            self._stop()
            run = self._run = _Run(cell, self._choose())
            run.thread = threading.Thread(target=self._watch, args=(run,), name=THREAD, daemon=True)
            run.thread.start()

    def end(self) -> None:
        """Tells listeners that the cell ended, if they were told of it. Never raises."""
        with self._session.troubles.caught("tell that the cell ended", _unread()), self.lock:
            run = self._run
            self._stop()
            if run is not None and run.told:
                self._tell(run, replace(self._read(run), running=False))

    def read(self) -> LiveReading | None:
        """Returns the counters of the cell that runs, of now; None between cells. Never raises."""
        reading: LiveReading | None = None
        cell = self._session.watcher.outermost
        if cell is not None:
            doing = "read the running cell's counters"
            with self._session.troubles.caught(doing, _unread()), self.lock:
                run = self._run
                if run is None or run.cell is not cell:
                    run = _Run(cell, self._choose())
                reading = self._read(run)
                run.told = True  # who asked is to hear of the end, however short the cell
        return reading

    def close(self) -> None:
        """Ends it: no thread is left."""
        self._closed = True
        with self.lock:
            run = self._run
            self._stop()
            self._listeners.clear()
        if run is not None and run.thread is not None and run.thread.ident != threading.get_ident():
            run.thread.join(timeout=5)

    def _stop(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.over.set()

    def _watch(self, run: _Run) -> None:
        pause = max(0.0, _began(run.cell) + FIRST - perf_counter())
        while not run.over.wait(pause):
            started = perf_counter()
            with self._session.troubles.caught("tell of the running cell", _unread()):
                self._tell_now(run)
            pause = max(PERIOD, SHARE * (perf_counter() - started))

    def _tell_now(self, run: _Run) -> None:
        with self.lock:
            if not run.over.is_set():
                run.told = True
                self._tell(run, self._read(run))

    def _tell(self, run: _Run, reading: LiveReading) -> None:
        for listener in self._listeners.copy():
            if reading.running and listener in run.deaf:
                continue
            notes = _unread()
            with self._session.troubles.caught("show the running cell", notes):
                listener(reading)
            if notes:
                run.deaf.append(listener)

    def _choose(self) -> list[DeviceReader]:
        """Returns what is measured by default; has its capacities found on the cell's thread."""
        wished = self._session.settings.device
        try:
            readers = self._devices.choose(None if wished == "auto" else wished)
        except UnknownDeviceError:
            readers = self._devices.choose(None)
        for reader in readers:
            reader.capacity()
        return [reader for reader in readers if reader.kind != "host"]

    def _read(self, run: _Run) -> LiveReading:
        cell, look = run.cell, self._look(run)
        measured = cell.opened is not None and cell.opened.scope is not None
        return LiveReading(
            number=cell.number,
            cell_id=cell.cell_id,
            title=cell.title,
            seconds=perf_counter() - _began(cell),
            device="" if look is None else look.device,
            allocated=None if look is None else look.allocated,
            peak=None if look is None else look.peak,
            capacity=None if look is None else look.capacity,
            taken_at=time(),
            note=_note(look, measured=measured),
        )

    def _look(self, run: _Run) -> Glance | None:
        """Returns the main device's figures; a failure is noted once a cell."""
        opened, notes = run.cell.opened, _unread()
        found: list[Glance] = []
        doing = "read the running cell's counters"
        with suppress(Exception) if run.broken else self._session.troubles.caught(doing, notes):
            scope = None if opened is None else opened.scope
            found = self._scopes.glance(run.readers) if scope is None else scope.glance()
        run.broken = run.broken or bool(notes)
        return main_glance(found)


def main_glance(looks: Sequence[Glance]) -> Glance | None:
    """Returns the device to tell of: an accelerator in use, else the cpu, else any."""
    in_use = [look for look in looks if look.kind == "accelerator" and look.allocated]
    cpu = [look for look in looks if look.kind == "cpu"]
    return next(iter([*in_use, *cpu, *looks]), None)


def _began(cell: RunningCell) -> float:
    """Returns when the user's code began; what a measured cell needs before is not its own."""
    return cell.started if cell.opened is None else cell.opened.started


def _note(look: Glance | None, *, measured: bool) -> str:
    if look is None:
        return "its counters cannot be read"
    if look.allocated is None:
        return f"torch does not tell what {look.device} holds" if measured else NOT_MEASURED
    if look.peak is None:
        return f"torch keeps no peak on {look.device}" if measured else f"peak {NOT_MEASURED}"
    return ""


def _unread() -> list[Note]:
    """Returns a list for notes that no record carries: `%gpumem errors` has them."""
    return []
