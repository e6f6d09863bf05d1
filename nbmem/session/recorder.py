"""From an open scope to a `CellRecord`: the one place that puts a record together."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nbmem.origins import Origin, Origins
from nbmem.records import CellRecord, DeviceDelta, Inventory, Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.scopes import Scope, ScopeResult, Scopes
    from nbmem.session.troubles import Troubles


@dataclass(frozen=True, slots=True)
class Heading:
    """What a record says of the cell before anything was measured."""

    first_line: str
    label: str | None = None
    execution_count: int | None = None
    cell_id: str | None = None
    run: int = 1
    parent: int | None = None


@dataclass(slots=True)
class OpenRecord:
    """A cell or block that is being measured."""

    serial: int
    heading: Heading
    scan: bool
    started_at: float
    started: float
    scope: Scope | None = None
    notes: list[Note] = field(default_factory=list)


class Recorder:
    """Opens scopes, closes them, and makes records of what they saw. Never raises."""

    def __init__(
        self,
        scopes: Scopes,
        take_inventory: Callable[[], Inventory],
        origins: Origins,
        troubles: Troubles,
        first_serial: int = 1,
    ) -> None:
        self._scopes = scopes
        self._take_inventory = take_inventory
        self._origins = origins
        self._troubles = troubles
        self._serials = itertools.count(first_serial)

    def open(
        self, heading: Heading, device: str | None, *, scan: bool, serial: int | None = None
    ) -> OpenRecord:
        """Returns a record whose scope is open; the clock starts when all else is ready."""
        if serial is None:
            serial = next(self._serials)
        opened = OpenRecord(serial, heading, scan, time.time(), time.perf_counter())
        with self._troubles.caught("start measuring", opened.notes):
            opened.scope = self._scopes.open(device, scan=scan)
        opened.started = time.perf_counter()
        return opened

    def close(self, opened: OpenRecord, status: str = "ok", error: str | None = None) -> CellRecord:
        """Returns the record; `status` and `error` say how the user's code ended."""
        seconds = time.perf_counter() - opened.started
        notes = opened.notes
        inventory, outcome = self._read(opened)
        created = self._created(opened, inventory, outcome)
        head = opened.heading
        return CellRecord(
            serial=opened.serial,
            execution_count=head.execution_count,
            cell_id=head.cell_id,
            label=head.label,
            first_line=head.first_line,
            run=head.run,
            started_at=opened.started_at,
            seconds=seconds,
            status=status,
            error=error,
            devices=_closed_sums(outcome, created) if inventory else _deltas(outcome),
            created=created,
            freed=dict(outcome.freed) if outcome else {},
            resized=dict(outcome.resized) if outcome else {},
            parent=head.parent,
            notes=_unique([*notes, *(outcome.notes if outcome else ()), *_of(inventory)]),
        )

    def _read(self, opened: OpenRecord) -> tuple[Inventory | None, ScopeResult | None]:
        scope, caught = opened.scope, self._troubles.caught
        inventory, outcome = None, None
        if scope is None:
            return None, None
        with caught("read the peak", opened.notes):
            scope.stop()
        if opened.scan:
            with caught("list what the cell left", opened.notes):
                inventory = self._take_inventory()
        with caught("read the counters", opened.notes):
            outcome = scope.close()
        return inventory, outcome

    def _created(
        self, opened: OpenRecord, inventory: Inventory | None, outcome: ScopeResult | None
    ) -> tuple[StorageRecord, ...]:
        if inventory is None or outcome is None:
            return ()
        first, end = outcome.first_serial, outcome.end_serial
        head, serial = opened.heading, opened.serial
        measured = outcome.deltas
        mine = [s for s in inventory.storages if first <= s.key < end and s.device in measured]
        self._origins.enter((s.key for s in mine), Origin(serial, head.execution_count, head.run))
        return tuple(
            s
            if s.created_in is not None
            else replace(s, created_by=head.execution_count, created_in=serial)
            for s in mine
        )


def _deltas(outcome: ScopeResult | None) -> dict[str, DeviceDelta]:
    return dict(outcome.deltas) if outcome else {}


def _closed_sums(
    outcome: ScopeResult | None, created: tuple[StorageRecord, ...]
) -> dict[str, DeviceDelta]:
    """Fills in what each device's counter moved by beyond the storages."""
    deltas = _deltas(outcome)
    if outcome is None:
        return deltas
    made = dict.fromkeys(deltas, 0)
    for storage in created:
        made[storage.device] += storage.bytes
    return {
        device: replace(delta, unattributed=_rest(delta, made[device], outcome))
        for device, delta in deltas.items()
    }


def _rest(delta: DeviceDelta, made: int, outcome: ScopeResult) -> int | None:
    if delta.device == "host" or delta.delta is None:
        return None
    freed, resized = outcome.freed.get(delta.device, 0), outcome.resized.get(delta.device, 0)
    return delta.delta - (made - freed + resized)


def _of(inventory: Inventory | None) -> tuple[Note, ...]:
    return inventory.notes if inventory else ()


def _unique(notes: list[Note]) -> tuple[Note, ...]:
    return tuple(dict.fromkeys(notes))
