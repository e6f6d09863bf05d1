"""Who holds whom, by object: the trail of names turned round, so that one can ask upwards.

trail:  losses ──[41]──> tensor          ties:  tensor ──> (list, [41]) ──> (variable losses)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nbmem.inventory.paths import NAMELESS, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.inventory.trail import Link, Node, Trail

ROOT = 0
"""The holder of what a root leads to; no object has this id."""


class Tie(NamedTuple):
    """One way in which an object is held."""

    holder: int
    """The `id` of the holder; `ROOT` where the way begins."""
    step: Step | None
    """None for a tie that the backward search found: then `kind` and `text` say it."""
    key: Any
    kind: str = ""
    text: str = ""


class Ties:
    """All objects on a trail and all ways between them. Holds them strongly until `clear`."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        """By `id`."""
        self.incoming: dict[int, list[Tie]] = {}
        self.outgoing: dict[int, list[tuple[int, Tie]]] = {}

    def add(self, held: Any, tie: Tie) -> None:
        """Notes one way to an object."""
        self.objects.setdefault(id(held), held)
        self.incoming.setdefault(id(held), []).append(tie)
        self.outgoing.setdefault(tie.holder, []).append((id(held), tie))

    def clear(self) -> None:
        """Lets go of everything."""
        for table in (self.objects, self.incoming, self.outgoing):
            table.clear()

    def reached_from(self, start: Iterable[int]) -> set[int]:
        """Returns the ids of all objects that these lead to, themselves included."""
        stack = list(start)
        seen = set(stack)
        while stack:
            for child, _ in self.outgoing.get(stack.pop(), ()):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return seen


def tie_up(trail: Trail, texts: list[str]) -> Ties:
    """Returns the ties that a trail tells, all further ways to its containers included.

    Args:
        trail: what a walk wrote down.
        texts: the names of its links, in their order; they may be fewer.
    """
    ties = Ties()
    for index, link in enumerate(trail.links):
        if link.step is Step.STATE and link.key < len(texts):
            trail.links[index] = link._replace(key=texts[link.key])
    for index, node in enumerate(trail.nodes):
        if node.step is Step.STATE and node.key < len(texts):
            trail.nodes[index] = node._replace(key=texts[node.key])
    for index, (at, node) in enumerate(trail.again):
        if node.step is Step.STATE and node.key < len(texts):
            trail.again[index] = at, node._replace(key=texts[node.key])
    for index, node in enumerate(trail.nodes):
        ties.add(trail.container(index), _tie(trail, node, node.parent))
    for index, node in trail.again:
        ties.add(trail.container(index), _tie(trail, node, node.parent))
    for link in trail.links:
        ties.add(trail.tensors[link.tensor], _tie(trail, link, link.node))
    return ties


def _tie(trail: Trail, step: Link | Node, parent: int) -> Tie:
    if step.step is Step.GRADIENT:
        owner = trail.tensors[trail.links[step.key].tensor]
        return Tie(id(owner), step.step, None)
    if parent == NAMELESS:
        return Tie(ROOT, step.step, step.key)
    return Tie(id(trail.container(parent)), step.step, step.key)
