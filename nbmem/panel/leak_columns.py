"""Leaks to the columns of the panel's table, and to what a row says when pointed at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.columns import ELASTIC, Column, TableData, figures, floats, one_line, track
from nbmem.panel.jumps import CellPlaces
from nbmem.render.leak_words import words_of_code
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import Leak
    from nbmem.units import Units

MOST_ROWS = 200
_LONGEST_SENTENCE = 300


def cell_of(leak: Leak) -> str:
    """Returns the cell that made most of it: `[7]`; nothing where it is not known."""
    return "" if leak.created_by is None else f"[{leak.created_by}]"


def leak_table(
    keys: Sequence[int], leaks: Sequence[Leak], units: Units, found: CellPlaces | None = None
) -> TableData:
    """Returns the table of leaks, in the order given."""
    keys, leaks, rest = keys[:MOST_ROWS], leaks[:MOST_ROWS], leaks[MOST_ROWS:]
    sizes = figures([leak.bytes for leak in leaks], units)
    kinds, cells = [words_of_code(leak.kind) for leak in leaks], [cell_of(leak) for leak in leaks]
    left = format_bytes(sum(leak.bytes for leak in rest), units)
    devices = [leak.device for leak in leaks]
    columns = [
        Column("what holds it", "The shortest way from a root to the largest of its tensors",
               "name", ELASTIC, [one_line(leak.path_text) for leak in leaks], id="path"),
        Column("why", "Why it is a leak", "quiet", track(["why", *kinds]), kinds, id="why",
               wide=True),
        Column("cell", "The cell that made most of it", "figure", track(["cell", *cells]), cells,
               floats([leak.created_by for leak in leaks]), id="cell", short="[n]",
               narrow=track(["[n]", *cells], 1)),
        Column(sizes.unit, "Bytes that come back", "figure", track([sizes.unit, *sizes.texts]),
               sizes.texts, floats([leak.bytes for leak in leaks]), id="size"),
    ]  # fmt: skip
    if len(set(devices)) > 1:
        tip = "Where most of its bytes are"
        device = Column("device", tip, "quiet", track(devices), devices, id="device", wide=True)
        columns.insert(3, device)
    found = found or CellPlaces()
    return TableData(
        columns=columns,
        places=[found.of_leak(leak) for leak in leaks],
        keys=list(keys),
        tips=[leak_tip(leak, units) for leak in leaks],
        empty="",
        unlisted=f"{format_count(len(rest), 'more leak')}, {left} together" if rest else "",
    )


def leak_tip(leak: Leak, units: Units) -> str:
    """Returns what is known of a leak, a fact a line."""
    facts = [
        one_line(leak.path_text, _LONGEST_SENTENCE),
        size_sentence(leak, units),
        one_line(leak.reason, _LONGEST_SENTENCE),
        _code("Frees it", leak.remedy),
        _code("Or with what fills it again", leak.instead),
        cost_sentence(leak),
        who_frees(leak),
    ]
    return "\n".join(filter(None, facts))


def _code(what: str, code: str) -> str:
    """Returns code after what it does; several lines stand below that."""
    lines = [one_line(line, _LONGEST_SENTENCE) for line in code.splitlines()]
    return (
        "" if not lines else "\n".join([f"{what}:", *lines]) if lines[1:] else f"{what}: {lines[0]}"
    )


def size_sentence(leak: Leak, units: Units) -> str:
    """Returns how much it is, of what kind and by whom: `1.14 GiB, stale error, made by [7]`."""
    parts = [
        format_bytes(leak.bytes, units),
        words_of_code(leak.kind),
        format_count(leak.count, "storage"),
    ]
    parts[-1] += f" on {one_line(leak.device, 20)}"
    if leak.created_by is not None:
        parts.append(f"made by {cell_of(leak)}")
    if leak.growth_per_run:
        parts.append(f"each run adds {format_bytes(leak.growth_per_run, units)}")
    return ", ".join(parts)


def cost_sentence(leak: Leak) -> str:
    """Returns what the user loses with it."""
    if leak.cost:
        return f"It costs {one_line(leak.cost, _LONGEST_SENTENCE)}."
    return "It costs nothing." if leak.reclaimable else ""


def who_frees(leak: Leak) -> str:
    """Returns what the buttons do about it, where that is not simply to free it."""
    if not leak.reclaimable:
        return "nbmem only explains this one: what holds it is in use."
    return "It goes only when chosen: “Free all…” leaves it." if leak.on_request else ""


def option_text(leak: Leak, units: Units) -> str:
    """Returns one line of a list: size, cell, way."""
    size, cell = format_bytes(leak.bytes, units), cell_of(leak) or "—"
    return f"{size:>9}  {cell:>5}  {one_line(leak.path_text, 60)}"
