"""Storages that no value needs: grouped by what must be cut, each group judged.

Garbage goes by itself one day, so what it holds besides makes no group of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nbmem.leaks import graphs, remedies, words
from nbmem.leaks.findings import Finding, largest_of, name_of, path_of
from nbmem.leaks.runs import is_old_copy
from nbmem.leaks.values import chains_of_states
from nbmem.records import ARGUMENTS, LEAK_HOLDERS, Chain, GraphFact, PathStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nbmem.leaks.moment import Moment
    from nbmem.records import Holders, SuspendedFact

_KINDS = {
    "output_cache": "stale_output",
    "throwaway_name": "stale_output",
    "traceback": "stale_error",
    "saved_exception": "stale_error",
    "garbage": "unreachable",
    "frozen": "unreachable",
    "optimizer": "stale_optimizer_state",
}
"""All other holders: `forgotten_reference`."""
_COPIED = frozenset({"stale_output", "forgotten_reference", "stale_optimizer_state"})
"""Kinds that give way to `stale_copy`."""
_GARBAGE = "garbage"
_BY_NAME = frozenset(
    {
        *("hook", "closure", "default_argument", "class_attribute", "tensor_attribute"),
        *("container", "queue", "async_task", "context_variable", "log_record"),
        *("ipython_event", "interpreter_callback", "widget_callback", "finalizer"),
    }
)
"""Cutting there takes what the user's functions, callbacks or libraries may come back to."""
_FREELY = frozenset({"retained_graph", "autograd_cycle"})
"""Kinds that lose no value wherever they are cut."""
_UNSEEN = Chain((PathStep("unknown", "not found"),), "unknown", False, "what nbmem did not find")


@dataclass(frozen=True, slots=True)
class Judged:
    """A chain that no value needs, with its kind."""

    chain: Chain
    kind: str
    why: str
    """The kind, or what tells that a graph or generator is left over."""
    many: bool = False
    """Graphs of several tensors go with this cut."""
    places: tuple[PathStep, ...] = ()
    """Where these tensors stand."""
    awaited: bool = False
    """An asynchronous generator waits there."""

    @property
    def graph(self) -> bool:
        """It holds by an autograd graph of its own."""
        return self.kind == "retained_graph"


@dataclass(slots=True)
class Group:
    """Storages that have all their cuts in common."""

    keys: list[int]
    by_key: dict[int, tuple[Judged, ...]]
    more: bool = False
    litter: set[str] = field(default_factory=set)
    """Cuts of garbage that holds some of them as well."""


