"""What a cell's report says, in order, before anybody lays it out: text and HTML tell the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.render.capacity_words import CAN_GET, capacity_words
from nbmem.render.elsewhere import elsewhere_facts
from nbmem.render.groups import Row, rows_of
from nbmem.render.leak_line import leak_facts
from nbmem.render.names import clean, says_something
from nbmem.render.oom_words import oom_sentence
from nbmem.render.trend import trend_facts
from nbmem.units import (
    Units,
    format_bytes,
    format_change,
    format_count,
    format_seconds,
    format_share,
)

if TYPE_CHECKING:
    from nbmem.records import CellRecord, DeviceDelta, StorageRecord

_HOST = "host"
_QUIET = 0.01
"""A peak this share above the start is as at the start."""
_LONG_LOOK = 0.2
"""Seconds of nbmem's own from which on each cell says so …"""
_SHARE_OF_CELL = 0.2
"""… and this share of the cell's, …"""
_NEAR = 0.5
"""A peak of this share of what torch can get says what keeps it from the rest of the card."""
_SHORT_CELL = 0.1
"""… where it takes as long: else every cell of a millisecond would speak of it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a bar from 0 to 1: `held` both before and after, `changed` by the cell, `peak`."""

    held: float
    changed: float
    peak: float
    stayed: bool
    """The change stayed (else: it was freed)."""


@dataclass(frozen=True, slots=True)
class DeviceStory:
    """One device: figures as words, rows as groups of storages."""

    device: str
    quiet: str | None
    """The one sentence of a device on which nothing happened."""
    peak: str
    share: str
    """`39 % of 7.93 GiB`, or nothing."""
    bar: Bar | None
    start: str
    end: str
    change: str
    """`+300 MiB stayed`, or nothing."""
    created: tuple[StorageRecord, ...]
    rows: tuple[Row, ...]
    stayed: str
    """`300 MiB in 12 storages made here`, or nothing."""
    facts: tuple[tuple[str, str], ...]
    """Word and sentence: what was freed, resized, reserved, and the steps of a block."""


@dataclass(frozen=True, slots=True)
class Story:
    """The report of one record."""

    cell: str
    """`[7]`, or nothing."""
    title: str
    facts: tuple[str, ...]
    """Status, runs, seconds, and the device where it is one."""
    failed: bool
    refused: str
    """What an out-of-memory error says: `asked for 2.00 GiB on cuda:0 · …`, or nothing."""
    devices: tuple[DeviceStory, ...]
    elsewhere: tuple[tuple[str, str], ...]
    """Word and sentence of devices that were not measured."""
    host: str
    notes: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Whether all that there is to say of each device is one sentence."""
        return all(device.quiet is not None for device in self.devices)


def tell(record: CellRecord, units: Units, rows: int) -> Story:
    """Returns the report of `record` in words."""
    devices = [delta for name, delta in record.devices.items() if name != _HOST]
    told = tuple(_tell_device(record, delta, units, rows) for delta in devices)
    quiet = all(device.quiet is not None for device in told)
    return Story(
        cell="" if record.execution_count is None else f"[{record.execution_count}]",
        title=clean(record.label or record.first_line).strip(),
        facts=_heading(record, devices),
        failed=record.status != "ok",
        refused="" if record.oom is None else oom_sentence(record.oom, units),
        devices=_worth_telling(told),
        elsewhere=tuple(elsewhere_facts(record, units)),
        host=_host(record.devices.get(_HOST), units, always=not quiet or not devices),
        notes=(*_notes(record), *_kept_by_traceback(record, units)),
    )


def status_words(record: CellRecord) -> str:
    """Returns `ok`, `interrupted`, `error · OutOfMemoryError`."""
    if record.status in ("ok", "interrupted"):
        return record.status
    kind = clean((record.error or "").partition(":")[0]).strip().rpartition(".")[2]
    if record.status == "oom":
        return f"error · {kind or 'out of memory'}"
    return f"error · {kind}" if kind else "error"


def _heading(record: CellRecord, devices: list[DeviceDelta]) -> tuple[str, ...]:
    runs = f"run {record.run:,}" if record.run > 1 and record.steps is None else ""
    steps = format_count(record.steps.count, "run") if record.steps is not None else ""
    seconds = record.seconds if record.steps is None else record.steps.seconds
    device = devices[0].device if len(devices) == 1 else ""
    took = format_seconds(seconds)
    facts = (status_words(record), runs, steps, took, _price(record, seconds), clean(device))
    return tuple(fact for fact in facts if fact)


def _price(record: CellRecord, seconds: float) -> str:
    """Returns what nbmem's looks took, where somebody waited for them: `+ 0.3 s by nbmem`."""
    looks = record.look_seconds or 0.0
    if looks > _LONG_LOOK or (looks > _SHARE_OF_CELL * seconds and seconds >= _SHORT_CELL):
        return f"+ {format_seconds(looks)} by nbmem"
    return ""


