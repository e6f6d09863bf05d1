"""What a cell made and freed on devices that it did not measure: no counter says more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render.leak_line import leak_facts
from nbmem.render.names import clean, says_something
from nbmem.render.trend import trend_facts
from nbmem.units import Units, format_bytes, format_count

if TYPE_CHECKING:
    from nbmem.records import CellRecord, StorageRecord

LEAST = 1_048_576
"""Bytes from which it is worth a line beside a device that was measured and moved."""


def elsewhere_facts(record: CellRecord, units: Units) -> list[tuple[str, str]]:
    """Returns word and sentence of each device that is not in `record.devices`.

    A few numbers beside the work of a GPU are left out.
    """
    facts: list[tuple[str, str]] = []
    for device in sorted({s.device for s in record.created} | set(record.freed)):
        if device not in record.devices:
            facts += _facts(record, device, units)
    return facts


def _facts(record: CellRecord, device: str, units: Units) -> list[tuple[str, str]]:
    made = [s for s in record.created if s.device == device and says_something(s)]
    freed = record.freed.get(device, 0)
    more = [*trend_facts(record, device, units), *leak_facts(record, device, units)]
    moved = sum(storage.bytes for storage in made) + freed
    if not (made or freed) or (moved < LEAST and not more and _moved(record)):
        return []
    told = ", ".join([*_made(made, units), *_freed(freed, units)])
    word = clean(device)
    return [(word, f"{told}; not measured without --device {word}"), *more]


def _moved(record: CellRecord) -> bool:
    return any(delta.delta for device, delta in record.devices.items() if device != "host")


def _made(made: list[StorageRecord], units: Units) -> list[str]:
    if not made:
        return []
    size = format_bytes(sum(storage.bytes for storage in made), units)
    return [f"{size} in {format_count(sum(s.stands_for for s in made), 'storage')} made here"]


def _freed(freed: int, units: Units) -> list[str]:
    return [f"{format_bytes(freed, units)} made by earlier cells freed"] if freed else []
