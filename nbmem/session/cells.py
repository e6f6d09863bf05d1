"""IPython's cell events: which cells are recorded, and how each one ended."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbmem.records import Note
from nbmem.session.cell_code import lines_above, place_of_cell, transformed
from nbmem.session.endings import Ending, ending_of, error_of
from nbmem.session.previous import free_previous, release_oom
from nbmem.session.recorder import Heading, OpenRecord
from nbmem.session.request import CellRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.session.core import Session
    from nbmem.tracking import Place

_FIRST_LINE_LIMIT = 200


@dataclass(slots=True)
class RunningCell:
    """One `pre_run_cell` that has not seen its `post_run_cell`; unrecorded ones count too."""

    info: Any
    number: int | None = None
    """The n of its `[n]`; None where it is not stored."""
    request: CellRequest | None = None
    opened: OpenRecord | None = None
    started: float = field(default_factory=time.perf_counter)

    @property
    def cell_id(self) -> str | None:
        """The front end's id of the cell; None where it sends none."""
        found: str | None = getattr(self.info, "cell_id", None)
        return found

    @property
    def title(self) -> str:
        """The label the user gave, else the first line of the cell."""
        label = None if self.request is None else self.request.label
        return label or _first_line(self.info.raw_cell)


class CellWatcher:
    """Between `pre_run_cell` and `post_run_cell`; nothing it does reaches the user's cell."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: list[RunningCell] = []
        self._listeners: list[Callable[[], None]] = []
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
        cell = RunningCell(info)
        self._running.append(cell)
        troubles: list[Note] = []
        with self._session.troubles.caught("say that a cell runs", troubles):
            cell.number = self._session.execution_count(info)
            if len(self._running) == 1:
                self._tell_listeners()
        with self._session.troubles.caught("read the cell", troubles):
            cell.request = self._request(info)
            if cell.request is not None:
                cell.opened = self._open(cell, troubles)
            else:
                self._follow_rest(info)
        if cell.opened is not None:
            cell.opened.notes.extend(troubles)
        if len(self._running) == 1:
            self._session.sampler.begin(cell)

    def _tell_listeners(self) -> None:
        for listener in self._listeners.copy():
            listener()

    def post_run_cell(self, result: Any) -> None:
        """Closes the record of the cell that ended, keeps it and shows it if asked."""
        notes: list[Note] = []
        with self._session.troubles.caught("end the cell", notes):
            self._end(result)
        self._session.say(notes)

    def _end(self, result: Any) -> None:
        cell = self._ended(result)
        if not self._running:
            self._session.sampler.end()
        ending = self._ending(cell, result)
        self._release(cell, result, ending)
        if cell is not None and not self._running and not _only_asks(cell.info.raw_cell):
            self.last_count = self.last_count if cell.number is None else cell.number
        if cell is not None and cell.opened is not None and cell.request is not None:
            record = self._session.recorder.close(cell.opened, ending)
            self._session.finish_cell(record, cell.request)
        if not self._running:
            self._session.tell_subscribers()

    def _ending(self, cell: RunningCell | None, result: Any) -> Ending:
        """Returns how a cell ended; its error is asked only where the answer is of use."""
        recorded = cell is not None and cell.opened is not None
        asked = recorded or self._session.settings.release_oom_traceback
        return ending_of(result) if asked else Ending("ok")

    def _release(self, cell: RunningCell | None, result: Any, ending: Ending) -> None:
        """Lets go of what ran out of memory in the cell, if the user wishes."""
        session, notes = self._session, list[Note]()
        error = None if result is None else error_of(result)
        if not session.settings.release_oom_traceback or ending.status != "oom" or error is None:
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

    def _open(self, cell: RunningCell, notes: list[Note]) -> OpenRecord:
        request, session = cell.request or CellRequest(), self._session
        outer, run = self.innermost, session.runs.begin(_identity(cell.info))
        shown = session.runs.swap_count(run, cell.number)
        if session.settings.free_previous_outputs and len(self._running) == 1:
            with session.troubles.caught("let go of what the run before left", notes):
                code = transformed(session.shell, cell.info)
                notes += free_previous(session, code, run, shown)
        place: Place | None = None
        with session.troubles.caught("find the lines of the cell", notes):
            place = self._place(cell.info)
        heading = Heading(
            first_line=_first_line(cell.info.raw_cell),
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
        return session.recorder.open(heading, None if device == "auto" else device, scan=scan)

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
        """Takes off the cell that `result` speaks of; None where its start was never seen."""
        if not self._running:
            return None
        if result is None:  # an await cell that Ctrl-C cancelled
            return self._running.pop()
        for index in range(len(self._running) - 1, -1, -1):
            if _same_cell(self._running[index].info, result.info):
                return self._take(index)
        return None

    def _take(self, index: int) -> RunningCell:
        """Takes off one cell, and closes what was left open inside it."""
        for inner in reversed(self._running[index + 1 :]):
            if inner.opened is not None:
                self._session.keep(
                    self._session.recorder.close(inner.opened, Ending("interrupted"))
                )
        cell = self._running[index]
        del self._running[index:]
        return cell


def _only_asks(raw_cell: str) -> bool:
    """Returns whether a cell does nothing but look through nbmem, which makes nothing older."""
    lines = [line.strip() for line in raw_cell.splitlines() if line.strip()]
    return all(line.startswith(("%gpumem", "%config NbMem", "#")) for line in lines)


def _identity(info: Any) -> str:
    cell_id: str | None = getattr(info, "cell_id", None)
    return cell_id or hashlib.sha256(info.raw_cell.encode("utf-8", "replace")).hexdigest()


def _same_cell(started: Any, ended: Any) -> bool:
    # IPython hands over another object when the runner itself raised; the text is then all there is
    return started is ended or started.raw_cell == ended.raw_cell


def _first_line(raw_cell: str) -> str:
    lines = [line.strip() for line in raw_cell.splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("%%")]
    return (code or lines or [""])[0][:_FIRST_LINE_LIMIT]
