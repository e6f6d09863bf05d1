"""Scopes: opened, nested, stopped and closed in any order, or abandoned.

    open ── user's code ── stop ── (the session takes an inventory) ── close
     │                      │                                           │
     before, windows open   after and peak of GPUs and host             after, freed, resized:
                            tracking ends                               as of when all was listed

Scopes nest and close in any order. Nothing that fails in here reaches the user's code: the figure
becomes None and a note says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.devices import Glance, Sample
from nbmem.heap import TableWindow, scan_heap
from nbmem.records import DeviceDelta, DeviceReading, Note
from nbmem.scopes.part import Part, attempt, late_part, look_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.devices import DeviceReader, Devices
    from nbmem.heap import Group, StorageTable
    from nbmem.tracking import CpuTracker


@dataclass(frozen=True, slots=True)
class ScopeResult:
    """What one scope did; each unknown figure is None with a note of its device."""

    deltas: dict[str, DeviceDelta]
    """By device name; `unattributed` is left to whoever lists what was created."""
    freed: dict[str, int]
    """Per device: bytes of storages older than the scope that died in it."""
    resized: dict[str, int]
    """Per device: bytes by which storages older than the scope grew in it."""
    first_serial: int
    """Storages made in the scope have serials from this one on …"""
    end_serial: int
    """… and below this one."""
    notes: tuple[Note, ...] = ()
    groups: tuple[Group, ...] = ()
    """Storages that shared memory when all were listed."""


class Scopes:
    """Opens measured scopes over one table of storages.

    Args:
        table: every storage that was seen and lives.
        tracker: follows CPU storages while a scope measures the CPU.
        devices: all devices, and the one owner of their peaks.
    """

    def __init__(self, table: StorageTable, tracker: CpuTracker, devices: Devices) -> None:
        self.table = table
        self.tracker = tracker
        self.devices = devices
        self._open: list[Scope] = []
        self._tracking: list[Scope] = []

    @property
    def tracking(self) -> bool:
        """True while a scope measures the CPU."""
        return bool(self._tracking)

    def open(
        self,
        device: str | None = None,
        *,
        scan: bool = True,
        hold: Callable[[Scope], None] | None = None,
    ) -> Scope:
        """Returns a scope that measures from now on.

        Args:
            device: see `Devices.choose`; None measures the accelerators, or else the CPU.
            scan: merge a scan of the heap into the table first, so that storages nobody has seen
                yet are counted in `before` and `freed`. Without it those figures are partial.
            hold: takes the scope before it starts, so that one whose start was interrupted can be
                abandoned.

        Raises:
            UnknownDeviceError: this machine has no such device.
        """
        scope = Scope(self, self.devices.choose(device), device, scan)
        if hold is not None:
            hold(scope)
        scope.start()
        return scope

    def close_all(self) -> None:
        """Closes every scope that is still open, the innermost first."""
        for scope in reversed(self._open.copy()):
            scope.close()

    def read_devices(self, device: str | None = None, *, scan: bool = True) -> list[DeviceReading]:
        """Returns a reading per device, its `cpu` as exact as one scan of the heap makes it."""
        if scan and not self.tracking:
            self.merge_scan([])
        return self.devices.read(device)

    def glance(self, readers: Iterable[DeviceReader]) -> list[Glance]:
        """Returns what counters say outside of any scope, from any thread; nothing is scanned.

        What the CPU holds is known only while something is being measured.
        """
        looks = []
        for reader in readers:
            known = reader.kind == "accelerator" or (reader.kind == "cpu" and self.tracking)
            sample = look_at(reader) if known else Sample(None)
            capacity = reader.capacity_at_a_glance()
            size = None if capacity is None else capacity.bytes
            looks.append(Glance(reader.device, reader.kind, sample.allocated, None, size))
        return looks

    def merge_scan(self, notes: list[Note]) -> None:
        """Merges one scan of the heap into the table."""

        def merge() -> None:
            with scan_heap(self.table) as found:
                notes.extend(found.notes)

        attempt(merge, "heap", "before", notes)

    def start_tracking(self, scope: Scope, notes: list[Note]) -> bool:
        """Returns whether CPU storages are followed from now on."""

        def start() -> bool:
            self.tracker.start(scope)
            return True

        self._tracking.append(scope)
        started = attempt(start, "cpu", "peak", notes) is True
        if not started:
            self._tracking.remove(scope)
        return started

    def stop_tracking(self, scope: Scope, notes: list[Note]) -> None:
        """Ends what `start_tracking` began, if it did, and tells what could not be seen."""
        if scope not in self._tracking:
            return
        attempt(lambda: self.tracker.stop(scope), "cpu", "peak", notes)
        self._tracking.remove(scope)
        notes.extend(attempt(self.tracker.notes, "cpu", "peak", notes) or ())

    def enter(self, scope: Scope) -> None:
        """Puts a scope that starts onto the list of open ones."""
        self._open.append(scope)

    def forget(self, scope: Scope) -> None:
        """Takes a closed scope off the list of open ones."""
        if scope in self._open:
            self._open.remove(scope)


class Scope:
    """One measured stretch of code. Made by `Scopes.open`.

    An interrupt may come at any line: `stop`, `close` and `abandon` can be called again after it,
    and each goes on where it was, also from a `start` that did not come to its end.
    """

    def __init__(
        self, scopes: Scopes, readers: list[DeviceReader], device: str | None, scan: bool
    ) -> None:
        self._scopes = scopes
        self._readers = readers
        self._device = device
        self._scan = scan
        self._notes: list[Note] = []
        self._cpu_notes: list[Note] = []
        self._stopped = False
        self._stopped_at = 0
        self._numbers = 0
        self._tracks = False
        self._result: ScopeResult | None = None
        self._window: TableWindow | None = None
        self._parts: list[Part] = []
        self.first_serial = 0

    def start(self) -> None:
        """Begins to measure. Raises nothing but an interrupt, and then is to be abandoned."""
        scopes, table = self._scopes, self._scopes.table
        scopes.enter(self)
        kinds = {reader.kind for reader in self._readers}
        self._merge_scan(kinds, self._scan)
        if "cpu" in kinds:
            self._tracks = scopes.start_tracking(self, self._cpu_notes)
        self._window = window = TableWindow(table)
        attempt(lambda: table.add_window(window), "heap", "freed", self._notes)
        self.first_serial = window.first_serial
        for reader in self._readers:
            part = Part(reader, scopes.devices.peaks)
            self._parts.append(part)
            part.start()
        attempt(self._open_at_one_moment, "heap", "before", self._notes)

    def abandon(self) -> None:
        """Takes back all that `start` began; nothing is read."""
        scopes, window = self._scopes, self._window
        scopes.stop_tracking(self, self._cpu_notes)
        if window is not None:
            window.close()
        for part in self._parts:
            part.abandon()
        scopes.forget(self)

    def _open_at_one_moment(self) -> None:
        """Has counters and window speak of the same storages, whatever was freed in between."""
        window = self._window
        if window is None:
            return
        for _ in range(_TRIES):
            if not window.restart():
                break
            for part in self._parts:
                part.before = part.sample("before")
        self.first_serial = window.first_serial
        for part in self._parts:
            part.take_cpu("before", window.before)

    def _merge_scan(self, kinds: set[str], scan: bool) -> None:
        if self._scopes.tracking and "accelerator" not in kinds:
            return  # the table is being kept exact by an outer scope
        if scan:
            self._scopes.merge_scan(self._notes)
        elif "cpu" in kinds and not self._scopes.tracking:
            self._cpu_notes.append(_SKIPPED_BEFORE)
        elif "accelerator" in kinds:
            self._notes.append(_SKIPPED_FREED)

    def glance(self) -> list[Glance]:
        """Returns what counters say so far, from any thread; nothing is scanned nor reset."""
        return [part.glance() for part in self._parts if part.reader.kind != "host"]

    def stop(self) -> None:
        """Ends tracking and reads what the user's code left on the GPUs and the host."""
        if self._stopped:
            return
        self._scopes.stop_tracking(self, self._cpu_notes)
        self._stopped_at = self._scopes.table.next_serial
        if self._window is not None:
            self._window.on_listing = self._read_at_listing
        for part in reversed(self._parts):
            part.stop()
        attempt(self._add_late_devices, "heap", "devices", self._notes)
        self._stopped = True

    def _read_at_listing(self) -> None:
        """Reads accelerators at the moment at which all storages are listed."""
        for part in self._parts:
            if part.reader.kind == "accelerator":
                part.listed = part.sample("after")

    def _add_late_devices(self) -> None:
        """Adds GPUs that could be counted only after the user's code had started them."""
        known = {part.reader.device for part in self._parts}
        for reader in self._scopes.devices.choose(self._device):
            if reader.kind == "accelerator" and reader.device not in known:
                self._parts.append(late_part(reader, self._scopes.devices.peaks))

    def close(self) -> ScopeResult:
        """Returns what the scope did. Closing again returns the same. Never raises."""
        if self._result is None:
            self.stop()
            result = self._conclude()
            self._scopes.forget(self)
            self._result = result
        return self._result

    def _conclude(self) -> ScopeResult:
        window, notes = self._window, self._notes
        self._note_unseen()
        listing = None if window is None else window.listing
        for part in self._parts:
            part.after = part.listed or part.after
            if part.reader.kind == "cpu":  # exact now: the session has scanned since `stop`
                part.after = part.sample("after")
                part.take_cpu("after", None if listing is None else listing.bytes)
                part.notes.extend(self._cpu_notes)
                part.numbers = self._numbers
        if window is not None:
            attempt(window.close, "heap", "freed", notes)
        told = listing or window
        end = None if told is None else told.end_serial
        return ScopeResult(
            deltas={part.reader.device: part.delta() for part in self._parts},
            freed={} if told is None else dict(told.freed),
            resized={} if told is None else dict(told.resized),
            first_serial=self.first_serial,
            end_serial=self.first_serial if end is None else end,
            notes=tuple(dict.fromkeys(notes)),
            groups=() if listing is None else listing.groups,
        )

    def _note_unseen(self) -> None:
        """Says where the scan since `stop` has found what tracking had not seen."""
        if self._tracks and self._scopes.table.next_serial > self._stopped_at:
            tracker, notes = self._scopes.tracker, self._cpu_notes
            unseen = attempt(lambda: tracker.note_unseen(self._stopped_at), "cpu", "peak", notes)
            notes.extend(unseen or ())
            numbers = attempt(
                lambda: tracker.unseen_numbers(self._stopped_at), "cpu", "peak", notes
            )
            self._numbers = numbers or 0


_TRIES = 3
"""How often the opening is begun anew where something was made or freed meanwhile."""
_SKIPPED = "The heap was not scanned: storages that nbmem has not seen yet are missing."
_SKIPPED_BEFORE = Note("before", "scan_skipped", _SKIPPED)
_SKIPPED_FREED = Note("freed", "scan_skipped", _SKIPPED)
