"""The walk of autograd graphs: what they keep alive, read without running a hook.

A tensor that C++ saved has no Python object, so the garbage collector does not know it. Its node
does: `_raw_saved_x` is the saved value itself, packed as the user's hooks left it, and reading its
`data` unpacks nothing.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_RAW = "_raw_saved_"
_NO_ROOT = sys.maxsize
_FREED = "already been freed"
"""In torch's words where backward has freed what a node kept: then there is nothing to see."""
DEEPEST = 4000
"""Nodes of one chain of an autograd graph that are read: a tenth of what the stack bears."""
_SAVED = torch._C._autograd.SavedTensor
_grad_fn_of: Callable[[torch.Tensor], Any] = vars(torch._C.TensorBase)["grad_fn"].__get__


@dataclass(slots=True, eq=False)
class SavedTensor:
    """A tensor that a node of an autograd graph keeps; holds it strongly."""

    tensor: torch.Tensor
    node: str
    """The node's type: `MulBackward0`; `AccumulateGrad` for a leaf that the graph keeps."""
    attribute: str
    """Which of the node's values: `self`, `result`, `tensors` (of a custom function), `variable`"""
    root: int | None
    """Index into the scan's `first`, the lowest that reaches the node; None: none of them does."""
    position: int
    """The node was the n-th with this root, latest operation first, counted from 0."""


@dataclass(slots=True, eq=False)
class _Visit:
    node: Any
    depth: int
    root: int


class GraphWalk:
    """Walks graphs backward in the order of execution, each node once.

    Every node that Python has looked at gets a Python object that lives as long as the node
    (torch 2.13), and torch frees a chain of such nodes by recursion: 40,000 of them overflow a
    stack of 8 MiB and take the process down. So the walk goes no deeper than it is told.

    Args:
        tensor_types: ids of the types that are tensors.
        deepest: how many nodes one chain may have.
    """

    def __init__(self, tensor_types: set[int], deepest: int = DEEPEST) -> None:
        self.saved: list[SavedTensor] = []
        self.leaves: list[torch.Tensor] = []
        """Leaves found through the graphs; each may have a gradient."""
        self.unreadable = 0
        """Values that raised when they were read."""
        self.too_deep = 0
        """Nodes whose inputs were not followed."""
        self._tensor_types = tensor_types
        self._deepest = deepest
        self._visits: dict[int, _Visit] = {}
        self._queue: list[tuple[int, int]] = []
        self._attributes: dict[type, tuple[tuple[str, str], ...]] = {}
        self._positions: dict[int, int] = {}
        self._refused: set[int] = set()

    def begin_at(self, tensor: torch.Tensor, root: int | None) -> None:
        """Adds the tensor's graph to what the next `walk` visits."""
        try:
            node = _grad_fn_of(tensor)
        except RuntimeError:  # a view whose base was changed in place under no_grad
            self.refuse(tensor)
            return
        if node is not None:
            self._queue_up(node, 0, _NO_ROOT if root is None else root)

    def refuse(self, tensor: torch.Tensor) -> None:
        """Counts a tensor whose graph or gradient raised, once; it must outlive the walk."""
        self.unreadable += id(tensor) not in self._refused
        self._refused.add(id(tensor))

    def walk(self, tensor: torch.Tensor | None = None, root: int | None = None) -> None:
        """Visits every node reachable from where it was told to begin, the latest first."""
        if tensor is not None:
            self.begin_at(tensor, root)
        visits, queue, positions = self._visits, self._queue, self._positions
        while queue:
            visit = visits[heappop(queue)[1]]
            position = positions.get(visit.root, 0)
            positions[visit.root] = position + 1
            self._read(visit.node, None if visit.root == _NO_ROOT else visit.root, position)
            if visit.depth >= self._deepest:
                self.too_deep += 1
                continue
            for following, _ in visit.node.next_functions:
                if following is not None:
                    self._queue_up(following, visit.depth + 1, visit.root)

    def _queue_up(self, node: Any, depth: int, root: int) -> None:
        key = id(node)
        visit = self._visits.get(key)
        if visit is None:
            self._visits[key] = _Visit(node, depth, root)
            heappush(self._queue, (-node._sequence_nr(), key))
            return
        visit.depth = max(visit.depth, depth)
        visit.root = min(visit.root, root)

    def _read(self, node: Any, root: int | None, position: int) -> None:
        kind = type(node)
        attributes = self._attributes.get(kind)
        if attributes is None:
            attributes = self._attributes[kind] = _attributes_of(kind)
        for attribute, short in attributes:
            try:
                tensors = self._tensors_in(getattr(node, attribute))
            except RuntimeError as error:
                self.unreadable += _FREED not in str(error)
                continue
            for tensor in tensors:
                self.saved.append(SavedTensor(tensor, kind.__name__, short, root, position))
            if short == "variable":
                self.leaves.extend(tensors)

    def _tensors_in(self, value: Any) -> list[torch.Tensor]:
        """Returns the tensors in a saved value: through SavedTensor and builtin containers only."""
        stack, found = [value], []
        seen = set()
        while stack:
            item = stack.pop()
            kind = type(item)
            if kind is _SAVED:
                stack.append(_data_of(item))
            elif id(kind) in self._tensor_types:
                found.append(item)
            elif (kind is tuple or kind is list or kind is dict) and id(item) not in seen:
                seen.add(id(item))
                stack.extend(reversed(item.values() if kind is dict else item))
        return found


def _data_of(saved: Any) -> Any:
    try:
        return saved.data
    except RuntimeError:  # freed by backward
        return None


def _attributes_of(kind: type) -> tuple[tuple[str, str], ...]:
    """Returns, for a type of node, the attributes that hold saved tensors and their short names."""
    names = [name for name in dir(kind) if name.startswith(_RAW)]
    pairs = [(name, name.removeprefix(_RAW)) for name in names]
    if kind.__name__ == "AccumulateGrad":
        pairs.append(("variable", "variable"))
    return tuple(pairs)
