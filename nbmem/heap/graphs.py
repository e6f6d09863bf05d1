"""The walk of autograd graphs: what they keep alive, read without running a hook.

A tensor that C++ saved has no Python object, so the garbage collector does not know it. Its node
does: `_raw_saved_x` is the saved value itself, packed as the user's hooks left it, and reading its
`data` unpacks nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RAW = "_raw_saved_"
_NO_VALUE = object()
_grad_fn_of: Callable[[torch.Tensor], Any] = vars(torch._C.TensorBase)["grad_fn"].__get__


@dataclass(frozen=True, slots=True, eq=False)
class SavedTensor:
    """A tensor that a node of an autograd graph keeps; holds it strongly."""

    tensor: torch.Tensor
    node: str
    """The node's type: `MulBackward0`; `AccumulateGrad` for a leaf that the graph keeps."""
    attribute: str
    """Which of the node's values: `self`, `result`, `tensors` (of a custom function), `variable`"""
    root: int | None
    """Index into the scan's `first`; None where the walk began at another tensor."""
    position: int
    """The node was the n-th of the walk that began at this root, counted from 0."""


class GraphWalk:
    """Walks graphs breadth first, each node once; keeps every node alive until it is dropped."""

    def __init__(self, tensor_types: set[int]) -> None:
        self.saved: list[SavedTensor] = []
        self.leaves: list[torch.Tensor] = []
        """Leaves found through the graph; each may have a gradient."""
        self.unreadable = 0
        """Values that raised when they were read."""
        self._tensor_types = tensor_types
        self._nodes: dict[int, Any] = {}
        self._attributes: dict[type, tuple[tuple[str, str], ...]] = {}

    def walk(self, tensor: torch.Tensor, root: int | None) -> None:
        """Visits every node reachable from the tensor's graph that no walk has visited."""
        try:
            node = _grad_fn_of(tensor)
        except RuntimeError:  # a view whose base was changed in place under no_grad
            self.unreadable += 1
            return
        if node is None or id(node) in self._nodes:
            return
        self._nodes[id(node)] = node
        queue = deque((node,))
        position = 0
        while queue:
            node = queue.popleft()
            self._read(node, root, position)
            position += 1
            for following, _ in node.next_functions:
                if following is not None and id(following) not in self._nodes:
                    self._nodes[id(following)] = following
                    queue.append(following)

    def _read(self, node: Any, root: int | None, position: int) -> None:
        kind = type(node)
        attributes = self._attributes.get(kind)
        if attributes is None:
            attributes = self._attributes[kind] = _attributes_of(kind)
        for attribute, short in attributes:
            try:
                value = getattr(node, attribute)
                tensors = list(self._tensors_in(value))
            except RuntimeError:  # the graph was freed, or the value changed in place
                self.unreadable += 1
                continue
            for tensor in tensors:
                self.saved.append(SavedTensor(tensor, kind.__name__, short, root, position))
            if short == "variable":
                self.leaves.extend(tensors)

    def _tensors_in(self, value: Any) -> Iterator[torch.Tensor]:
        """Yields the tensors in a saved value: through SavedTensor and builtin containers only."""
        stack, seen = [value], set()
        while stack:
            item = stack.pop()
            kind = type(item)
            if kind is torch._C._autograd.SavedTensor:
                stack.append(_data_of(item))
            elif id(kind) in self._tensor_types:
                yield item
            elif (kind is tuple or kind is list or kind is dict) and id(item) not in seen:
                seen.add(id(item))
                stack.extend(reversed(item.values() if kind is dict else item))


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
