"""Bytes and counts by category, module, cell, name, dtype and device, in one pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nbmem.records import StorageRecord

GROUPINGS = ("category", "module", "cell", "name", "dtype", "device")
"""What storages can be grouped by."""

NO_MODULE, NO_CELL, NO_NAME, MIXED = "no module", "no cell", "no name", "mixed"

_ROOT = re.compile(
    r"""(?:(?:list|vars)\()*          # list(d.values())[0] begins with d
    (globals\(\)\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]   # a variable that is no identifier
    |Out\[\d+\]
    |[^\W\d]\w*)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Group:
    """Storages that have one thing in common."""

    key: str
    """What they have in common: `gradient`, `model.layer3`, `[7]`, `cpu (pinned)`, …"""
    bytes: int
    count: int
    by_category: Mapping[str, int]
    """Category to bytes, in the order of `CATEGORIES`; categories without bytes are left out."""
    storages: tuple[StorageRecord, ...] = ()
    """Largest first; empty in `Totals`."""


@dataclass(frozen=True, slots=True)
class Totals:
    """All storages added up; each tuple of groups has all of their bytes, largest group first."""

    bytes: int
    count: int
    """Storages; the sums of a history count as many as they stand for."""
    by_category: tuple[Group, ...]
    by_module: tuple[Group, ...]
    by_cell: tuple[Group, ...]
    by_name: tuple[Group, ...]
    """By the variable with which the first name begins: `model`, `losses`, `Out[3]`."""
    by_dtype: tuple[Group, ...]
    by_device: tuple[Group, ...]
    """Pinned memory apart: `cpu (pinned)`."""


def device_of(storage: StorageRecord) -> str:
    """Returns the device with pinned memory apart: `cuda:0`, `cpu`, `cpu (pinned)`."""
    return f"{storage.device} (pinned)" if storage.pinned else storage.device


def root_of(storage: StorageRecord) -> str:
    """Returns the variable with which the first name begins: `model`, `Out[3]`, `no name`."""
    return _root(storage.names[0]) if storage.names else NO_NAME


def total_storages(storages: Iterable[StorageRecord]) -> Totals:
    """Returns the sums of `storages` by everything they can be grouped by, after one pass."""
    cells: dict[tuple[str, ...], list[int]] = {}
    for storage in storages:
        key = _keys(storage)
        cell = cells.get(key)
        if cell is None:
            cells[key] = cell = [0, 0]
        cell[0] += storage.bytes
        cell[1] += storage.stands_for
    sums = [_fold(cells, index) for index in range(len(GROUPINGS))]
    size = sum(cell[0] for cell in cells.values())
    return Totals(size, sum(cell[1] for cell in cells.values()), *sums)


def group_storages(storages: Iterable[StorageRecord], by: str) -> tuple[Group, ...]:
    """Returns the groups of `storages` by one of `GROUPINGS`, largest first, with their members.

    Raises:
        ValueError: `by` is none of `GROUPINGS`.
    """
    key_of = _KEYS.get(by)
    if key_of is None:
        raise ValueError(f"storages are grouped by {', '.join(GROUPINGS)}, not by {by!r}")
    members: dict[str, list[StorageRecord]] = {}
    for storage in storages:
        members.setdefault(key_of(storage), []).append(storage)
    groups = [_group(key, held) for key, held in members.items()]
    return tuple(sorted(groups, key=_largest_first))


def by_category(sizes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Returns the bytes of each category, in the order of `CATEGORIES`, zeros left out."""
    sums: dict[str, int] = {}
    for category, size in sizes:
        sums[category] = sums.get(category, 0) + size
    return {category: sums[category] for category in sorted(sums, key=rank) if sums[category]}


def rank(category: str) -> tuple[int, str]:
    """Returns where `category` stands in `CATEGORIES`; a word not met yet comes last."""
    known = category in CATEGORIES
    return (CATEGORIES.index(category), "") if known else (len(CATEGORIES), category)


def _root(name: str) -> str:
    match = _ROOT.match(name)
    return match[1] if match else name.partition(" ")[0]


def _cell(storage: StorageRecord) -> str:
    return NO_CELL if storage.created_by is None else f"[{storage.created_by}]"


_KEYS: dict[str, Callable[[StorageRecord], str]] = {
    "category": lambda storage: storage.category,
    "module": lambda storage: storage.module or NO_MODULE,
    "cell": _cell,
    "name": root_of,
    "dtype": lambda storage: storage.dtype or MIXED,
    "device": device_of,
}


def _keys(storage: StorageRecord) -> tuple[str, ...]:
    return (
        storage.category,
        storage.module or NO_MODULE,
        _cell(storage),
        root_of(storage),
        storage.dtype or MIXED,
        device_of(storage),
    )


def _fold(cells: Mapping[tuple[str, ...], list[int]], index: int) -> tuple[Group, ...]:
    """Returns the groups by one of the keys: many storages share a few tuples of keys."""
    members: dict[str, list[tuple[str, int, int]]] = {}
    for keys, (size, count) in cells.items():
        members.setdefault(keys[index], []).append((keys[0], size, count))
    groups = [
        Group(
            key,
            sum(size for _, size, _ in held),
            sum(count for _, _, count in held),
            by_category((category, size) for category, size, _ in held),
        )
        for key, held in members.items()
    ]
    return tuple(sorted(groups, key=_largest_first))


def _group(key: str, storages: list[StorageRecord]) -> Group:
    return Group(
        key,
        sum(storage.bytes for storage in storages),
        sum(storage.stands_for for storage in storages),
        by_category((storage.category, storage.bytes) for storage in storages),
        tuple(sorted(storages, key=lambda storage: -storage.bytes)),
    )


def _largest_first(group: Group) -> tuple[int, str]:
    return -group.bytes, group.key
