"""One memory behind several storages, as `from_numpy`, DLPack and mapped files make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nbmem.records import Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import StorageRef

SMALLEST = 1 << 10
"""Bytes from which it is told."""
_LISTED = 3
"""Names that a note tells one by one."""

_Span = tuple[int, int, StorageRecord]
"""First and last address, and what lies there."""


def notes_on_shared_memory(
    refs: Sequence[StorageRef], records: Sequence[StorageRecord]
) -> list[Note]:
    """Returns a note for each memory that several storages show, and that is counted with each."""
    by_device: dict[str, list[_Span]] = {}
    for ref, record in zip(refs, records, strict=True):
        if ref.bytes >= SMALLEST and (storage := ref()) is not None:
            try:
                begin = storage.data_ptr()
            except RuntimeError:  # torch took its memory away since
                continue
            by_device.setdefault(ref.device, []).append((begin, begin + ref.bytes, record))
    return [_note(group) for spans in by_device.values() for group in _overlapping(spans)]


def _overlapping(spans: list[_Span]) -> Iterable[list[_Span]]:
    """Goes through groups of spans that share addresses, each with what it overlaps."""
    spans.sort(key=_begin_of)
    group, end = list[_Span](), 0
    for span in spans:
        if span[0] >= end:
            if len(group) > 1:
                yield group
            group = []
        group.append(span)
        end = max(end, span[1])
    if len(group) > 1:
        yield group


def _begin_of(span: _Span) -> int:
    return span[0]


def _note(group: list[_Span]) -> Note:
    end = max(last for _, last, _ in group)
    twice = sum(last - first for first, last, _ in group) - (end - group[0][0])
    sentence = (
        f"{_names_of([record for _, _, record in group])} share one memory, as from_numpy, DLPack "
        f"and torch.load(mmap=True) make it: {twice:,} bytes are counted more than once."
    )
    return Note("storages", "shared_memory", sentence)


def _names_of(records: list[StorageRecord]) -> str:
    told = [record.names[0] for record in records if record.names]
    listed, left = told[:_LISTED], len(told[_LISTED:])
    nameless = len(records) - len(told)
    if left:
        listed.append(f"{left} more")
    if nameless:
        listed.append("a storage without a name" if nameless == 1 else f"{nameless} without a name")
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
