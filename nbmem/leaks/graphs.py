"""Whether a graph, a generator or an iterator still has work to do, or is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import GraphFact

if TYPE_CHECKING:
    from nbmem.leaks.moment import Moment

FREED, STEPPED, PARTLY = "freed", "stepped", "partly freed"
BACKPROPAGATED, MANY, OLD, SILENT = "backpropagated", "many", "old", "silent"
GRAPH_REASONS = frozenset({FREED, STEPPED, PARTLY, BACKPROPAGATED, MANY, OLD, SILENT})
LEFT = "left"
"""A generator or an iterator that no longer moves."""
MAY_GO_ON = frozenset({OLD, SILENT, LEFT})
"""Only that no cell did says that nobody will: these go only when they are named."""
WAITING = frozenset({"suspended_frame", "iterator_buffer"})
"""Holders that wait in the middle and may go on."""


def why_graph(fact: GraphFact, moment: Moment) -> str | None:
    """Returns why nobody will call `backward()` through graphs; None: it may well come.

    Several in one container are told whatever their age, since mostly it is their numbers that
    somebody keeps; they may still be added up, so that letting go of them has a cost.
    """
    told = why_over(fact)
    if told is not None:
        return told
    if fact.roots > 1:
        return MANY
    old = moment.is_recent(fact.newest) is False
    return (SILENT if fact.silent else OLD) if old else None


def why_over(fact: GraphFact) -> str | None:
    """Returns what the graphs themselves show: `backward()` was there, or cannot come any more."""
    shown = (
        (fact.freed, FREED),
        (fact.stepped, STEPPED),
        (fact.partly, PARTLY),
        (fact.backpropagated, BACKPROPAGATED),
    )
    return next((why for told, why in shown if told), None)


def why_waiting(newest: int, moment: Moment) -> str | None:
    """Returns why nobody will go on with what waits; None: it was at work in the last cell."""
    return LEFT if moment.is_recent(newest) is False else None
