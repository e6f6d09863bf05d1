"""Every place that the user's names lead to and that holds a storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nbmem.heap import StorageTable
from nbmem.heap.storages import bare_torch
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.names import write_names
from nbmem.inventory.parts import parts_of
from nbmem.inventory.paths import HOLDERS, NAMELESS, Step
from nbmem.inventory.trail import OPTIMIZER, STATE, Link, Node, Trail
from nbmem.inventory.walk import NameWalk

_WITHIN = {OPTIMIZER: "optimizer", STATE: "optimizer state"}


@dataclass(frozen=True, slots=True)
class PlaceStep:
    """One step on the way to a tensor."""

    kind: str
    """What it is taken in, in words: one of `paths.HOLDERS`."""
    key: object
    """The name, the dict's own key (a plain value) or the position; None for a gradient."""


@dataclass(frozen=True, slots=True)
class Place:
    """One way from a root to a tensor of the storage; plain facts, nothing is kept alive."""

    name: str
    """As an inventory prints it."""
    root: str
    """The variable (`batches`) or the entry of the output cache (`Out[3]`) where it begins."""
    steps: tuple[PlaceStep, ...]
    """From the root to the tensor; the first one is the root."""
    holder: str
    """What the last step is in: `variable`, `output`, `dict entry`, `list item`, `attribute`,
    `module parameter`, `gradient`, …; `optimizer state` or `optimizer` wherever the way leads
    through one. `dict value` is an entry whose key is no plain value: `key` is its position."""
    roots: tuple[str, ...]
    """All roots that lead to this place: dropping one of several frees nothing."""


def find_places(
    table: StorageTable,
    namespace: Mapping[str, object],
    keys: Collection[int],
    *,
    output_cache: Mapping[str, object] | None = None,
) -> dict[int, list[Place]]:
    """Returns, for each of these storages (serials), the places that hold it, shortest way first.

    A storage that no name leads to has an empty list. No step leads through a graph: what a graph
    keeps goes with the tensor that the graph belongs to.
    """
    places: dict[int, list[Place]] = {key: [] for key in keys}
    with bare_torch():
        trail = NameWalk().run(namespace, output_cache or {})
    try:
        with bare_torch():
            reach_gradients(trail)
            serials = [_serials_of(table, thing, places) for thing in trail.tensors]
        writer = _PlaceWriter(trail, write_names(trail).texts)
        for link, name in zip(trail.links, writer.names):  # noqa: B905  names may be fewer
            for serial in serials[link.tensor]:
                places[serial].append(writer.write(link, name))
    finally:
        trail.clear()
    return places


def _serials_of(table: StorageTable, thing: Any, wanted: Collection[int]) -> list[int]:
    refs = [table.find(part.storage) for part in parts_of(thing)]
    return [ref.serial for ref in refs if ref is not None and ref.serial in wanted]


class _PlaceWriter:
    """Writes links as places; looks up which roots lead to each container once."""

    def __init__(self, trail: Trail, names: list[str]) -> None:
        self.names = names
        self._trail = trail
        self._roots: dict[int, tuple[str, ...]] = {}
        self._ways: dict[int, list[Node]] = {}
        for node, way in trail.again:
            self._ways.setdefault(node, []).append(way)

    def write(self, link: Link, name: str) -> Place:
        way = self._way_to(link)
        steps = tuple(PlaceStep(HOLDERS[one.step], self._key_of(one)) for one in way)
        holder = _WITHIN.get(self._trail.within(link), steps[-1].kind)
        return Place(name, way[0].key, steps, holder, self._roots_of(link))

    def _way_to(self, link: Link | Node) -> list[Link | Node]:
        """Returns the steps from the root, those of a gradient's tensor included."""
        way: list[Link | Node] = []
        step: Link | Node | None = link
        while step is not None:
            way.append(step)
            step = self._before(step)
        return way[::-1]

    def _before(self, step: Link | Node) -> Link | Node | None:
        if step.step is Step.GRADIENT:
            owner: int = step.key
            return self._trail.links[owner]
        parent = step.node if isinstance(step, Link) else step.parent
        return None if parent == NAMELESS else self._trail.nodes[parent]

    def _key_of(self, step: Link | Node) -> object:
        if step.step is Step.GRADIENT:
            return None
        return self.names[step.key] if step.step is Step.STATE else step.key

    def _roots_of(self, link: Link) -> tuple[str, ...]:
        """Returns every root that leads to the container of this link, the link's own first."""
        while link.step is Step.GRADIENT:
            link = self._trail.links[link.key]
        if link.node == NAMELESS:
            return (link.key,)
        if link.node not in self._roots:
            self._roots[link.node] = self._search_roots(link.node)
        return self._roots[link.node]

    def _search_roots(self, node: int) -> tuple[str, ...]:
        roots: dict[str, bool] = {}
        queue, seen = deque((node,)), {node}
        while queue:
            node = queue.popleft()
            for way in (self._trail.nodes[node], *self._ways.get(node, ())):
                if way.parent == NAMELESS:
                    roots[way.key] = way.step is Step.OUTPUT
                elif way.parent not in seen:
                    seen.add(way.parent)
                    queue.append(way.parent)
        return tuple(sorted(roots, key=roots.__getitem__))  # variables before outputs
