"""What is parked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParkedThing:
    """What one `%gpumem park NAME` moved from one device, as far as it is parked still."""

    name: str
    """As it was given then; the variable may lead elsewhere by now."""
    bytes: int
    """Of its storages, in main memory now."""
    storages: int
    device: str
    """Where it came from, and where `%gpumem unpark` brings it."""
