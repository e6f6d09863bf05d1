"""One memory behind several storages, as `from_numpy`, DLPack and mapped files make it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.heap.ranges import share_out
from nbmem.records import CATEGORIES, Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import Group

SHARED = "shared_memory"
"""Code of the notes."""
SMALLEST = 1 << 10
"""Bytes in common from which a note on all of it is made."""
_LISTED = 3
"""Storages that a note, or a record, tells one by one."""


def with_shares(
    records: Sequence[StorageRecord], groups: Sequence[Group]
) -> tuple[list[StorageRecord], list[Note]]:
    """Returns the records, each address counted with one of them, and a note on each memory.

    What a storage is for, and whether it has a name, decide with which it is counted: parameters
    before the file that they were read from.
    """
    by_key = {record.key: record for record in records} if groups else {}
    groups = [group for group in groups if all(serial in by_key for serial, _, _ in group)]
    counted = share_out(groups, lambda serial: rank_of(by_key[serial]))
    changed: dict[int, StorageRecord] = {}
    for group in groups:
        for key, others in _overlapping(group).items():
            record, size = by_key[key], counted[key]
            changed[key] = replace(
                record,
                bytes=size,
                shared=record.bytes - size,
                shares_with=others,
                notes=(*record.notes, _note_on_record(record, size, [by_key[o] for o in others])),
            )
    notes = _notes(groups, by_key)
    return [changed.get(r.key, r) for r in records] if changed else list(records), notes


def recount(
    records: Iterable[StorageRecord],
    alive: Mapping[int, StorageRecord],
    groups: Iterable[Group],
    first_serial: int,
) -> list[StorageRecord]:
    """Returns records of storages that a window saw made, less what older storages have too.

    Args:
        records: of storages with serials from `first_serial` on.
        alive: all records of the same moment, by key.
        groups: storages that overlapped then.
        first_serial: of the window.
    """
    mixed = [group for group in groups if any(serial >= first_serial for serial, _, _ in group)]
    if not mixed:
        return list(records)

    def rank(serial: int) -> object:
        return serial >= first_serial, rank_of(alive[serial]) if serial in alive else _LAST

    counted = share_out(mixed, rank)
    return [
        replace(r, bytes=size, shared=r.bytes + r.shared - size)
        if (size := counted.get(r.key, r.bytes)) != r.bytes
        else r
        for r in records
    ]


def rank_of(record: StorageRecord) -> tuple[int, bool, bool]:
    """Returns the place of a storage among those with the same memory: the first is counted."""
    return CATEGORIES.index(record.category), not record.names, not record.visible


_LAST = (len(CATEGORIES), True, True)


def _overlapping(group: Group) -> dict[int, tuple[int, ...]]:
    """Returns some of the storages that overlap each one, the largest of the group first."""
    ordered = sorted(group, key=lambda one: (one[1], -one[2]))
    largest = max(ordered, key=lambda one: (one[2] - one[1], -one[0]))
    found: dict[int, list[int]] = {serial: [] for serial, _, _ in group}
    for serial, begin, end in ordered:
        if serial != largest[0] and begin < largest[2] and largest[1] < end:
            found[serial].append(largest[0])
    alive: list[tuple[int, int, int]] = []
    for one in ordered:
        serial, begin, _ = one
        alive = sorted((other for other in alive if other[2] > begin), key=_end_of)[-_LISTED:]
        for other, _, _ in alive:
            _add(found[serial], other)
            _add(found[other], serial)
        alive.append(one)
    for serial, begin, end in ordered[: 4 * _LISTED]:
        if serial != largest[0] and begin < largest[2] and largest[1] < end:
            _add(found[largest[0]], serial)
    return {serial: tuple(others) for serial, others in found.items()}


def _end_of(one: tuple[int, int, int]) -> int:
    return one[2]


def _add(others: list[int], serial: int) -> None:
    if len(others) < _LISTED and serial not in others:
        others.append(serial)


def _note_on_record(record: StorageRecord, counted: int, others: list[StorageRecord]) -> Note:
    shared = record.bytes - counted
    where = f"It shares memory with {_names_of(others)}"
    if not shared:
        sentence = f"{where}: what they have in common is counted here."
    elif counted:
        sentence = f"{where}: {shared:,} of its {record.bytes:,} bytes are counted there."
    else:
        sentence = f"{where}: all of its {record.bytes:,} bytes are counted there."
    return Note("bytes", SHARED, sentence)


def _notes(groups: Iterable[Group], by_key: Mapping[int, StorageRecord]) -> list[Note]:
    """Returns notes on the memories of which storages have most in common."""
    told = [(twice, group) for group in groups if (twice := _counted_once(group)) >= SMALLEST]
    told.sort(key=lambda one: (-one[0], one[1]))
    notes = [_note(group, twice, by_key) for twice, group in told[:_LISTED]]
    if len(told) > _LISTED:
        size = sum(twice for twice, _ in told[_LISTED:])
        more = f"{len(told) - _LISTED:,} more memories are shared so"
        notes.append(Note("storages", SHARED, f"{more}: {size:,} bytes are counted once."))
    return notes


def _counted_once(group: Group) -> int:
    """Returns by how much the sizes of storages exceed the memory that they have."""
    begin, end = min(first for _, first, _ in group), max(last for _, _, last in group)
    return sum(last - first for _, first, last in group) - (end - begin)


def _note(group: Group, twice: int, by_key: Mapping[int, StorageRecord]) -> Note:
    ordered = sorted(group, key=lambda one: (*one[1:], one[0]))
    sentence = (
        f"{_names_of([by_key[serial] for serial, _, _ in ordered])} share one memory, as "
        "from_numpy, DLPack, safetensors and torch.load(mmap=True) make it: "
        f"{twice:,} bytes that several of them have are counted once."
    )
    return Note("storages", SHARED, sentence)


def _names_of(records: list[StorageRecord]) -> str:
    told = [record.names[0] for record in records if record.names]
    listed, left = told[:_LISTED], len(told[_LISTED:])
    nameless = len(records) - len(told)
    if left:
        listed.append(f"{left} more")
    if nameless:
        listed.append("a storage without a name" if nameless == 1 else f"{nameless} without a name")
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
