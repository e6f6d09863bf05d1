"""IPython's cell events: which cells are recorded, and how each one ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nbmem.records import Note
from nbmem.session.cell_code import lines_above, place_of_cell, transformed
from nbmem.session.endings import Ending, ending_of, error_of
from nbmem.session.previous import free_previous, release_oom
from nbmem.session.recorder import Heading, OpenRecord
from nbmem.session.request import CellRequest
from nbmem.session.running_cell import (
    EndingCell,
    RunningCell,
    first_line,
    identity,
    only_asks,
    same_cell,
)
from nbmem.session.stops import Stops
from nbmem.session.troubles import INTERRUPTED, interrupted_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.records import CellRecord
    from nbmem.session.core import Session
    from nbmem.tracking import Place

_TRIES = 3
"""How often the end of a cell is begun again after interrupts: each time it goes on."""


class CellWatcher:
    """Between `pre_run_cell` and `post_run_cell`; nothing it does reaches the user's cell.

    But an interrupt does, which the user sent: what nbmem does then is dropped. It may come at any
    line, so each step can be done again.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: list[RunningCell] = []
        self._listeners: list[Callable[[], None]] = []
        self._stops = Stops()
        self._ending: EndingCell | None = None
        self.last_count: int | None = None
        """Execution count of the last cell that ran to its end and did more than ask nbmem."""

    @property
    def running(self) -> str | None:
        """The cell that runs, the outermost: `cell [9]`, `a cell`; None between cells."""
        running = self._running[:1]
        if not running:
            return None
        return "a cell" if running[0].number is None else f"cell [{running[0].number}]"

    @property
    def outermost(self) -> RunningCell | None:
        """The cell that runs and lies in no other; None between cells. Asked from any thread."""
        return next(iter(self._running.copy()), None)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when a cell begins that lies in no other; returns what ends it."""
        self._listeners.append(callback)

        def end() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return end

    def pre_run_cell(self, info: Any) -> None:
        """Opens a record where the cell asks for one or every cell is recorded."""
        troubles = self._session.troubles
        self._stops.disarm(self._session.shell)
        if not self._running:
            troubles.take_interrupt()  # of what was nobody's cell
        cell = RunningCell(info)
        self._running.append(cell)
        try:
            with self._stops.listening():
                self._begin(cell)
        except KeyboardInterrupt:
            troubles.interrupt()
        except Exception:
            cell.begun = True
            raise
        self._hand_on(cell)

    def confirm_start(self, info: Any) -> None:
        """Hands on an interrupt that came where `pre_run_cell` could not catch it."""
        if not (self._running and self._running[-1].info is info):
            self._running.append(RunningCell(info))
        cell = self._running[-1]
        if not cell.begun:
            self._session.troubles.interrupt()
            self._hand_on(cell)
        cell.confirmed = True

    def _begin(self, cell: RunningCell) -> None:
        notes: list[Note] = []
        troubles, info = self._session.troubles, cell.info
        if self._session.cell_line.take_interrupt():
            raise KeyboardInterrupt
        with troubles.caught("say that a cell runs", notes):
            cell.number = self._session.execution_count(info)
            if len(self._running) == 1:
                self._tell_listeners()
        with troubles.caught("read the cell", notes):
            cell.request = self._request(info)
            if cell.request is not None:
                self._open(cell, notes)
            else:
                self._follow_rest(info)
        if cell.opened is not None:
            cell.opened.notes.extend(notes)
        if len(self._running) == 1:
            self._session.sampler.begin(cell)

    def _hand_on(self, cell: RunningCell) -> None:
        """Lets the cell begin; one whose beginning was interrupted raises that and does nothing."""
        self._stops.give_back()
        troubles = self._session.troubles
        if troubles.interrupted:
            self._session.mend()
            if cell.opened is not None:
                self._session.recorder.abandon(cell.opened)
                cell.opened.notes.append(interrupted_note("start measuring"))
            self._stops.interrupt_next(self._session.shell)
            troubles.take_interrupt()
        cell.begun = True

    def _tell_listeners(self) -> None:
        for listener in self._listeners.copy():
            listener()

    def post_run_cell(self, result: Any) -> None:
        """Closes the record of the cell that ended, keeps it and shows it if asked."""
        self._ending = EndingCell(result)
        self._finish(self._ending)

    def confirm_end(self, result: Any) -> None:
        """Hands on an interrupt that came where `post_run_cell` did not catch it, or comes now."""
        try:
            ending = self._ending
            if ending is None or ending.result is not result:
                ending = self._ending = EndingCell(result)
            if not ending.over:
                self._session.troubles.interrupt()
                self._finish(ending)
            self._ending = None
        except KeyboardInterrupt:
            self._session.troubles.interrupt()
            self._pass_on(self._ending or EndingCell(result))
            self._ending = None

    def _finish(self, ending: EndingCell) -> None:
        troubles = self._session.troubles
        for _ in range(_TRIES):
            try:
                with self._stops.listening():
                    self._end_noting(ending)
                break
            except KeyboardInterrupt:
                troubles.interrupt()
            except Exception:
                ending.over = True
                raise
        self._stops.give_back()
        self._pass_on(ending)
        ending.over = True

    def _pass_on(self, ending: EndingCell) -> None:
        """Ends the cell as interrupted where an interrupt waits."""
        session, troubles = self._session, self._session.troubles
        if troubles.interrupted:
            session.mend()
            self._mark_interrupted(ending)
            self._stops.interrupt_ended(session.shell, ending.result)
            troubles.take_interrupt()

    def _end_noting(self, ending: EndingCell) -> None:
        with self._session.troubles.caught("end the cell", ending.notes):
            self._end(ending)
        if self._session.troubles.interrupted:
            self._end(ending)  # what is left of it is short
        notes, ending.notes = ending.notes, []
        self._session.say(note for note in notes if note.code != INTERRUPTED)

    def _end(self, ending: EndingCell) -> None:
        session, result = self._session, ending.result
        self._stops.disarm(session.shell)
        if not ending.found:
            ending.cell = self._ended(result)
            ending.found = True
        cell = ending.cell
        if cell is not None:
            if not cell.confirmed:
                session.troubles.interrupt()
            self._take_off(cell)
        if not self._running:
            session.sampler.end()
        how = ending.how = ending.how or self._how(cell, result)
        if not ending.released:
            ending.released = True
            self._release(cell, result, how)
        if cell is not None and not self._running and not only_asks(cell.info.raw_cell):
            self.last_count = self.last_count if cell.number is None else cell.number
        if cell is not None and cell.opened is not None and cell.request is not None:
            if ending.record is None:
                record = session.recorder.close(cell.opened, how)
                ending.record = self._with_interrupt(record)
            if not ending.kept:
                session.finish_cell(ending.record, cell.request)
                ending.kept = True
        if not self._running and not ending.told:
            ending.told = True
            session.tell_subscribers()

    def _with_interrupt(self, record: CellRecord) -> CellRecord:
        """Says in a record of a cell that ended well that nbmem's part of it was interrupted."""
        if not self._session.troubles.interrupted or record.status != "ok":
            return record
        return replace(record, status="interrupted", error="KeyboardInterrupt")

    def _mark_interrupted(self, ending: EndingCell) -> None:
        """Says the same of a record that was kept already, and what was dropped."""
        record = ending.record
        if record is not None:
            if all(note.code != INTERRUPTED for note in record.notes):
                note = interrupted_note("show the report")
                record = replace(record, notes=(*record.notes, note))
            self._session.keep(self._with_interrupt(record), tell=False)

    def _how(self, cell: RunningCell | None, result: Any) -> Ending:
        """Returns how a cell ended; its error is asked only where the answer is of use."""
        recorded = cell is not None and cell.opened is not None
        asked = recorded or self._session.settings.release_oom_traceback
        return ending_of(result) if asked else Ending("ok")

    def _release(self, cell: RunningCell | None, result: Any, how: Ending) -> None:
        """Lets go of what ran out of memory in the cell, if the user wishes."""
        session, notes = self._session, list[Note]()
        if session.troubles.interrupted:
            return
        error = None if result is None else error_of(result)
        if not session.settings.release_oom_traceback or how.status != "oom" or error is None:
            return
        with session.troubles.caught("let go of what ran out of memory", notes):
            notes.append(release_oom(session, error))
        if cell is not None and cell.opened is not None:
            cell.opened.notes.extend(notes)
        else:
            session.say(notes)

    def close_all(self, note: Note) -> None:
        """Ends every open record early, as `%unload_ext` in the middle of a cell does."""
        running, self._running = self._running, []
        for cell in reversed(running):
            if cell.opened is not None and cell.request is not None:
                cell.opened.notes.append(note)
                self._session.finish_cell(self._session.recorder.close(cell.opened), cell.request)

    @property
    def innermost(self) -> OpenRecord | None:
        """The record of the innermost cell that is being measured."""
        opened = (cell.opened for cell in reversed(self._running))
        return next((record for record in opened if record is not None), None)

    def _request(self, info: Any) -> CellRequest | None:
        asked = self._session.cell_line.find(info.raw_cell)
        if asked is not None and not self._is_same_request(info.raw_cell):
            return asked
        nested = len(self._running) > 1
        if self._session.recording and info.store_history and not info.silent and not nested:
            return CellRequest(quiet=True, scan=self._session.settings.scan)
        return None

    def _is_same_request(self, raw_cell: str) -> bool:
        """Whether a cell around this one asks already (`%%capture` runs a cell of its own)."""
        outer = (cell for cell in self._running[:-1] if cell.opened is not None)
        return any(str(cell.info.raw_cell).endswith(raw_cell) for cell in outer)

    def _open(self, cell: RunningCell, notes: list[Note]) -> None:
        request, session = cell.request or CellRequest(), self._session
        outer, run = self.innermost, session.runs.begin(identity(cell.info))
        shown = session.runs.swap_count(run, cell.number)
        if session.settings.free_previous_outputs and len(self._running) == 1:
            with session.troubles.caught("let go of what the run before left", notes):
                code = transformed(session.shell, cell.info)
                notes += free_previous(session, code, run, shown)
        place: Place | None = None
        with session.troubles.caught("find the lines of the cell", notes):
            place = self._place(cell.info)
        heading = Heading(
            first_line=first_line(cell.info.raw_cell),
            label=request.label,
            execution_count=cell.number,
            cell_id=cell.cell_id,
            parent=outer.serial if outer else None,
            runs=(run, *outer.heading.runs) if outer else (run,),
            own_run=run,
            place=place,
            source=cell.info.raw_cell,
        )
        scan = request.scan and session.settings.scan
        device = request.device or session.settings.device

        def hold(opened: OpenRecord) -> None:
            cell.opened = opened

        if session.troubles.interrupted:
            scan = False
        where = None if device == "auto" else device
        session.recorder.open(heading, where, scan=scan, hold=hold, since=cell.started)

    def _place(self, info: Any) -> Place | None:
        """Returns where the lines of the cell are read that is about to run."""
        shell = self._session.shell
        if shell is None:
            return None
        outer = (lines_above(cell.info.raw_cell, info.raw_cell) for cell in self._running[:-1])
        above = next((lines for lines in outer if lines is not None), 0)
        return place_of_cell(shell, info, self._session.execution_count(info), above)

    def _follow_rest(self, info: Any) -> None:
        """Takes the rest of a cell, which a magic above it runs, for that cell (`%%capture`)."""
        outer = self.innermost
        if outer is None or outer.heading.place is None:
            return
        if lines_above(outer.heading.source, info.raw_cell) is not None:
            rest = self._place(info)
            outer.heading.place.files.update(rest.files if rest else {})

    def _ended(self, result: Any) -> RunningCell | None:
        """Returns the cell that `result` speaks of; None where its start was never seen."""
        if not self._running:
            return None
        if result is None:  # an await cell that Ctrl-C cancelled
            return self._running[-1]
        started = (cell for cell in reversed(self._running) if same_cell(cell.info, result.info))
        return next(started, None)

    def _take_off(self, cell: RunningCell) -> None:
        """Takes off one cell, and closes what was left open inside it."""
        while cell in self._running:
            inner = self._running[-1]
            if inner is not cell and inner.opened is not None:
                stopped = Ending("interrupted")
                self._session.keep(self._session.recorder.close(inner.opened, stopped))
            self._running.pop()
