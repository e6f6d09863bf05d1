"""The walk of autograd graphs: what they keep alive, read without running a hook.

A tensor that C++ saved has no Python object, so the garbage collector does not know it. Its node
does: `_raw_saved_x` is the saved value itself, packed as the user's hooks left it, and reading its
`data` unpacks nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.nodes import FREED, SAVED, NodeType, read_node_type
from nbmem.heap.packed import Finder
from nbmem.heap.storages import gradient_of
from nbmem.heap.unwinding import BAND, break_chains, can_break, outlive_the_walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_NODES = 2_000_000
"""Nodes read in one walk."""
DEEPEST = 4_000
"""Nodes of a graph that may be freed in one recursion: a tenth of what a stack bears."""
_grad_fn_of: Callable[[torch.Tensor], Any] = vars(torch._C.TensorBase)["grad_fn"].__get__


HOOKS = tuple(
    (name, vars(torch._C.TensorBase)[name].__get__)
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
)
"""Name and accessor of the dicts in which a tensor has its hooks."""


@dataclass(slots=True, eq=False)
class GraphNode:
    """One node of an autograd graph: an operation, or the place of a leaf's gradient."""

    kind: str
    """The node's type: `MulBackward0`; `AccumulateGrad` for a leaf."""
    sequence: int
    """Higher for later operations of one thread."""
    inputs: tuple[int, ...]
    """Indices of the nodes that made the operation's inputs."""
    saved: list[tuple[str, torch.Tensor]]
    """Which of the node's values (`self`, `result`, `variable`, a `ctx` attribute), and a tensor
    that it keeps, or that hooks keep in its place."""
    also: tuple[int, ...] = ()
    """Nodes that are alive through what this node keeps, and are no inputs."""
    hooks: tuple[int, ...] = ()
    """Indices into `Graph.hooks` of the unpack hooks that this node keeps."""
    intact: bool = False
    """A value that it saved for backward is still there, as hooks left it."""
    freed: bool = False
    """Reading what it saved raised, as after backward; see `heap.freed`."""


@dataclass(slots=True, eq=False)
class Hook:
    """An unpack hook that saved values share, with the tensors that its closure keeps."""

    tensors: list[torch.Tensor]
    also: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Graph:
    """Every node that was read, and what each keeps; holds it strongly until `clear`."""

    nodes: list[GraphNode] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    _objects: list[Any] = field(default_factory=list)
    _index: dict[int, int] = field(default_factory=dict)
    """By the `id` of torch's own node, which `_objects` holds."""
    _begun: dict[int, int] = field(default_factory=dict)
    """By the `id` of a tensor: where its graph begins."""

    def clear(self) -> None:
        """Lets go of everything."""
        self.nodes.clear()
        self.hooks.clear()
        self.forget_search()

    def forget_search(self) -> None:
        """Lets go of torch's own nodes and of where graphs begin; what they keep stays told."""
        self._objects.clear()
        self._index.clear()
        self._begun.clear()

    def root_of(self, tensor: torch.Tensor) -> int | None:
        """Returns the index of the node at which a tensor's graph begins; None: it has none."""
        return self._begun.get(id(tensor))

    def begun(self) -> dict[int, int]:
        """Returns where graphs begin: the node's index by the `id` of the tensor that it made."""
        return dict(self._begun)

    def functions(self) -> Iterator[Any]:
        """Goes through the nodes that are Python objects of their own, as each Function's `ctx`."""
        return (one for one in self._objects if issubclass(type(one), torch._C._FunctionBase))

    def node_object(self, index: int) -> Any:
        """Returns torch's own node; not after `forget_search`."""
        return self._objects[index]

    def roots(self) -> Iterator[tuple[int, int]]:
        """Goes through (the `id` of a tensor, the sequence number of the node that made it)."""
        for key, index in self._begun.items():
            yield key, self.nodes[index].sequence

    def saved(self) -> Iterator[tuple[GraphNode, str, torch.Tensor]]:
        """Goes through everything that is kept, with the node that keeps it."""
        told: set[int] = set()
        for node in self.nodes:
            for attribute, tensor in node.saved:
                yield node, attribute, tensor
            for index in node.hooks:
                if index not in told:
                    told.add(index)
                    for tensor in self.hooks[index].tensors:
                        yield node, UNPACK_HOOK, tensor

    def kept(self, index: int) -> list[tuple[str, torch.Tensor]]:
        """Returns what one node keeps, itself or by its hooks, with the attribute."""
        node = self.nodes[index]
        if not node.hooks:
            return node.saved
        hooked = [(UNPACK_HOOK, t) for hook in node.hooks for t in self.hooks[hook].tensors]
        return node.saved + hooked

    def reach(self, root: int, told: set[int]) -> list[int]:
        """Returns the nodes that one node keeps alive, itself included, but those `told`."""
        stack, reached = [root], []
        while stack:
            index = stack.pop()
            if index not in told:
                told.add(index)
                reached.append(index)
                stack.extend(self._following(self.nodes[index]))
        return reached

    def from_latest(self, root: int) -> Iterator[int]:
        """Goes from one node backward in the order of execution, the latest operation first."""
        nodes, order = self.nodes, 0
        queue, seen = [(-nodes[root].sequence, 0, root)], {root}
        while queue:
            index = heappop(queue)[2]
            yield index
            for following in self._following(nodes[index]):
                if following not in seen:
                    seen.add(following)
                    order += 1
                    heappush(queue, (-nodes[following].sequence, order, following))

    def _following(self, node: GraphNode) -> tuple[int, ...]:
        if not (node.also or node.hooks):
            return node.inputs
        hooked = (index for hook in node.hooks for index in self.hooks[hook].also)
        return (*node.inputs, *node.also, *hooked)


