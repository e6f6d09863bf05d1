"""The running cell in words: one line for the panel, the sidebar and the status bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.render.names import clean, shorten_middle
from nbmem.units import column_unit, format_bytes, format_elapsed

if TYPE_CHECKING:
    from nbmem.records import LiveReading
    from nbmem.units import Units

_TITLE = 80


def title_words(number: int | None, title: str) -> str:
    """Returns `[7] train one epoch`; `a cell` where neither is known."""
    label = "" if number is None else f"[{number}]"
    return f"{label} {shorten_middle(clean(title), _TITLE)}".strip() or "a cell"


def live_words(reading: LiveReading, units: Units) -> str:
    """Returns `12 s · now 2.90 GiB · peak 3.10 GiB`, or why that is not known."""
    parts = [format_elapsed(reading.seconds)]
    if reading.allocated is not None:
        parts.append(f"now {format_bytes(reading.allocated, units)}")
    if reading.peak is not None:
        parts.append(f"peak {format_bytes(reading.peak, units)}")
    if reading.note:
        parts.append(reading.note)
    return " · ".join(parts)


def amount_words(device: str, allocated: int | None, capacity: int | None, units: Units) -> str:
    """Returns `2.90 of 7.93 GiB`; empty where nothing is known.

    Of main memory tensors are but a part: `64.0 MiB in tensors`.
    """
    if allocated is None:
        return ""
    if device == "cpu":
        return f"{format_bytes(allocated, units)} in tensors"
    if capacity is None:
        return f"{format_bytes(allocated, units)} allocated"
    unit = column_unit([allocated, capacity], units)
    return f"{unit.format(allocated)} of {unit.format(capacity)} {unit.suffix}"


def device_words(device: str, allocated: int | None, capacity: int | None, units: Units) -> str:
    """Returns `cuda:0: 3.10 GiB allocated of 7.93 GiB`, a sentence for the pointer."""
    if allocated is None:
        return f"{device}: its allocated bytes are not known"
    size = format_bytes(allocated, units)
    told = f"{size} in tensors" if device == "cpu" else f"{size} allocated"
    return f"{device}: {told}" + (f" of {format_bytes(capacity, units)}" if capacity else "")
