"""Getting leaks back: a plan in words and bytes, the act, the proof.

find (fresh web, fresh judgement) ──> choose ──> gather live objects ──> leave the web
    ──> act ──> bytes before and after, and what still holds what should have gone
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbmem.heap import StorageRef, scan_heap
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.planning import Finder, Plan, make_plan
from nbmem.reclaim.work import Interrupts
from nbmem.records import ReclaimReport
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from nbmem.records import Leak

_MOST_CHAINS = 3


def plan_reclaim(
    holdings: Holdings,
    finder: Finder,
    targets: Sequence[Leak | str] | None = None,
    *,
    everything: bool = False,
) -> ReclaimReport:
    """Returns what `reclaim_leaks` would do, in words and bytes; nothing is freed.

    Raises:
        NameNotFoundError: a text is neither a variable nor what holds a leak.
    """
    plan = make_plan(holdings, finder, targets, everything=everything)
    plan.work.clear()
    before = _bytes_now(holdings)
    return ReclaimReport(
        act="reclaim",
        planned=tuple(plan.planned),
        dropped=(),
        refused=_once(plan.refused),
        bytes_before=before,
        bytes_after=None if plan.bytes is None else before - plan.bytes,
        counts=_counts(holdings),
        costs=tuple(plan.costs),
        promised=plan.bytes,
    )


def reclaim_leaks(
    holdings: Holdings,
    finder: Finder,
    targets: Sequence[Leak | str] | None = None,
    *,
    everything: bool = False,
) -> ReclaimReport:
    """Frees leaks and keeps every value that the user can name; returns the proof.

    Args:
        holdings: what may be touched.
        finder: looks at the leaks of now: each target is matched with these first.
        targets: leaks, texts of what holds them (`Chain.cut`), names of variables; None takes the
            leaks that cost nothing.
        everything: where `targets` is None, also those that cost something.

    Raises:
        NameNotFoundError: a text is neither a variable nor what holds a leak.
        KeyboardInterrupt: the user interrupted an act; all others were done, as its notes say.
    """
    plan = make_plan(holdings, finder, targets, everything=everything)
    before = _bytes_now(holdings)
    with Interrupts() as interrupts:
        outcome = plan.work.run(holdings.shell)
    with scan_heap(holdings.table):  # new storages, which took the place of large ones
        pass
    held = _still_held(holdings, finder, plan, outcome.done)
    report = ReclaimReport(
        act="reclaim",
        planned=tuple(plan.planned),
        dropped=_once(outcome.done),
        refused=_once([*plan.refused, *outcome.refused]),
        bytes_before=before,
        bytes_after=_bytes_now(holdings),
        counts=_counts(holdings),
        still_held=held,
        costs=tuple(plan.costs),
        promised=plan.bytes,
    )
    if interrupts.met:
        raise _interrupted(report)
    return report


def _interrupted(report: ReclaimReport) -> KeyboardInterrupt:
    """Returns the user's interrupt, with what was done before it is raised again."""
    error = KeyboardInterrupt()
    for sentence in (*report.dropped, *report.refused):
        error.add_note(sentence)
    return error


# -- the proof -----------------------------------------------------------------------------------


def _still_held(holdings: Holdings, finder: Finder, plan: Plan, done: list[str]) -> tuple[str, ...]:
    """Returns what holds the storages that should have gone; collects garbage among them."""
    left = _left(holdings, plan)
    if not left:
        return ()
    found = finder.explain(list(left)).held
    garbage = [one for one in found if one.chains and _is_garbage(one.chains)]
    if garbage and len(garbage) == len(found) and not plan.work.collect:
        gc.collect()
        done.append("gc.collect(), since the rest was left in cycles of garbage")
        return _still_held_then(holdings, finder, plan)
    return _tell(holdings, found, left)


def _still_held_then(holdings: Holdings, finder: Finder, plan: Plan) -> tuple[str, ...]:
    left = _left(holdings, plan)
    return _tell(holdings, finder.explain(list(left)).held, left) if left else ()


def _is_garbage(chains: Sequence[Any]) -> bool:
    return all(chain.holder == "garbage" for chain in chains)


def _left(holdings: Holdings, plan: Plan) -> dict[int, StorageRef]:
    return {ref.serial: ref for ref in holdings.table.live() if ref.serial in plan.keys}


def _tell(
    holdings: Holdings, found: Sequence[Any], left: Mapping[int, StorageRef]
) -> tuple[str, ...]:
    told: dict[tuple[str, ...], list[StorageRef]] = {}
    for one in found:
        texts = tuple(chain.text for chain in one.chains[:_MOST_CHAINS])
        told.setdefault(texts, []).extend([left[one.key]] if one.key in left else [])
    sizes = {texts: holdings.table.bytes_freed(refs) for texts, refs in told.items()}
    return tuple(
        f"{format_bytes(size)} live on: {' and '.join(texts) or 'what holds them was not found'}"
        for texts, size in sizes.items()
    )


def _bytes_now(holdings: Holdings) -> int:
    """Returns what allocators of accelerators and the table of CPU storages count now."""
    return holdings.table.bytes_on("cpu") + sum(size for _, size in _accelerators(holdings))


def _counts(holdings: Holdings) -> str:
    devices = (f"allocated on {device}" for device, _ in _accelerators(holdings))
    return ", ".join(["torch storages on cpu", *devices])


def _accelerators(holdings: Holdings) -> list[tuple[str, int]]:
    """Returns what is allocated on each that is in use; before, there is nothing to count."""
    return [
        (reading.device, reading.allocated)
        for reading in holdings.read_devices()
        if reading.kind == "accelerator" and reading.allocated is not None
    ]


def _once(sentences: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentences))
