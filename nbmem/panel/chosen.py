"""The line about the cell that was chosen in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.cell_columns import cell_sentence, stack_sentence
from nbmem.panel.jumps import place_of
from nbmem.panel.legend import detail_html

if TYPE_CHECKING:
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import CellRecord


def chosen_html(serial: int | None, snapshot: Snapshot | None) -> str:
    """Returns all of the chosen cell's figures; an invitation where none is chosen."""
    records = () if snapshot is None else snapshot.records
    record = next((each for each in records if each.serial == serial), None)
    if snapshot is None or record is None:
        return detail_html("")
    return detail_html(_told(record, snapshot), place_of(record))


def _told(record: CellRecord, snapshot: Snapshot) -> str:
    told = cell_sentence(record, snapshot.device, snapshot.units)
    parts = stack_sentence(record, snapshot.device, snapshot.units, snapshot.shown)
    return f"{told} · {parts}" if parts else told
