"""Text and HTML of the same records in one bundle, as `display(…, raw=True)` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render.html_cell import cell_report_html
from nbmem.render.html_ledger import ledger_html
from nbmem.render.html_tables import (
    history_table_html,
    reclaim_html,
    status_html,
    storages_table_html,
)
from nbmem.render.text_cell import cell_report_text
from nbmem.render.text_ledger import ledger_text
from nbmem.render.text_tables import (
    history_table_text,
    reclaim_text,
    status_text,
    storages_table_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, DeviceReading, Inventory, Ledger, ReclaimReport
    from nbmem.units import Units


def report_bundle(
    record: CellRecord, *, units: Units = "IEC", width: int = 78, rows: int = 6
) -> dict[str, str]:
    """Returns the report of a cell."""
    text = cell_report_text(record, units=units, width=width, rows=rows)
    return _bundle(text, cell_report_html(record, units=units, rows=rows))


def history_bundle(
    records: Sequence[CellRecord], *, units: Units = "IEC", width: int = 78
) -> dict[str, str]:
    """Returns the table of cells."""
    text = history_table_text(records, units=units, width=width)
    return _bundle(text, history_table_html(records, units=units))


def storages_bundle(
    inventory: Inventory, *, units: Units = "IEC", rows: int = 20, width: int = 78
) -> dict[str, str]:
    """Returns the table of live storages."""
    text = storages_table_text(inventory, units=units, rows=rows, width=width)
    return _bundle(text, storages_table_html(inventory, units=units, rows=rows))


def status_bundle(
    readings: Sequence[DeviceReading], *, units: Units = "IEC", width: int = 78
) -> dict[str, str]:
    """Returns the devices' counters."""
    text = status_text(readings, units=units, width=width)
    return _bundle(text, status_html(readings, units=units))


def ledger_bundle(ledger: Ledger, *, units: Units = "IEC", width: int = 78) -> dict[str, str]:
    """Returns the sums of each device."""
    return _bundle(ledger_text(ledger, units=units, width=width), ledger_html(ledger, units=units))


def reclaim_bundle(report: ReclaimReport, *, units: Units = "IEC") -> dict[str, str]:
    """Returns what an act brought back."""
    return _bundle(reclaim_text(report, units=units), reclaim_html(report, units=units))


def _bundle(text: str, html: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": html}
