"""What frees the storages that somebody asked about: code and cost for each chain by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.leaks import graphs, remedies
from nbmem.leaks.unneeded import Judged, cost_of, is_cycle, remedy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbmem.records import Chain, GraphFact, Holders

_ITEM = "dict entry"


def explain_chains(holders: Holders) -> Holders:
    """Returns the same with `Chain.remedy` and `Chain.cost` filled in.

    Nothing is judged: a chain by which a value needs a storage is told what takes that value.
    """
    facts = {fact.cut: fact for fact in holders.graphs}
    awaited = frozenset(fact.cut for fact in holders.suspended if fact.awaited)
    held = tuple(
        replace(one, chains=tuple(_explained(chain, facts, awaited) for chain in one.chains))
        for one in holders.held
    )
    return replace(holders, held=held)


def _explained(chain: Chain, facts: Mapping[str, GraphFact], awaited: frozenset[str]) -> Chain:
    if chain.wanted:
        place = _value_of(chain)
        return replace(chain, remedy=f"del {place}" if place else "", cost=place)
    one = _as_judged(chain, facts.get(chain.cut), chain.cut in awaited)
    return replace(chain, remedy=remedy_of(one), cost=cost_of(one))


def _value_of(chain: Chain) -> str:
    """Returns what to delete of the user's own: an entry of a dict, else the variable."""
    if not chain.steps or chain.steps[0].kind != "variable":
        return ""
    if chain.steps[-1].kind == _ITEM and remedies.is_expression(chain.text):
        return chain.text
    return chain.steps[0].text if chain.steps[0].text.isidentifier() else ""


def _as_judged(chain: Chain, fact: GraphFact | None, awaited: bool) -> Judged:
    if is_cycle(chain):
        return Judged(chain, "autograd_cycle", "autograd_cycle")
    if fact is None:
        return Judged(chain, chain.holder, chain.holder, awaited=awaited)
    why = graphs.why_over(fact) or graphs.OLD
    return Judged(chain, "retained_graph", why, fact.roots > 1, fact.places)
