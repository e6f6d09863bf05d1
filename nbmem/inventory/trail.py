"""What a walk wrote down: the tensors it reached, and by which steps."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import torch

from nbmem.inventory.paths import NAMELESS, Step, is_private
from nbmem.records import Note

MAX_LINKS = 20
"""Ways kept to each tensor; further ones are counted."""

_new = tuple.__new__  # `Link(…)` is Python code, called for each tensor
NOWHERE, OPTIMIZER, STATE = range(3)
_TELLING = frozenset((Step.PARAMETER, Step.BUFFER, Step.STATE))


class Link(NamedTuple):
    """The last step of one way to a tensor."""

    tensor: int
    """Index into `Trail.tensors`."""
    node: int
    """Index into `Trail.nodes`; NAMELESS where the tensor itself is a root."""
    step: Step
    key: Any


class Node(NamedTuple):
    """A container, with the last step of the way that first led to it."""

    parent: int
    step: Step
    key: Any
    depth: int
    within: int
    """NOWHERE, or in what the way leads through: OPTIMIZER or its STATE."""
    cached: bool
    """The way begins in IPython's caches."""
    tensor: bool = False
    """It is a tensor that holds others: a wrapper of a shard."""
    private: bool = False
    """The way leads through an attribute whose name begins with an underscore."""


class Trail:
    """Tensors, links and nodes in the order in which they were reached: shortest ways first.

    It holds what it names, until `clear`.
    """

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self.links: list[Link] = []
        self.nodes: list[Node] = []
        self.again: list[tuple[int, Node]] = []
        """Further ways to a container that was visited by another."""
        self.more: dict[int, int] = {}
        """How many ways were not kept, by tensor."""
        self.graphs: list[tuple[Any, int]] = []
        """Bare nodes of autograd graphs, each with its index in `nodes`."""
        self.notes: list[Note] = []
        self._first_link: list[int] = []
        self._count: dict[int, int] = {}
        """How many ways lead to a tensor, where more than one does."""
        self._index: dict[int, int] = {}
        self._node_of: dict[int, int] = {}
        self._kept: list[object] = []

    def clear(self) -> None:
        """Lets go of everything."""
        self.tensors.clear()
        self._kept.clear()
        for rows in (self.links, self.nodes, self.again, self.graphs, self._first_link):
            rows.clear()
        for table in (self._index, self._node_of, self.more, self._count):
            table.clear()

    def forget_search(self) -> None:
        """Lets go of what only the walk and the search for shortest ways need."""
        self.again.clear()
        self._first_link.clear()
        self._node_of.clear()
        self._count.clear()

    def forget_ways(self) -> None:
        """Lets go of all ways; the tensors stay known."""
        self.links.clear()
        self.nodes.clear()
        self._kept.clear()

    def count_anew(self) -> None:
        """Forgets how many ways were kept: as many again are."""
        self._count.clear()

    def reach(self, tensor: torch.Tensor, node: int, step: Step, key: Any) -> bool:
        """Notes a way to a tensor; returns whether it is the first."""
        index, links = len(self.tensors), self.links
        found = self._index.setdefault(id(tensor), index)
        if found == index:
            self._first_link.append(len(links))
            links.append(_new(Link, (index, node, step, key)))
            self.tensors.append(tensor)
            return True
        count = self._count[found] = self._count.get(found, 1) + 1
        if count <= MAX_LINKS or step in _TELLING:
            links.append(_new(Link, (found, node, step, key)))
        else:
            self.more[found] = self.more.get(found, 0) + 1
        return False

    def enter(
        self,
        container: object,
        parent: int,
        step: Step,
        key: Any,
        within: int = NOWHERE,
        tensor: bool = False,
    ) -> int | None:
        """Notes a way to a container; returns its node, or None where it was entered before."""
        depth, cached, private = 1, step is Step.OUTPUT, False
        if parent != NAMELESS:
            above = self.nodes[parent]
            depth, within = above.depth + 1, max(above.within, within)
            cached, private = above.cached, above.private or is_private(step, key)
        if step is Step.STATE:
            within = STATE
        node = _new(Node, (parent, step, key, depth, within, cached, tensor, private))
        before = self._node_of.get(id(container))
        if before is not None:
            self.again.append((before, node))
            return None
        self._node_of[id(container)] = len(self.nodes)
        return self._append(container, node)

    def enter_state(self, state: object, optimizer: int) -> int:
        """Notes an optimizer's `state`, whatever else leads to the same dict."""
        above = self.nodes[optimizer]
        node = above._replace(
            parent=optimizer,
            step=Step.ATTRIBUTE,
            key="state",
            depth=above.depth + 1,
            within=STATE,
            tensor=False,
        )
        return self._append(state, node)

    def _append(self, container: object, node: Node) -> int:
        self._kept.append(container)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def node_of(self, container: object) -> int | None:
        """Returns the node of a container, or None where no way leads to it."""
        return self._node_of.get(id(container))

    def containers(self) -> Sequence[object]:
        """Returns all containers, in the order of `nodes`."""
        return self._kept

    def container(self, node: int) -> object:
        """Returns the container itself."""
        return self._kept[node]

    def within(self, link: Link) -> int:
        """Returns in what the way to a tensor leads through: NOWHERE, OPTIMIZER or STATE."""
        if link.step is Step.STATE:
            return STATE
        return NOWHERE if link.node == NAMELESS else self.nodes[link.node].within

    def step_of_wrapper(self, link: Link) -> Step:
        """Returns the step of the link; of what a tensor of a wrapper type holds, the wrapper's."""
        place: Link | Node = link
        while (parent := place.node if isinstance(place, Link) else place.parent) != NAMELESS:
            above = self.nodes[parent]
            if not above.tensor or place.step is not Step.ATTRIBUTE:
                break
            place = above
        return place.step

    def is_private(self, link: Link) -> bool:
        """Returns whether the way to a tensor leads through an attribute that is not public."""
        above = link.node != NAMELESS and self.nodes[link.node].private
        return above or is_private(link.step, link.key)

    def is_output(self, link: Link) -> bool:
        """Returns whether the way to a tensor begins in IPython's caches."""
        if link.node == NAMELESS:
            return link.step is Step.OUTPUT
        return self.nodes[link.node].cached

    def index_of(self, tensor: torch.Tensor) -> int | None:
        """Returns the tensor's index, or None where no way leads to it."""
        return self._index.get(id(tensor))

    def ids(self) -> Container[int]:
        """Returns the ids of the tensors on the trail, which live as long as it holds them."""
        return self._index

    def first_link(self, index: int) -> int:
        """Returns the index of the shortest way to a tensor."""
        return self._first_link[index]
