"""`with nbmem.measure(…)`: a measured block of a cell or a script, and many runs told as one."""

from __future__ import annotations

import functools
import linecache
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from nbmem.errors import ScopeError
from nbmem.records import CellRecord, DeviceDelta, Note, StepSummary
from nbmem.session.endings import Ending, failure_of
from nbmem.session.recorder import Heading, OpenRecord
from nbmem.tracking import Place

if TYPE_CHECKING:
    from nbmem.session.core import Session

Params = ParamSpec("Params")
Result = TypeVar("Result")

_SCAN_SHARE = 0.05
"""Share of a loop's time that scans of the heap at its blocks' starts may take."""

_TRIES = 3
"""How often the end of a block is begun again after interrupts: each time it goes on."""

AGGREGATED = Note(
    field="created",
    code="aggregated",
    sentence="What stayed is listed for a block that runs once, not for many runs",
)


@dataclass(frozen=True, slots=True)
class _Site:
    """One `with` statement under one parent: its runs make one record."""

    parent: int | None
    code: CodeType
    lineno: int
    label: str | None


@dataclass(slots=True)
class _Runs:
    """What is known of the runs of one site so far."""

    serial: int | None = None
    record: CellRecord | None = None
    started: float = field(default_factory=time.perf_counter)
    scanning: float = 0.0


