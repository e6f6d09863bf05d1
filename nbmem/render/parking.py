"""What is parked, and what parking and unparking moved, as text and as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.html_parts import escape, tag
from nbmem.render.html_tables import table_html
from nbmem.render.listing import Detail, details_table, details_text, wrapped
from nbmem.render.names import clean
from nbmem.render.reclaim_words import said, span
from nbmem.render.tables import Column, Table, sizes
from nbmem.render.text_tables import table_text
from nbmem.units import Units, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import ParkedThing, ReclaimReport

_NOTHING = "Nothing is parked. %gpumem park NAME moves a model to pinned CPU memory."
_BACK = "%gpumem unpark [NAME…] brings it back"


def parked_bundle(
    things: Sequence[ParkedThing], *, units: Units = "IEC", width: int = 78
) -> dict[str, str]:
    """Returns what is parked, with bytes and where it came from."""
    table = _parked_table(things, units)
    return {"text/plain": table_text(table, width), "text/html": table_html(table)}


def _parked_table(things: Sequence[ParkedThing], units: Units) -> Table:
    if not things:
        return Table("Parked", (), (_NOTHING,))
    title = f"Parked · {format_bytes(sum(thing.bytes for thing in things), units)}"
    columns = (
        Column("name", tuple(clean(thing.name) for thing in things), elastic=True, code=True),
        sizes("size", (thing.bytes for thing in things), units),
        Column("count", tuple(f"{thing.storages:,}" for thing in things), figures=True),
        Column("from", tuple(thing.device for thing in things)),
    )
    return Table(title, columns, (_BACK,))


def parking_bundle(
    report: ReclaimReport, *, plan: bool = False, units: Units = "IEC", width: int = 78
) -> dict[str, str]:
    """Returns what `park` or `unpark` moved, what it refused, and the bytes that prove it.

    With `plan`, what it would move.
    """
    first, lines = _headline(report, units, plan), _lines(report, plan)
    text = "\n".join([*wrapped(first, width), *details_text(lines, width, "  ")])
    html = parts.frame(tag("div", escape(first)) + details_table(lines), first)
    return {"text/plain": text, "text/html": html}


def _headline(report: ReclaimReport, units: Units, plan: bool) -> str:
    size = format_bytes(abs(report.promised or 0), units)
    if plan:
        return f"Would {report.act} {size}." if report.planned else f"Nothing to {report.act}."
    if not report.dropped:
        return f"Nothing was {report.act}ed."
    if report.bytes_before is None or report.bytes_after is None:
        return f"{report.act.capitalize()}ed {size}."
    way = span(report.bytes_before, report.bytes_after, units)
    return f"{report.act.capitalize()}ed {size} ({way}, {clean(report.counts)})."


def _lines(report: ReclaimReport, plan: bool) -> tuple[Detail, ...]:
    told = said("moves", report.planned) if plan else said("moved", report.dropped)
    told += said("refused", report.refused)
    told += said("held", report.still_held)
    return (*told, *said("note", (note.sentence for note in report.notes)))
