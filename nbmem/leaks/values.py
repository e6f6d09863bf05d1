"""More than a value needs: unused gradients, state of lost parameters, small views."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from nbmem.leaks import remedies, words
from nbmem.leaks.findings import Finding, largest_of, name_of, path_of, root_of
from nbmem.leaks.runs import is_old_copy
from nbmem.leaks.words import LOST
from nbmem.records import Chain, PathStep
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbmem.leaks.moment import Moment
    from nbmem.records import GradientFact, Holders, PathStep, StateFact, ViewFact

OPTIMIZER = "optimizer"
_FROZEN = """\
[setattr(p, "grad", None) for p in {name}.parameters() if not p.requires_grad];"""
_CLEAR = "{name}.zero_grad(set_to_none=True)"
_GRADIENT = "{name} = None"
_ITEM = re.compile(r"(.+)\[\d+\]")
_STAYS = {
    "": "",
    "shared": " An array shares that memory: what is written to one shows in the others, and "
    "copies would no longer do so.",
    "read": " A graph that awaits its backward, or a library that was handed it, reads it as well.",
    "copied": " Only a copy gets memory of its own.",
}
"""What is said of views that nbmem can't move; see `ViewFact.stays`."""
_KEPT = ("shared", "read")
"""Of these no copy is told: it would change what the code does, or free nothing."""


