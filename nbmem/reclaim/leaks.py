"""Getting leaks back: a plan in words and bytes, the act, the proof.

    find (fresh web, fresh judgement) ──> choose ──> gather live objects ──> leave the web
        ──> act ──> bytes before and after, and what still holds what should have gone

What is promised is worked out from the chains: a storage comes back when every way to it is cut.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbmem.heap import StorageRef, scan_heap
from nbmem.reclaim.arrays import copy_arrays, is_array, way_to, why_not_copy
from nbmem.reclaim.choosing import Choice, Known, choose
from nbmem.reclaim.cutting import Cutter, words_of
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.outcome import count_of, list_of
from nbmem.reclaim.views import shrunk_bytes, why_not_shrink
from nbmem.reclaim.work import Work
from nbmem.records import ReclaimReport
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from nbmem.holders.web import CutPoint, Web
    from nbmem.records import Holders, Leak, LeakReport

_GARBAGE = ("garbage", "frozen")
_MOST_CHAINS = 3


@dataclass(frozen=True, slots=True)
class Finder:
    """How the session looks: each call looks anew."""

    find: Callable[[], tuple[Web, LeakReport]]
    """The web is open, and its leaks judged; whoever asks closes it."""
    explain: Callable[[Sequence[int]], Holders]
    """Why these storages (serials) are alive."""


@dataclass(slots=True)
class _Plan:
    """What is to be done; holds live objects in `work` until that has run or is cleared."""

    work: Work = field(default_factory=Work)
    planned: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    costs: dict[str, None] = field(default_factory=dict)
    cuts: set[str] = field(default_factory=set)
    """What will hold nothing more."""
    keys: dict[int, None] = field(default_factory=dict)
    """Serials of the storages that come back."""
    bytes: int | None = 0
    """Of these, but for the new storages that take their place; None where that is unknown."""
    unsure: bool = False
    """A variable goes: how much comes back with it is not worked out."""
    views: list[tuple[Leak, list[Target]]] = field(default_factory=list)
    """Small views of large storages, until it is known whether they can be moved."""

    def promise(self, leak: Leak, words: str) -> None:
        """Notes that a leak goes."""
        self.planned.append(f"{words}: {format_bytes(leak.bytes)}")
        self.keys.update(dict.fromkeys(leak.storages))
        if leak.cost:
            self.costs[leak.cost] = None


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
    plan = _make_plan(holdings, finder, targets, everything=everything)
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
    """
    plan = _make_plan(holdings, finder, targets, everything=everything)
    before = _bytes_now(holdings)
    outcome = plan.work.run(holdings.shell)
    with scan_heap(holdings.table):  # new storages, which took the place of large ones
        pass
    held = _still_held(holdings, finder, plan, outcome.done)
    return ReclaimReport(
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


# -- the plan ------------------------------------------------------------------------------------


def _make_plan(
    holdings: Holdings,
    finder: Finder,
    targets: Sequence[Leak | str] | None,
    *,
    everything: bool,
) -> _Plan:
    plan = _Plan()
    web, report = finder.find()
    try:
        with web:
            live = {ref.serial: ref for ref in holdings.table.live()}
            texts = (list(holdings.names()), list(holdings.outputs()), list(web.points))
            choice = choose(Known(report.leaks, live, *texts), targets, everything=everything)
            _Planner(plan, web, holdings).take(choice)
        _weigh(plan, live)
    except BaseException:
        plan.work.clear()
        plan.views.clear()
        raise
    return plan


class _Planner:
    """Turns a choice into work, while the web is open."""

    def __init__(self, plan: _Plan, web: Web, holdings: Holdings) -> None:
        self._plan = plan
        self._web = web
        self._outputs = holdings.outputs
        self._graphs = {fact.cut for fact in web.holders.graphs}
        self._shell = holdings.shell
        self._names = namespace_of(holdings)

    def take(self, choice: Choice) -> None:
        """Takes up everything chosen, and what goes along with it."""
        plan = self._plan
        plan.refused += choice.refused
        for leak in choice.leaks:
            self._take_leak(leak)
        for cut in choice.cuts:
            work = Work()
            if words := self._take_cut(cut, work, cycle=False):
                plan.work.merge(work)
                plan.cuts.add(cut)
                plan.planned.append(words)
        for name in choice.variables:
            plan.work.variables[name] = None
            plan.planned.append(f"del {name}")
            self._take_shown(self._names.get(name))
        for name in choice.outputs:
            self._take_shown(self._outputs()[name])
        plan.unsure = bool(choice.variables or choice.outputs)
        self._count_along()

    def _take_shown(self, value: Any) -> None:
        """Drops IPython's copies of a value too: as long as they are there nothing is freed."""
        for text, shown in self._outputs().items():
            if shown is value and text not in self._plan.work.outputs:
                self._plan.work.outputs[text] = shown
                self._plan.planned.append(f"drop {text}")
                if text.startswith("Out["):
                    self._plan.costs[text] = None

    def _take_leak(self, leak: Leak) -> None:
        if leak.kind == "oversized_view":
            self._plan.views.append((leak, self._views(leak)))
            return
        work = Work()
        words = self._words(leak, work)
        if words:
            self._plan.work.merge(work)
            self._plan.promise(leak, words)

    def _words(self, leak: Leak, work: Work) -> str:
        """Adds what frees a leak to the work; returns it in words, empty where it is refused."""
        if leak.kind == "unused_gradient":
            return self._take_gradients(leak, work)
        if leak.holder == "optimizer" and leak.cuts[0] in self._web.optimizers:
            return self._take_state(leak.cuts[0], work)
        cycle = leak.kind == "autograd_cycle"
        said = [self._take_cut(cut, work, cycle=cycle) for cut in leak.cuts]
        if not all(said):
            return ""
        self._plan.cuts.update(leak.cuts)
        return ", ".join(dict.fromkeys(said))

    def _views(self, leak: Leak) -> list[Target]:
        tensors = [tensor for key in leak.storages for tensor in self._web.tensors.get(key, ())]
        names = [*leak.cuts, *["a view"] * len(tensors)]
        return [
            Target(name, tensor, way_to(name, self._names))
            for name, tensor in zip(names, tensors, strict=False)
        ]

    def _take_gradients(self, leak: Leak, work: Work) -> str:
        owners = [owner for key in leak.storages for owner in self._web.owners.get(key, ())]
        work.gradients += owners
        return f"set {count_of(len(owners), 'gradient')} to None"

    def _take_state(self, name: str, work: Work) -> str:
        lost = self._web.lost.get(name, [])
        work.states.append((self._web.optimizers[name], list(lost)))
        return f"take {count_of(len(lost), 'parameter')} with their state out of {name}"

    def _take_cut(self, cut: str, work: Work, *, cycle: bool) -> str:
        points = [point for point in self._web.cuts(cut) if not point.chain.wanted]
        if cycle:
            points = [point for point in points if _is_cycle(point)]
        if not points:
            return self._take_garbage(cut, work)
        cutter, graph = Cutter(work, self._shell, self._names), cut in self._graphs
        for point in points:
            reason = "" if cycle else cutter.take(point, graph=graph)
            if cycle:
                cutter.take_cycle(point)
            if reason:
                self._plan.refused.append(f"{cut}: {reason}")
                return ""
        work.collect |= cycle
        return f"cut {cut}, then gc.collect()" if cycle else words_of(points[0], graph=graph)

    def _take_garbage(self, cut: str, work: Work) -> str:
        """What only the collector can reach: there is no object to act upon."""
        chains = [chain for held in self._web.holders.held for chain in held.chains]
        holders = {chain.holder for chain in chains if chain.cut == cut}
        if not holders or not holders <= set(_GARBAGE):
            self._plan.refused.append(f"{cut}: nothing that could be cut was found there")
            return ""
        work.collect = True
        work.unfreeze |= "frozen" in holders
        return "gc.unfreeze(), then gc.collect()" if work.unfreeze else "gc.collect()"

    def _count_along(self) -> None:
        """Counts the storages, however small, that nothing else holds than what is cut."""
        cut, collect = self._plan.cuts, self._plan.work.collect
        for held in self._web.holders.held:
            if held.chains and not held.wanted and not held.more:
                going = (c.cut in cut or (collect and c.holder in _GARBAGE) for c in held.chains)
                if all(going):
                    self._plan.keys[held.key] = None


def _is_cycle(point: CutPoint) -> bool:
    kinds = [step.kind for step in point.chain.steps]
    return "cycle" in kinds[:1] or "graph" in kinds


def namespace_of(holdings: Holdings) -> dict[str, Any]:
    """Returns the dict itself in which the user's variables stand."""
    shell = holdings.shell
    names: dict[str, Any] = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    return names


def _weigh(plan: _Plan, live: dict[int, StorageRef]) -> None:
    """Works out what comes back, once nothing of ours shows the storages any more."""
    new = 0
    while plan.views:
        leak, targets = plan.views.pop()
        arrays = any(is_array(target.tensor) for target in targets)
        names = list_of(target.name for target in targets)
        reason = why_not_copy(targets) if arrays else why_not_shrink(targets)
        if reason:
            plan.refused.append(f"{names}: {reason}; {leak.remedy}")
            continue
        if arrays:
            plan.work.acts["copy", leak.storages[0]] = partial(copy_arrays, targets)
            plan.promise(leak, f"replace {names} by a copy")
            continue
        new += shrunk_bytes(targets) or 0
        plan.work.views += targets
        plan.promise(leak, f"give {names} a storage of just the size")
    total = sum(live[key].bytes for key in plan.keys if key in live)
    plan.bytes = None if plan.unsure else total - new


# -- the proof -----------------------------------------------------------------------------------


def _still_held(
    holdings: Holdings, finder: Finder, plan: _Plan, done: list[str]
) -> tuple[str, ...]:
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
    return _tell(found)


def _still_held_then(holdings: Holdings, finder: Finder, plan: _Plan) -> tuple[str, ...]:
    left = _left(holdings, plan)
    return _tell(finder.explain(list(left)).held) if left else ()


def _is_garbage(chains: Sequence[Any]) -> bool:
    return all(chain.holder == "garbage" for chain in chains)


def _left(holdings: Holdings, plan: _Plan) -> dict[int, StorageRef]:
    return {ref.serial: ref for ref in holdings.table.live() if ref.serial in plan.keys}


def _tell(found: Sequence[Any]) -> tuple[str, ...]:
    told: dict[tuple[str, ...], int] = {}
    for one in found:
        texts = tuple(chain.text for chain in one.chains[:_MOST_CHAINS])
        told[texts] = told.get(texts, 0) + one.bytes
    return tuple(
        f"{format_bytes(size)} live on: {' and '.join(texts) or 'what holds them was not found'}"
        for texts, size in told.items()
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
