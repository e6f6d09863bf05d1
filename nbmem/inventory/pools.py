"""The owners of private pools, by the user's own names for the objects that keep them."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nbmem.heap.pools import CALLABLE, COMPILED, GRAPH, PoolHolder, PoolId, find_pool_holders
from nbmem.heap.storages import bare_torch
from nbmem.inventory.callables import held_by_function
from nbmem.inventory.names import Names
from nbmem.inventory.paths import NAMELESS
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk
from nbmem.records import PoolOwner

MOST_OWNERS = 20
"""Owners of one pool that are kept: a model's graphs are often captured into one."""
_DEEPEST = 500
"""Objects looked at below one function."""
_qualname_of = type.__dict__["__qualname__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__

_Owners = dict[PoolId, tuple[PoolOwner, ...]]


def find_pool_owners(
    namespace: Mapping[str, object], outputs: Mapping[str, object], budget: float | None
) -> _Owners:
    """Returns who keeps each private pool; a pool that nothing keeps any more is missing.

    Args:
        namespace: the user's variables.
        outputs: IPython's copies of shown values.
        budget: seconds for walking names.
    """
    with bare_torch():
        holders = find_pool_holders()
        if not holders:
            return {}
        trail = NameWalk(budget).run(namespace, outputs)
    try:
        return _owners(holders, trail)
    finally:
        holders.clear()
        trail.clear()


def _owners(holders: list[PoolHolder], trail: Trail) -> _Owners:
    names, owners = Names(trail.nodes), dict[PoolId, list[PoolOwner]]()
    nodes = {id(holder.thing): trail.node_of(holder.thing) for holder in holders}
    unnamed = {key for key, node in nodes.items() if node is None}
    callables = _callables(trail, unnamed) if unnamed else {}
    for pool, kind, thing in holders:
        node = nodes[id(thing)]
        within = callables.get(id(thing)) if node is None else _function_above(trail, node)
        if within is not None:
            node, kind = within, CALLABLE if kind == GRAPH else kind
        name = None if node is None else names.of_node(node)
        owners.setdefault(pool, []).append(PoolOwner(kind, name))
    names.clear()
    return {pool: _in_order(found) for pool, found in owners.items()}


def _in_order(found: list[PoolOwner]) -> tuple[PoolOwner, ...]:
    """Returns each owner once, those with a name first; `torch.compile`'s graphs are its own."""
    if any(owner.kind == COMPILED for owner in found):
        found = [owner for owner in found if owner.kind == COMPILED or owner.name is not None]
    ordered = sorted(dict.fromkeys(found), key=lambda owner: (owner.name is None, owner.name or ""))
    return tuple(ordered[:MOST_OWNERS])


def _function_above(trail: Trail, node: int) -> int | None:
    """Returns the node of the first function on the way to a container; None if there is none."""
    found = None
    while node != NAMELESS:
        if type(trail.container(node)) is types.FunctionType:
            found = node
        node = trail.nodes[node].parent
    return found


def _callables(trail: Trail, wanted: Collection[int]) -> dict[int, int]:
    """Returns, by `id` of a graph, the node of the first function that keeps it out of sight."""
    found: dict[int, int] = {}
    for node, container in enumerate(trail.containers()):
        if type(container) is types.FunctionType:
            for key in _kept_by(container, wanted):
                found.setdefault(key, node)
    return found


def _kept_by(function: Any, wanted: Collection[int]) -> Iterator[int]:
    """Yields the wanted objects that a function keeps: in closures, and in classes within it."""
    waiting, seen = [function], {id(function)}
    while waiting and len(seen) < _DEEPEST:
        thing = waiting.pop()
        if id(thing) in wanted:
            yield id(thing)
            continue
        for child in _held_by(thing):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _held_by(thing: Any) -> Collection[Any]:
    kind = type(thing)
    if kind is types.FunctionType:
        return [child for _, _, child in held_by_function(thing)]
    if kind in (staticmethod, classmethod, types.MethodType):
        return [thing.__func__]
    if kind in (list, tuple):
        return list(thing)
    if kind is dict:
        return list(thing.values())
    if issubclass(kind, type) and "<locals>" in _qualname_of(thing):
        return list(_namespace_of(thing).values())
    return ()
