"""What stands in the titles of the panel's sections, and beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.leak_words import title_of
from nbmem.panel.static import clock_text
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import LeakReport
    from nbmem.units import Units


def history_aside(snapshot: Snapshot) -> str:
    """Returns how many cells and blocks the history shows: `3 cells and 1 block on cpu`."""
    blocks = sum(record.parent is not None for record in snapshot.records)
    cells = len(snapshot.records) - blocks
    counts = [(cells, "cell"), (blocks, "block")]
    words = " and ".join(format_count(count, noun) for count, noun in counts if count)
    return f"{words} on {snapshot.device}" if words else ""


def leak_title(report: LeakReport | None, units: Units) -> tuple[str, str]:
    """Returns the title of the section of leaks, and when they were looked for."""
    aside = "" if report is None else f"as of {clock_text(report.taken_at)}"
    return title_of(report, units), aside


def alive_title(snapshot: Snapshot) -> tuple[str, str]:
    """Returns the title of the section of live tensors, and as of when and how complete it is."""
    if snapshot.inventory is None:
        return "Live tensors", ""
    storages = snapshot.inventory.storages
    size = format_bytes(sum(storage.bytes for storage in storages), snapshot.units)
    partial = "; ".join(note.sentence for note in snapshot.inventory.notes[:2])
    aside = f"as of {clock_text(snapshot.inventory.taken_at)}"
    return (
        f"Live tensors · {len(storages):,} · {size}",
        f"{partial} · {aside}" if partial else aside,
    )
