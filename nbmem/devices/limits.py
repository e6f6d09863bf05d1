"""What torch's allocator can hold at most on an accelerator now, and what keeps it from the rest.

the card's total ── kept by the driver ── in use by others ── beyond torch's limit
└─ what is left: reserved by torch's allocator, or free for it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import DeviceCapacity, Note

if TYPE_CHECKING:
    from nbmem.devices.nvml import CardMemory


def capacity_of(
    card: CardMemory, reserved: int, *, fraction: float | None = None, whole: int | None = None
) -> DeviceCapacity:
    """Returns what torch's allocator can hold at most, with its parts.

    Args:
        card: how full the card is.
        reserved: bytes that the allocator holds there, of the same moment.
        fraction: torch's limit as a part of `whole`; None or 1 is no limit.
        whole: the device's bytes as torch counts them; None takes the card's total.
    """
    had = card.total - (card.reserved or 0)
    reach = max(0, min(had, reserved + card.free))
    limit = _limit(fraction, card.total if whole is None else whole)
    most = reach if limit is None else min(reach, limit)
    return DeviceCapacity(
        bytes=most,
        total=card.total,
        driver=card.reserved,
        others=had - reach,
        limit=limit,
        beyond_limit=reach - most,
        instance=card.instance,
        unified=card.unified,
        notes=_notes(card, lent=reserved > had),
    )


def at_most(total: int, fraction: float | None) -> DeviceCapacity:
    """Returns the bounds of a device of which nobody tells how full it is."""
    limit = _limit(fraction, total)
    most = total if limit is None else min(total, limit)
    return DeviceCapacity(most, total, limit=limit, beyond_limit=total - most, notes=(_UNTOLD,))


def _limit(fraction: float | None, whole: int) -> int | None:
    # cudaMallocAsync says that there is no limit by a fraction far above 1.
    return None if fraction is None or not 0 <= fraction < 1 else round(fraction * whole)


def _notes(card: CardMemory, *, lent: bool) -> tuple[Note, ...]:
    notes = []
    if card.lends or (lent and not card.unified):
        notes.append(LENDS_MAIN_MEMORY)
    if card.unified:
        notes.append(UNIFIED if card.available else UNIFIED_OF_OTHERS)
    if card.doubt:
        notes.append(Note("capacity", "not_trusted", card.doubt))
    return tuple(notes)


LENDS_MAIN_MEMORY = Note(
    "capacity",
    "lends_main_memory",
    "The driver lends this card main memory, as on Windows and WSL, so torch may get more than the "
    "capacity, at the pace of main memory: torch.cuda.set_per_process_memory_fraction(0.95) has "
    "it run out of memory instead.",
)
UNIFIED = Note(
    "capacity",
    "unified_memory",
    "This device has no memory of its own: its bytes are main memory's, so do not add them to the "
    "host's; the capacity follows what the system calls available, and frees on either side help.",
)
UNIFIED_OF_OTHERS = Note(
    "capacity",
    "unified_memory",
    "This device shares main memory, and its driver may tell only the part that is set aside for "
    "it: compare the capacity with the driver's own tool (`rocm-smi --showmeminfo vram gtt`).",
)
_UNTOLD = Note(
    "capacity",
    "others_not_told",
    "What the driver and others hold of this device is not known, so torch can get less than the "
    "capacity: pip install nvidia-ml-py has it told on NVIDIA cards.",
)
