"""Where a cell is, for the pages that can go there: JupyterLab's id of it, and the n of `[n]`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, Leak, StorageRecord

CSS = """
.nbmem-jump { display: none; }
body[data-nbmem-sidebar] .nbmem-panel button.nbmem-jump {
  display: inline-block; box-sizing: border-box; width: 20px; height: 20px; margin: 0; padding: 0;
  font: inherit; line-height: 20px; text-align: center; border: none; border-radius: 2px;
  color: var(--jp-content-link-color, #1976d2); background: transparent; cursor: pointer;
}
body[data-nbmem-sidebar] .nbmem-panel button.nbmem-jump:hover {
  background: var(--jp-layout-color2, rgba(128, 128, 128, 0.2));
}
body[data-nbmem-sidebar] .nbmem-panel button.nbmem-jump:focus-visible {
  outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: -2px;
}
"""
"""Only the extension for JupyterLab, which marks the page's body, knows where a cell is."""


class CellPlace(NamedTuple):  # as many as rows: a dataclass takes ten times as long
    """One cell; at least one of the first two is known."""

    cell_id: str | None
    number: int | None
    serial: int | None


def place_of(record: CellRecord) -> CellPlace | None:
    """Returns the cell that a record is of."""
    if record.cell_id is None and record.execution_count is None:
        return None
    return CellPlace(record.cell_id, record.execution_count, record.serial)


class CellPlaces:
    """Finds the cells of storages and leaks among records."""

    def __init__(self, records: Sequence[CellRecord] = ()) -> None:
        self._by_serial = {record.serial: record for record in records}
        self._by_number = {r.execution_count: r for r in records if r.parent is None}

    def of_storage(self, storage: StorageRecord) -> CellPlace | None:
        """Returns the cell that made a storage."""
        serial = storage.created_in
        record = None if serial is None else self._by_serial.get(serial)
        if record is not None:
            return place_of(record)
        number = storage.created_by
        return None if number is None else CellPlace(None, number, serial)

    def of_leak(self, leak: Leak) -> CellPlace | None:
        """Returns the cell that made most of a leak."""
        if leak.created_by is None:
            return None
        record = self._by_number.get(leak.created_by)
        return CellPlace(None, leak.created_by, None) if record is None else place_of(record)


def jump_html(place: CellPlace | None) -> str:
    """Returns the button that goes to a cell, escaped; nothing where no cell is known."""
    if place is None:
        return ""
    facts = {"data-cell-id": place.cell_id, "data-number": place.number}
    facts["data-serial"] = place.serial
    told = "".join(f' {name}="{escape(str(v))}"' for name, v in facts.items() if v is not None)
    words = jump_words(place)
    return (
        f'<button type="button" class="nbmem-jump"{told} title="{words}" aria-label="{words}"'
        ' data-lm-suppress-shortcuts="true">↗</button>'
    )


def jump_words(place: CellPlace) -> str:
    """Returns `Go to cell [7]`."""
    return "Go to its cell" if place.number is None else f"Go to cell [{place.number}]"
