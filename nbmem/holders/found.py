"""What a search upwards found: objects, who holds whom, and where chains begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Edge(NamedTuple):
    """One way in which an object is held."""

    holder: int
    """Index into `Found.objects`."""
    held: int
    kind: str
    """As in `PathStep.kind`."""
    text: str
    """As in `PathStep.text`."""


@dataclass(slots=True, eq=False)
class Found:
    """What holds the targets. It holds all of it strongly, until `clear`."""

    objects: list[Any] = field(default_factory=list)
    """The targets come first; then what holds them, the nearest first."""
    edges: list[Edge] = field(default_factory=list)
    roots: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Where chains begin, by index: kind and text of modules, classes and running frames."""
    known: set[int] = field(default_factory=set)
    """Objects that the caller knows already: what holds them was not searched."""
    loose: dict[int, int] = field(default_factory=dict)
    """How many references to an object have no holder that Python shows: C++ has them, or objects
    that the garbage collector does not see."""
    unreachable: set[int] = field(default_factory=set)
    """Objects to which no root, nothing known and no loose reference leads: `gc.collect()` would
    free them."""
    cut: bool = False
    """A limit ended the search: there are more holders than are told."""

    def clear(self) -> None:
        """Lets go of everything."""
        for part in (self.objects, self.edges, self.roots, self.known, self.loose):
            part.clear()
        self.unreachable.clear()
