"""What chart and tables of the history have in common: which cells, their labels, one unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord
    from nbmem.units import Units

MOST_CELLS = 1_000
"""Bars that are drawn; of a longer history the newest."""


def chartable(records: Sequence[CellRecord], device: str) -> list[CellRecord]:
    """Returns the records that get a bar: whole cells with a known end on `device`, in order.

    A block measured inside a cell is part of that cell's bar.
    """
    known = [
        record
        for record in records
        if record.parent is None
        and device in record.devices
        and record.devices[device].after is not None
    ]
    return known[-MOST_CELLS:]


def cell_label(record: CellRecord) -> str:
    """Returns `[7]`, or the record's own number where no cell ran it: `#12`."""
    if record.execution_count is None:
        return f"#{record.serial}"
    return f"[{record.execution_count}]"


def cell_title(record: CellRecord) -> str:
    """Returns the label the user gave, else the first line of the cell."""
    return record.label or record.first_line


def chart_unit(size: int, units: Units) -> tuple[int, str]:
    """Returns the bytes of the unit in which `size` is written, and its name."""
    name = format_bytes(size, units).split()[-1]
    base = 1024 if units == "IEC" else 1000
    power = "BkMGTP".index(name[0].replace("K", "k"))
    return int(base**power), name
