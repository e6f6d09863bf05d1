"""Leaks, holders and what acts freed, as text and as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render import html_parts as parts
from nbmem.render.holder_words import tell_holders
from nbmem.render.html_parts import escape, tag
from nbmem.render.html_tables import table_html, table_inner
from nbmem.render.leak_words import NARROW, leaks_by_table, leaks_listing
from nbmem.render.listing import details_table, details_text, listing_html, listing_text, wrapped
from nbmem.render.reclaim_words import headline, left_lines, lines_of
from nbmem.render.text_tables import table_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbmem.records import Holders, LeakReport, ReclaimReport
    from nbmem.units import Units

_INDENT = "  "


def leaks_text(
    report: LeakReport,
    *,
    by: str | None = None,
    device: str | None = None,
    rows: int = 10,
    units: Units = "IEC",
    width: int = 78,
) -> str:
    """Returns leaks with reason, remedy and cost, or their bytes in groups."""
    if by is not None:
        return table_text(leaks_by_table(report, by, units, device=device), width)
    listing = leaks_listing(report, units, rows, device=device, narrow=width < NARROW)
    return listing_text(listing, width)


def leaks_html(
    report: LeakReport,
    *,
    by: str | None = None,
    device: str | None = None,
    rows: int = 10,
    units: Units = "IEC",
) -> str:
    """Returns the same as HTML with inline styles, at most 720 px wide."""
    if by is not None:
        return table_html(leaks_by_table(report, by, units, device=device))
    listing = leaks_listing(report, units, rows, device=device)
    return parts.frame(listing_html(listing), listing.title)


def holders_text(
    holders: Holders,
    name: str,
    names: Mapping[int, str],
    *,
    units: Units = "IEC",
    width: int = 78,
) -> str:
    """Returns why the asked storages are alive: every way that holds each, shortest first."""
    told = tell_holders(holders, name, names, units, narrow=width < NARROW)
    lines = wrapped(told.title, width) if told.title else []
    lines += [table_text(told.table, width)] if told.table else []
    pieces = ["\n".join(lines)] if lines else []
    pieces += [listing_text(listing, width) for listing in told.storages]
    if told.after:
        pieces.append("\n".join(each for text in told.after for each in wrapped(text, width)))
    return "\n\n".join(pieces)


def holders_html(
    holders: Holders, name: str, names: Mapping[int, str], *, units: Units = "IEC"
) -> str:
    """Returns the same as HTML with inline styles, at most 720 px wide."""
    told = tell_holders(holders, name, names, units)
    inner = [tag("b", escape(told.title))] if told.title else []
    inner += [table_inner(told.table)] if told.table else []
    inner += [tag("div", listing_html(each), "margin-top:10px") for each in told.storages]
    inner.append(parts.sentences(told.after))
    return parts.frame("".join(inner), told.title or told.storages[0].title)


def reclaim_text(
    report: ReclaimReport,
    *,
    plan: bool = False,
    left: LeakReport | None = None,
    units: Units = "IEC",
    width: int = 78,
) -> str:
    """Returns what came back in one line, then what went, was refused and is still held.

    With `plan`, what would come back and go; with `left`, what leaks are there still.
    """
    lines = wrapped(headline(report, units, plan=plan, left=left), width)
    lines += details_text(lines_of(report, units, plan=plan), width, _INDENT)
    if left is not None and left.leaks:
        title, commands = left_lines(left, units)
        lines += [*wrapped(title, width), *details_text(commands, width, _INDENT)]
    return "\n".join(lines)


def reclaim_html(
    report: ReclaimReport,
    *,
    plan: bool = False,
    left: LeakReport | None = None,
    units: Units = "IEC",
) -> str:
    """Returns the same as HTML with inline styles, at most 720 px wide."""
    first = headline(report, units, plan=plan, left=left)
    inner = tag("div", escape(first)) + details_table(lines_of(report, units, plan=plan))
    if left is not None and left.leaks:
        title, commands = left_lines(left, units)
        inner += tag("div", escape(title), "margin-top:6px") + details_table(commands)
    return parts.frame(inner, first)
