"""Which module a storage belongs to, told after the fact.

A parameter says it by its name. The node of a graph that uses a parameter is that module's
operation; an operation without parameters comes after the nearest one that its input came through:

    x ──> conv1 ──> relu ──> conv2          conv1, conv2: their own weights
            weight     └ after conv1        relu: after conv1
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import torch

from nbmem.inventory.names import Names
from nbmem.inventory.paths import NAMELESS, Step
from nbmem.inventory.trail import STATE, Link, Trail

if TYPE_CHECKING:
    from nbmem.heap import Graph, GraphNode

_EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)
_PART = re.compile(r"\.?[^.\[]+|\[[^\]]*\]")


class ModuleNames:
    """The module of each link of a trail, and of each leaf of a graph."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._of_node: dict[int, str | None] = {}
        self._of_leaf: dict[int, list[tuple[str, bool]]] = {}
        """By the `id` of a parameter: the names of its modules, and which are embeddings."""

    def of_leaf(self, leaf: int, *, looked_up: bool) -> str | None:
        """Returns the module of a parameter (its `id`), as an operation uses it.

        A tied weight has several: an operation that looks rows up is the embedding's, another one
        is not.
        """
        modules = self._of_leaf.get(leaf)
        if modules is None:
            return None
        fitting = (name for name, embeds in modules if embeds == looked_up)
        return next(fitting, modules[0][0])

    def of_link(self, link: Link) -> str | None:
        """Returns the name of the module to which what the link leads to belongs."""
        if link.step is Step.PARAMETER or link.step is Step.BUFFER:
            return self._names.of_node(link.node)
        if link.step is Step.GRADIENT or link.step is Step.STATE:
            return self._of_owner(link.key)
        if link.node == NAMELESS:
            return None
        node = self._trail.nodes[link.node]
        if node.within == STATE:
            return self._of_state(link.node)
        # What a tensor of a wrapper type holds is of the wrapper's module.
        return self.of_link(Link(-1, node.parent, node.step, node.key)) if node.tensor else None

    def _of_owner(self, index: int) -> str | None:
        """Returns the module of the tensor that a link leads to, by whatever way."""
        owner = self._trail.links[index]
        module = self.of_leaf(id(self._trail.tensors[owner.tensor]), looked_up=False)
        return self.of_link(owner) if module is None else module

    def _of_state(self, index: int) -> str | None:
        """Returns the module of the parameter for which an optimizer keeps this container."""
        if index in self._of_node:
            return self._of_node[index]
        node, found = self._trail.nodes[index], None
        if node.step is Step.STATE:
            found = self._of_owner(node.key)
        elif node.parent != NAMELESS and self._trail.nodes[node.parent].within == STATE:
            found = self._of_state(node.parent)
        self._of_node[index] = found
        return found

    def learn(self, names: Names) -> None:
        """Learns the names of the modules, and which parameters they have."""
        trail, tensors = self._trail, self._trail.tensors
        self._names = names
        for tensor, node, step, _ in trail.links:
            if step is Step.PARAMETER:
                embeds = issubclass(type(trail.container(node)), _EMBEDDINGS)
                told = names.of_node(node), embeds
                self._of_leaf.setdefault(id(tensors[tensor]), []).append(told)


class Home(NamedTuple):
    """Where an operation belongs."""

    module: str | None
    word: str
    """`of model.conv1`, `after model.conv1`, or nothing."""


NO_HOME = Home(None, "")


class Homes:
    """Finds the home of each node of a graph, once it is asked for."""

    def __init__(self, graph: Graph, modules: ModuleNames) -> None:
        self._graph = graph
        self._modules = modules
        self._own: dict[int, str | None] = {}
        """The module whose parameters the node uses."""
        self._leaf: dict[int, int] = {}
        """The `id` of the parameter that it is, in whatever form: the transpose of a weight."""
        self._after: dict[int, str | None] = {}

    def of(self, index: int) -> Home:
        """Returns the home of a node."""
        self._learn(index)
        own, after = self._own[index], self._after[index]
        if own is not None:
            return Home(own, f"of {own}")
        return NO_HOME if after is None else Home(after, f"after {after}")

    def _learn(self, index: int) -> None:
        """Learns a node and all that it works on, the earliest first, without recursion."""
        nodes, known = self._graph.nodes, self._own
        stack = [index]
        while stack:
            current = stack[-1]
            if current in known:
                stack.pop()
                continue
            missing = [i for i in nodes[current].inputs if i not in known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self._learn_one(current, nodes[current])

    def _learn_one(self, index: int, node: GraphNode) -> None:
        of_leaf = self._modules.of_leaf
        looks_up = node.kind.startswith("Embedding")
        if node.kind == "AccumulateGrad":
            leaf = id(node.saved[0][1])
            self._own[index], self._after[index] = of_leaf(leaf, looked_up=False), None
            if self._own[index] is not None:
                self._leaf[index] = leaf
            return
        used = [self._leaf[i] for i in node.inputs if i in self._leaf]
        homes = dict.fromkeys(of_leaf(leaf, looked_up=looks_up) for leaf in used)
        self._own[index] = _common([home for home in homes if home is not None])
        if len(used) == len(node.inputs) == 1 and not node.saved:
            self._leaf[index] = used[0]
        self._after[index] = next(filter(None, map(self._end_of, node.inputs)), None)

    def _end_of(self, index: int) -> str | None:
        return self._own[index] or self._after[index]


def _common(names: list[str]) -> str | None:
    """Returns the module in which all of these are: `model` for `model.key` and `model.value`."""
    if len(names) < 2:
        return names[0] if names else None
    split = [_PART.findall(name) for name in names]
    shared = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "".join(shared) or names[0]
