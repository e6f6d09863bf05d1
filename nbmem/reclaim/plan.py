"""What `del` would drop, in words, decided from the places that hold the chosen storages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nbmem.heap import StorageRef
from nbmem.inventory import Place, find_places
from nbmem.reclaim.names import Holdings, find_entry
from nbmem.units import format_bytes

NAMELESS = "has no name to drop: what holds it is no variable of yours"


@dataclass(slots=True)
class DropPlan:
    """The names to drop, and why others stay."""

    targets: list[StorageRef] = field(default_factory=list)
    """The chosen storages that still live."""
    variables: dict[str, str] = field(default_factory=dict)
    """Variable to its sentence."""
    entries: dict[str, Place] = field(default_factory=dict)
    """Printed name of a dict entry to its place."""
    outputs: dict[str, str] = field(default_factory=dict)
    """Expression of an output-cache copy to its sentence."""
    refused: list[str] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    """Serials of targets that something refused holds: that they live on is no news."""

    def sentences(self) -> tuple[str, ...]:
        """Returns what would be done, a sentence each."""
        entries = (f"del {name}" for name in self.entries)
        return (*self.variables.values(), *entries, *self.outputs.values())


def make_plan(holdings: Holdings, keys: Sequence[int]) -> DropPlan:
    """Returns what `del` would drop for these storages (serials); nothing is touched."""
    plan = DropPlan()
    live = {ref.serial: ref for ref in holdings.table.live()}
    for key in dict.fromkeys(keys):
        if key in live:
            plan.targets.append(live[key])
        else:
            plan.refused.append(f"storage {key} is gone already: nothing to drop")
    names = holdings.names()
    found = find_places(
        holdings.table,
        names,
        [ref.serial for ref in plan.targets],
        output_cache=holdings.outputs(),
    )
    for ref in plan.targets:
        _plan_one(plan, ref, found[ref.serial], names)
    return plan


def _plan_one(plan: DropPlan, ref: StorageRef, places: Sequence[Place], names: object) -> None:
    if not places:
        plan.refused.append(f"{format_bytes(ref.bytes)} {NAMELESS}")
        plan.kept.add(ref.serial)
    for place in places:
        if place.steps[0].kind == "output":
            _plan_output(plan, place)
        elif place.holder == "variable":
            plan.variables[place.root] = f"del {place.root}"
        elif place.holder == "dict entry" and find_entry(names, place.steps):  # type: ignore[arg-type]
            plan.entries[place.name] = place
        else:
            plan.refused.append(_refusal(place))
            plan.kept.add(ref.serial)


def _plan_output(plan: DropPlan, place: Place) -> None:
    inside = "" if len(place.steps) == 1 else f", which holds {place.name}"
    plan.outputs.setdefault(place.root, f"drop {place.root}{inside}")


def _refusal(place: Place) -> str:
    name, root = place.name, place.root
    advice = {
        "list item": f"an item of a list: `del {name}` drops it and moves the later ones up",
        "gradient": "a gradient: `optimizer.zero_grad()` drops it",
        "optimizer state": f"what {root} keeps between steps: `del {root}` drops all of it",
        "attribute": f"an attribute: `{name} = None` drops it",
    }.get(place.holder, f"part of {root}: `del {root}` drops all of it")
    return f"{name} is {advice}"
