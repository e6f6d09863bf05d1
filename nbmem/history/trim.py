"""A record made small enough to keep a thousand of; its sums stay what they were."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES, StorageRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.records import CellRecord, Copies, LineRecord, Note, RunTrend

STORAGES = 24
"""Storages that a kept record lists one by one; the others are summed per device and category."""
NAMES = 3
"""Names that a kept storage has."""
LONGEST = 240
"""Characters of a kept name or first line; a longer one loses its middle."""
LONGEST_ERROR = 600
NOTES = 24
LINES = 200
COPIES = 8
"""Names, and lines, of which a kept trend tells the copies."""


def trim(record: CellRecord) -> CellRecord:
    """Returns `record` with its small storages summed and its long texts cut.

    Per device and category the bytes of `created` are the same as before, and so is the sum of
    `stands_for`. A record that is small already comes back as it is.
    """
    if _is_small(record):
        return record
    return replace(
        record,
        cell_id=_cut_or_none(record.cell_id),
        label=_cut_or_none(record.label),
        first_line=cut(record.first_line),
        error=None if record.error is None else cut(record.error, LONGEST_ERROR),
        created=trim_storages(record.created),
        lines=tuple(_trim_line(line) for line in record.lines[:LINES]),
        notes=record.notes[:NOTES],
        trend=_trim_trend(record.trend),
        alive={sys.intern(device): _interned(sizes) for device, sizes in record.alive.items()},
    )


def trim_storages(created: tuple[StorageRecord, ...]) -> tuple[StorageRecord, ...]:
    """Returns the largest of `created` one by one, then one record for each sum of the others."""
    ordered = sorted(created, key=lambda storage: -storage.bytes)
    single = [storage for storage in ordered if storage.stands_for == 1]
    listed = single[:STORAGES]
    others = single[STORAGES:] + [storage for storage in ordered if storage.stands_for != 1]
    return tuple(_trim_storage(storage) for storage in listed) + _sums(others)


def cut(text: str, longest: int = LONGEST) -> str:
    """Returns `text`, of a long one the beginning and the end."""
    if len(text) <= longest:
        return text
    tail = longest // 2
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def _is_small(record: CellRecord) -> bool:
    short = max(map(len, (record.label or "", record.first_line, record.cell_id or ""))) <= LONGEST
    return (
        short
        and not record.created
        and not record.lines
        and record.trend is None
        and not record.alive
        and len(record.error or "") <= LONGEST_ERROR
        and len(record.notes) <= NOTES
    )


def _cut_or_none(text: str | None) -> str | None:
    return None if text is None else cut(text)


def _trim_line(line: LineRecord) -> LineRecord:
    return line if len(line.source) <= LONGEST else replace(line, source=cut(line.source))


def _trim_trend(trend: RunTrend | None) -> RunTrend | None:
    if trend is None:
        return None
    return replace(
        trend,
        by_name=tuple(map(_trim_copies, trend.by_name[:COPIES])),
        by_line=tuple(map(_trim_copies, trend.by_line[:COPIES])),
    )


def _trim_copies(copies: Copies) -> Copies:
    return replace(
        copies,
        what=sys.intern(cut(copies.what)),
        device=sys.intern(copies.device),
        held_by=tuple(sys.intern(cut(name)) for name in copies.held_by),
        source=sys.intern(cut(copies.source)),
    )


def _interned(sizes: dict[str, int]) -> dict[str, int]:
    return {sys.intern(category): size for category, size in sizes.items()}


def _trim_storage(storage: StorageRecord) -> StorageRecord:
    return replace(
        storage,
        device=sys.intern(storage.device),
        dtype=sys.intern(storage.dtype),
        category=sys.intern(storage.category),
        names=tuple(cut(name) for name in storage.names[:NAMES]),
        module=None if storage.module is None else sys.intern(cut(storage.module)),
        saved_by=None if storage.saved_by is None else sys.intern(cut(storage.saved_by)),
        notes=_few(storage.notes),
    )


def _few(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    return notes[:2]


def _sums(storages: Iterable[StorageRecord]) -> tuple[StorageRecord, ...]:
    groups: dict[tuple[str, str], list[StorageRecord]] = {}
    for storage in storages:
        groups.setdefault((storage.device, storage.category), []).append(storage)
    return tuple(_sum(*where, groups[where]) for where in sorted(groups, key=_order))


def _order(where: tuple[str, str]) -> tuple[str, int, str]:
    device, category = where
    known = CATEGORIES.index(category) if category in CATEGORIES else len(CATEGORIES)
    return device, known, category


def _sum(device: str, category: str, storages: list[StorageRecord]) -> StorageRecord:
    first = storages[0]
    return StorageRecord(
        key=0,
        bytes=sum(storage.bytes for storage in storages),
        device=sys.intern(device),
        dtype="",
        shape=(),
        category=sys.intern(category),
        names=(),
        created_by=first.created_by,
        created_in=first.created_in,
        views=sum(storage.views for storage in storages),
        visible=any(storage.visible for storage in storages),
        stands_for=sum(storage.stands_for for storage in storages),
        shared=sum(storage.shared for storage in storages),
    )
