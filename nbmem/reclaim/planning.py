"""What is to be done about chosen leaks: live objects, sentences, and the bytes that come back.

What is promised is worked out from the chains: a storage comes back when every way to it is cut.
Whether something is in use shows in its references, which count only once the web is left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbmem.holders.words import HOOK
from nbmem.leaks.words import LOST
from nbmem.reclaim.arrays import copy_arrays, is_array, way_to, why_not_copy
from nbmem.reclaim.choosing import Choice, Known, choose
from nbmem.reclaim.cutting import Cutter, words_of
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.outcome import count_of, inline, list_of
from nbmem.reclaim.views import shrunk_bytes, why_not_shrink
from nbmem.reclaim.work import Work
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from nbmem.heap import StorageRef, StorageTable
    from nbmem.holders.web import CutPoint, Web
    from nbmem.records import Holders, Leak, LeakReport

GARBAGE = ("garbage", "frozen")


@dataclass(frozen=True, slots=True)
class Finder:
    """How the session looks: each call looks anew."""

    find: Callable[[], tuple[Web, LeakReport]]
    """The web is open, and its leaks judged; whoever asks closes it."""
    explain: Callable[[Sequence[int]], Holders]
    """Why these storages (serials) are alive."""
    told: Collection[str] = ()
    """Texts of cuts that were told of leaks before."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing to do, until it is known whether something uses what it is about."""

    words: str
    work: Work
    cuts: tuple[str, ...] = ()
    """What would hold nothing more."""
    leak: Leak | None = None
    cost: str = ""


@dataclass(slots=True)
class Plan:
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
    """Of the memory that goes with these, less what new storages take; None where unknown."""
    unsure: bool = False
    """A variable goes: how much comes back with it is not worked out."""
    views: list[tuple[Leak, list[Target]]] = field(default_factory=list)
    """Small views of large storages, until it is known whether they can be moved."""
    offers: list[Offer] = field(default_factory=list)

    def promise(self, leak: Leak, words: str) -> None:
        """Notes that a leak goes."""
        self.planned.append(f"{words}: {format_bytes(leak.bytes)}")
        self.keys.update(dict.fromkeys(leak.storages))
        if leak.cost:
            self.costs[leak.cost] = None

    def clear(self) -> None:
        """Lets go of everything alive."""
        for offer in self.offers:
            offer.work.clear()
        for held in (self.work, self.views, self.offers):
            held.clear()


# -- the plan ------------------------------------------------------------------------------------


def make_plan(
    holdings: Holdings,
    finder: Finder,
    targets: Sequence[Leak | str] | None,
    *,
    everything: bool,
) -> Plan:
    """Returns what is to be done; whoever gets it runs or clears it. See `reclaim_leaks`."""
    plan = Plan()
    web, report = finder.find()
    try:
        with web:
            table = holdings.table
            live = {ref.serial: ref for ref in table.live()}
            texts = (list(holdings.names()), list(holdings.outputs()), list(web.points))
            known = Known(report.leaks, live, *texts, finder.told)
            choice = choose(known, targets, everything=everything)
            _Planner(plan, web, holdings).take(choice)
            holders = web.holders
        _settle(plan)
        _take_named(plan, choice, holdings)
        _count_along(plan, holders)
        _weigh(plan, table, live)
    except BaseException:
        plan.clear()
        raise
    return plan


class _Planner:
    """Turns a choice into work, while the web is open."""

    def __init__(self, plan: Plan, web: Web, holdings: Holdings) -> None:
        self._plan = plan
        self._web = web
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
                hook = any(point.holder == HOOK for point in self._web.cuts(cut))
                cost = f"the {cut} and what it has collected" if hook else ""
                cuts = (cut, *self._gone_with(choice.cuts, cut)) if hook else (cut,)
                plan.offers.append(Offer(words, work, cuts, cost=cost))

    def _gone_with(self, removed: Sequence[str], hook: str) -> list[str]:
        """Returns the cuts that hold nothing more once hooks are removed.

        Args:
            removed: all that go, as texts of cuts.
            hook: the one of which the cuts are asked.
        """
        points = [point for cut in removed for point in self._web.cuts(cut)]
        hooks = {id(point.target) for point in points if point.holder == HOOK}
        cuts = dict.fromkeys(point.chain.cut for point in self._web.cuts(hook))
        return [cut for cut in cuts if all(_passes(p, hooks) for p in self._web.cuts(cut))]

    def _take_leak(self, leak: Leak) -> None:
        if leak.kind == "oversized_view":
            self._plan.views.append((leak, self._views(leak)))
            return
        work = Work()
        words = self._words(leak, work)
        if words:
            self._plan.offers.append(Offer(words, work, leak.cuts, leak))

    def _words(self, leak: Leak, work: Work) -> str:
        """Adds what frees a leak to the work; returns it in words, empty where it is refused."""
        if leak.kind == "unused_gradient":
            return self._take_gradients(leak, work)
        cycle = leak.kind == "autograd_cycle"
        said = [
            self._take_state(cut.removeprefix(LOST), work)
            if self._is_lost(cut)
            else self._take_cut(cut, work, cycle=cycle)
            for cut in leak.cuts
        ]
        if not all(said):
            return ""
        return ", ".join(dict.fromkeys(said))

    def _is_lost(self, cut: str) -> bool:
        return cut.startswith(LOST) and cut.removeprefix(LOST) in self._web.optimizers

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
        if not holders or not holders <= set(GARBAGE):
            self._plan.refused.append(f"{cut}: nothing that could be cut was found there")
            return ""
        work.collect = True
        work.unfreeze |= "frozen" in holders
        return "gc.unfreeze(), then gc.collect()" if work.unfreeze else "gc.collect()"


