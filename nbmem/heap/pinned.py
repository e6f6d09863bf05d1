"""Pinned host memory as torch's own allocator of it counts it; reading starts no accelerator.

torch keeps a pinned block that nobody uses any more for the next request. Its counter of bytes in
use is not read here: in torch 2.11 it never falls, and later it falls only when the next pinned
block is asked for.
"""

from __future__ import annotations

from contextlib import suppress

import torch

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


def empty_pinned_cache() -> bool:
    """Gives cached pinned blocks back to the system; returns False if this torch has no such call.

    Only an act calls this. Blocks that a copy may still read or write stay.
    """
    for name in ("_accelerator_emptyHostCache", "_host_emptyCache"):
        empty = getattr(torch._C, name, None)
        if empty is not None:
            empty()
            return True
    return False
