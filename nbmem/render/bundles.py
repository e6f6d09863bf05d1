"""Text and HTML of the same records in one bundle, as `display(…, raw=True)` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render.html_cell import cell_report_html
from nbmem.render.html_ledger import ledger_html
from nbmem.render.html_tables import (
    history_table_html,
    status_html,
    table_html,
)
from nbmem.render.leaks import (
    holders_html,
    holders_text,
    leaks_html,
    leaks_text,
    reclaim_html,
    reclaim_text,
)
from nbmem.render.module_tables import modules_table, places_table
from nbmem.render.tensor_tables import groups_table, storages_table
from nbmem.render.text_cell import cell_report_text
from nbmem.render.text_ledger import ledger_text
from nbmem.render.text_tables import (
    history_table_text,
    status_text,
    table_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.records import (
        CellRecord,
        DeviceReading,
        Holders,
        Inventory,
        LeakReport,
        Ledger,
        ReclaimReport,
    )
    from nbmem.render.tables import Table
    from nbmem.units import Units

_MOST_ROWS = 500
"""Rows in a notebook, where they are saved."""
_MOST_DEVICES = 6
"""Columns of devices in a notebook."""


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


def tensors_bundle(
    inventory: Inventory,
    *,
    by: str | None = None,
    text: str = "",
    sort: str = "size",
    rows: int = 20,
    where: bool = False,
    units: Units = "IEC",
    width: int = 78,
) -> dict[str, str]:
    """Returns live tensors one by one, in groups, as a tree of modules, or by place.

    Args:
        inventory: what is alive.
        by: one of `totals.GROUPINGS`, or None for one by one.
        text: a filter, as `totals.parse_filter` reads it.
        sort: one of `totals.SORTINGS`; of groups `size` or `name`.
        rows: storages, groups or modules that are shown.
        where: sets categories and models against devices.
        units: `IEC` or `SI`.
        width: columns of the text.

    Raises:
        ValueError: `by`, `text` or `sort` makes no sense; the message says what does.
    """
    if where:
        narrow, wide = (
            places_table(inventory, units, most, text=text)
            for most in (max(2, (width - 22) // 11), _MOST_DEVICES)
        )
        return _bundle(table_text(narrow, width), table_html(wide))

    def table(most: int) -> Table:
        if by == "module":
            return modules_table(inventory, units, most, text=text)
        if by is not None:
            return groups_table(inventory, units, most, by, text=text, sort=sort)
        return storages_table(inventory, units, most, text=text, sort=sort)

    shown = table(rows)
    return _bundle(
        table_text(shown, width), table_html(shown if rows <= _MOST_ROWS else table(_MOST_ROWS))
    )


def status_bundle(
    readings: Sequence[DeviceReading], *, units: Units = "IEC", width: int = 78
) -> dict[str, str]:
    """Returns the devices' counters."""
    text = status_text(readings, units=units, width=width)
    return _bundle(text, status_html(readings, units=units))


def ledger_bundle(ledger: Ledger, *, units: Units = "IEC", width: int = 78) -> dict[str, str]:
    """Returns the sums of each device."""
    return _bundle(ledger_text(ledger, units=units, width=width), ledger_html(ledger, units=units))


def leaks_bundle(
    report: LeakReport,
    *,
    by: str | None = None,
    device: str | None = None,
    rows: int = 10,
    units: Units = "IEC",
    width: int = 78,
) -> dict[str, str]:
    """Returns leaks, largest first, each with its reason, its remedy and what that costs.

    Args:
        report: what was found.
        by: one of `leak_words.GROUPED_BY` for their bytes in groups, or None for one by one.
        device: shows only those that are mostly on this device.
        rows: leaks that are shown one by one.
        units: `IEC` or `SI`.
        width: columns of the text.

    Raises:
        ValueError: `by` makes no sense; the message says what does.
    """
    text = leaks_text(report, by=by, device=device, rows=rows, units=units, width=width)
    most = min(rows, _MOST_ROWS)
    return _bundle(text, leaks_html(report, by=by, device=device, rows=most, units=units))


def holders_bundle(
    holders: Holders,
    name: str,
    names: Mapping[int, str],
    *,
    units: Units = "IEC",
    width: int = 78,
) -> dict[str, str]:
    """Returns why the storages of `name` are alive; `names` calls each by its key."""
    text = holders_text(holders, name, names, units=units, width=width)
    return _bundle(text, holders_html(holders, name, names, units=units))


def reclaim_bundle(
    report: ReclaimReport,
    *,
    plan: bool = False,
    left: LeakReport | None = None,
    units: Units = "IEC",
    width: int = 78,
) -> dict[str, str]:
    """Returns what an act brought back and cost, or with `plan` what it would.

    `left` are the leaks that are there still: each is told with the command that takes it.
    """
    text = reclaim_text(report, plan=plan, left=left, units=units, width=width)
    return _bundle(text, reclaim_html(report, plan=plan, left=left, units=units))


def _bundle(text: str, html: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": html}
