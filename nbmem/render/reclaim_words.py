"""A plan to free and its outcome, in words, before text or HTML lays it out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbmem.render.leak_words import where_of
from nbmem.render.listing import Detail
from nbmem.render.names import clean
from nbmem.units import Units, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import Leak, LeakReport, ReclaimReport

_MOST = 12
"""Sentences of one kind that are shown."""
_MOST_LEFT = 5


def headline(
    report: ReclaimReport, units: Units, *, plan: bool = False, left: LeakReport | None = None
) -> str:
    """Returns in one line what came back and what is gone, or what a plan would free."""
    if report.act == "reclaim" and not report.planned and not report.refused:
        costly = left is not None and left.leaks
        return "Nothing goes at no cost." if costly else "There is nothing to reclaim."
    return _promise(report, units) if plan else " ".join((_freed(report, units), *_gone(report)))


def lines_of(report: ReclaimReport, units: Units, *, plan: bool = False) -> tuple[Detail, ...]:
    """Returns what an act or a plan drops, costs and refuses, and what still holds the rest."""
    told = []
    if plan:
        told += said("would", report.planned)
        told += said("costs", report.costs)
    elif report.act == "reclaim":
        told += said("done", report.dropped)
        told += said("planned", _difference(report, units))
    told += said("refused" if plan or report.act == "reclaim" else "", report.refused)
    told += said("" if report.act != "reclaim" else "held", report.still_held)
    return (*told, *said("", (note.sentence for note in report.notes)))


def left_lines(left: LeakReport, units: Units) -> tuple[str, tuple[Detail, ...]]:
    """Returns what leaks are left after an act, then the commands that take them, with costs."""
    if not left.leaks:
        return "", ()
    size = format_bytes(sum(leak.bytes for leak in left.leaks), units)
    numbered = enumerate(left.leaks, 1)
    taken = [(n, leak) for n, leak in numbered if leak.reclaimable and not leak.on_request]
    lines = [Detail(_what(leak, units), f"%gpumem reclaim {n}") for n, leak in taken[:_MOST_LEFT]]
    if len(taken) > 1:
        every = format_bytes(sum(leak.bytes for _, leak in taken), units)
        lines.append(Detail(f"all {len(taken):,} of these, {every}", "%gpumem reclaim --all"))
    if len(taken) < len(left.leaks):
        lines.append(Detail("tells the rest", "%gpumem leaks"))
    return f"Left: {size} in {format_count(len(left.leaks), 'leak')}", tuple(lines)


def _what(leak: Leak, units: Units) -> str:
    cost = f", costs {clean(leak.cost)}" if leak.cost else ""
    return f"{format_bytes(leak.bytes, units)} of {where_of(leak)}{cost}"


def said(word: str, texts: Iterable[str]) -> list[Detail]:
    """Returns sentences under one word, which stands before the first."""
    listed = [clean(text) for text in texts if text]
    if len(listed) > _MOST:
        listed = [*listed[:_MOST], f"and {len(listed) - _MOST:,} more"]
    return [
        Detail(text, word if number == 0 else " " * len(word)) for number, text in enumerate(listed)
    ]


def _promise(report: ReclaimReport, units: Units) -> str:
    counts = clean(report.counts)
    if not report.planned:
        return "Nothing would be dropped."
    if report.promised is None:
        return f"How much would come back is unknown ({counts})."
    if report.bytes_before is None:
        return f"Would free {format_bytes(report.promised, units)} ({counts})."
    way = span(report.bytes_before, report.bytes_before - report.promised, units)
    return f"Would free {format_bytes(report.promised, units)} ({way}, {counts})."


def _freed(report: ReclaimReport, units: Units) -> str:
    counts, before, after = clean(report.counts), report.bytes_before, report.bytes_after
    if report.act == "reclaim" and not report.dropped:
        return "Nothing was dropped."
    if report.freed is None or before is None or after is None:
        return f"{clean(report.act)} is done; how much came back is unknown ({counts})."
    if report.freed == 0:
        return f"Nothing came back: {format_bytes(after, units)} as before, {counts}."
    way = span(before, after, units)
    if report.freed < 0:
        return f"Nothing came back: {way}, {counts}, made meanwhile."
    return f"Freed {format_bytes(report.freed, units)} ({way}, {counts})."


def _gone(report: ReclaimReport) -> tuple[str, ...]:
    """Returns what the user lost, as in `%debug for the error of [9] is gone.`."""
    if not report.dropped:
        return ()
    costs = [clean(cost) for cost in report.costs if cost]
    sentences = [cost for cost in costs if cost.endswith(".")]
    things = [cost for cost in costs if not cost.endswith(".")]
    if things:
        many = len(things) > 1 or _SEVERAL.match(things[0]) is not None
        said = f"{_listed(things)} {'are' if many else 'is'} gone."
        words = things[0].startswith(_WORDS)
        sentences.insert(0, said[0].upper() + said[1:] if words else said)
    return tuple(sentences)


_WORDS = ("what ", "the ", "another ", "gradients through ")
"""Beginnings of costs that are no name of the user's."""
_SEVERAL = re.compile(r"(?:[2-9]|\d\d|gradients |the variables |.+ and what it has collected$)")
"""One cost that speaks of several things."""


def _listed(things: Sequence[str]) -> str:
    shown = things if len(things) <= _MOST else (*things[:_MOST], f"{len(things) - _MOST:,} more")
    *first, last = shown
    return f"{', '.join(first)} and {last}" if first else last


def _difference(report: ReclaimReport, units: Units) -> tuple[str, ...]:
    """Returns how the outcome differs from the promise; nothing where it does not."""
    if report.promised is None or report.freed is None or report.promised == report.freed:
        return ()
    missing = report.promised - report.freed
    said = f"{format_bytes(report.promised, units)}: {format_bytes(abs(missing), units)}"
    return (f"{said} {'less' if missing > 0 else 'more'} came back",)


def span(before: int, after: int, units: Units) -> str:
    """Returns `2.90 → 1.76 GiB`: the first without its unit where the second has the same."""
    first, last = format_bytes(before, units), format_bytes(after, units)
    figure, _, unit = first.partition(" ")
    return f"{figure if unit == last.partition(' ')[2] else first} → {last}"
