"""The line on leaks in a cell's report: only what the record knows for sure, at no cost.

That is what the cell showed and no variable leads to: names stand in the order in which variables
come before IPython's caches. Whether a graph or a traceback is a leak takes a search, which
`%gpumem leaks` makes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbmem.render.names import clean
from nbmem.units import Units, format_bytes

if TYPE_CHECKING:
    from nbmem.records import CellRecord

LEAST = 262_144
"""Bytes from which it is worth a line: what the setting `leak_threshold` begins with."""
_CACHE = re.compile(r"(Out\[\d+\]|_\d+|_{1,3}(?!\w))")


def leak_facts(record: CellRecord, device: str, units: Units) -> list[tuple[str, str]]:
    """Returns word and sentence of what only IPython's caches lead to; nothing where it is little.

    Nothing either where a budget cut the search for names.
    """
    if any(note.code == "budget" for note in record.notes):
        return []
    sizes: dict[str, int] = {}
    for storage in record.created:
        match = _CACHE.match(storage.names[0]) if storage.names else None
        if match and storage.device == device:
            sizes[match[1]] = sizes.get(match[1], 0) + storage.bytes
    if sum(sizes.values()) < LEAST:
        return []
    first = clean(max(sizes, key=sizes.__getitem__))
    leads = f"{first} leads" if len(sizes) == 1 else f"{first} and {len(sizes) - 1:,} more lead"
    size = format_bytes(sum(sizes.values()), units)
    return [("leak", f"{size} that only {leads} to   %gpumem leaks")]
