"""Figures that can't be true, and figures that say less than they seem to."""

from __future__ import annotations

from nbmem.records import Note

_NO_CARD_HAS = 2**50
"""1 PiB: nothing but a size asked for may be as large."""
_NOBODY_ASKS = 2**63
_WORDS = {
    "asked": "The size asked for",
    "free": "What is free",
    "capacity": "The card's capacity",
    "allocated": "What torch allocated",
    "reserved": "What torch reserves",
    "private_pools": "Private pools",
    "other": "Other allocations",
    "this_process": "What this process takes",
    "processes": "What a process takes",
}
_SURE = ("free", "capacity", "allocated")


def without_lies(figures: dict[str, int]) -> tuple[dict[str, int], tuple[Note, ...]]:
    """Returns the figures that can be true, and a note for each other one.

    WSL has no figure for a process and prints 2**64 bytes; a size that overflowed is as large, or
    negative. A limit of that size is none.
    """
    lies = [field for field, size in figures.items() if _is_lie(field, size)]
    kept = {field: size for field, size in figures.items() if field not in lies}
    told = [not_trusted(field, figures[field]) for field in lies if field != "allowed"]
    return kept, (*told, *_told_less(kept))


def not_trusted(field: str, size: int) -> Note:
    """Returns the note for a figure that is left out."""
    why = "is below 0" if size < 0 else "is more than there can be"
    return Note(field, "not_trusted", f"{_WORDS.get(field, field)}, as the error prints it, {why}")


def is_lie(size: int) -> bool:
    """Returns whether no card can hold as much."""
    return _is_lie("processes", size)


def _is_lie(field: str, size: int) -> bool:
    return not 0 <= size < (_NOBODY_ASKS if field == "asked" else _NO_CARD_HAS)


def _told_less(figures: dict[str, int]) -> list[Note]:
    notes = []
    allocated, capacity = figures.get("allocated"), figures.get("capacity")
    if allocated is not None and capacity is not None and allocated > capacity:
        notes.append(Note("capacity", "lends_main_memory", _LENDS))
    asked, free = figures.get("asked"), figures.get("free")
    if asked is not None and free is not None and free >= asked and not _is_limited(figures):
        notes.append(Note("free", "free_but_refused", _REFUSED))
    return notes


_LENDS = "More is allocated than the card has: the driver lends main memory, as on Windows"
_REFUSED = (
    "The device had more free than was asked for and still refused: what is free is not all to be "
    "had (WSL, unified memory, a limit of one allocation's size)"
)


def _is_limited(figures: dict[str, int]) -> bool:
    """Returns whether a limit of this process explains why what is free was not to be had."""
    allowed, asked = figures.get("allowed"), figures.get("asked", 0)
    used = figures.get("reserved", figures.get("allocated"))
    return allowed is not None and (used is None or used + asked > allowed * 0.99)
