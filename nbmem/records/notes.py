"""Why a figure is missing, and the number of the record layout."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = 3
"""Number of the record layout. Fields may join under it; a changed meaning needs a new number.

2: `StorageRecord.bytes` counts memory that several storages share with one of them.
3: `capacity` is what torch can get of a device, not what the device has."""


@dataclass(frozen=True, slots=True)
class Note:
    """Why a figure is None or partial, or what broke inside nbmem."""

    field: str
    """The field it speaks of (`peak`, `created`, …) or the room that broke."""
    code: str
    """A stable word for programs: `other_threads`, `scan_skipped`, `broken`, …"""
    sentence: str
    """One sentence for people."""