def _worth_telling(devices: tuple[DeviceStory, ...]) -> tuple[DeviceStory, ...]:
    """Leaves out empty devices that nothing happened on, beside others that say something."""
    told = tuple(device for device in devices if device.quiet != _EMPTY)
    return told or devices[:1]


_EMPTY = "nothing was allocated"


def _tell_device(record: CellRecord, delta: DeviceDelta, units: Units, rows: int) -> DeviceStory:
    created = tuple(s for s in record.created if s.device == delta.device)
    facts = [
        *_movements(record, delta, units),
        *_steps(record, delta.device, units),
        *trend_facts(record, delta.device, units),
        *leak_facts(record, delta.device, units),
    ]
    moved = bool(facts) or any(map(says_something, created))
    return DeviceStory(
        device=clean(delta.device),
        quiet=None if moved else _quiet(delta, units),
        peak=format_bytes(delta.peak, units),
        share=_share(delta, units),
        bar=_bar(delta),
        start=format_bytes(delta.before, units),
        end=format_bytes(delta.after, units),
        change=_change(record.change(delta.device), units, moved=moved),
        created=created,
        rows=tuple(rows_of(created, rows)),
        stayed=_stayed(created, units),
        facts=(*_limits(record, delta, units), *facts),
    )


def _quiet(delta: DeviceDelta, units: Units) -> str | None:
    if delta.before is None or delta.peak is None or delta.delta != 0:
        return None
    if delta.peak == 0:
        return _EMPTY
    if delta.peak - delta.before > _QUIET * delta.before:
        return None
    return f"nothing stayed · {format_bytes(delta.before, units)} before, after and at the peak"


def _share(delta: DeviceDelta, units: Units) -> str:
    if delta.peak is None or not delta.capacity:
        return ""
    of = "installed" if delta.device == "cpu" else ""
    if delta.parts is not None:
        of = CAN_GET
    share = format_share(delta.peak, delta.capacity)
    return f"{share} of {format_bytes(delta.capacity, units)} {of}".rstrip()


def _bar(delta: DeviceDelta) -> Bar | None:
    # On `cpu` installed memory would leave every bar empty: there the whole bar is the peak.
    whole = delta.peak if delta.device == "cpu" else delta.capacity
    if not whole or delta.before is None or delta.after is None or delta.peak is None:
        return None
    low, high = sorted((delta.before, delta.after))
    parts = [min(size / whole, 1.0) for size in (low, high, max(delta.peak, high))]
    stayed = delta.after >= delta.before
    return Bar(parts[0], parts[1] - parts[0], parts[2] - parts[1], stayed)


def _change(change: int | None, units: Units, *, moved: bool) -> str:
    if not change:
        unmoved = "±0 B" if moved else "nothing stayed"
        return "" if change is None else unmoved
    return f"{format_change(change, units)}{' stayed' if change > 0 else ''}"


