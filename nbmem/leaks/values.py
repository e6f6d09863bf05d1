"""More than a value needs: unused gradients, state of lost parameters, small views."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from nbmem.leaks import remedies, words
from nbmem.leaks.findings import Finding, largest_of, name_of, path_of, root_of
from nbmem.leaks.runs import is_old_copy
from nbmem.leaks.words import LOST
from nbmem.records import Chain
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nbmem.leaks.moment import Moment
    from nbmem.records import GradientFact, Holders, PathStep, StateFact, ViewFact

OPTIMIZER = "optimizer"
_KEPT = """\
kept = [p for group in {name}.param_groups for p in group["params"]]
for p in list({name}.state.keys() - set(kept)): {name}.state.pop(p)"""
_ZERO = """\
for p in {name}.parameters():
    if p.grad is not None and not p.grad.any(): p.grad = None"""
_FROZEN = """\
for p in {name}.parameters():
    if not p.requires_grad: p.grad = None"""
_CLEAR = "{name}.zero_grad(set_to_none=True)"
_GRADIENT = "{name} = None"
_ITEM = re.compile(r"(.+)\[\d+\]")


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
    lines = {fact.optimizer: _state_line(fact) for fact in holders.states}
    for fact in holders.states if holders.complete else ():
        own = _chain(fact.optimizer, path_of(fact.optimizer), lines)
        for other in fact.others:
            rest = (
                _chain(chain.cut, chain.steps, lines) if chain.holder == OPTIMIZER else chain
                for chain in other.chains
            )
            chains.setdefault(other.key, (own, *rest))
    return chains


def _chain(optimizer: str, steps: tuple[PathStep, ...], lines: Mapping[str, str]) -> Chain:
    return Chain(steps, OPTIMIZER, False, LOST + optimizer, remedy=lines[optimizer])


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
        remedy=_state_line(fact),
    )


def _name_in(optimizer: str, keys: Sequence[int], moment: Moment) -> str:
    """Returns the name through the optimizer of the largest storage that has one."""
    by_size = sorted(keys, key=lambda key: (-moment.records[key].bytes, key))
    names = (name for key in by_size for name in moment.records[key].names)
    return next((name for name in names if name.startswith(optimizer)), optimizer)


def _state_line(fact: StateFact) -> str:
    name = fact.optimizer
    if not remedies.is_expression(name):
        return remedies.reclaim(LOST + name)
    if fact.all_of_it:
        return f"del {name}"
    return remedies.reclaim(LOST + name) if fact.in_groups else _KEPT.format(name=name)


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
            yield _gradients(variable, frozen, optimizer, held_by, facts, moment)


def _gradients(
    variable: str,
    frozen: bool,
    optimizer: str,
    held_by: str,
    facts: Sequence[GradientFact],
    moment: Moment,
) -> Finding:
    keys = moment.take(fact.key for fact in facts)
    mine = [fact for fact in facts if fact.key in keys]
    many = len(mine) > 1
    largest = largest_of(moment, keys)
    path = path_of(next(fact.name for fact in mine if fact.key == largest))
    told = f"{len(mine)} gradients of {variable}" if many else mine[0].name
    bare = not frozen and any(moment.records[key].module is None for key in keys)
    cost = told if bare else ""
    if optimizer or held_by:
        cost = words.say_cost_of_gradients(optimizer, held_by)
    return Finding(
        kind="unused_gradient",
        holder="tensor_attribute",
        keys=keys,
        path=path,
        cuts=tuple(fact.name for fact in mine),
        reason=words.say_gradients(told, many=many, frozen=frozen, held_by=held_by),
        remedy=_gradient_lines(variable, frozen, mine, moment),
        cost=cost,
        on_request=bool(optimizer or held_by),
    )


def _gradient_lines(
    variable: str, frozen: bool, facts: Sequence[GradientFact], moment: Moment
) -> str:
    """Returns code that sets these gradients to None and no others."""
    of_module = all(moment.records[fact.key].module is not None for fact in facts)
    names = [fact.name for fact in facts]
    plain = all(map(remedies.is_expression, names))  # `net.1.weight.grad` can't be pasted
    if of_module and remedies.is_expression(variable) and (len(names) > 1 or not plain):
        lines = _FROZEN if frozen else _lines_of_zero(variable, facts, moment)
        return lines.format(name=variable)
    if plain:
        return "\n".join(_GRADIENT.format(name=name) for name in names)
    return "\n".join(map(remedies.reclaim, names))


def _lines_of_zero(variable: str, facts: Sequence[GradientFact], moment: Moment) -> str:
    others = {
        key
        for key, record in moment.records.items()
        if record.category == "gradient" and any(root_of(n) == variable for n in record.names)
    } - {fact.key for fact in facts}
    return _ZERO if others else _CLEAR


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
    return min(lists), fact.arrays, fact.attached


def _views(facts: Sequence[ViewFact], moment: Moment) -> Finding:
    """Returns what is said of items of one list, each with a storage of its own."""
    first, names = facts[0], tuple(name for fact in facts for name in fact.names)
    place = names[0].rpartition("[")[0]
    used, own = sum(fact.used for fact in facts), moment.size(fact.key for fact in facts)
    shown = f"{format_count(len(names), 'item')} of {place}"
    call = remedies.copy_call(arrays=first.arrays, attached=first.attached)
    largest = largest_of(moment, [fact.key for fact in facts])
    return Finding(
        kind="oversized_view",
        holder="numpy_array" if first.arrays else "container",
        keys=moment.take(fact.key for fact in facts),
        path=path_of(next(fact.names[0] for fact in facts if fact.key == largest)),
        cuts=names,
        reason=words.say_view(shown, format_bytes(used), format_bytes(own), len(names)),
        remedy=f"{place} = [x.{call}() for x in {place}]",
        cost=f"backward() through {place}" if first.attached else "",
        spared=0 if first.arrays else used,
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
        reason=words.say_view(shown, format_bytes(fact.used), format_bytes(own), len(names)),
        remedy=_clone_line(fact),
        cost=f"backward() through {shown}" if fact.attached else "",
        spared=0 if fact.arrays else min(fact.used, own),
        reclaimable=bool(names),
    )


def _clone_line(fact: ViewFact) -> str:
    if not fact.names:
        return ""
    return remedies.clone_line(fact.names, arrays=fact.arrays, attached=fact.attached)


def _holder_of_view(fact: ViewFact, shown: str) -> str:
    if fact.arrays:
        return "numpy_array"
    return "container" if "[" in shown else "tensor_attribute"
