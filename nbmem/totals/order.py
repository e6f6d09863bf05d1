"""Storages in the order that a user asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nbmem.totals.groups import device_of, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.records import StorageRecord

_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Returns a key that sorts texts with the numbers in them as numbers: `layer.2`, `layer.10`."""
    parts = _DIGITS.split(text)
    return tuple(
        (0, int(part), part) if index % 2 and len(part) <= 18 else (1, 0, part)
        for index, part in enumerate(parts)
    )


def _name(storage: StorageRecord) -> tuple[Any, ...]:
    return (not storage.names, natural(storage.names[0]) if storage.names else ())


def _module(storage: StorageRecord) -> tuple[Any, ...]:
    return (storage.module is None, natural(storage.module or ""))


def _newest(storage: StorageRecord) -> tuple[Any, ...]:
    return (storage.created_by is None, -(storage.created_by or 0))


_ORDERS: dict[str, Callable[[StorageRecord], Any]] = {
    "size": lambda _: (),
    "name": _name,
    "cell": _newest,
    "category": lambda storage: rank(storage.category),
    "module": _module,
    "dtype": lambda storage: storage.dtype,
    "device": device_of,
    "views": lambda storage: -storage.views,
}

SORTINGS = tuple(_ORDERS)
"""What storages can be sorted by; ties go largest first."""


def sort_storages(storages: Iterable[StorageRecord], by: str = "size") -> list[StorageRecord]:
    """Returns `storages` sorted by one of `SORTINGS`.

    Largest, newest cell and most views come first; names and modules go by the alphabet, numbers
    in them by value, and what has none comes last. Ties go largest first, then by key.

    Raises:
        ValueError: `by` is none of `SORTINGS`.
    """
    order = _ORDERS.get(by)
    if order is None:
        raise ValueError(f"storages are sorted by {', '.join(SORTINGS)}, not by {by!r}")
    return sorted(storages, key=lambda storage: (order(storage), -storage.bytes, storage.key))
