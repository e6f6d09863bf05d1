"""The caching allocator's private pools: their bytes, who keeps them, and what gives them back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from nbmem.heap.pools import CALLABLE, COMPILED, GRAPH, MEM_POOL
from nbmem.ledger.blocks import asked_for
from nbmem.records import PoolMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nbmem.devices.snapshot import Block
    from nbmem.heap.pools import PoolId
    from nbmem.ledger.blocks import BlockJoin
    from nbmem.records import PoolOwner

    FindOwners = Callable[[], Mapping[PoolId, tuple[PoolOwner, ...]]]

_REMEDIES = {
    MEM_POOL: "`del {}`",
    GRAPH: "`{}.reset()`",
    CALLABLE: "`del {}`, `gc.collect()`",
    COMPILED: "`torch.compiler.reset()`",
}
_TENSORS = "drop the tensors in it"
_WORKSPACES = "`torch._C._cuda_clearCublasWorkspaces()`"
_LAST = "`torch.cuda.empty_cache()`"


def pools_of(
    blocks: Iterable[Block],
    join: BlockJoin | None,
    workspaces: frozenset[int],
    find_owners: FindOwners,
) -> tuple[PoolMemory, ...]:
    """Returns the private pools, largest first; their `reserved` add up to what is private.

    Args:
        blocks: of one device.
        join: the same, joined with the storages found.
        workspaces: sizes of the library workspaces that torch makes.
        find_owners: tells who keeps each pool; called only if there is a private one.
    """
    by_pool: dict[PoolId, list[Block]] = defaultdict(list)
    for block in blocks:
        if block.private:
            by_pool[block.pool_id].append(block)
    scratch: dict[PoolId, int] = defaultdict(int)
    for part in () if join is None else join.unclaimed:
        if part.block.private and asked_for(part.block) in workspaces:
            scratch[part.block.pool_id] += part.block.size
    owners = find_owners() if by_pool else {}
    pools = (_pool(i, found, scratch[i], owners.get(i, ())) for i, found in by_pool.items())
    return tuple(sorted(pools, key=lambda pool: (-pool.reserved, pool.pool)))


def _pool(
    pool: PoolId, blocks: list[Block], scratch: int, owners: tuple[PoolOwner, ...]
) -> PoolMemory:
    live = sum(block.size for block in blocks if block.state == "live")
    cached = sum(block.size for block in blocks if block.state == "free")
    reserved = sum(block.size for block in blocks)
    remedy = _remedy(owners, live - scratch, scratch)
    return PoolMemory(pool, reserved, live, scratch, cached, owners, remedy)


def _remedy(owners: tuple[PoolOwner, ...], tensors: int, scratch: int) -> str:
    """Returns what gives a pool's memory back; empty if there is no code for it."""
    if any(owner.kind != COMPILED and " → " in (owner.name or " → ") for owner in owners):
        return ""  # without a name, or by a way that is no code
    steps = [_REMEDIES[owner.kind].format(owner.name) for owner in owners]
    steps += [_TENSORS] if tensors else []
    steps += [_WORKSPACES] if scratch else []
    return ", then ".join([", ".join(steps), _LAST] if steps else [_LAST])
