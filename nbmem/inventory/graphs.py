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
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Label(NamedTuple):
    """One storage that a graph keeps."""

    serial: int
    node: int
    """Index into the graph's nodes."""
    attribute: str
    text: str
    """With the home of the operation."""


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
        if node.hooks and not told.issuperset(node.hooks):
            new = [hook for hook in node.hooks if hook not in told]
            told.update(new)
            kept = kept + [(UNPACK_HOOK, t) for hook in new for t in graph.hooks[hook].tensors]
        if kept:
            yield position, index, kept


def _is_over(deadline: float) -> bool:
    return time.perf_counter() > deadline


def label_all(
    graph: Graph, position: int, index: int, kept: list[tuple[str, torch.Tensor]]
) -> list[str]:
    """Returns the labels of what one node keeps; several under one attribute get numbers."""
    head = f"graph[{position}] {graph.nodes[index].kind}."
    attributes = [attribute for attribute, _ in kept]
    if len(set(attributes)) == len(attributes):
        return [head + attribute for attribute in attributes]
    counts, seen, labels = Counter(attributes), Counter[str](), []
    for attribute in attributes:
        number = f"[{seen[attribute]}]" if counts[attribute] > 1 else ""
        seen[attribute] += 1
        labels.append(f"{head}{attribute}{number}")
    return labels


def label_storages(
    graph: Graph,
    root: int,
    wanted: set[int],
    serials_of: Callable[[torch.Tensor], tuple[tuple[int, str], ...]],
    homes: Homes,
    deadline: float,
) -> Iterator[Label]:
    """Goes through the `wanted` storages (serials) that a graph keeps, and takes each out of them.

    Goes no further than to the last of them, and not beyond the deadline.
    """
    for position, index, kept in kept_by(graph, root, deadline):
        found = [serials_of(tensor) for _, tensor in kept]
        if any(serial in wanted for parts in found for serial, _ in parts):
            word = homes.of(index).word
            labels = label_all(graph, position, index, kept)
            for text, (attribute, _), parts in zip(labels, kept, found, strict=True):
                for serial, part in parts:
                    if serial in wanted:
                        wanted.remove(serial)
                        whole = f"{with_word(text, part)} {word}".rstrip()
                        yield Label(serial, index, attribute, whole)
            if not wanted:
                return


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
