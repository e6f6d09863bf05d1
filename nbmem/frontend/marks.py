"""The badges beside the cells of a notebook, and the cell that took the most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem.frontend.messages import share_of
from nbmem.render.capacity_words import CAN_GET
from nbmem.render.live_words import title_words
from nbmem.units import format_bytes, format_change, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import CellRecord, DeviceDelta
    from nbmem.units import Units

    Mark = dict[str, Any]
    Key = str | int | None


class Marks:
    """The newest mark of each cell; says which changed."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[CellRecord, Units, Mark]] = {}
        self._told: dict[Key, Mark] = {}

    def all(self, records: Iterable[CellRecord], units: Units) -> list[Mark]:
        """Returns the mark of every cell among the records, in the order of their newest runs."""
        return list(self._by_cell(records, units).values())

    def changes(self, records: Sequence[CellRecord], units: Units) -> tuple[list[Mark], bool]:
        """Returns the marks that changed since the last call; and True where these are all."""
        marks = self._by_cell(records, units)
        told, self._told = self._told, marks
        if told.keys() - marks.keys():  # a history that was cut or replaced
            return list(marks.values()), True
        return [mark for key, mark in marks.items() if told.get(key) != mark], False

    def _by_cell(self, records: Iterable[CellRecord], units: Units) -> dict[Key, Mark]:
        made: dict[int, tuple[CellRecord, Units, Mark]] = {}
        newest: dict[Key, Mark] = {}
        for record in filter(is_cell, records):
            known = self._made.get(record.serial)
            if known is None or known[0] is not record or known[1] != units:
                known = record, units, mark_of(record, units)
            made[record.serial] = known
            key = record.cell_id or record.execution_count
            newest.pop(key, None)
            newest[key] = known[2]
        self._made = made
        return newest


def is_cell(record: CellRecord) -> bool:
    """Returns whether a record is of a cell that a page can find: no block, no script."""
    return record.parent is None and (record.cell_id or record.execution_count) is not None


def main_delta(record: CellRecord) -> DeviceDelta | None:
    """Returns the device that a badge speaks of: the accelerator with most, else the cpu."""
    deltas = [delta for delta in record.devices.values() if delta.device != "host"]
    in_use = [delta for delta in deltas if delta.device != "cpu" and delta.peak]
    if in_use:
        return max(in_use, key=lambda delta: delta.peak or 0)
    cpu = [delta for delta in deltas if delta.device == "cpu"]
    return next(iter([*cpu, *deltas]), None)


def mark_of(record: CellRecord, units: Units) -> Mark:
    """Returns the badge of one cell: its peak, and what stayed where something did."""
    delta = main_delta(record)
    peak = None if delta is None else delta.peak
    change = None if delta is None else delta.delta
    return {
        "cell_id": record.cell_id,
        "number": record.execution_count,
        "serial": record.serial,
        "peak": f"▲ {format_bytes(peak, units)}",
        "stayed": format_change(change, units) if change else "",
        "share": None if delta is None else share_of(peak, delta.capacity),
        "tip": _tip(record, delta, units),
    }


def _tip(record: CellRecord, delta: DeviceDelta | None, units: Units) -> str:
    title = title_words(record.execution_count, record.label or record.first_line)
    if delta is None:
        return f"{title}: no device was measured"
    parts = ["peak not known" if delta.peak is None else f"peak {format_bytes(delta.peak, units)}"]
    if delta.peak is not None and delta.capacity:
        whole = "main memory" if delta.device == "cpu" else delta.device
        whole = whole if delta.parts is None else f"what {CAN_GET} on {whole}"
        parts.append(f"{format_share(delta.peak, delta.capacity)} of {whole}")
    return f"{title}: {', '.join(parts)}; {_stayed(delta.delta, units)}"


def _stayed(change: int | None, units: Units) -> str:
    if change is None:
        return "what stayed is not known"
    return f"{format_change(change, units)} stayed" if change else "nothing stayed"


def costliest_of(records: Iterable[CellRecord]) -> dict[str, Any] | None:
    """Returns where the cell with the largest peak is; None where no peak is known."""
    peaks = [(delta.peak, record) for record, delta in _known(records) if delta.peak]
    if not peaks:
        return None
    record = max(peaks, key=lambda pair: pair[0])[1]
    number, serial = record.execution_count, record.serial
    return {"cell_id": record.cell_id, "number": number, "serial": serial}


def _known(records: Iterable[CellRecord]) -> Iterable[tuple[CellRecord, DeviceDelta]]:
    for record in filter(is_cell, records):
        delta = main_delta(record)
        if delta is not None:
            yield record, delta
