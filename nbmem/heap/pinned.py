"""Pinned host memory as torch's own allocator of it counts it; reading starts no accelerator.

torch keeps a pinned block that nobody uses any more for the next request. Its counter of bytes in
use is not read here: in torch 2.11 it never falls, and later it falls only when the next pinned
block is asked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

STATS = "torch.cuda.host_memory_stats()"


def pinned_total() -> int | None:
    """Returns the bytes that torch keeps pinned: `host_memory_stats()["allocated_bytes.current"]`.

    Blocks in use and blocks that are cached, each rounded up to a power of two; of the whole
    process, whatever the device. None if this torch does not count them.
    """
    read = getattr(torch._C, "_cuda_hostMemoryStats", None)
    with suppress(Exception):  # another vendor's build may have the function and not the figure
        # torch's Python function has no figures before CUDA starts, although pinning does not
        # start it.
        return None if read is None else int(read()["allocated_bytes"]["current"])
    return None


def pinned_block(size: int) -> int:
    """Returns the bytes that torch pins for a request of `size`: the next power of two."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def spans_of(storages: Iterable[torch.UntypedStorage]) -> list[tuple[int, int]]:
    """Returns the addresses that storages have, from begin to end; what several show, once."""
    told = [(one.data_ptr(), one.data_ptr() + one.nbytes()) for one in storages if one.nbytes()]
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(told):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged
