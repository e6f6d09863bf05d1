"""More than a value needs: unused gradients, state of lost parameters, small views."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from nbmem.leaks import remedies, words
from nbmem.leaks.findings import Finding, largest_of, name_of, path_of, root_of
from nbmem.leaks.runs import is_old_copy
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbmem.leaks.moment import Moment
    from nbmem.records import GradientFact, Holders, StateFact, ViewFact

LOST = "lost parameters of "
"""Before the name of an optimizer: the cut. The bare name would say that the optimizer goes."""
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


def find_states(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields what optimizers keep for parameters that no model of the user's has."""
    for fact in holders.states if holders.complete else ():
        if moment.free(fact.keys):
            yield _state(fact, moment)


def _state(fact: StateFact, moment: Moment) -> Finding:
    keys, name = moment.take(fact.keys), fact.optimizer
    stateless = all(moment.records[key].category != "optimizer state" for key in keys)
    copied = stateless and is_old_copy(keys, "stale_optimizer_state", moment)
    told = words.say_state(
        name, fact.parameters, all_of_it=fact.all_of_it, in_groups=fact.in_groups
    )
    return Finding(
        kind="stale_copy" if copied else "stale_optimizer_state",
        holder="optimizer",
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
    groups: dict[tuple[str, bool, str], list[GradientFact]] = defaultdict(list)
    for fact in sorted(holders.gradients, key=lambda fact: (fact.name, fact.key)):
        if fact.frozen or (fact.zero and fact.optimizer is None):
            used = fact.optimizer if fact.frozen and not fact.zero else None
            groups[root_of(fact.name), fact.frozen, used or ""].append(fact)
    for (variable, frozen, optimizer), facts in sorted(groups.items()):
        if moment.free(fact.key for fact in facts):
            yield _gradients(variable, frozen, optimizer, facts, moment)


def _gradients(
    variable: str,
    frozen: bool,
    optimizer: str,
    facts: Sequence[GradientFact],
    moment: Moment,
) -> Finding:
    keys = moment.take(fact.key for fact in facts)
    mine = [fact for fact in facts if fact.key in keys]
    many = len(mine) > 1
    largest = largest_of(moment, keys)
    path = path_of(next(fact.name for fact in mine if fact.key == largest))
    told = f"{len(mine)} gradients of {variable}" if many else mine[0].name
    return Finding(
        kind="unused_gradient",
        holder="tensor_attribute",
        keys=keys,
        path=path,
        cuts=tuple(fact.name for fact in mine),
        reason=words.say_gradients(told, many=many, frozen=frozen),
        remedy=_gradient_lines(variable, frozen, mine, moment),
        cost=f"another step of {optimizer}" if optimizer else "",
        on_request=bool(optimizer),
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
    """Yields the storages of which less than half is shown by anything."""
    for fact in sorted(holders.views, key=lambda fact: fact.key):
        if 2 * fact.used < fact.bytes and moment.free((fact.key,)):
            yield _view(fact, moment)


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
        remedy=remedies.clone_line(names, arrays=fact.arrays) if names else "",
        spared=0 if fact.arrays else min(fact.used, own),
        reclaimable=bool(names),
    )


def _holder_of_view(fact: ViewFact, shown: str) -> str:
    if fact.arrays:
        return "numpy_array"
    return "container" if "[" in shown else "tensor_attribute"
