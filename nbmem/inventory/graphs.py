"""Names for what only an autograd graph keeps: `loss → graph[17] MulBackward0.self`.

The number counts the nodes of a walk that begins at that one tensor, the latest operation first, so
that it does not depend on what else is alive.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nbmem.heap.graphs import GraphWalk, SavedTensor
from nbmem.heap.scan import tensor_types
from nbmem.inventory.parts import as_tensor, parts_of, with_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

_NAME = re.compile(r"(?P<tensor>.*) → graph\[\d+\] \w+\..*", re.DOTALL)


class _Enough(Exception):  # noqa: N818  it ends a walk
    pass


class _OneGraph(GraphWalk):
    """Tells what each node keeps, under the name that it gets, until that is enough."""

    def __init__(self, tell: Callable[[str, SavedTensor], bool]) -> None:
        super().__init__({id(kind) for kind in tensor_types()})
        self._tell = tell

    def _read(self, node: Any, root: int | None, position: int) -> None:
        self.saved.clear()
        super()._read(node, root, position)
        for text, saved in _labels(self.saved):
            if self._tell(text, saved):
                raise _Enough


def _labels(saved: list[SavedTensor]) -> list[tuple[str, SavedTensor]]:
    """Returns what one node keeps, with labels; several under one attribute get numbers."""
    counts = Counter(one.attribute for one in saved)
    seen: Counter[str] = Counter()
    labels = []
    for one in saved:
        number = f"[{seen[one.attribute]}]" if counts[one.attribute] > 1 else ""
        seen[one.attribute] += 1
        label = f"graph[{one.position}] {one.node}.{one.attribute}{number}"
        labels.append((label, one))
    return labels


def label_storages(
    root: torch.Tensor, addresses: Iterable[int], deadline: float
) -> tuple[list[tuple[int, str]], bool]:
    """Returns (address, label) for storages with these addresses (`_cdata`), and whether for all.

    Walks no further than to the last of them, and not beyond the deadline (`time.perf_counter`).
    To be called within `bare_torch()`.
    """
    wanted = set(addresses)
    labels: list[tuple[int, str]] = []

    def tell(label: str, saved: SavedTensor) -> bool:
        for storage, word, _ in parts_of(saved.tensor):
            if storage._cdata in wanted:
                wanted.remove(storage._cdata)
                labels.append((storage._cdata, with_word(label, word)))
        return not wanted or time.perf_counter() > deadline

    if wanted:
        _walk(root, tell)
    return labels, not wanted


def find_label(root: torch.Tensor, label: str) -> torch.Tensor | None:
    """Returns the tensor that the graph of `root` keeps under this label, or None."""
    found: list[torch.Tensor] = []

    def tell(text: str, saved: SavedTensor) -> bool:
        if label.startswith(text):
            for part in parts_of(saved.tensor):
                if with_word(text, part.word) == label:
                    found.append(as_tensor(part))
        return bool(found)

    _walk(root, tell)
    return found[0] if found else None


def split_name(name: str) -> tuple[str, str] | None:
    """Returns the tensor's name and the label of a name that leads through a graph."""
    match = _NAME.fullmatch(name)
    return (match["tensor"], name[match.end("tensor") + len(" → ") :]) if match else None


def join_name(tensor: str, label: str) -> str:
    """Returns the name that leads through the tensor's graph to what has this label."""
    return f"{tensor} → {label}"


def _walk(root: torch.Tensor, tell: Callable[[str, SavedTensor], bool]) -> None:
    with suppress(_Enough):
        _OneGraph(tell).walk(root, 0)
