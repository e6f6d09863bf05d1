"""What stays in the notebook beside the live widgets: text and HTML that need no kernel."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

from nbmem.panel.cell_columns import cell_sentence, cell_table
from nbmem.panel.columns import figures, one_line
from nbmem.panel.html_table import table_html
from nbmem.panel.leak_columns import leak_table
from nbmem.panel.leak_columns import option_text as leak_text
from nbmem.panel.leak_words import sentences_html, state_sentences, title_of
from nbmem.panel.live import Line
from nbmem.panel.live_columns import storage_name, storage_table
from nbmem.panel.places import places_aside, places_html
from nbmem.panel.words import FONT
from nbmem.render.html_ledger import ledger_html
from nbmem.render.text_ledger import ledger_text

if TYPE_CHECKING:
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import LeakReport

_CELLS = 10
_STORAGES = 10
_LEAKS = 20


def copy_text(snapshot: Snapshot | None) -> str:
    """Returns the panel as lines of text."""
    lines = [f"nbmem panel{_as_of(snapshot)}"]
    if snapshot is None:
        return "\n".join(lines)
    shown = snapshot.records[-_CELLS:]
    lines += [cell_sentence(record, snapshot.device, snapshot.units) for record in shown]
    lines += _storage_lines(snapshot)
    lines += _leak_lines(snapshot)
    if snapshot.ledger is not None:
        lines += ["", ledger_text(snapshot.ledger, units=snapshot.units)]
    return "\n".join(lines)


def _as_of(snapshot: Snapshot | None) -> str:
    if snapshot is None or snapshot.inventory is None:
        return ""
    return f", as it was at {clock_text(snapshot.inventory.taken_at)}"


def clock_text(seconds: float) -> str:
    """Returns the time of day: `14:02:11`."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _storage_lines(snapshot: Snapshot) -> list[str]:
    storages = snapshot.storages()[:_STORAGES]
    if not storages:
        return []
    sizes = figures([storage.bytes for storage in storages], snapshot.units)
    rows = [
        f"{size:>10} {sizes.unit}  {one_line(storage_name(storage), 60)}"
        for size, storage in zip(sizes.texts, storages, strict=True)
    ]
    rest = len(snapshot.storages()) - len(storages)
    where = places_aside(snapshot.places(), snapshot.units)
    return [f"Live tensors: {where}", *rows, *([f"and {rest:,} more"] if rest else [])]


def _leak_lines(snapshot: Snapshot) -> list[str]:
    report = snapshot.leaks
    if report is None:
        return []
    shown, rest = report.leaks[:_LEAKS], len(report.leaks[_LEAKS:])
    rows = [leak_text(leak, snapshot.units) for leak in shown]
    more = [f"and {rest:,} more"] if rest else []
    told = state_sentences(report, snapshot.inventory, snapshot.units)
    return [title_of(report, snapshot.units), *rows, *more, *told]


def copy_html(snapshot: Snapshot | None, *, narrow: bool = False) -> str:
    """Returns the same as HTML with inline styles only, every text escaped.

    `narrow` leaves out the columns that a sidebar has no room for.
    """
    head = f"<b>nbmem panel</b>{escape(_as_of(snapshot))}"
    parts = [f"<div>{head}</div>"]
    if snapshot is not None and snapshot.records:
        shown = snapshot.records[-_CELLS:]
        cells = cell_table(shown, snapshot.device, snapshot.units)
        parts.append(table_html(cells, narrow=narrow))
    if snapshot is not None and snapshot.storages():
        parts += _storage_parts(snapshot, narrow=narrow)
    if snapshot is not None and snapshot.leaks is not None:
        parts += _leak_parts(snapshot, snapshot.leaks, narrow=narrow)
    if snapshot is not None and snapshot.ledger is not None:
        parts.append(ledger_html(snapshot.ledger, units=snapshot.units))
    style = f"{FONT}line-height:20px;max-width:720px"
    return f'<div class="nbmem-copy" style="{style}">{"".join(parts)}</div>'


def _storage_parts(snapshot: Snapshot, *, narrow: bool) -> list[str]:
    storages = snapshot.storages()
    rest = len(storages) - _STORAGES
    shown = [Line(each.key, each, None) for each in storages[:_STORAGES]]
    return [
        "<div><b>Where tensors are</b></div>",
        places_html(snapshot.places(), snapshot.units),
        "<div><b>Largest live tensors</b></div>",
        table_html(storage_table(shown, snapshot.units), narrow=narrow),
        f"<div>and {rest:,} more</div>" if rest > 0 else "",
    ]


def _leak_parts(snapshot: Snapshot, report: LeakReport, *, narrow: bool) -> list[str]:
    shown, rest = report.leaks[:_LEAKS], len(report.leaks[_LEAKS:])
    data = leak_table(range(len(shown)), shown, snapshot.units)
    told = state_sentences(report, snapshot.inventory, snapshot.units)
    return [
        f"<div><b>{escape(title_of(report, snapshot.units))}</b></div>",
        table_html(data, narrow=narrow) if shown else "",
        f"<div>and {rest:,} more</div>" if rest else "",
        sentences_html(told),
    ]
