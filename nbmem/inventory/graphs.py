"""Names for what only an autograd graph keeps.

    loss → graph[17] ConvolutionBackward0.input of model.layer3.0.conv1

The number counts the nodes of a walk that begins at that one tensor, the latest operation first, so
that it does not depend on what else is alive. What follows the node's value tells its module; the
way back does without it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.graphs import UNPACK_HOOK, GraphWalk
from nbmem.heap.scan import tensor_types
from nbmem.inventory.parts import as_tensor, parts_of, with_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nbmem.heap import Graph
    from nbmem.inventory.modules import Homes

_NAME = re.compile(r"(?P<tensor>.*) → graph\[\d+\] \w+\..*", re.DOTALL)
_HOMES = (" of ", " after ")
STEPS_A_LOOK = 512
"""Nodes between two looks at the clock."""


def kept_by(
    graph: Graph, root: int, deadline: float | None = None
) -> Iterator[tuple[int, int, list[tuple[str, torch.Tensor]]]]:
    """Goes through a graph from one node: (position, index, what the node keeps).

    Ends at the deadline (`time.perf_counter`).
    """
    told: set[int] = set()
    for position, index in enumerate(graph.from_latest(root)):
        if deadline is not None and not position % STEPS_A_LOOK and _is_over(deadline):
            return
        node = graph.nodes[index]
        kept = node.saved
        for hook in node.hooks:
            if hook not in told:
                told.add(hook)
                kept = kept + [(UNPACK_HOOK, tensor) for tensor in graph.hooks[hook].tensors]
        if kept:
            yield position, index, kept


def _is_over(deadline: float) -> bool:
    return time.perf_counter() > deadline


def label_all(
    graph: Graph, position: int, index: int, kept: list[tuple[str, torch.Tensor]]
) -> list[str]:
    """Returns the labels of what one node keeps; several under one attribute get numbers."""
    kind = graph.nodes[index].kind
    counts = Counter(attribute for attribute, _ in kept)
    seen: Counter[str] = Counter()
    labels = []
    for attribute, _ in kept:
        number = f"[{seen[attribute]}]" if counts[attribute] > 1 else ""
        seen[attribute] += 1
        labels.append(f"graph[{position}] {kind}.{attribute}{number}")
    return labels


def label_storages(
    graph: Graph,
    root: int,
    wanted: set[int],
    serials_of: Callable[[torch.Tensor], tuple[tuple[int, str], ...]],
    homes: Homes,
    deadline: float,
) -> Iterator[tuple[int, int, str]]:
    """Goes through storages that a graph keeps: (serial, node, label with its home).

    Takes each serial out of `wanted`, goes no further than to the last of them, and not beyond the
    deadline.
    """
    for position, index, kept in kept_by(graph, root, deadline):
        if not wanted:
            return
        found = [serials_of(tensor) for _, tensor in kept]
        if not any(serial in wanted for parts in found for serial, _ in parts):
            continue
        word = homes.of(index).word
        for label, parts in zip(label_all(graph, position, index, kept), found, strict=True):
            for serial, part in parts:
                if serial in wanted:
                    wanted.remove(serial)
                    yield serial, index, f"{with_word(label, part)} {word}".rstrip()


def find_label(root: Any, label: str) -> torch.Tensor | None:
    """Returns the tensor that the graph of a tensor or bare node keeps under a label, or None."""
    walk = GraphWalk({id(kind) for kind in tensor_types()})
    begin = walk.begin_at if issubclass(type(root), torch.Tensor) else walk.begin_at_node
    index = begin(root)
    if index is None:
        return None
    walk.walk()
    walk.make_safe()
    found = dict[str, torch.Tensor]()
    for position, node, kept in kept_by(walk.graph, index):
        if label.startswith(f"graph[{position}] "):
            for text, (_, tensor) in zip(
                label_all(walk.graph, position, node, kept), kept, strict=True
            ):
                for part in parts_of(tensor):
                    whole = with_word(text, part.word)
                    if _says(label, whole):
                        found[whole] = as_tensor(part)
            break
    return found[max(found, key=len)] if found else None


def _says(label: str, text: str) -> bool:
    return label == text or label.startswith(tuple(text + home for home in _HOMES))


def split_name(name: str) -> tuple[str, str] | None:
    """Returns the tensor's name and the label of a name that leads through a graph."""
    match = _NAME.fullmatch(name)
    return (match["tensor"], name[match.end("tensor") + len(" → ") :]) if match else None


def join_name(tensor: str, label: str) -> str:
    """Returns the name that leads through the tensor's graph to what has this label."""
    return f"{tensor} → {label}"
