"""What the panel asks of a session; tests give it a fake one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbmem.records import (
        CellRecord,
        DeviceReading,
        Holders,
        Inventory,
        Leak,
        LeakReport,
        Ledger,
        LiveReading,
        ReclaimReport,
    )


class HistoryLike(Protocol):
    """The part of a history that the panel reads."""

    def records(self) -> tuple[CellRecord, ...]:
        """Returns the records, oldest first."""


class WatcherLike(Protocol):
    """What knows of the cells that run."""

    @property
    def running(self) -> str | None:
        """The cell that runs: `cell [9]`, `a cell`; None between cells."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when a cell begins; returns the call that ends it."""


class SamplerLike(Protocol):
    """What reads counters while a cell runs."""

    def subscribe(self, callback: Callable[[LiveReading], None]) -> Callable[[], None]:
        """Calls `callback` with each reading, from a thread; returns the call that ends it."""


class SessionLike(Protocol):
    """The part of a session that the panel uses.

    A session that ended sets `closed` to True and then calls its subscribers once more: the panel
    closes and says so.
    """

    @property
    def history(self) -> HistoryLike:
        """The records so far."""

    @property
    def settings(self) -> Any:
        """The user's settings, traitlets; `units` is `IEC` or `SI`."""

    @property
    def watcher(self) -> WatcherLike:
        """What knows of the cells that run."""

    @property
    def sampler(self) -> SamplerLike:
        """What reads counters while one runs."""

    def take_inventory(self) -> Inventory:
        """Returns what is alive now."""

    def take_ledger(self) -> Ledger:
        """Returns the sums of every device now."""

    def read_devices(self, *, scan: bool = True) -> Sequence[DeviceReading]:
        """Returns the counters of each device and of the host; `scan`: look at the heap first."""

    def find_leaks(self) -> LeakReport:
        """Returns what is alive beyond need; it may take a tenth of a second and more."""

    def find_holders(self, keys: Sequence[int]) -> Holders:
        """Returns why these storages are alive."""

    def plan_drop(self, keys: Sequence[int]) -> ReclaimReport:
        """Returns what `drop_storages` would do; nothing is dropped."""

    def drop_storages(self, keys: Sequence[int]) -> ReclaimReport:
        """Drops the user's names of these storages and returns the proof."""

    def collect(self) -> ReclaimReport:
        """Runs `gc.collect()` and returns the proof."""

    def empty_cache(self) -> ReclaimReport:
        """Gives cached blocks back to the device and returns the proof."""

    def plan_reclaim(
        self, targets: Sequence[Leak | str] | None = None, *, everything: bool = False
    ) -> ReclaimReport:
        """Returns what `reclaim` would do; nothing is freed."""

    def reclaim(
        self, targets: Sequence[Leak | str] | None = None, *, everything: bool = False
    ) -> ReclaimReport:
        """Frees these leaks, or all, or with neither those that cost nothing; and the proof."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` after each record and act; returns the call that ends it."""
