"""Tables in words: what the rows and columns say, before text or HTML lays them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.render.capacity_words import CAN_GET, less_of, whole_word
from nbmem.render.names import clean
from nbmem.render.story import status_words
from nbmem.units import Units, column_unit, format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbmem.records import CellRecord, DeviceDelta, DeviceReading, Note


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its heading, a text for each row."""

    heading: str
    texts: tuple[str, ...]
    figures: bool = False
    """Right-aligned."""
    elastic: bool = False
    """Loses the middle of its texts where there is no room."""
    unit: str = ""
    """Of all its figures."""
    spare: bool = False
    """Goes first where there is no room for all columns."""
    code: bool = False
    """Holds names of the user's."""
    least: int = 12
    """Columns of text that an elastic one keeps as long as there are spare ones."""
    narrower: Column | None = None
    """What a spare one gives way to before it goes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A title, columns of equal length, and sentences after them."""

    title: str
    columns: tuple[Column, ...]
    after: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Of each row, where rows have one: for its colour."""
    mixtures: tuple[Mapping[str, int], ...] = ()
    """Of each row, bytes by category, where the column `made of` tells them."""
    legend: tuple[str, ...] = ()
    """Categories whose letters and colours are explained below the rows."""
    foot: int = 0
    """How many of the last rows stand below a rule."""


def sizes(
    heading: str, values: Iterable[int | None], units: Units, *, signed: bool = False
) -> Column:
    """Returns a column of sizes in one unit, which the heading names; None is `?`."""
    known = tuple(values)
    unit = column_unit(known, units)
    texts = tuple(unit.format(value, signed=signed) for value in known)
    return Column(heading, texts, figures=True, unit=unit.suffix)


def history_table(records: Sequence[CellRecord], units: Units) -> Table:
    """Returns the cells, oldest first, each with what it did to the device it used most."""
    if not records:
        return Table("History", (), (_NO_CELLS,))
    main = [main_device(record) for record in records]
    devices = dict.fromkeys(delta.device for delta in main if delta is not None)
    columns = [
        Column("cell", tuple(_cell(record) for record in records), figures=True),
        Column("label", tuple(_labels(records)), elastic=True, code=True),
        Column("run", tuple(_runs(record) for record in records), figures=True, spare=True),
        Column("time", tuple(_time(r) for r in records), figures=True, spare=True),
        sizes("peak", (d.peak if d else None for d in main), units),
        sizes(
            "change",
            (r.change(d.device) if d else None for r, d in zip(records, main, strict=True)),
            units,
            signed=True,
        ),
        Column("status", tuple(_status(record) for record in records), elastic=True),
    ]
    if len(devices) > 1:
        columns.insert(4, Column("device", tuple(clean(d.device) if d else "" for d in main)))
    where = f" · {clean(next(iter(devices)))}" if len(devices) == 1 else ""
    return Table(f"{format_count(len(records), 'cell')}{where}", tuple(columns))


_NO_CELLS = (
    "No cell is recorded yet: put %%gpumem on a cell's first line, or run %gpumem on to record "
    "every cell."
)


_DEEPEST = 3


def main_device(record: CellRecord) -> DeviceDelta | None:
    """Returns the device with the highest peak; the host only where there is no other."""
    deltas = [delta for name, delta in record.devices.items() if name != "host"]
    return max(
        deltas or list(record.devices.values()), key=lambda delta: delta.peak or 0, default=None
    )


def _cell(record: CellRecord) -> str:
    return "" if record.execution_count is None else f"[{record.execution_count}]"


def _labels(records: Sequence[CellRecord]) -> Iterable[str]:
    """A block of a cell stands under its cell, one step to the right."""
    depth: dict[int, int] = {}
    for record in records:
        depth[record.serial] = 0 if record.parent is None else depth.get(record.parent, -1) + 1
        steps = min(depth[record.serial], _DEEPEST)
        yield ("  " * (steps - 1) + "↳ " if steps else "") + _title(record)


def _title(record: CellRecord) -> str:
    return clean(record.label or record.first_line).strip()


def _status(record: CellRecord) -> str:
    if record.status == "oom":
        return "out of memory"
    return status_words(record).removeprefix("error · ")


def _runs(record: CellRecord) -> str:
    return f"×{record.steps.count:,}" if record.steps is not None else f"{record.run:,}"


def _time(record: CellRecord) -> str:
    return format_seconds(_seconds(record))


def _seconds(record: CellRecord) -> float:
    return record.seconds if record.steps is None else record.steps.seconds


def status_table(readings: Sequence[DeviceReading], units: Units) -> Table:
    """Returns the counters of each device, with what each figure counts."""
    if not readings:
        return Table("Devices", (), ("No device can be read: import torch, then run %gpumem.",))
    rows = [row for reading in readings for row in _reading(reading, units)]
    device, figure, counts = zip(*rows, strict=True)
    sentences = dict.fromkeys(clean(n.sentence) for r in readings for n in _notes(r))
    columns = (
        Column("device", device),
        Column("bytes", figure, figures=True),
        Column("what it counts", counts, elastic=True),
    )
    return Table("Memory now", columns, tuple(sentences))


_COUNTS = {
    "accelerator": "in live tensors (allocated)",
    "cpu": "in torch's CPU storages",
    "host": "resident memory of this process (RSS)",
}


_FIGURES = {
    "accelerator": {
        "peak_allocated": "its peak",
        "reserved": "reserved by torch's allocator",
        "driver_used": "in use by all processes",
    },
    "cpu": {},
    "host": {"peak_allocated": "its peak", "driver_used": "in use by all processes"},
}
"""Figures that a kind of device has at all, beside the first; an unknown one of these is told."""
_FIELDS = {"peak_allocated", "requested", "active", "reserved", "driver_used"}


def _notes(reading: DeviceReading) -> list[Note]:
    shown = _FIGURES.get(reading.kind, {})
    return [note for note in reading.notes if note.field in shown or note.field not in _FIELDS]


def _capacity(reading: DeviceReading, units: Units) -> list[tuple[str, str]]:
    if not reading.capacity:
        return []
    parts = reading.parts
    used = reading.driver_used if parts is None else reading.reserved
    used = reading.allocated if used is None else used
    word = "in use" if parts is None else "reserved"
    share = "" if used is None else f", {format_share(used, reading.capacity)} {word}"
    what = "the device has" if reading.kind == "accelerator" else "installed"
    told = [(format_bytes(reading.capacity, units), f"{CAN_GET if parts else what}{share}")]
    if parts is not None and parts.total is not None:
        less = less_of(parts)
        told += [(format_bytes(size, units), word) for size, word in less]
        told.append((format_bytes(parts.total, units), f"{whole_word(parts)} total"))
    return told


def _reading(reading: DeviceReading, units: Units) -> list[tuple[str, str, str]]:
    missing = {note.field for note in reading.notes}
    words = {"allocated": _COUNTS.get(reading.kind, "allocated"), **_FIGURES.get(reading.kind, {})}
    figures = [(field, getattr(reading, field), what) for field, what in words.items()]
    kept = [(f, size, what) for f, size, what in figures if size is not None or f in missing]
    texts = [(format_bytes(size, units), what) for _, size, what in kept] or [("?", "allocated")]
    texts += _capacity(reading, units)
    first = clean(reading.device if reading.name is None else f"{reading.device} {reading.name}")
    return [(first if n == 0 else "", size, what) for n, (size, what) in enumerate(texts)]
