"""One sidebar a session: the panel it docks, and what pages are told and may ask.

A page's messages may come on a thread beside the running cell (JupyterLab's subshells). There
nbmem only reads and answers; what builds or acts goes to the main thread, between cells:

    page opens ── hello (badges, live figures) ── main thread free: panel built ── `panel`
    cell runs ── `live` …      record or act ── panel drawn ── `state`, `marks`
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbmem.frontend import messages
from nbmem.frontend.channel import Channel
from nbmem.frontend.main_thread import MainThread
from nbmem.frontend.marks import Marks, costliest_of
from nbmem.frontend.reading import BadMessageError, read_message, read_opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbmem.frontend.channel import Page
    from nbmem.panel import Panel
    from nbmem.panel.redraw import Throttle
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import CellRecord, LiveReading, Note
    from nbmem.session import Session
    from nbmem.units import Units

    Message = dict[str, Any]

LARGEST_COPY = 60_000
"""Bytes of the copy that a page keeps for when the kernel is gone."""


class Sidebar:
    """Speaks for one session to the pages of its kernel. Nothing here raises into a cell.

    Args:
        session: whose figures are told.
        kernel: has the comm manager.
    """

    def __init__(self, session: Session, kernel: Any) -> None:
        self.session = session
        self._main = MainThread(kernel)
        # What a page is told first and what it hears later must not overtake each other.
        self._lock = threading.RLock()
        self._panel: Panel | None = None
        self._trouble = ""
        self._wanted = False
        self._draws = False
        self._building = False
        self._plain: Throttle | None = None
        self._marks = Marks()
        self._state: Message | None = None
        self.closed = False
        self._ends = [session.subscribe(self._changed)]
        self._channel = Channel(kernel.comm_manager, self._opened, self._received)

    # What pages say.

    def _opened(self, page: Page, message: Message) -> None:
        with self._answering(page, "answer a page that came"):
            opening = read_opening(message)
            if opening.protocol != messages.PROTOCOL:
                page.send(messages.foreign_hello())
                return
            self._draws = self._draws or opening.widgets
            self._listen()
            with self._lock:
                page.send(self._hello())
            if not self._has_panel():
                self._main.soon(self._build if self._draws else self._look)

    def _listen(self) -> None:
        """From the first page on, pages are told of running cells."""
        with self._lock:
            first, self._wanted = not self._wanted, True
        if first:
            self._ends.append(self.session.sampler.subscribe(self._tell_live))

    def _hello(self) -> Message:
        reading, units = self.session.sampler.read(), self.session.units
        panel = self._panel if self._has_panel() else None
        return messages.hello(
            model_id=None if panel is None else panel.widget.model_id,
            waits="" if panel is not None else self._waits(),
            marks=Marks().all(self.session.history.records(), units),
            state=self._state,
            live=None if reading is None else messages.live(reading, units),
        )

    def _waits(self) -> str:
        cell = self.session.watcher.running
        if cell is not None:
            return f"The panel comes when {cell} has ended."
        if not self._draws:
            return "This page draws no panel: `%gpumem` in a cell tells and does the same."
        return self._trouble or "The panel is being built."

    def _received(self, page: Page, message: Message) -> None:
        with self._answering(page, "do what the page asked for"):
            asked = read_message(message)
            panel = self._panel
            if asked.kind in ("refresh", "rebuild") and not self._has_panel():
                self._main.soon(self._build if self._draws else self._look)
            elif panel is None or not self._has_panel():
                page.send(messages.trouble(self._waits()))
            elif asked.kind == "collect":
                self._main.here(panel.collect)
            elif asked.kind == "refresh":
                self._main.soon(lambda: self._do(page, panel.refresh))
            elif asked.kind == "rebuild":
                self._main.soon(lambda: self._do(page, lambda: self._rebuild(page, panel)))
            elif asked.serial is not None:
                serial = asked.serial
                self._main.soon(lambda: self._do(page, lambda: self._show_cell(page, serial)))

    def _do(self, page: Page, act: Callable[[], None]) -> None:
        with self._answering(page, "do what the page asked for"):
            if not self.closed:
                act()

    def _rebuild(self, page: Page, broken: Panel) -> None:
        """Builds another panel, unless another page had that done meanwhile."""
        if self._panel is broken:
            broken.close()
            self._build()
        if not self._has_panel():
            page.send(messages.trouble(self._waits()))

    def _show_cell(self, page: Page, serial: int) -> None:
        if self._panel is not None and not self._panel.choose_cell(serial):
            gone = "This cell's record is not in the history any more."
            page.send(messages.trouble(gone))

    @contextmanager
    def _answering(self, page: Page, doing: str) -> Iterator[None]:
        """Whatever breaks inside is a sentence to the page."""
        notes: list[Note] = []
        sentence = ""
        try:
            with self.session.troubles.caught(doing, notes, but=BadMessageError):
                yield
        except BadMessageError as error:
            sentence = str(error)
        for told in (sentence, *(note.sentence for note in notes)):
            if told:
                with self.session.troubles.caught("answer a page", []):
                    page.send(messages.trouble(told))

    # The panel.

    def _has_panel(self) -> bool:
        """Returns whether there is one, and nobody has closed its widgets."""
        panel = self._panel
        comm = None if panel is None or panel.closed else panel.widget.comm
        return comm is not None and not getattr(comm, "_closed", False)

    def _build(self) -> None:
        """Builds the panel, unless a cell runs: then its end comes here again."""
        if self.closed or self._building or self._has_panel() or self.session.watcher.running:
            return
        self._building, self._trouble = True, ""
        notes: list[Note] = []
        with self.session.troubles.caught("build the panel", notes):
            self._make_panel()
        self._building = False
        if notes:
            self._trouble = notes[-1].sentence
            self._channel.broadcast(messages.panel(None, self._trouble))
        elif self._panel is not None and self._panel.snapshot is not None:
            self._drawn(self._panel.snapshot)

    def _look(self) -> None:
        """Tells of the present where no page draws widgets: their comms would be errors there."""
        if self._plain is None:
            from nbmem.panel.redraw import Throttle

            self._plain = Throttle(self._look_now)
        if not self.closed and not self.session.watcher.running:
            self._plain.ask()

    def _look_now(self) -> None:
        from nbmem.panel.snapshot import Wanted, take_snapshot

        with self.session.troubles.caught("tell the pages of the present", []):
            inventory = self.session.take_inventory()
            self._tell_present(take_snapshot(self.session, inventory, None, Wanted()))

    def _make_panel(self) -> None:
        from nbmem.panel import Panel, kind_for

        old = self._panel
        if old is not None:
            old.close()
        kind = kind_for(self.session.settings.panel)
        made = Panel(self.session, kind=kind, live=False, on_drawn=self._drawn)
        with self._lock:
            self._panel = made
            self._channel.broadcast(messages.panel(made.widget.model_id))

    def _changed(self) -> None:
        if self.session.closed:
            self.close()
        elif self._wanted and not self._has_panel():
            self._main.soon(self._build if self._draws else self._look)
        elif self._wanted:  # at once: with Run All the panel is drawn after the last cell
            with self.session.troubles.caught("tell the pages of badges", []):
                self._tell_marks(self.session.history.records(), self.session.units)

    # What pages are told.

    def _tell_live(self, reading: LiveReading) -> None:
        self._channel.broadcast(messages.live(reading, self.session.units))

    def _drawn(self, snapshot: Snapshot) -> None:
        """Tells of the present as the panel has just shown it."""
        if not self._building:
            with self.session.troubles.caught("tell the pages of the present", []):
                self._tell_present(snapshot)

    def _tell_present(self, snapshot: Snapshot) -> None:
        state = _state_of(snapshot)
        with self._lock:
            if state is not None and not _is_same(state, self._state):
                self._state = state
                self._channel.broadcast(state)
        self._tell_marks(snapshot.records, snapshot.units)

    def _tell_marks(self, records: Sequence[CellRecord], units: Units) -> None:
        with self._lock:
            changed, whole = self._marks.changes(records, units)
            if changed or whole:
                self._channel.broadcast(messages.marks(changed, whole=whole))

    def close(self) -> None:
        """Says goodbye; nothing is listened to any more, and the panel closes."""
        if self.closed:
            return
        self.closed = True
        for end in self._ends:
            end()
        if self._plain is not None:
            self._plain.close()
        notes: list[Note] = []
        with self.session.troubles.caught("take leave of the pages", notes):
            self._channel.close(messages.bye())
        with self.session.troubles.caught("close the panel", notes):
            if self._panel is not None:
                self._panel.close()
        self._panel = None


def _state_of(snapshot: Snapshot) -> Message | None:
    """Returns the present as the panel shows it; None where no device could be read."""
    from nbmem.panel.header import main_device

    main = main_device(snapshot.readings)
    reading = next((each for each in snapshot.readings if each.device == main), None)
    if reading is None:
        return None
    return messages.state(
        reading,
        snapshot.units,
        costliest=costliest_of(snapshot.records),
        is_empty=not snapshot.records,
        copy=copy_of(snapshot),
        taken_at=time.time(),
    )


def copy_of(snapshot: Snapshot) -> str:
    """Returns the panel as HTML, without what is largest where all of it would be too large."""
    from nbmem.panel.static import copy_html

    shorter = replace(snapshot, ledger=None, leaks=None)
    least = replace(shorter, inventory=None)
    for facts in (snapshot, shorter, least):
        copy = copy_html(facts, narrow=True)
        if len(copy.encode("utf-8", "replace")) <= LARGEST_COPY:
            return copy
    return copy_html(None)


def _is_same(state: Message, told: Message | None) -> bool:
    return told is not None and {**state, "taken_at": 0} == {**told, "taken_at": 0}
