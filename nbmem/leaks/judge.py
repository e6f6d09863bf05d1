"""What is a leak: every finding over one moment, each byte at most once, largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.leaks.findings import make_leak
from nbmem.leaks.moment import CellRuns, Moment, find_made_anew
from nbmem.leaks.runs import find_growing, with_growth
from nbmem.leaks.unneeded import find_unneeded
from nbmem.leaks.values import find_gradients, find_states, find_views
from nbmem.records import LeakReport, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from nbmem.origins import Origin
    from nbmem.records import Holders, Inventory

INCOMPLETE = Note(
    field="leaks",
    code="names_incomplete",
    sentence="Names incomplete: a budget cut the search for them, so that only what rests on no "
    "missing name is told: errors, gradients, views and growth",
)
_RULES = (find_states, find_unneeded, find_gradients, find_views, find_growing)


def judge_leaks(
    inventory: Inventory,
    holders: Holders,
    *,
    origin_of: Callable[[int], Origin | None],
    runs: Iterable[CellRuns] = (),
    last_count: int | None = None,
    last_serials: Collection[int] = (),
    threshold: int,
    now: float,
) -> LeakReport:
    """Returns the leaks among the storages of an inventory; the same facts give the same list.

    A storage belongs to at most one leak: the first of these that speaks of it.

    1. What optimizers keep for parameters that no model has.
    2. What no value needs, in groups with the same cuts. What holds for good reason (a graph of the
       last cell, a generator at work) sets its storages aside: nothing below speaks of them.
    3. Gradients that no step will use.
    4. Small views of large storages.
    5. What named values gather from run to run.

    Args:
        inventory: everything alive; storages that it lacks are gone.
        holders: why these storages are alive.
        origin_of: who made a storage; None where nobody knows.
        runs: of each cell that ran more than once, how it grew.
        last_count: execution count of the last cell that ran (not of the one that asks).
        last_serials: serials of its records, and of those of the cell that runs now.
        threshold: bytes below which a leak is only summed.
        now: seconds since the epoch.
    """
    records = {storage.key: storage for storage in inventory.storages}
    by_cell = {one.cell: one for one in runs}
    moment = Moment(
        records=records,
        origin_of=origin_of,
        runs=by_cell,
        last_count=last_count,
        last_serials=last_serials,
        made_anew=find_made_anew(records, origin_of, by_cell),
    )
    found = [finding for rule in _RULES for finding in rule(holders, moment)]
    leaks = [make_leak(finding, moment) for finding in with_growth(found, moment)]
    leaks.sort(key=lambda leak: (-leak.bytes, leak.path_text, leak.storages))
    incomplete = () if holders.complete else (INCOMPLETE,)
    return LeakReport(
        leaks=tuple(leak for leak in leaks if leak.bytes >= threshold),
        taken_at=now,
        threshold=threshold,
        below=sum(leak.bytes for leak in leaks if leak.bytes < threshold),
        notes=(*holders.notes, *incomplete),
    )
