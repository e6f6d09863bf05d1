"""From an open scope to a `CellRecord`: the one place that puts a record together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, time
from typing import TYPE_CHECKING

from nbmem.inventory.sharing import SHARED, recount
from nbmem.origins import CellRun, Origin, Origins
from nbmem.records import (
    CATEGORIES,
    CellRecord,
    DeviceDelta,
    Inventory,
    Note,
    RunTrend,
    StorageRecord,
)
from nbmem.session.endings import Ending
from nbmem.session.reruns import Rerun, RunBook, made_as

if TYPE_CHECKING:
    from nbmem.scopes import Scope, ScopeResult, Scopes
    from nbmem.session.troubles import Troubles
    from nbmem.tracking import AllocationLines, Place

_WELL = Ending("ok")
_TRIES = 3
"""How often what must be done is begun again after interrupts."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What a record says of the cell before anything was measured."""

    first_line: str
    label: str | None = None
    execution_count: int | None = None
    cell_id: str | None = None
    parent: int | None = None
    runs: tuple[CellRun, ...] = ()
    """Of this cell, then of those around it."""
    own_run: CellRun | None = None
    """The first of `runs` where this is a cell, None for a block."""
    place: Place | None = None
    """Where its lines are read; None where those of an outer record are."""
    source: str = ""

    @property
    def run(self) -> int:
        """This is the n-th run of the cell; a block is always at its first."""
        return 1 if self.own_run is None else self.own_run.run


@dataclass(slots=True, eq=False)
class OpenRecord:
    """A cell or block that is being measured."""

    serial: int
    heading: Heading
    scan: bool
    started_at: float
    started: float
    scope: Scope | None = None
    notes: list[Note] = field(default_factory=list)
    origins: dict[tuple[str, int | None, bool], Origin] = field(default_factory=dict)
    """By name pattern, line, and whether it was seen being made: those that are alike share one."""
    looked: float = 0.0
    """Seconds that nbmem took before the user's code began."""
    ended: float | None = None
    """When the user's code ended; None until then."""
    folded: bool = False
    """The run of a block is part of its record."""


class Recorder:
    """Opens scopes, closes them, and makes records of what they saw. Raises interrupts only."""

    def __init__(
        self,
        scopes: Scopes,
        take_inventory: Callable[[], Inventory],
        origins: Origins,
        troubles: Troubles,
        lines: AllocationLines,
        book: RunBook,
        first_serial: int = 1,
    ) -> None:
        self._scopes = scopes
        self._take_inventory = take_inventory
        self._origins = origins
        self._troubles = troubles
        self._lines = lines
        self._book = book
        self._serials = itertools.count(first_serial)

    def open(
        self,
        heading: Heading,
        device: str | None,
        *,
        scan: bool,
        serial: int | None = None,
        hold: Callable[[OpenRecord], None] | None = None,
        since: float | None = None,
    ) -> OpenRecord:
        """Returns a record whose scope is open; the clock starts when all else is ready.

        Args:
            heading: what is known before.
            device: see `Scopes.open`.
            scan: list what is alive at the start and the end.
            serial: of the record; None takes the next one.
            hold: takes the record before anything is measured, so that `abandon` can follow.
            since: when nbmem began to look; None: now.
        """
        begun = perf_counter() if since is None else since
        if serial is None:
            serial = next(self._serials)
        opened = OpenRecord(serial, heading, scan, time(), perf_counter())
        if hold is not None:
            hold(opened)
        with self._troubles.caught("start measuring", opened.notes):
            self._scopes.open(device, scan=scan, hold=lambda scope: _hold(opened, scope))
            if heading.place is not None:
                self._lines.follow(heading.place)
        opened.started = perf_counter()
        opened.looked = opened.started - begun
        return opened

    def abandon(self, opened: OpenRecord) -> None:
        """Takes back what `open` began, wherever an interrupt ended it; nothing is measured."""
        if opened.scope is not None:
            opened.scope.abandon()
            opened.scope = None
        if opened.heading.place is not None:
            self._lines.leave(opened.heading.place)

    def close(self, opened: OpenRecord, ending: Ending = _WELL) -> CellRecord:
        """Returns the record; `ending` says how the user's code ended.

        After an interrupt it can be called again: what was not read until then is left out.
        """
        if opened.ended is None:
            opened.ended = perf_counter()
        notes = opened.notes
        notes.extend(ending.notes)
        inventory, outcome = self._read(opened)
        head, trend = opened.heading, None
        created, deltas = tuple[StorageRecord, ...](), _deltas(outcome)
        with self._troubles.caught("say what the cell made", notes):
            created = self._created(opened, inventory, outcome)
            deltas = _closed_sums(outcome, created) if inventory else deltas
        with self._troubles.caught("compare with earlier runs", notes):
            trend = self._trend(head, inventory, outcome)
        if head.place is not None:
            self._lines.leave(head.place)
        return CellRecord(
            serial=opened.serial,
            execution_count=head.execution_count,
            cell_id=head.cell_id,
            label=head.label,
            first_line=head.first_line,
            run=head.run,
            started_at=opened.started_at,
            seconds=opened.ended - opened.started,
            status=ending.status,
            error=ending.error,
            devices=deltas,
            created=created,
            freed=dict(outcome.freed) if outcome else {},
            resized=dict(outcome.resized) if outcome else {},
            parent=head.parent,
            notes=_unique([*notes, *(outcome.notes if outcome else ()), *_of(inventory)]),
            trend=trend,
            alive=alive_by_category(inventory.storages) if inventory else {},
            oom=ending.oom,
            look_seconds=opened.looked + perf_counter() - opened.ended,
        )

    def _read(self, opened: OpenRecord) -> tuple[Inventory | None, ScopeResult | None]:
        scope, caught = opened.scope, self._troubles.caught
        inventory, outcome = None, None
        if scope is None:
            return None, None
        with caught("read the peak", opened.notes):
            scope.stop()
        if opened.scan and not self._troubles.interrupted:
            with caught("list what the cell left", opened.notes):
                inventory = self._take_inventory()
        for _ in range(_TRIES):
            with caught("read the counters", opened.notes):
                outcome = scope.close()
            if not self._troubles.interrupted:
                break
        return inventory, outcome

    def _created(
        self, opened: OpenRecord, inventory: Inventory | None, outcome: ScopeResult | None
    ) -> tuple[StorageRecord, ...]:
        if inventory is None or outcome is None:
            return ()
        first, end = outcome.first_serial, outcome.end_serial
        mine = [storage for storage in inventory.storages if first <= storage.key < end]
        if outcome.groups:
            alive = {storage.key: storage for storage in inventory.storages}
            mine = recount(mine, alive, outcome.groups, first)
        followed = "cpu" in outcome.deltas
        return tuple(
            self._made_here(s, opened, in_order=followed and s.device == "cpu")
            if s.created_in is None
            else s
            for s in mine
        )

    def _made_here(
        self, storage: StorageRecord, opened: OpenRecord, *, in_order: bool
    ) -> StorageRecord:
        """Returns the storage with this record as its origin, and notes that."""
        head = opened.heading
        line = self._lines.find(storage.key) or storage.line
        key = made_as(storage), line, in_order
        origin = opened.origins.get(key)
        if origin is None:
            origin = Origin(opened.serial, head.execution_count, *key[:2], head.runs, in_order)
            opened.origins[key] = origin
        self._origins.enter((storage.key,), origin)
        return replace(
            storage, created_by=head.execution_count, created_in=opened.serial, line=line
        )

    def _trend(
        self, head: Heading, inventory: Inventory | None, outcome: ScopeResult | None
    ) -> RunTrend | None:
        if head.own_run is None or inventory is None or outcome is None:
            return None
        devices = _with_storages(outcome.deltas, self._scopes.table.devices())
        rerun = Rerun(head.own_run, devices, head.source.splitlines())
        rerun.take(inventory.storages, self._origins)
        return rerun.tell(self._book)


