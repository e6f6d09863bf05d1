"""From a finding to its record: sums, the cell that made most of it, the path."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from nbmem.records import Leak, PathStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbmem.leaks.moment import Moment

_ROOT = re.compile(r"[^.\[ ]+")
_ARROW = " → "
Fact = TypeVar("Fact", bound="int | str | None")


@dataclass(frozen=True, slots=True)
class Finding:
    """Storages that are a leak together, and what is said of them."""

    kind: str
    holder: str
    keys: tuple[int, ...]
    """Taken by this finding alone; at least one."""
    path: tuple[PathStep, ...]
    """The shortest chain to the largest of them."""
    cuts: tuple[str, ...]
    reason: str
    remedy: str
    cost: str = ""
    spared: int = 0
    """Bytes that come back into use elsewhere when the remedy is followed."""
    growth: int | None = None
    reclaimable: bool = True
    on_request: bool = False
    sources: tuple[str, ...] = ()
    """What fills it again, as texts of cuts."""
    instead: str = ""


def make_leak(finding: Finding, moment: Moment) -> Leak:
    """Returns a finding as a record."""
    return Leak(
        bytes=moment.size(finding.keys) - finding.spared,
        count=len(finding.keys),
        kind=finding.kind,
        holder=finding.holder,
        path=finding.path,
        created_by=_most(moment, finding.keys, _cells(moment, finding.keys)),
        reason=finding.reason,
        remedy=finding.remedy,
        cost=finding.cost,
        storages=finding.keys,
        device=_most(moment, finding.keys, {k: moment.records[k].device for k in finding.keys}),
        cuts=finding.cuts,
        growth_per_run=finding.growth,
        reclaimable=finding.reclaimable,
        on_request=finding.on_request,
        sources=finding.sources,
        instead=finding.instead,
    )


def _cells(moment: Moment, keys: Iterable[int]) -> dict[int, int | None]:
    cells: dict[int, int | None] = {}
    for key in keys:
        origin = moment.origin_of(key)
        cells[key] = moment.records[key].created_by if origin is None else origin.execution_count
    return cells


def _most(moment: Moment, keys: Iterable[int], facts: Mapping[int, Fact]) -> Fact:
    """Returns the fact that holds for most bytes; of equals a known one, then the first."""
    sums: dict[Fact, int] = defaultdict(int)
    for key in keys:
        sums[facts[key]] += moment.records[key].bytes
    return min(sums, key=lambda fact: (-sums[fact], fact is None, fact or 0, str(fact)))


def largest_of(moment: Moment, keys: Iterable[int]) -> int:
    """Returns the largest storage; of equals the one that was there first."""
    return min(keys, key=lambda key: (-moment.records[key].bytes, key))


def root_of(name: str) -> str:
    """Returns the variable with which a name begins: `kept` of `kept[3].weight`."""
    match = _ROOT.match(name)
    return match[0] if match else name


def path_of(name: str) -> tuple[PathStep, ...]:
    """Returns a printed name as a path: its variable, what follows, and each arrow's step."""
    if not name:
        return ()
    first, *others = name.split(_ARROW)
    root = root_of(first)
    steps = [PathStep("variable", root)]
    if rest := first[len(root) :]:
        steps.append(PathStep("item" if rest[0] == "[" else "attribute", rest))
    steps += [PathStep(other.partition("[")[0].split(" ")[0] or "step", other) for other in others]
    return tuple(steps)


def name_of(moment: Moment, key: int) -> str:
    """Returns the first name of a storage, or nothing."""
    names = moment.records[key].names
    return names[0] if names else ""
