"""The head of the panel as HTML: a line and a bar a device, inline styles only.

Everything that comes from data passes `escape` where it enters the markup.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from nbmem.render.capacity_words import DRIVER, LIMIT, capacity_words
from nbmem.render.palette import NEUTRAL
from nbmem.units import column_unit, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import DeviceReading, Inventory
    from nbmem.units import Units

NAMED, UNNAMED, CACHED, OTHERS = "#0072B2", "#56B4E9", "#E69F00", NEUTRAL
KEPT, FORBIDDEN = "#5C5C5C", "#C0C0C0"
_ROW = "display:flex;gap:8px;justify-content:space-between;line-height:18px;"
_BAR = (
    f"display:flex;height:10px;border:1px solid {NEUTRAL};border-radius:2px;overflow:hidden;"
    "box-sizing:border-box;margin:2px 0;"
)
_FONT = (
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);"
    "font-size:var(--jp-ui-font-size1,13px);color:var(--jp-ui-font-color1,inherit);"
)
_CUT = "min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_QUIET = "font-size:var(--jp-ui-font-size0,11px);color:var(--jp-ui-font-color2,GrayText);"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a device's bar."""

    word: str
    bytes: int
    colour: str


def main_device(readings: Sequence[DeviceReading]) -> str:
    """Returns the device the panel shows first: an accelerator in use, else any, else the cpu."""
    accelerators = [reading for reading in readings if reading.kind == "accelerator"]
    in_use = [reading for reading in accelerators if reading.allocated]
    for reading in (*in_use, *accelerators):
        return reading.device
    return "cpu"


def has_accelerator(readings: Sequence[DeviceReading]) -> bool:
    """Returns whether there is a device whose allocator keeps a cache."""
    return any(reading.kind == "accelerator" for reading in readings)


def named_bytes(inventory: Inventory | None, device: str) -> int | None:
    """Returns the bytes on `device` of storages the user can name; None before an inventory."""
    if inventory is None:
        return None
    return sum(s.bytes for s in inventory.storages if s.device == device and s.names)


def bar_parts(
    reading: DeviceReading, host: DeviceReading | None, inventory: Inventory | None
) -> list[Part]:
    """Returns the parts of the device's bar that are known, in the order they are drawn.

    What is left of the capacity is free. A figure that is not known leaves its part out.
    """
    if reading.allocated is None:
        return []
    named = named_bytes(inventory, reading.device)
    if named is None:
        parts = [Part("allocated", reading.allocated, NAMED)]
    else:
        named = min(named, reading.allocated)
        parts = [
            Part("named", named, NAMED),
            Part("without a name", reading.allocated - named, UNNAMED),
        ]
    if reading.kind == "cpu":
        if host is not None and host.allocated is not None:
            rest = max(0, host.allocated - reading.allocated)
            parts.append(Part("rest of the process", rest, OTHERS))
    elif reading.reserved is not None:
        parts.append(Part("cached", max(0, reading.reserved - reading.allocated), CACHED))
        parts += _out_of_reach(reading, reading.reserved)
    return [part for part in parts if part.bytes]


def _out_of_reach(reading: DeviceReading, reserved: int) -> list[Part]:
    """Returns what torch can't get of the device."""
    told = reading.parts
    if told is None or told.others is None:
        used = reading.driver_used
        return [] if used is None else [Part("others", max(0, used - reserved), OTHERS)]
    return [
        Part("others", told.others, OTHERS),
        Part(DRIVER, told.driver or 0, KEPT),
        Part(LIMIT, max(0, told.beyond_limit - max(0, reserved - told.bytes)), FORBIDDEN),
    ]


def header_html(
    readings: Sequence[DeviceReading], inventory: Inventory | None, units: Units
) -> str:
    """Returns the head: for each device its name, bytes of its capacity, and the bar."""
    host = next((reading for reading in readings if reading.kind == "host"), None)
    devices = [reading for reading in readings if reading.kind != "host"]
    if not devices:
        return f'<div style="{_FONT}">nbmem reads no device: see the line below.</div>'
    return "".join(_device_html(reading, host, inventory, units) for reading in devices)


def _device_html(
    reading: DeviceReading,
    host: DeviceReading | None,
    inventory: Inventory | None,
    units: Units,
) -> str:
    parts = bar_parts(reading, host, inventory)
    title = escape(" ".join(filter(None, [reading.device, reading.name])))
    return (
        f'<div style="{_FONT}"><div style="{_ROW}">'
        f'<span style="{_CUT}">{title}</span>'
        f'<span style="white-space:nowrap;font-variant-numeric:tabular-nums"{_tip(reading, units)}>'
        f"{escape(_amount(reading, units))}</span></div>"
        f"{_bar_html(parts, reading, units)}{_words_html(parts, reading, units)}</div>"
    )


def _tip(reading: DeviceReading, units: Units) -> str:
    parts = reading.parts
    return "" if parts is None else f' title="{escape(capacity_words(parts, units))}"'


def _amount(reading: DeviceReading, units: Units) -> str:
    if reading.kind == "cpu":
        return f"{format_bytes(reading.allocated, units)} in tensors"
    if reading.allocated is None or reading.capacity is None:
        return f"{format_bytes(reading.allocated, units)} allocated"
    unit = column_unit([reading.allocated, reading.capacity], units)
    figures = unit.format(reading.allocated), unit.format(reading.capacity)
    return f"{figures[0]} of {figures[1]} {unit.suffix}"


def _bar_html(parts: list[Part], reading: DeviceReading, units: Units) -> str:
    whole = None if reading.parts is None else reading.parts.total
    total = max(whole or reading.capacity or 0, sum(part.bytes for part in parts))
    if not total or not parts:
        return ""
    spans = "".join(
        f'<span style="flex:none;width:{100 * part.bytes / total:.2f}%;background:{part.colour}"'
        f' title="{escape(part.word)} {escape(format_bytes(part.bytes, units))}"></span>'
        for part in parts
    )
    words = ", ".join(f"{part.word} {format_bytes(part.bytes, units)}" for part in parts)
    return f'<div role="img" aria-label="{escape(words)}" style="{_BAR}">{spans}</div>'


def _words_html(parts: list[Part], reading: DeviceReading, units: Units) -> str:
    chips = [_chip(part.colour, f"{part.word} {format_bytes(part.bytes, units)}") for part in parts]
    if reading.capacity is not None and parts:
        if reading.kind == "cpu":
            chips.append(_chip("transparent", f"installed {format_bytes(reading.capacity, units)}"))
        elif reading.parts is not None and reading.reserved is not None:
            free = format_bytes(max(0, reading.capacity - reading.reserved), units)
            chips.append(_chip("transparent", f"free for torch {free}"))
        elif reading.driver_used is not None:
            free = format_bytes(max(0, reading.capacity - reading.driver_used), units)
            chips.append(_chip("transparent", f"free {free}"))
    unsure = [] if reading.parts is None else reading.parts.notes
    told = reading.notes if reading.allocated is None else unsure
    chips += [escape(note.sentence) for note in told]
    style = f"{_QUIET}display:flex;flex-wrap:wrap;gap:0 10px;line-height:16px;"
    return f'<div style="{style}">{"".join(f"<span>{chip}</span>" for chip in chips)}</div>'


def _chip(colour: str, text: str) -> str:
    box = (
        f"display:inline-block;width:8px;height:8px;background:{colour};"
        f"border:1px solid {NEUTRAL};box-sizing:border-box;margin-right:4px;"
    )
    return f'<span style="{box}"></span>{escape(text)}'
