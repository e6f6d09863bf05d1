"""Which leaks an act is about: those asked for, matched with what is true now, and the rest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbmem.errors import NameNotFoundError
from nbmem.leaks.words import LOST
from nbmem.reclaim.outcome import inline, list_of
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Container

    from nbmem.records import Leak

_LONGEST = 80
_DONE = "holds nothing beyond need any more"


@dataclass(slots=True)
class Choice:
    """What is to go; plain facts."""

    leaks: list[Leak] = field(default_factory=list)
    cuts: list[str] = field(default_factory=list)
    """Texts of cuts by which only leaks too small to be listed hold."""
    variables: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Known:
    """What targets are held against."""

    leaks: Sequence[Leak]
    """Those of now."""
    live: Container[int]
    """Serials of the storages that are alive."""
    variables: Collection[str]
    outputs: Collection[str]
    cuts: Collection[str]
    told: Collection[str] = ()
    """Texts by which leaks were told before."""


def choose(known: Known, targets: Sequence[Leak | str] | None, *, everything: bool) -> Choice:
    """Returns what is meant.

    A text is first what holds a leak, since cutting it there keeps values, then a variable or a
    shown value.

    Raises:
        NameNotFoundError: a text is none of these.
    """
    if targets is None:
        return _choose_unasked(known, everything=everything)
    choice = Choice()
    for target in targets:
        if issubclass(type(target), str):
            _choose_text(known, str(target), choice)
        else:
            _choose_leak(known, target, choice)  # type: ignore[arg-type]
    choice.leaks = list({id(leak): leak for leak in choice.leaks}.values())
    return choice


def _choose_unasked(known: Known, *, everything: bool) -> Choice:
    choice = Choice()
    for leak in known.leaks:
        if not leak.reclaimable:
            if everything:
                choice.refused.append(explain(leak))
        elif leak.on_request:
            if everything:
                by_name = f"reclaim {_shortest(leak.cuts)!r} by name to take it"
                choice.refused.append(f"{_whole(leak)} may still be wanted; {by_name}")
        elif everything or not leak.cost:
            choice.leaks.append(leak)
    return choice


def _shortest(cuts: Sequence[str]) -> str:
    return min(cuts, key=len, default="")


def _choose_leak(known: Known, target: Leak, choice: Choice) -> None:
    alive = [key for key in target.storages if key in known.live]
    same = next((leak for leak in known.leaks if _is_same(leak, target)), None)
    if not alive:
        choice.refused.append(f"{_whole(target)} is gone already")
    elif same is None:
        changed = "changed since it was found; look again with `%gpumem leaks`"
        choice.refused.append(f"{_whole(target)} {changed}")
    else:
        _take(same, choice)


def _is_same(leak: Leak, target: Leak) -> bool:
    mine, other = (leak.kind, set(leak.cuts)), (target.kind, set(target.cuts))
    return mine == other and set(leak.storages) == set(target.storages)


def _take(leak: Leak, choice: Choice) -> None:
    if leak.reclaimable:
        choice.leaks.append(leak)
    else:
        choice.refused.append(explain(leak))


def _choose_text(known: Known, text: str, choice: Choice) -> None:
    leaks = [leak for leak in known.leaks if text in leak.cuts]
    for leak in leaks:
        _take(leak, choice)
    if leaks:
        return
    if text in known.variables:
        _choose_variable(known, text, choice)
    elif text in known.outputs:
        choice.outputs.append(text)
    elif text in known.cuts:
        choice.cuts.append(text)
    elif text in known.told:
        choice.refused.append(f"{text} {_DONE}")
    else:
        short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise NameNotFoundError(
            f"`{short}` is neither a variable nor what holds a leak; `%gpumem leaks` lists the"
            " leaks of now with what holds them"
        )


def _choose_variable(known: Known, name: str, choice: Choice) -> None:
    """Takes a variable to be dropped, unless leaks were told by its name: then it is ambiguous."""
    drop = f"to drop the variable itself: `del {name}`"
    within = next((cut for cut in known.told if _is_within(cut, name)), None)
    if name in known.told:
        choice.refused.append(f"{name} {_DONE}; {drop}")
    elif within is not None:
        choice.refused.append(f"{name} is not what held a leak, {within!r} is; {drop}")
    else:
        choice.variables.append(name)


def _is_within(cut: str, name: str) -> bool:
    return cut == LOST + name or cut.startswith((f"{name}[", f"{name}.", f"{name} → "))


def explain(leak: Leak) -> str:
    """Returns why nothing is done about a leak, and what the user can do."""
    then = f"; what frees it: {inline(leak.remedy)}" if leak.remedy else ""
    return f"{_whole(leak)} is only explained: {leak.reason.rstrip('.')}{then}"


def _whole(leak: Leak) -> str:
    where = list_of(leak.cuts) or leak.path_text or leak.kind
    return f"{format_bytes(leak.bytes)} of {where}"