# -- once the web is left ------------------------------------------------------------------------


def _settle(plan: Plan) -> None:
    """Takes up what nothing uses; says of the rest that it is in use."""
    for offer in plan.offers:
        if reason := offer.work.why_not():
            plan.refused.append(f"{list_of(offer.cuts)}: {reason}")
            continue
        plan.work.merge(offer.work)
        plan.cuts.update(offer.cuts)
        if offer.leak is None:
            plan.planned.append(offer.words)
            if offer.cost:
                plan.costs[offer.cost] = None
        else:
            plan.promise(offer.leak, offer.words)
    plan.offers.clear()


def _take_named(plan: Plan, choice: Choice, holdings: Holdings) -> None:
    """Takes up variables and shown values that were asked for."""
    names, outputs = namespace_of(holdings), holdings.outputs()
    for name in choice.variables:
        plan.work.variables[name] = None
        plan.planned.append(f"del {name}")
        _take_shown(plan, names.get(name), outputs)
    for name in choice.outputs:
        _take_shown(plan, outputs[name], outputs)
    plan.unsure = bool(choice.variables or choice.outputs)


def _take_shown(plan: Plan, value: Any, outputs: Mapping[str, Any]) -> None:
    """Drops IPython's copies of a value too: as long as they are there nothing is freed."""
    for text, shown in outputs.items():
        if shown is value and text not in plan.work.outputs:
            plan.work.outputs[text] = shown
            plan.planned.append(f"drop {text}")
            if text.startswith("Out["):
                plan.costs[text] = None


def _count_along(plan: Plan, holders: Holders) -> None:
    """Counts the storages, however small, that nothing else holds than what is cut."""
    for held in holders.held:
        if held.chains and not held.wanted and not held.more:
            going = (
                chain.cut in plan.cuts or (plan.work.collect and chain.holder in GARBAGE)
                for chain in held.chains
            )
            if all(going):
                plan.keys[held.key] = None


def _passes(point: CutPoint, hooks: Collection[int]) -> bool:
    return any(id(thing) in hooks for thing in point.way.objects)


def _is_cycle(point: CutPoint) -> bool:
    kinds = [step.kind for step in point.chain.steps]
    return "cycle" in kinds[:1] or "graph" in kinds


def namespace_of(holdings: Holdings) -> dict[str, Any]:
    """Returns the dict itself in which the user's variables stand."""
    shell = holdings.shell
    names: dict[str, Any] = vars(sys.modules["__main__"]) if shell is None else shell.user_ns
    return names


def _weigh(plan: Plan, table: StorageTable, live: dict[int, StorageRef]) -> None:
    """Works out what comes back, once nothing of ours shows the storages any more."""
    new = 0
    while plan.views:
        leak, targets = plan.views.pop()
        arrays = any(is_array(target.tensor) for target in targets)
        names = list_of(target.name for target in targets)
        reason = why_not_copy(targets) if arrays else why_not_shrink(targets)
        if reason:
            then = f"; {inline(leak.remedy)}" if leak.remedy else ""
            plan.refused.append(f"{names}: {reason}{then}")
            continue
        if arrays:
            plan.work.acts["copy", leak.storages[0]] = partial(copy_arrays, targets)
            plan.promise(leak, f"replace {names} by a copy")
            continue
        new += shrunk_bytes(targets) or 0
        plan.work.views += targets
        plan.promise(leak, f"give {names} a storage of just the size")
    total = table.bytes_freed(live[key] for key in plan.keys if key in live)
    plan.bytes = None if plan.unsure else total - new