def find_states(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields what optimizers keep for parameters that no model of the user's has."""
    for fact in holders.states if holders.complete else ():
        shared = {other.key for other in fact.others}
        keys = [key for key in fact.keys if key not in shared]
        if moment.free(keys):
            yield _state(fact, moment.take(keys), moment)


def chains_of_states(holders: Holders) -> dict[int, tuple[Chain, ...]]:
    """Returns the chains of what an optimizer and something else hold, the optimizer's first.

    Taking it out of the optimizer alone frees nothing of that.
    """
    chains: dict[int, tuple[Chain, ...]] = {}
    for fact in holders.states if holders.complete else ():
        own = _chain(fact.optimizer, path_of(fact.optimizer))
        for other in fact.others:
            rest = (
                _chain(chain.cut, chain.steps) if chain.holder == OPTIMIZER else chain
                for chain in other.chains
            )
            chains.setdefault(other.key, (own, *rest))
    return chains


def _chain(optimizer: str, steps: tuple[PathStep, ...]) -> Chain:
    return Chain(steps, OPTIMIZER, False, LOST + optimizer)


def _state(fact: StateFact, keys: tuple[int, ...], moment: Moment) -> Finding:
    name = fact.optimizer
    stateless = all(moment.records[key].category != "optimizer state" for key in keys)
    copied = stateless and is_old_copy(keys, "stale_optimizer_state", moment)
    told = words.say_state(
        name, fact.parameters, all_of_it=fact.all_of_it, in_groups=fact.in_groups
    )
    return Finding(
        kind="stale_copy" if copied else "stale_optimizer_state",
        holder=OPTIMIZER,
        keys=keys,
        path=path_of(_name_in(name, keys, moment)),
        cuts=(LOST + name,),
        reason=words.say_copy(name, fact.parameters) if copied else told,
        remedy=remedies.reclaim(LOST + name),
    )


def _name_in(optimizer: str, keys: Sequence[int], moment: Moment) -> str:
    """Returns the name through the optimizer of the largest storage that has one."""
    by_size = sorted(keys, key=lambda key: (-moment.records[key].bytes, key))
    names = (name for key in by_size for name in moment.records[key].names)
    return next((name for name in names if name.startswith(optimizer)), optimizer)


def find_gradients(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields the gradients that no step will use, those of one variable together."""
    groups: dict[tuple[str, bool, str, str], list[GradientFact]] = defaultdict(list)
    for fact in sorted(holders.gradients, key=lambda fact: (fact.name, fact.key)):
        if fact.frozen or (fact.zero and fact.optimizer is None):
            used = fact.optimizer if fact.frozen and not fact.zero else None
            held_by = fact.held_by or ""
            groups[root_of(fact.name), fact.frozen, used or "", held_by].append(fact)
    for (variable, frozen, optimizer, held_by), facts in sorted(groups.items()):
        if moment.free(fact.key for fact in facts):
            group = (variable, frozen, optimizer, held_by)
            yield _gradients(group, facts, holders, moment)


def _gradients(
    group: tuple[str, bool, str, str],
    facts: Sequence[GradientFact],
    holders: Holders,
    moment: Moment,
) -> Finding:
    variable, frozen, optimizer, held_by = group
    keys = moment.take(fact.key for fact in facts)
    mine = [fact for fact in facts if fact.key in keys]
    many = len(mine) > 1
    largest = largest_of(moment, keys)
    path = path_of(next(fact.name for fact in mine if fact.key == largest))
    told = f"{len(mine)} gradients of {variable}" if many else mine[0].name
    cost = "" if frozen else told  # no list that an optimizer has: `p.grad.zero_()` needs none
    if optimizer or held_by:
        cost = words.say_cost_of_gradients(optimizer, held_by)
    return Finding(
        kind="unused_gradient",
        holder="tensor_attribute",
        keys=keys,
        path=path,
        cuts=tuple(fact.name for fact in mine),
        reason=words.say_gradients(told, many=many, frozen=frozen, held_by=held_by),
        remedy=_gradient_lines(mine, holders, moment),
        cost=cost,
        on_request=bool(optimizer or held_by),
    )


def _gradient_lines(facts: Sequence[GradientFact], holders: Holders, moment: Moment) -> str:
    """Returns code that sets these gradients to None and no others."""
    modules, names = {fact.module for fact in facts}, [fact.name for fact in facts]
    module = min(modules) if len(modules) == 1 else ""
    plain = all(map(remedies.is_expression, names))  # `net.1.weight.grad` can't be pasted
    whole = remedies.is_expression(module) and not _others(facts, holders, moment)
    if whole and (len(names) > 1 or not plain):
        return (_FROZEN if facts[0].frozen else _CLEAR).format(name=module)
    if plain and len(names) <= remedies.MOST_LINES:
        return "\n".join(_GRADIENT.format(name=name) for name in names)
    return remedies.reclaim(names[0])


def _others(facts: Sequence[GradientFact], holders: Holders, moment: Moment) -> set[int]:
    """Returns the gradients of the same variable that a line for all of them would take as well."""
    mine, variable = {fact.key for fact in facts}, root_of(facts[0].name)
    if facts[0].frozen:
        alike = (f for f in holders.gradients if f.frozen and root_of(f.name) == variable)
        return {fact.key for fact in alike} - mine
    return {
        key
        for key, record in moment.records.items()
        if record.category == "gradient" and any(root_of(n) == variable for n in record.names)
    } - mine


def find_views(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields the storages of which less than half is shown by anything, a container's together."""
    groups: dict[object, list[ViewFact]] = defaultdict(list)
    for fact in sorted(holders.views, key=lambda fact: fact.key):
        if 2 * fact.used < fact.bytes and moment.free((fact.key,)):
            groups[_place_of(fact)].append(fact)
    for facts in groups.values():
        yield _view(facts[0], moment) if len(facts) == 1 else _views(facts, moment)


def _place_of(fact: ViewFact) -> object:
    """Returns what views that are told together have in common: the list that they are items of."""
    lists = {match[1] if (match := _ITEM.fullmatch(name)) else "" for name in fact.names}
    if len(lists) != 1 or "" in lists or not remedies.is_expression(min(lists)):
        return fact.key
    return min(lists), fact.arrays, fact.attached, fact.stays


def _views(facts: Sequence[ViewFact], moment: Moment) -> Finding:
    """Returns what is said of items of one list, each with a storage of its own."""
    first, names = facts[0], tuple(name for fact in facts for name in fact.names)
    place = names[0].rpartition("[")[0]
    used, own = sum(fact.used for fact in facts), moment.size(fact.key for fact in facts)
    shown = f"{format_count(len(names), 'item')} of {place}"
    places = [step for fact in facts for step in fact.places]
    if len(places) == first.siblings and all(fact.places for fact in facts):
        places = [PathStep("list", place)]
    largest = largest_of(moment, [fact.key for fact in facts])
    return Finding(
        kind="oversized_view",
        holder="numpy_array" if first.arrays else "container",
        keys=moment.take(fact.key for fact in facts),
        path=path_of(next(fact.names[0] for fact in facts if fact.key == largest)),
        cuts=names,
        reason=_reason_of(first, shown, used, own, len(names)),
        remedy=_clone_lines(first, places),
        cost=f"backward() through {place}" if first.attached else "",
        spared=0 if first.arrays else used,
        reclaimable=not first.stays,
    )


def _view(fact: ViewFact, moment: Moment) -> Finding:
    names = fact.names
    shown = words.join_words(names) or name_of(moment, fact.key) or "A view without a name"
    own = moment.size((fact.key,))
    return Finding(
        kind="oversized_view",
        holder=_holder_of_view(fact, shown),
        keys=moment.take((fact.key,)),
        path=path_of(names[0] if names else name_of(moment, fact.key)),
        cuts=names,
        reason=_reason_of(fact, shown, fact.used, own, len(names)),
        remedy=_clone_lines(fact, fact.places),
        cost=f"backward() through {shown}" if fact.attached else "",
        spared=0 if fact.arrays else min(fact.used, own),
        reclaimable=bool(names) and not fact.stays,
    )


def _reason_of(fact: ViewFact, shown: str, used: int, own: int, count: int) -> str:
    told = words.say_view(shown, format_bytes(used), format_bytes(own), count)
    return told + _STAYS[fact.stays]


def _clone_lines(fact: ViewFact, places: Sequence[PathStep]) -> str:
    """Returns what gives views memory of their own; empty where that would part or free nothing."""
    if not fact.names or fact.stays in _KEPT:
        return ""
    if fact.stays:
        call = remedies.copy_call(arrays=fact.arrays, attached=fact.attached)
        return remedies.replace_lines(places, lambda x: f"{x}.{call}()")
    return remedies.clone_lines(fact.names[0], places, arrays=fact.arrays, attached=fact.attached)


def _holder_of_view(fact: ViewFact, shown: str) -> str:
    if fact.arrays:
        return "numpy_array"
    return "container" if "[" in shown else "tensor_attribute"
