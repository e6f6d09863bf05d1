"""One memory behind several storages, as `from_numpy` and DLPack make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbmem.records import Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import StorageRef

SMALLEST = 1 << 10
"""Bytes from which it is told."""


def notes_on_shared_memory(
    refs: Sequence[StorageRef], records: Sequence[StorageRecord]
) -> list[Note]:
    """Returns a note for each memory that several storages show, and that is counted with each."""
    by_place: dict[tuple[str, int], list[StorageRecord]] = {}
    for ref, record in zip(refs, records, strict=True):
        if ref.bytes >= SMALLEST and (storage := ref()) is not None:
            by_place.setdefault((ref.device, storage.data_ptr()), []).append(record)
    return [_note(held) for held in by_place.values() if len(held) > 1]


def _note(records: list[StorageRecord]) -> Note:
    named = [record.names[0] for record in records if record.names]
    nameless = len(records) - len(named)
    if nameless:
        named.append("1 storage without a name" if nameless == 1 else f"{nameless} without a name")
    names = " and ".join(named)
    size = f"{min(record.bytes for record in records):,} bytes"
    sentence = (
        f"{names} share {size} of one memory, as from_numpy and DLPack make it: "
        "they are counted with each."
    )
    return Note("storages", "shared_memory", sentence)