GRADIENT = ".grad"
"""What follows an attribute where the gradient of the tensor is meant."""
UNPACK_HOOK = "unpack_hook"
"""The attribute under which a hook's closure is told."""


class GraphWalk:
    """Walks graphs from tensors or nodes to everything that they keep, each node once.

    Args:
        tensor_types: ids of the types that are tensors.
    """

    def __init__(self, tensor_types: set[int]) -> None:
        self.graph = Graph()
        self.unreadable = 0
        """Values that raised when they were read."""
        self.packed_away = 0
        """Saved values in whose place hooks keep no tensor."""
        self.cut = False
        """More nodes are alive than are read in one walk."""
        self._tensor_types = tensor_types
        self._finder = Finder(tensor_types)
        self._types: dict[int, NodeType | None] = {}
        """By the id of the type: a user's metaclass may have a `__hash__` of its own."""
        self._seen_types: list[type] = []
        self._objects = self.graph._objects
        self._index = self.graph._index
        self._next = 0
        self._hook_index: dict[int, int] = {}
        self._hook_objects: list[Any] = []
        self._refused: set[int] = set()

    def begin_at(self, tensor: torch.Tensor) -> int | None:
        """Adds the tensor's graph to what the next `walk` visits; returns where it begins."""
        try:
            node = _grad_fn_of(tensor)
        except RuntimeError:  # a view whose base was changed in place under no_grad
            self.refuse(tensor)
            return None
        index = None if node is None else self.begin_at_node(node)
        if index is not None:
            self.graph._begun[id(tensor)] = index
        return index

    def begin_at_node(self, node: Any) -> int | None:
        """Adds the graph that a bare node keeps; returns its index, None where it is no node."""
        key = id(node)
        index = self._index.get(key)
        if index is not None:
            return index
        kind = self._type_of(node)
        if kind is None or self.cut:
            return None
        if len(self._objects) >= MOST_NODES:
            self.cut = True
            return None
        index = self._index[key] = len(self._objects)
        self._objects.append(node)
        self.graph.nodes.append(GraphNode(kind.name, kind.sequence_of(node), (), []))
        return index

    def refuse(self, tensor: torch.Tensor) -> None:
        """Counts a tensor whose graph or gradient raised, once; it must outlive the walk."""
        self.unreadable += id(tensor) not in self._refused
        self._refused.add(id(tensor))

    def walk(self) -> None:
        """Visits every node reachable from where it was told to begin.

        What was read is safe to free also where an interrupt ends the walk.
        """
        try:
            self._walk()
        except BaseException:
            self.make_safe()
            raise

    def _walk(self) -> None:
        objects, nodes, begin = self._objects, self.graph.nodes, self.begin_at_node
        while self._next < len(objects):
            index, self._next = self._next, self._next + 1
            source = objects[index]
            kind = self._types[id(type(source))]
            assert kind is not None
            found = [begin(made) for made, _ in kind.inputs_of(source) if made is not None]
            nodes[index].inputs = tuple(i for i in found if i is not None)
            self._read(source, kind, nodes[index])

    def make_safe(self) -> bool:
        """Prepares long chains for being freed; returns whether it could be done.

        To be called once the walk is over.
        """
        nodes = self.graph.nodes
        if len(nodes) <= DEEPEST or not outlive_the_walk(self._objects):
            return True
        if not can_break():
            return False
        break_chains(self._objects, _edges_between_bands(nodes))
        return True

    def files(self) -> list[str]:
        """Returns the files in which hooks put saved values, as far as their names were met."""
        return [path for path in self._finder.paths if os.path.isfile(path)]

    @property
    def cut_short(self) -> bool:
        """Whether something kept was too large to be looked through."""
        return self.cut or self._finder.cut

    def _type_of(self, node: Any) -> NodeType | None:
        cls = type(node)
        try:
            return self._types[id(cls)]
        except KeyError:
            self._seen_types.append(cls)
            kind = self._types[id(cls)] = read_node_type(cls)
            return kind

    def _read(self, source: Any, kind: NodeType, node: GraphNode) -> None:
        for attribute, read in kind.saved:
            try:
                value = read(source)
            except RuntimeError as error:
                node.freed |= FREED in str(error)
                self.unreadable += FREED not in str(error)
                continue
            for saved in value if type(value) is tuple else (value,):
                self._take_saved(attribute, saved, node)
        if kind.leaf_of is not None:
            self._keep("variable", kind.leaf_of(source), node)
        if kind.attributes_of is not None:
            for name, value in list(kind.attributes_of(source).items()):
                self._take_held(str(name), self._finder.find((value,)), node)

    def _take_saved(self, attribute: str, saved: Any, node: GraphNode) -> None:
        if type(saved) is not SAVED:
            return
        try:
            data, hook = saved.data, saved.unpack_hook
        except RuntimeError:  # freed by backward
            node.freed = True
            return
        node.intact |= data is not None
        if id(type(data)) in self._tensor_types:
            self._keep(attribute, data, node)
        elif data is not None:
            tensors = self._finder.find((data,), paths=True)
            self._take_held(attribute, tensors, node)
            self.packed_away += not tensors
        if hook is not None:
            self._take_hook(hook, node)

    def _keep(self, attribute: str, tensor: torch.Tensor, node: GraphNode) -> None:
        """Takes a tensor, with its gradient and what its hooks hold, if it has any."""
        node.saved.append((attribute, tensor))
        gradient = gradient_of(tensor)
        if gradient is not None:
            self._take_held(attribute + GRADIENT, (gradient,), node)
        for name, hooks_of in HOOKS:
            hooks = hooks_of(tensor)
            if hooks is not None:
                self._take_held(f"{attribute}.{name}", self._finder.find((hooks,)), node)

    def _take_held(self, name: str, tensors: Iterable[torch.Tensor], node: GraphNode) -> None:
        """Takes tensors that Python objects keep, which may have graphs of their own."""
        for tensor in tensors:
            node.saved.append((name, tensor))
            index = self.begin_at(tensor)
            if index is not None:
                node.also += (index,)

    def _take_hook(self, hook: Any, node: GraphNode) -> None:
        index = self._hook_index.get(id(hook))
        if index is None:
            index = self._hook_index[id(hook)] = len(self._hook_objects)
            self._hook_objects.append(hook)
            tensors = self._finder.find((hook,))
            begun = (self.begin_at(tensor) for tensor in tensors)
            self.graph.hooks.append(Hook(tensors, tuple(i for i in begun if i is not None)))
        if index not in node.hooks:
            node.hooks += (index,)


def _edges_between_bands(nodes: list[GraphNode]) -> Iterator[tuple[int, int]]:
    """Goes through the edges from one band of operations into an earlier one.

    Sequence numbers fall along every edge, so that a way inside a band is at most as long as it.
    """
    bands = [node.sequence // BAND for node in nodes]
    for index, node in enumerate(nodes):
        band = bands[index]
        for earlier in node.inputs:
            if bands[earlier] != band and nodes[earlier].inputs:
                yield index, earlier