class Block:
    """A measured block; `record` is its `CellRecord` once it ended."""

    def __init__(
        self, session: Session, site: _Site, device: str | None, place: Place, *, scan: bool
    ) -> None:
        self._session, self._site, self._device, self._scan = session, site, device, scan
        self._place = place
        self._opened: OpenRecord | None = None
        self._record: CellRecord | None = None

    def __enter__(self) -> Block:
        troubles, blocks = self._session.troubles, self._session.blocks
        try:
            blocks.open(self._site, self._device, self._place, scan=self._scan, hold=self._hold)
        except KeyboardInterrupt:
            troubles.interrupt()
        if troubles.interrupted:
            opened, self._opened = self._opened, None
            blocks.abandon(opened)
        troubles.pass_on()
        return self

    def _hold(self, opened: OpenRecord) -> None:
        self._opened = opened

    def __call__(self, function: Callable[Params, Result]) -> Callable[Params, Result]:
        """Returns `function` with each of its calls measured: `@nbmem.measure("step")`."""
        place = Place(code=function.__code__) if type(function) is FunctionType else self._place

        @functools.wraps(function)
        def measured(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            with self._session.blocks.again(self._site, self._device, place, scan=self._scan):
                return function(*args, **kwargs)

        return measured

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        troubles = self._session.troubles
        for _ in range(_TRIES):
            try:
                self._close(kind, error)
                break
            except KeyboardInterrupt:
                troubles.interrupt()
        if troubles.interrupted:
            self._session.mend()
        troubles.pass_on()

    def _close(self, kind: type[BaseException] | None, error: BaseException | None) -> None:
        opened = self._opened
        if opened is not None:
            ending = Ending("ok") if kind is None else failure_of(kind, error)
            self._record = self._session.blocks.close(self._site, opened, ending)
            self._opened = None

    @property
    def record(self) -> CellRecord:
        """The record of this block; in a loop, of all its runs up to this one.

        Raises:
            ScopeError: the block has not ended yet.
        """
        if self._record is None:
            raise ScopeError("this block has not ended: read `.record` after the `with` statement")
        return self._record


class Blocks:
    """Every `measure` site of the session, and which block is innermost."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._sites: dict[_Site, _Runs] = {}
        self._open: list[OpenRecord] = []

    @property
    def innermost(self) -> OpenRecord | None:
        """The block opened last that is still open."""
        return self._open[-1] if self._open else None

    def at(
        self, code: CodeType, lineno: int, label: str | None, device: str | None, *, scan: bool
    ) -> Block:
        """Returns a block for the `with` statement at one line, ready to be entered."""
        site = _Site(None, code, lineno, label)
        return self.again(site, device, Place(code=code), scan=scan)

    def again(self, site: _Site, device: str | None, place: Place, *, scan: bool) -> Block:
        """Returns a block at a site, under whatever is being measured now."""
        outer = self.innermost or self._session.watcher.innermost
        site = replace(site, parent=outer.serial if outer else None)
        return Block(self._session, site, device, place, scan=scan)

    def open(
        self,
        site: _Site,
        device: str | None,
        place: Place,
        *,
        scan: bool,
        hold: Callable[[OpenRecord], None],
    ) -> None:
        """Opens a run; from the second one on, a scan is made only where time allows.

        Args:
            site: the `with` statement.
            device: see `Scopes.open`; None takes what the settings say.
            place: where the block's lines are read.
            scan: list what is alive at the start and the end.
            hold: takes the record before anything is measured, so that `abandon` can follow.
        """
        if device is None and self._session.settings.device != "auto":
            device = self._session.settings.device
        runs = self._sites.setdefault(site, _Runs())
        again = runs.record is not None or any(o.serial == runs.serial for o in self._open)

        def enter(opened: OpenRecord) -> None:
            hold(opened)
            opened.scan = opened.scan and not again
            self._open.append(opened)
            runs.serial = opened.serial

        scan = scan and not (again and _too_often(runs))
        started = time.perf_counter()
        heading = self._heading(site, place)
        self._session.recorder.open(heading, device, scan=scan, serial=runs.serial, hold=enter)
        runs.scanning += time.perf_counter() - started

    def abandon(self, opened: OpenRecord | None) -> None:
        """Takes back what an interrupted `open` began; such a run is in no record."""
        self._session.mend()
        if opened is None:
            return
        self._session.recorder.abandon(opened)
        if opened in self._open:
            self._open.remove(opened)

    def close(self, site: _Site, opened: OpenRecord, ending: Ending) -> CellRecord:
        """Ends a run and folds it into the site's record."""
        runs = self._sites.setdefault(site, _Runs(serial=opened.serial))
        if not opened.folded:
            record = self._session.recorder.close(opened, ending)
            if record.status == "ok" and self._session.troubles.interrupted:
                record = replace(record, status="interrupted", error="KeyboardInterrupt")
            total = record if runs.record is None else _fold(runs.record, record)
            runs.record, opened.folded = total, True
        if opened in self._open:
            self._open.remove(opened)
        assert runs.record is not None
        self._session.keep(runs.record)
        return runs.record

    def forget(self, parent: int) -> None:
        """Drops the sites of a cell that ended: its next run makes new records."""
        self._sites = {site: runs for site, runs in self._sites.items() if site.parent != parent}

    def close_all(self, note: Note) -> None:
        """Ends every open block early."""
        for opened in reversed(self._open):
            opened.notes.append(note)
            self._session.keep(self._session.recorder.close(opened))
        self._open.clear()

    def _heading(self, site: _Site, place: Place) -> Heading:
        line = linecache.getline(site.code.co_filename, site.lineno).strip()
        cell = self._session.watcher.innermost
        return Heading(
            first_line=line,
            label=site.label,
            execution_count=cell.heading.execution_count if cell else None,
            cell_id=cell.heading.cell_id if cell else None,
            parent=site.parent,
            runs=cell.heading.runs if cell else (),
            place=None if cell else place,
        )


def _too_often(runs: _Runs) -> bool:
    return runs.scanning > _SCAN_SHARE * (time.perf_counter() - runs.started)


def _fold(total: CellRecord, run: CellRecord) -> CellRecord:
    """Returns the record of all runs: first start, last end, highest peak, sums."""
    steps = _add(total.steps or _first(total), run)
    devices = {
        device: _span(total.devices.get(device), delta) for device, delta in run.devices.items()
    }
    return replace(
        total,
        seconds=steps.seconds,
        status=run.status,
        error=run.error,
        oom=run.oom,
        devices={**total.devices, **devices},
        created=(),
        alive={},
        freed=_sum(total.freed, run.freed),
        resized=_sum(total.resized, run.resized),
        steps=steps,
        look_seconds=(total.look_seconds or 0.0) + (run.look_seconds or 0.0),
        notes=tuple(dict.fromkeys([*total.notes, *run.notes, AGGREGATED])),
    )


def _first(record: CellRecord) -> StepSummary:
    return _add(StepSummary(0, 0.0, {}, {}, {}), record)


def _add(steps: StepSummary, run: CellRecord) -> StepSummary:
    rise, largest, growth = dict(steps.largest_rise), dict(steps.largest_delta), dict(steps.growth)
    for device, delta in run.devices.items():
        if delta.peak is not None and delta.before is not None:
            rise[device] = max(rise.get(device, 0), delta.peak - delta.before)
        if delta.delta is not None:
            largest[device] = max(largest.get(device, delta.delta), delta.delta)
            growth[device] = growth.get(device, 0) + delta.delta
    return StepSummary(steps.count + 1, steps.seconds + run.seconds, rise, largest, growth)


def _span(first: DeviceDelta | None, last: DeviceDelta) -> DeviceDelta:
    if first is None:
        return last
    return replace(
        last,
        before=first.before,
        delta=_difference(last.after, first.before),
        peak=max((p for p in (first.peak, last.peak) if p is not None), default=None),
        reserved_before=first.reserved_before,
        unattributed=None,
        notes=tuple(dict.fromkeys([*first.notes, *last.notes])),
    )


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def _sum(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}
