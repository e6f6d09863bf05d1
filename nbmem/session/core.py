"""One session a kernel: it owns the table, the history and the settings, and listens to IPython."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbmem.devices import Devices
from nbmem.errors import NbmemWarning
from nbmem.heap import StorageTable
from nbmem.history import History
from nbmem.inventory import take_inventory
from nbmem.ledger import take_ledger
from nbmem.origins import Origins
from nbmem.reclaim import (
    Holdings,
    ParkingLot,
    collect_garbage,
    drop_storages,
    empty_cache,
    empty_pinned,
    park,
    plan_drop,
    unpark,
)
from nbmem.records import (
    CellRecord,
    DeviceReading,
    Holders,
    Inventory,
    LeakReport,
    Ledger,
    Note,
    ParkedThing,
    ReclaimReport,
)
from nbmem.scopes import Scopes
from nbmem.session import roots
from nbmem.session.allocated_at import AllocatedAt, cells_by_file
from nbmem.session.blocks import Blocks
from nbmem.session.cells import CellWatcher
from nbmem.session.leaks import LeakFinder
from nbmem.session.recorder import Recorder
from nbmem.session.request import CellLine, CellRequest
from nbmem.session.reruns import RunBook
from nbmem.session.sampling import Sampler
from nbmem.session.settings import read_settings
from nbmem.session.stops import free_locks
from nbmem.session.troubles import INTERRUPTED, Troubles
from nbmem.tracking import CpuTracker
from nbmem.units import Units

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

UNLOADED = Note(
    field="after",
    code="unloaded",
    sentence="nbmem was unloaded before the end: the figures are of that moment",
)


@dataclass(frozen=True, slots=True)
class Past:
    """What a session that was unloaded leaves to the next one, so that a reload loses nothing."""

    history: History = field(default_factory=History)
    table: StorageTable = field(default_factory=StorageTable)
    """Goes along with `origins`: its serials are what they speak of."""
    origins: Origins = field(default_factory=Origins)
    runs: RunBook = field(default_factory=RunBook)
    lot: ParkingLot = field(default_factory=ParkingLot)


class Session:
    """Everything nbmem knows of one process. Without a shell it serves a plain script."""

    def __init__(self, shell: InteractiveShell | None = None, past: Past | None = None) -> None:
        past = past or Past()
        self.shell = shell
        self.settings = read_settings(shell)
        self.closed = False
        """True once nbmem was unloaded: what hangs on this session shows the past."""
        self.history = past.history
        self.history.set_limit(self.settings.history_limit)
        self.origins = past.origins
        self.runs = past.runs
        self.lot = past.lot
        self.troubles = Troubles()
        self.recording = False
        """True while every cell is recorded (`%gpumem on`)."""
        self.table = past.table
        self._tracker = CpuTracker(self.table)
        self._devices = Devices(self._tracker)
        self._allocated_at = AllocatedAt(self.table, self._devices)
        self._scopes = Scopes(self.table, self._tracker, self._devices)
        self.cell_line = CellLine(self.check_device)
        self.recorder = Recorder(
            self._scopes,
            self.take_inventory,
            self.origins,
            self.troubles,
            self._tracker.lines,
            self.runs,
            first_serial=self.history.next_serial,
        )
        self.watcher = CellWatcher(self)
        self.sampler = Sampler(self, self._scopes, self._devices)
        self.blocks = Blocks(self)
        self.leaks = LeakFinder(self)
        self.shown_leaks: LeakReport | None = None
        """The table of leaks that was shown last, whose numbers `%gpumem reclaim` takes."""
        self._subscribers: list[Callable[[], None]] = []
        self._devices.install()
        self._follow_settings()

    def _follow_settings(self) -> None:
        self.settings.observe(lambda change: self.history.set_limit(change.new), "history_limit")
        self.settings.observe(lambda change: self._autosave(change.new), "autosave")
        if self.settings.autosave:
            self._autosave(self.settings.autosave)

    def _autosave(self, path: str) -> None:
        self.history.autosave_to(path or None)
        for note in self.history.notes:
            if note.field == "autosave":
                warnings.warn(note.sentence, NbmemWarning, stacklevel=2)

    @property
    def units(self) -> Units:
        """`IEC` or `SI`, as set."""
        return "SI" if self.settings.units == "SI" else "IEC"

    @property
    def width(self) -> int:
        """Columns of the texts that are shown: the terminal's, 78 in a notebook."""
        if self.shell is None or type(self.shell).__name__ != "TerminalInteractiveShell":
            return 78
        return max(40, min(shutil.get_terminal_size().columns - 1, 120))

    # Looking: nothing here changes what is alive.

    def read_devices(self, *, scan: bool = True) -> list[DeviceReading]:
        """Returns the counters of every device that is measured by default, and of the host.

        Args:
            scan: look for storages that nobody has seen yet first. Without it `cpu` counts what
                the last inventory, or whatever else looked at the heap, has found.
        """
        device = None if self.settings.device == "auto" else self.settings.device
        return self._scopes.read_devices(device, scan=scan)

    def take_inventory(self) -> Inventory:
        """Returns every live storage with the user's names for it."""
        found = take_inventory(
            self.table,
            roots.user_names(self.shell),
            output_cache=roots.output_cache(self.shell),
            origin_of=self.origins.cell_of,
            origins=self.origins.entered,
            budget=self.settings.name_budget,
            now=time.time(),
        )
        return self._allocated_at.tell(found, cells_by_file(self.shell))

    def take_ledger(self, device: str | None = None) -> Ledger:
        """Returns the sums of each device, over an inventory taken now.

        Args:
            device: `cuda:0`, `cpu`, …; None takes what the settings say.

        Raises:
            UnknownDeviceError: this machine has no such device.
        """
        if device is None and self.settings.device != "auto":
            device = self.settings.device
        inventory = self.take_inventory()
        owners = partial(roots.pool_owners, self.shell, self.settings.name_budget)
        return take_ledger(
            inventory, self.table, self._devices, device=device, find_owners=owners, now=time.time()
        )

    def find_leaks(self) -> LeakReport:
        """Returns what is alive beyond what the values that the user can name need."""
        return self.leaks.find()

    def find_holders(self, keys: Sequence[int]) -> Holders:
        """Returns why these storages (serials) are alive, every way that was found."""
        return self.leaks.holders(keys)

    def check_device(self, device: str) -> None:
        """Checks that this machine has a device.

        Raises:
            UnknownDeviceError: it has not; the message says what is accepted.
        """
        self._devices.choose(device)

    def execution_count(self, info: Any) -> int | None:
        """Returns the n of the cell's `[n]`; None where the cell is not stored."""
        if self.shell is None or not info.store_history:
            return None
        return int(self.shell.execution_count) - 1  # IPython counts up before it tells us

    # Recording.

    def keep(self, record: CellRecord, *, tell: bool = True) -> list[Note]:
        """Puts a record into the history, in place of an earlier state of the same one.

        Returns what broke, which the record can no longer carry.
        """
        notes: list[Note] = []
        with self.troubles.caught("keep the record", notes):
            self.history.put(record)
        with self.troubles.caught("forget storages that are gone", notes):
            self.origins.forget_others(ref.serial for ref in self.table.live())
        if tell:
            self.tell_subscribers()
        return notes

    def finish_cell(self, record: CellRecord, request: CellRequest) -> None:
        """Keeps a cell's record, hands it to `-o NAME`, and shows it unless it is quiet."""
        self.blocks.forget(record.serial)
        notes = self.keep(record, tell=False)
        with self.troubles.caught("show the report", notes):
            if request.output is not None and self.shell is not None:
                self.shell.push({request.output: record})
            if not request.quiet:
                self._show(record)
        if not request.quiet:
            self.say(note for note in notes if note.code != INTERRUPTED)

    def _show(self, record: CellRecord) -> None:
        from IPython.display import display

        from nbmem.render import report_bundle

        rows = self.settings.rows
        bundle = report_bundle(record, units=self.units, width=self.width, rows=rows)
        display(bundle, raw=True)

    def say(self, notes: Iterable[Note]) -> None:
        """Shows notes that no record carries, under the cell."""
        from IPython.display import display

        for note in notes:
            display({"text/plain": note.sentence}, raw=True)

    # Acting: each act is room `reclaim`'s, with its proof.

    def plan_drop(self, keys: Sequence[int]) -> ReclaimReport:
        """Returns what `drop_storages` would do; nothing is dropped."""
        return plan_drop(self.holdings(), keys)

    def drop_storages(self, keys: Sequence[int]) -> ReclaimReport:
        """Drops the user's names of these storages, output-cache copies included."""
        return self.told(drop_storages(self.holdings(), keys))

    def plan_reclaim(self, targets: object = None, *, everything: bool = False) -> ReclaimReport:
        """Returns what `reclaim` would do, in words and bytes; nothing is freed."""
        return self.leaks.plan(targets, everything=everything)

    def reclaim(self, targets: object = None, *, everything: bool = False) -> ReclaimReport:
        """Frees leaks, keeps every value of the user's, and returns the proof.

        Args:
            targets: a `Leak`, the name of a variable, the text of a holder (`Chain.cut`), or a
                list of these; None takes the leaks that cost the user nothing.
            everything: also those that cost something, where `targets` is None.

        Raises:
            TypeError: a target is none of these.
            NameNotFoundError: a text is neither a variable nor what holds a leak.
        """
        return self.told(self.leaks.reclaim(targets, everything=everything))

    def park(self, names: Sequence[str], *, dry_run: bool = False) -> ReclaimReport:
        """Moves what these names lead to from accelerators to pinned CPU memory."""
        report = park(self.holdings(), self.lot, names, dry_run=dry_run)
        return report if dry_run else self.told(report)

    def unpark(self, names: Sequence[str] = (), *, dry_run: bool = False) -> ReclaimReport:
        """Brings what is parked back to where it came from; without names, all of it."""
        report = unpark(self.holdings(), self.lot, names, dry_run=dry_run)
        return report if dry_run else self.told(report)

    def parked(self) -> tuple[ParkedThing, ...]:
        """Returns what is parked still, by the name it was parked under."""
        return self.lot.things()

    def collect(self) -> ReclaimReport:
        """Runs `gc.collect()`."""
        return self.told(collect_garbage(self.holdings()))

    def empty_cache(self) -> ReclaimReport:
        """Gives the accelerator's cached blocks back to the driver."""
        return self.told(empty_cache(self.holdings()))

    def empty_pinned(self, *, dry_run: bool = False) -> ReclaimReport:
        """Gives pinned memory that torch keeps for later back to the system."""
        report = empty_pinned(self.holdings(), dry_run=dry_run)
        return report if dry_run else self.told(report)

    def holdings(self) -> Holdings:
        """Returns what an act may touch, and how its outcome is read."""
        return Holdings(
            table=self.table,
            shell=self.shell,
            names=lambda: roots.user_names(self.shell),
            outputs=lambda: roots.output_cache(self.shell),
            read_devices=lambda: self.read_devices(scan=False),
        )

    def told(self, report: ReclaimReport) -> ReclaimReport:
        """Tells the panels that an act is done; returns its report."""
        self.tell_subscribers()
        self.troubles.pass_on()
        return report

    # Others that want to know.

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` after each cell, record and act; returns the call that ends it."""
        self._subscribers.append(callback)

        def end() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return end

    def tell_subscribers(self) -> None:
        """Tells the panels that something may have changed."""
        notes: list[Note] = []
        for callback in self._subscribers.copy():
            with self.troubles.caught("redraw the panel", notes):
                callback()

    # Coming and going.

    def attach(self, shell: InteractiveShell) -> None:
        """Begins to listen to a shell; a second time changes nothing."""
        if self.cell_line in shell.input_transformer_manager.cleanup_transforms:
            return
        self.shell = shell
        self.settings.parent = shell
        shell.input_transformer_manager.cleanup_transforms.append(self.cell_line)
        for event, callback in self._callbacks():
            shell.events.register(event, callback)
        shell.configurables.append(self.settings)

    def close(self) -> None:
        """Leaves shell and torch as they were; the history stays readable."""
        self.recording = False
        self.sampler.close()
        self.blocks.close_all(UNLOADED)
        self.watcher.close_all(UNLOADED)
        self.closed = True
        self._scopes.close_all()
        self._devices.uninstall()
        if self.shell is not None:
            self._detach(self.shell)
        self.history.autosave_to(None)
        self.tell_subscribers()
        self._subscribers.clear()

    def _callbacks(self) -> tuple[tuple[str, Callable[[Any], None]], ...]:
        """Returns what IPython calls and when; those that confirm come right after."""
        watcher = self.watcher
        return (
            ("pre_run_cell", watcher.pre_run_cell),
            ("pre_run_cell", watcher.confirm_start),
            ("post_run_cell", watcher.post_run_cell),
            ("post_run_cell", watcher.confirm_end),
        )

    def mend(self) -> None:
        """Puts right what an interrupt may have left half done outside of open records."""
        free_locks(self._devices.peaks.lock, self.sampler.lock, self.history.lock)
        self.table.mend()

    def past(self) -> Past:
        """Returns what the next session goes on with."""
        return Past(self.history, self.table, self.origins, self.runs, self.lot)

    def _detach(self, shell: InteractiveShell) -> None:
        events = shell.events
        for event, callback in self._callbacks():
            if callback in events.callbacks[event]:
                events.unregister(event, callback)
        manager = shell.input_transformer_manager
        transforms = manager.cleanup_transforms
        manager.cleanup_transforms = [t for t in transforms if t is not self.cell_line]
        shell.configurables[:] = [c for c in shell.configurables if c is not self.settings]