def _stayed(created: tuple[StorageRecord, ...], units: Units) -> str:
    empty = sum(s.stands_for for s in created if not says_something(s))
    whole = sum(storage.stands_for for storage in created)
    if empty == whole:
        return ""
    told = f"{format_bytes(sum(s.bytes for s in created), units)} in "
    told += f"{format_count(whole, 'storage')} made here"
    return f"{told}, {empty:,} of them empty and without a name" if empty else told


def _limits(record: CellRecord, delta: DeviceDelta, units: Units) -> list[tuple[str, str]]:
    """Returns what keeps torch from the rest of the card, where the cell came near it."""
    parts, peak = delta.parts, delta.peak
    if parts is None or not peak:
        return []
    if record.status != "oom" and peak < _NEAR * parts.bytes:
        return []
    return [("card", capacity_words(parts, units))]


def _movements(record: CellRecord, delta: DeviceDelta, units: Units) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if freed := record.freed.get(delta.device):
        facts.append(("freed", f"{format_bytes(freed, units)} made by earlier cells"))
    if resized := record.resized.get(delta.device):
        facts.append(("resized", f"{format_change(resized, units)} in older storages"))
    if delta.unattributed:
        what = "unexplained" if delta.device == "cpu" else "rounding and library workspaces"
        facts.append(("other", f"{format_change(delta.unattributed, units)} {what}"))
    before, after = delta.reserved_before, delta.reserved_after
    if before is not None and after is not None and before != after:
        way = f"{format_bytes(before, units)} → {format_bytes(after, units)}"
        facts.append(("cache", f"torch reserves {way} of the device"))
    return facts


def _steps(record: CellRecord, device: str, units: Units) -> list[tuple[str, str]]:
    steps = record.steps
    if steps is None or not steps.count:
        return []
    facts: list[tuple[str, str]] = []
    if rise := steps.largest_rise.get(device):
        each = format_seconds(steps.seconds / steps.count)
        rose = f"rose up to {format_bytes(rise, units)} above its own start"
        facts.append(("a step", f"{each}, {rose}"))
    if growth := steps.growth.get(device):
        mean = abs(growth) / steps.count
        a_step = "under 1 B" if mean < 0.5 else format_bytes(round(mean), units)
        count, total = format_count(steps.count, "step"), format_bytes(abs(growth), units)
        verbs = ("grew", "left") if growth > 0 else ("shrank", "freed")
        facts.append(("growth", f"{verbs[0]} {a_step} a step: {count} {verbs[1]} {total}"))
    return facts


def _host(delta: DeviceDelta | None, units: Units, *, always: bool) -> str:
    if delta is None or (delta.before is None and delta.after is None and delta.peak is None):
        return ""
    moved = max(abs(delta.delta or 0), (delta.peak or 0) - (delta.before or 0))
    if not always and moved < 0.05 * (delta.before or 0):
        return ""
    way = f"RSS {format_bytes(delta.before, units)} → {format_bytes(delta.after, units)}"
    return way if delta.peak is None else f"{way}, peak {format_bytes(delta.peak, units)}"


def _notes(record: CellRecord) -> tuple[str, ...]:
    doubts = () if record.oom is None else record.oom.notes
    of_devices = (note for delta in record.devices.values() for note in delta.notes)
    notes = [*doubts, *record.notes, *of_devices]
    return tuple(dict.fromkeys(_sentence(note.sentence) for note in notes))


def _kept_by_traceback(record: CellRecord, units: Units) -> tuple[str, ...]:
    unknown = sum(s.bytes for s in record.created if s.category == "unknown")
    if record.status == "ok" or not unknown:
        return ()
    why = "as a rule local variables that the error's traceback keeps for %debug"
    return (f"{format_bytes(unknown, units)} unknown: {why}; %gpumem leaks tells.",)


def _sentence(text: str) -> str:
    words = clean(text).strip()  # its first letter is as it came: it may be a name's
    return words if words.endswith((".", "!", "?")) else f"{words}."
