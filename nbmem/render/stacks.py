"""The parts of a cell's bar: bytes by category, and the rest of what is allocated at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from nbmem.records import CATEGORIES

if TYPE_CHECKING:
    from nbmem.records import CellRecord

Shown = Literal["alive", "stayed"]
"""`alive`: everything that is alive at the cell's end. `stayed`: what the cell made of it."""

SHOWN: tuple[Shown, ...] = get_args(Shown)
REST = "rest"
"""Allocated at the end, and no part of what is shown by category."""
REST_WORDS = ("not in tensors found", "older than the cell")


def stack_of(record: CellRecord, device: str, shown: Shown = "alive") -> dict[str, int]:
    """Returns bytes on `device` at the cell's end by category, `REST` first; zeros are left out.

    The sum is what is allocated there. Where all that is alive was not listed, `alive` falls back
    to what the cell made.
    """
    alive = record.alive.get(device, {})
    listed = alive if shown == "alive" and alive else _made(record, device)
    delta = record.devices.get(device)
    after = (delta.after if delta is not None else None) or 0
    rest = max(0, after - sum(listed.values()))
    parts = {REST: rest, **{category: listed.get(category, 0) for category in CATEGORIES}}
    strange = sum(size for category, size in listed.items() if category not in parts)
    parts["unknown"] += strange  # a word of a later version
    return {part: size for part, size in parts.items() if size}


def rest_word(record: CellRecord, device: str, shown: Shown = "alive") -> str:
    """Returns what the rest is, in words."""
    if shown == "alive" and record.alive.get(device):
        return REST_WORDS[0]
    return REST_WORDS[1]


def _made(record: CellRecord, device: str) -> dict[str, int]:
    made: dict[str, int] = {}
    for storage in record.created:
        if storage.device == device:
            made[storage.category] = made.get(storage.category, 0) + storage.bytes
    return made