def find_unneeded(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields a finding for each set of cuts; storages of work that may go on are set aside."""
    groups = _Grouping(holders, moment).groups()
    for cuts in sorted(groups, key=sorted):
        group = groups[cuts]
        if holders.complete or _is_exact(group):
            yield _finding(group, moment)


class _Grouping:
    """Judges every chain of every storage, and puts storages with the same cuts together."""

    def __init__(self, holders: Holders, moment: Moment) -> None:
        self._moment = moment
        self._graphs = {fact.cut: fact for fact in holders.graphs}
        self._waiting = {fact.cut: fact for fact in holders.suspended}
        self._chains = _all_chains(holders, moment)
        self._more = {held.key for held in holders.held if held.more}
        self._newest = _newest_by_cut(self._chains)

    def groups(self) -> dict[frozenset[str], Group]:
        groups: dict[frozenset[str], Group] = {}
        for key in self._moment.free(self._chains):
            judged = [self._judge(chain) for chain in self._chains[key]]
            if None in judged:
                self._moment.taken.add(key)  # in use: no other finding speaks of it either
                continue
            mine = tuple(one for one in judged if one is not None)
            lasting = tuple(one for one in mine if one.chain.holder != _GARBAGE) or mine
            group = groups.setdefault(frozenset(j.chain.cut for j in lasting), Group([], {}))
            group.keys.append(key)
            group.by_key[key] = lasting
            group.more |= key in self._more
            group.litter.update(one.chain.cut for one in mine if one not in lasting)
        return groups

    def _judge(self, chain: Chain) -> Judged | None:
        """Returns a chain with its kind; None where it holds for good reason."""
        if chain.wanted:
            return None
        if is_cycle(chain):
            return Judged(chain, "autograd_cycle", "autograd_cycle")
        fact = self._graphs.get(chain.cut)
        if fact is not None or chain.holder == "autograd_graph":
            fact = fact or GraphFact(chain.cut, chain.holder, 1, (), self._newest[chain.cut])
            why = graphs.why_graph(fact, self._moment)
            judged = Judged(chain, "retained_graph", why or "", fact.roots > 1, fact.places)
            return judged if why else None
        kind = _KINDS.get(chain.holder, "forgotten_reference")
        if chain.holder in graphs.WAITING:
            waiting = self._waiting.get(chain.cut)
            newest = self._newest[chain.cut] if waiting is None else waiting.newest
            why = graphs.why_waiting(newest, self._moment)
            awaited = waiting is not None and waiting.awaited
            return Judged(chain, kind, why, awaited=awaited) if why else None
        return Judged(chain, kind, kind)


def is_cycle(chain: Chain) -> bool:
    """Returns whether a chain begins at an autograd graph and objects that hold each other."""
    if chain.steps[:1] and chain.steps[0].kind == "cycle":
        return True
    return chain.holder == "cpp" and any(step.kind == "graph" for step in chain.steps)


def _all_chains(holders: Holders, moment: Moment) -> dict[int, tuple[Chain, ...]]:
    """Returns the chains of all storages that no value needs; facts stand in where none is told."""
    chains: dict[int, tuple[Chain, ...]] = {}
    needed = {held.key for held in holders.held if held.wanted}
    for held in holders.held:
        if not held.wanted:
            chains[held.key] = tuple(map(_known, held.chains)) or (_UNSEEN,)
    told: dict[int, list[Chain]] = defaultdict(list)
    facts: tuple[GraphFact | SuspendedFact, ...] = (*holders.graphs, *holders.suspended)
    for fact in facts:
        for key in fact.keys:
            if key not in chains and key not in needed and key in moment.records:
                told[key].append(_chain_of(fact.cut, fact.holder, name_of(moment, key)))
    shared = {k: c for k, c in chains_of_states(holders).items() if k in moment.records}
    return chains | {key: tuple(listed) for key, listed in told.items()} | shared


def _known(chain: Chain) -> Chain:
    """Returns a chain whose holder has words: nothing is done to what is none of the known."""
    if chain.wanted or chain.holder in LEAK_HOLDERS:
        return chain
    return replace(chain, holder="unknown")


def _chain_of(cut: str, holder: str, name: str) -> Chain:
    return Chain(path_of(name) or (PathStep("variable", cut),), holder, False, cut)


def _newest_by_cut(chains: Mapping[int, Iterable[Chain]]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for key, listed in chains.items():
        for chain in listed:
            newest[chain.cut] = max(key, newest.get(chain.cut, key))
    return newest


def _is_exact(group: Group) -> bool:
    """Returns whether nothing rests on the want of a name: an error that is over."""
    return all(one.kind == "stale_error" for judged in group.by_key.values() for one in judged)


def _finding(group: Group, moment: Moment) -> Finding:
    """Returns what is said of a group: of the way to its largest storage, and of all cuts."""
    keys = moment.take(group.keys)
    judged = group.by_key[largest_of(moment, keys)]
    main = judged[0]
    by_cut = {one.chain.cut: one for one in reversed(judged)}
    others = tuple(sorted(by_cut.keys() - {main.chain.cut}))
    joint = tuple(cut for cut in others if not _goes_along(by_cut[cut], main))
    places = [main, *(by_cut[cut] for cut in others)]
    copied = main.kind in _COPIED and is_old_copy(keys, main.kind, moment)
    kind, why = ("stale_copy", "stale_copy") if copied else (main.kind, main.why)
    chain = main.chain
    freed = main.why == graphs.FREED
    held = words.say_held(
        main.kind, chain.holder, chain.cut, chain.cell, many=main.many, freed=freed
    )
    hooks = () if others or group.litter else _hooks_of(judged)
    return Finding(
        kind=kind,
        holder=chain.holder,
        keys=keys,
        path=chain.steps,
        cuts=(chain.cut, *others, *sorted(group.litter)),
        reason=words.say_reason(
            held, why, joint, litter=bool(group.litter), more=group.more, fills=bool(hooks)
        ),
        remedy=_remedy_of(places, litter=bool(group.litter)),
        cost=", ".join(dict.fromkeys(cost for one in places if (cost := cost_of(one)))),
        reclaimable=all(map(_can_go, places)),
        on_request=any(_goes_by_name_only(one) for one in places),
        sources=hooks,
        instead=remedies.reclaim(*hooks) if hooks else "",
    )


def _goes_along(one: Judged, main: Judged) -> bool:
    """Returns whether what frees one thing frees the other too, as the garbage collector does."""
    return one.chain.holder == main.chain.holder == _GARBAGE


def _hooks_of(judged: Sequence[Judged]) -> tuple[str, ...]:
    """Returns the hooks that have filled what chains are cut at; none where others hold it too."""
    hooks: dict[str, None] = {}
    for one in judged:
        first = one.chain.steps[0]
        if first.kind != "hook" or first.text == one.chain.cut:
            return ()
        hooks[first.text] = None
    return tuple(hooks)


def _remedy_of(places: list[Judged], *, litter: bool) -> str:
    lines = [*map(remedy_of, places)]
    lines += [remedies.cut_line(_GARBAGE, "")] if litter else []
    joined = remedies.join_lines(lines, reclaimable=all(map(_can_go, places)))
    if len(joined.splitlines()) > remedies.MOST_LINES and all(map(_can_go, places)):
        return remedies.reclaim(places[0].chain.cut)
    return joined


def _can_go(one: Judged) -> bool:
    if one.awaited or one.chain.cut == ARGUMENTS:
        return False
    return one.chain.holder not in remedies.EXPLAINED


def _goes_by_name_only(one: Judged) -> bool:
    if one.why in graphs.MAY_GO_ON:
        return True
    return one.chain.holder in _BY_NAME and one.kind not in _FREELY


def remedy_of(one: Judged) -> str:
    """Returns the code that cuts a chain; empty where none does."""
    chain = one.chain
    if chain.cut == ARGUMENTS:
        return ""
    if one.kind == "autograd_cycle":
        return remedies.reclaim(chain.cut)
    if one.graph:
        return remedies.detach_lines(chain.cut, one.places)
    if one.awaited:
        named = chain.steps[0].kind == "variable" and remedies.is_expression(chain.cut)
        return f"await {chain.cut}.aclose()" if named else ""
    return remedies.cut_line(chain.holder, chain.cut, chain.steps)


def cost_of(one: Judged) -> str:
    """Returns what the user loses when a chain is cut; empty where it is nothing."""
    chain = one.chain
    if one.kind == "autograd_cycle":
        return ""
    return words.say_cost(chain.holder, chain.cut, chain.cell, one.why)