def alive_by_category(storages: Iterable[StorageRecord]) -> dict[str, dict[str, int]]:
    """Returns bytes per device and category, in the order of `CATEGORIES`."""
    sums: dict[str, dict[str, int]] = {}
    for storage in storages:
        of_device = sums.get(storage.device)
        if of_device is None:
            of_device = sums[storage.device] = dict.fromkeys(CATEGORIES, 0)
        of_device[storage.category] += storage.bytes
    return {
        device: {category: size for category, size in of_device.items() if size}
        for device, of_device in sums.items()
    }


def _with_storages(measured: Iterable[str], seen: Sequence[str]) -> list[str]:
    """Returns the devices on which storages were seen, whether measured or not, and the CPU."""
    known = [device for device in measured if device == "cpu" or device in seen]
    return list(dict.fromkeys([*known, *seen]))


def _hold(opened: OpenRecord, scope: Scope) -> None:
    opened.scope = scope


def _deltas(outcome: ScopeResult | None) -> dict[str, DeviceDelta]:
    return dict(outcome.deltas) if outcome else {}


def _closed_sums(
    outcome: ScopeResult | None, created: tuple[StorageRecord, ...]
) -> dict[str, DeviceDelta]:
    """Fills in what each device's counter moved by beyond the storages."""
    deltas = _deltas(outcome)
    if outcome is None:
        return deltas
    made: dict[str, int] = {}
    for storage in created:
        made[storage.device] = made.get(storage.device, 0) + storage.bytes
    return {
        device: replace(delta, unattributed=_rest(delta, made.get(device, 0), outcome))
        for device, delta in deltas.items()
    }


def _rest(delta: DeviceDelta, made: int, outcome: ScopeResult) -> int | None:
    if delta.device == "host" or delta.delta is None:
        return None
    freed, resized = outcome.freed.get(delta.device, 0), outcome.resized.get(delta.device, 0)
    return delta.delta - (made - freed + resized)


def _of(inventory: Inventory | None) -> tuple[Note, ...]:
    """Each storage that was made says itself with whom it shares memory."""
    notes = inventory.notes if inventory else ()
    return tuple(note for note in notes if note.code != SHARED)


def _unique(notes: list[Note]) -> tuple[Note, ...]:
    return tuple(dict.fromkeys(notes))
