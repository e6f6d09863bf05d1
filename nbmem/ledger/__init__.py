"""The ledger: what was found set against what the allocator, the driver and the system say.

    storages found ─┐
    allocator blocks┼─ allocated ── reserved ── the card's total    (an accelerator)
    NVML ───────────┘
    storages found ──── storages ── resident ── installed           (the CPU)

`found` has the storages of one device, `blocks` joins them with the blocks of the allocator;
`allocator`, `card`, `main_memory` and `pinned` make the sums. The total of a sum comes from another
source than its lines.
"""

from nbmem.ledger.core import take_ledger

__all__ = ["take_ledger"]
