"""Follows every storage that torch makes and frees on this thread while it is on.

torch has no counter for CPU memory. So a dispatch mode sees what each operation returns, the table
of `heap` sees each storage die, and the calls that make or resize a storage without an operation
are wrapped while tracking is on:

    operations ──────────────> `follower` (one mode a thread) ──┐
    UntypedStorage(n), … ────> `wrapped` calls ─────────────────┼──> heap's StorageTable
    deaths ──────────────────> weak references ─────────────────┘

Of each large new storage `lines` reads off the stack which line of the running cell made it.
"""

from nbmem.tracking.lines import AllocationLines, Place
from nbmem.tracking.tracker import CpuTracker

__all__ = ["AllocationLines", "CpuTracker", "Place"]
