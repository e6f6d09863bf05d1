"""Who holds the caching allocator's private pools: objects that live, read without user code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from nbmem.heap.scan import find_instances, with_subclasses

PoolId = tuple[int, int]
"""`segment_pool_id` of torch's snapshot; (0, 0) is the pool that everybody shares."""
MEM_POOL, GRAPH, COMPILED = "MemPool", "CUDA graph", "torch.compile"
CALLABLE = "graphed callable"
"""What `torch.cuda.make_graphed_callables` made: it has its graphs in a closure."""


class PoolHolder(NamedTuple):
    """An object that keeps a pool. It holds the object: to be let go of at once."""

    pool: PoolId
    kind: str
    thing: Any


def find_pool_holders() -> list[PoolHolder]:
    """Returns every object that keeps a private pool; to be asked only if there are such pools.

    These are `torch.cuda.MemPool` (`id`), captured graphs (`pool()`), and the manager of the
    graphs that `torch.compile` captures. What `graph_pool_handle()` gives is a pair of numbers that
    keeps nothing.
    """
    kinds = list(_kinds())
    readers = {id(cls): (kind, read) for base, kind, read in kinds for cls in with_subclasses(base)}
    found = []
    types = [cls for base, _, _ in kinds for cls in with_subclasses(base)]
    for thing in find_instances(types) if types else ():
        kind, read = readers[id(type(thing))]
        with suppress(Exception):  # a graph that was not captured, or was reset, has no pool
            first, second = read(thing)
            found.append(PoolHolder((int(first), int(second)), kind, thing))
    return found


def _kinds() -> Iterator[tuple[type, str, Any]]:
    """Yields the types that exist by now, each with how torch's own C++ reads the id."""
    for name in ("_MemPool", "_XPUMemPool"):
        base = getattr(torch._C, name, None)
        if base is not None and "id" in vars(base):
            yield base, MEM_POOL, vars(base)["id"].__get__
    for name in ("_CUDAGraph", "_XPUGraph"):
        base = getattr(torch._C, name, None)
        if base is not None and "pool" in vars(base):
            yield base, GRAPH, base.pool
    trees = vars(sys.modules.get("torch._inductor.cudagraph_trees", object))
    manager = trees.get("CUDAGraphTreeManager")
    if manager is not None:
        yield manager, COMPILED, _pool_of_manager


def _pool_of_manager(manager: Any) -> Any:
    return object.__getattribute__(manager, "__dict__")["cuda_graphs_thread_pool"]
