"""Who allocated a storage, where the allocator's history is on: the stack of its block."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from nbmem.devices.snapshot import Block
    from nbmem.heap import StorageTable

Stack = tuple[str, ...]
"""`file:line function`, innermost first."""


def stacks_of(
    keys: Collection[int], table: StorageTable, device: str, blocks: Iterable[Block]
) -> dict[int, Stack]:
    """Returns the stacks that allocated these storages (serials) of one device, as far as known.

    Empty unless the allocator's history was on (`torch.cuda.memory._record_memory_history`) when
    their blocks were allocated: `torch.cuda.memory._snapshot()`, `frames` of each block.
    """
    told = sorted((b for b in blocks if b.stack and b.state == "live"), key=lambda b: b.address)
    starts = [block.address for block in told]
    found = {}
    for ref in table.live():
        if ref.serial not in keys or ref.device != device or (storage := ref()) is None:
            continue
        address = storage.data_ptr()
        number = bisect_right(starts, address) - 1
        if number >= 0 and address < told[number].address + told[number].size:
            found[ref.serial] = told[number].stack
    return found
