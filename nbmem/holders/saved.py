"""What only autograd graphs keep: which tensor's graph, by which operation."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from nbmem.heap.freed import RemainsReader
from nbmem.heap.nodes import SAVED

if TYPE_CHECKING:
    from nbmem.heap import Graph, HeapScan

_MOST_TRIED = 64
"""Saved values of one tensor's graph that are asked whether they were changed since."""
_MOST_TRIED_IN_ALL = 8192
"""The same, of a group."""
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
    contexts: dict[int, SavedBy] = field(default_factory=dict)
    """By `id` of the `ctx` of a Function: what is found below it is kept by the graph too."""
    leaves: set[int] = field(default_factory=set)
    """Ids of the leaves at which the graphs begin."""
    apart: int = 0
    """Graphs that are in no other of the group: results of one forward pass are one. Those that
    backward has freed count only where all are."""
    stepped: bool = False
    """All that backward has not freed would fail in it: weights were changed since."""
    freed: bool = False
    """Backward has freed what all of them saved."""
    partly: bool = False
    """It has freed a part of each that is left."""
    ran: bool = False
    """It went through all of them, and may again: they saved nothing that it could free."""
    silent: bool = False
    """None of them saved anything: nothing tells whether backward came."""


def read_group(
    scan: HeapScan,
    group: Group,
    begun: dict[int, int],
    serials_of: Callable[[Any], Iterable[int]],
    needed: Container[int],
    bare: Container[int] = (),
) -> None:
    """Fills in what the graphs of a group's tensors keep, and what backward has left of them.

    Args:
        scan: whose graph it is.
        group: its roots are known.
        begun: where the graph of each tensor begins, by the tensor's `id`.
        serials_of: the storages of a tensor, by their serials.
        needed: serials of storages that values need: of graphs that keep nothing else no more is
            asked.
        bare: those of the roots that are nodes of a graph, held without a tensor.
    """
    graph, told, changes = scan.graph, set[int](), _Changes(scan.graph)
    for root in group.roots:
        fresh = graph.reach(begun[root], told)
        for index in fresh:
            node, source = graph.nodes[index], graph.node_object(index)
            if issubclass(type(source), torch._C._FunctionBase):
                group.contexts[id(source)] = SavedBy(root, node.kind, "ctx")
            for attribute, tensor in graph.kept(index):
                for serial in serials_of(tensor):
                    group.saved.setdefault(serial, SavedBy(root, node.kind, attribute))
                if attribute == "variable":
                    group.leaves.add(id(tensor))
        changes.look_at(fresh)
    if group.contexts or any(serial not in needed for serial in group.saved):
        _read_remains(scan, group, begun, changes.reach_up(told), bare)


def _read_remains(
    scan: HeapScan,
    group: Group,
    begun: dict[int, int],
    changed: Container[int],
    bare: Container[int],
) -> None:
    """Fills in whether backward can come through a group's graphs, by those that it may still."""
    reader = RemainsReader(scan.graph)
    remains = {root: reader.read(begun[root]) for root in group.roots}
    left = [root for root in group.roots if root in bare or not remains[root].freed]
    group.apart = _count_apart(scan, [begun[root] for root in left or group.roots])
    group.freed = not left
    group.stepped = bool(left) and all(begun[root] in changed for root in left)
    group.partly = bool(left) and all(remains[root].partly for root in left)
    group.ran = bool(left) and all(remains[root].ran for root in left)
    group.silent = bool(left) and all(remains[root].silent for root in left)


class _Changes:
    """Finds nodes whose saved tensors were changed in place since: backward would fail there."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._found: list[int] = []
        self._left = _MOST_TRIED_IN_ALL

    def look_at(self, nodes: Iterable[int]) -> None:
        """Asks the nodes that one tensor's graph adds, the latest first, until one was changed."""
        tried = 0
        for index in nodes:
            for attribute, _ in self._graph.kept(index):
                if attribute == "variable":
                    continue
                if tried >= _MOST_TRIED or not self._left:
                    return
                tried += 1
                self._left -= 1
                if _was_changed(self._graph.node_object(index), attribute):
                    self._found.append(index)
                    return

    def reach_up(self, among: Iterable[int]) -> set[int]:
        """Returns those of the nodes from which backward would come to what was changed."""
        above: dict[int, list[int]] = {}
        for index in among if self._found else ():
            for made in self._graph.nodes[index].inputs:
                above.setdefault(made, []).append(index)
        reached, stack = set(self._found), list(self._found)
        while stack:
            fresh = [at for at in above.get(stack.pop(), ()) if at not in reached]
            reached.update(fresh)
            stack += fresh
        return reached


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
