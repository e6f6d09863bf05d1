"""Records to the messages of `labextension/src/tokens.ts`: plain dicts, every figure a text.

Samples that both sides are tested with: `tests/data/sidebar/*.json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem._version import __version__
from nbmem.render.capacity_words import capacity_words
from nbmem.render.live_words import amount_words, device_words, live_words, title_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import DeviceReading, LiveReading
    from nbmem.units import Units

    Message = dict[str, Any]

PROTOCOL = 1
"""The channel's version; the two sides say theirs when they meet."""
TARGET = "nbmem"
"""The comm target that a kernel with nbmem has."""
BROADCAST = "nbmem-broadcast"
"""What is for every page carries this comm id; no comm of that id is ever opened."""
NO_RECORDS = "nothing is measured yet"


def hello(
    *,
    model_id: str | None,
    waits: str,
    marks: Sequence[Message],
    state: Message | None,
    live: Message | None,
) -> Message:
    """Returns the answer to a page that opened a comm."""
    told = {"model_id": model_id, "waits": waits, "marks": list(marks)}
    return {**foreign_hello(), **told, "state": state, "live": live}


def foreign_hello() -> Message:
    """Returns the answer to a page of another protocol: who is here, and nothing else."""
    return {"type": "hello", "protocol": PROTOCOL, "version": __version__}


def live(reading: LiveReading, units: Units) -> Message:
    """Returns what moves while a cell runs."""
    device, allocated, capacity = reading.device, reading.allocated, reading.capacity
    return {
        "type": "live",
        "protocol": PROTOCOL,
        "running": reading.running,
        "cell": {"cell_id": reading.cell_id, "number": reading.number},
        "title": title_words(reading.number, reading.title),
        "text": live_words(reading, units),
        "status": amount_words(device, allocated, capacity, units),
        "share": share_of(allocated, capacity),
        "taken_at": reading.taken_at,
    }


def state(
    reading: DeviceReading,
    units: Units,
    *,
    costliest: Message | None,
    is_empty: bool,
    copy: str,
    taken_at: float,
) -> Message:
    """Returns the present of the kernel: its main device, and a copy of the panel.

    Args:
        reading: of the main device.
        units: as set.
        costliest: where the cell with the largest peak is.
        is_empty: no cell was measured yet.
        copy: the panel as HTML.
        taken_at: seconds since the epoch.
    """
    facts = reading.device, reading.allocated, reading.capacity
    return {
        "type": "state",
        "protocol": PROTOCOL,
        "device": reading.device,
        "status": amount_words(*facts, units),
        "share": share_of(reading.allocated, reading.capacity),
        "tip": _tip(reading, units),
        "hint": NO_RECORDS if is_empty else "",
        "costliest": costliest,
        "copy": copy,
        "taken_at": taken_at,
    }


def _tip(reading: DeviceReading, units: Units) -> str:
    told = device_words(reading.device, reading.allocated, reading.capacity, units)
    parts = reading.parts
    return told if parts is None else f"{told}; {capacity_words(parts, units)}"


def marks(changed: Sequence[Message], *, whole: bool) -> Message:
    """Returns the badges of cells: all, or those that changed."""
    return {"type": "marks", "protocol": PROTOCOL, "whole": whole, "marks": list(changed)}


def panel(model_id: str | None, trouble: str = "") -> Message:
    """Returns the news that the panel was built, or why it could not be."""
    return {"type": "panel", "protocol": PROTOCOL, "model_id": model_id, "trouble": trouble}


def bye() -> Message:
    """Returns the news that nbmem was unloaded."""
    return {"type": "bye", "protocol": PROTOCOL, "sentence": "nbmem was unloaded in this kernel."}


def trouble(sentence: str) -> Message:
    """Returns what the kernel could not do with a page's message."""
    return {"type": "trouble", "protocol": PROTOCOL, "sentence": sentence}


def share_of(part: int | None, whole: int | None) -> float | None:
    """Returns `part` of `whole`, 0 to 1; None where one of the two is not known."""
    return None if part is None or not whole else min(1.0, round(part / whole, 3))
