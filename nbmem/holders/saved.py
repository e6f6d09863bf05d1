"""What only autograd graphs keep: which tensor's graph, by which operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nbmem.heap.nodes import SAVED

if TYPE_CHECKING:
    from nbmem.heap import HeapScan

_MOST_TRIED = 64
"""Saved values of a group that are asked whether they were changed since, the latest first."""
_MOST_CYCLES = 256
"""Tensors whose graphs are looked through for cycles."""
_CHANGED = "modified by an inplace operation"


class SavedBy(NamedTuple):
    """One storage that a graph keeps."""

    root: int
    """The `id` of the tensor whose graph it is."""
    kind: str
    """`MulBackward0`."""
    attribute: str


@dataclass(slots=True, eq=False)
class Group:
    """The graphs of tensors that can be detached at once."""

    cut: str
    holder: str
    wanted: bool
    roots: list[int] = field(default_factory=list)
    """Ids of the tensors."""
    saved: dict[int, SavedBy] = field(default_factory=dict)
    """By serial of the storage."""
    leaves: set[int] = field(default_factory=set)
    """Ids of the leaves at which the graphs begin."""
    stepped: bool = False
    apart: int = 0
    """Graphs that are in no other of the group: results of one forward pass are one."""


def read_group(
    scan: HeapScan, group: Group, begun: dict[int, int], serials_of: Callable[[Any], Iterable[int]]
) -> None:
    """Fills in what the graphs of a group's tensors keep.

    Args:
        scan: whose graph it is.
        group: its roots are known.
        begun: where the graph of each tensor begins, by the tensor's `id`.
        serials_of: the storages of a tensor, by their serials.
    """
    graph, told = scan.graph, set[int]()
    tried = 0
    group.apart = _count_apart(scan, [begun[root] for root in group.roots])
    for root in group.roots:
        for index in graph.reach(begun[root], told):
            node = graph.nodes[index]
            for attribute, tensor in graph.kept(index):
                for serial in serials_of(tensor):
                    group.saved.setdefault(serial, SavedBy(root, node.kind, attribute))
                if attribute == "variable":
                    group.leaves.add(id(tensor))
                elif tried < _MOST_TRIED and not group.stepped:
                    tried += 1
                    group.stepped = _was_changed(graph.node_object(index), attribute)


def _count_apart(scan: HeapScan, starts: list[int]) -> int:
    """Returns how many of these nodes no other one of them leads to."""
    graph, seen, inside = scan.graph, set[int](), set[int]()
    wanted = set(starts)
    for start in sorted(wanted, key=lambda at: -graph.nodes[at].sequence):
        if start not in seen:
            inside.update(at for at in graph.reach(start, seen) if at in wanted and at != start)
    return len(wanted - inside)


def find_cycles(scan: HeapScan, roots: Iterable[int]) -> dict[int, Any]:
    """Returns, by `id`, tensors that keep themselves alive: a graph that they hold holds them.

    Args:
        scan: whose graph it is.
        roots: ids of the tensors that have a graph and no known holder.
    """
    begun, owners = scan.graph.begun(), {gradient: owner for owner, gradient in scan.gradients}
    found: dict[int, Any] = {}
    for root in list(roots)[:_MOST_CYCLES]:
        wanted = {root, owners.get(root)}
        for index in scan.graph.reach(begun[root], set()):
            for _, tensor in scan.graph.kept(index):
                if id(tensor) in wanted:
                    found[id(tensor)] = tensor
    return found


def _was_changed(node: Any, attribute: str) -> bool:
    """Returns whether torch would refuse backward: the saved tensor was changed in place since.

    Nothing is unpacked where a hook would run.
    """
    raw: Any = getattr(node, f"_raw_saved_{attribute}", None)
    if type(raw) is not SAVED:
        return False
    try:
        if raw.unpack_hook is None:
            getattr(node, f"_saved_{attribute}")
    except RuntimeError as error:
        return _CHANGED in str(error)
    return False
