"""What backward has freed: whether it could still go through a graph, told without its age.

A node lets go of what it saved once backward went through it without `retain_graph=True`. Reading a
saved value then raises an error, or shows nothing where there was something.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.nodes import FREED, HIDE, SAVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbmem.heap.graphs import Graph

_RAW, _UNPACKED = "_raw_saved_", "_saved_"
_MOST = 200_000
"""Nodes looked at in all."""
_READS = ("saved_tensors", "saved_variables")
"""What code asks a `ctx` for that fails once it was freed."""
_TORCH = "torch."
_LEAF = "AccumulateGrad"
_namespace_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__


@dataclass(slots=True)
class Remains:
    """What backward has left of one graph."""

    fails: bool = False
    """Backward from here would meet a node that was freed."""
    intact: bool = False
    """Saved values, or what may be some, are met before any node that was freed."""
    ran: bool = False
    """Backward went through a Function that may be gone through again."""

    @property
    def freed(self) -> bool:
        """Backward has gone through all of it, and none can come."""
        return self.fails and not self.intact

    @property
    def partly(self) -> bool:
        """Backward through all of it would fail; through a part it might not."""
        return self.fails and self.intact

    @property
    def silent(self) -> bool:
        """Nothing in it was ever saved: nobody can tell whether backward came."""
        return not (self.fails or self.intact or self.ran)


class RemainsReader:
    """Tells what backward has left of graphs. To be used while the scan is open."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._left = _MOST
        self._proofs: dict[int, bool] = {}
        """By id of a Function's node type, which the graph's nodes keep alive."""

    def read(self, start: int) -> Remains:
        """Returns what is left of the graph that begins at a node.

        Looks no further than to nodes that were freed: nothing beyond them can be reached.
        """
        found, seen, stack = Remains(), {start}, [start]
        nodes = self._graph.nodes
        while stack:
            if not self._left:
                return Remains(intact=True)
            self._left -= 1
            index = stack.pop()
            if not self._stops_at(index, found):
                fresh = [at for at in nodes[index].inputs if at not in seen]
                seen.update(fresh)
                stack += fresh
        return found

    def _stops_at(self, index: int, found: Remains) -> bool:
        """Notes what one node tells; returns whether backward ends there with an error."""
        node = self._graph.nodes[index]
        if node.intact or node.kind in HIDE:
            found.intact = True
            return False
        if node.kind.endswith(_LEAF):
            return False
        source = self._graph.node_object(index)
        if not node.freed:
            fails = any(_raises(source, name) for name in _blank(source))
            found.fails |= fails
            return fails
        if issubclass(type(source), torch._C._FunctionBase) and not self._is_proof(type(source)):
            found.ran = True
            return False
        found.fails = True
        return True

    def _is_proof(self, cls: type) -> bool:
        known = self._proofs.get(id(cls))
        if known is None:
            known = self._proofs[id(cls)] = _reads_saved(cls)
        return known


def _blank(node: Any) -> Iterator[str]:
    """Goes through the values of one of torch's own nodes that show nothing, by accessor."""
    for name, accessor in list(_namespace_of(type(node)).items()):
        if name.startswith(_RAW) and type(accessor) is types.GetSetDescriptorType:
            try:
                value = accessor.__get__(node)
            except RuntimeError:
                continue
            if type(value) is SAVED and value.data is None and value.unpack_hook is None:
                yield _UNPACKED + name.removeprefix(_RAW)


def _raises(node: Any, name: str) -> bool:
    """Returns whether torch says of a value that shows nothing that backward has freed it."""
    accessor = _namespace_of(type(node)).get(name)
    if type(accessor) is not types.GetSetDescriptorType:
        return False
    try:
        accessor.__get__(node)
    except RuntimeError as error:
        return FREED in str(error)
    return False


def _reads_saved(cls: type) -> bool:
    """Returns whether the backward of a Function asks for what it saved, read off its code.

    Torch marks a Function that saved nothing as freed too; backward can go through that again.
    """
    function = _namespace_of(cls).get("_forward_cls")
    if not issubclass(type(function), type):
        return False
    if str(_namespace_of(function).get("__module__")).startswith(_TORCH):
        return True
    return any(
        _names_saved(_namespace_of(base).get(name))
        for base in _mro_of(function)
        for name in ("backward", "vjp")
    )


def _names_saved(thing: Any) -> bool:
    if type(thing) is staticmethod:
        thing = thing.__func__
    if type(thing) is not types.FunctionType:
        return False
    wrapped = thing.__dict__.get("__wrapped__")  # of `once_differentiable`
    return _code_names_saved(thing.__code__) or _names_saved(wrapped)


def _code_names_saved(code: types.CodeType) -> bool:
    if not set(_READS).isdisjoint(code.co_names):
        return True
    inner = (part for part in code.co_consts if type(part) is types.CodeType)
    return any(map(_code_names_saved, inner))
