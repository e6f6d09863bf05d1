"""Records of cells to the columns of the panel's table, and to a sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.columns import (
    ELASTIC,
    LONGEST_TEXT,
    PALETTE,
    Column,
    Figures,
    Parts,
    TableData,
    bar_parts,
    figures,
    floats,
    one_line,
    track,
)
from nbmem.panel.jumps import place_of
from nbmem.render.palette import NEUTRAL, letter_of
from nbmem.render.scale import cell_label, cell_title
from nbmem.render.stacks import REST, REST_WORDS, Shown, rest_word, stack_of
from nbmem.units import column_unit, format_bytes, format_change, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord
    from nbmem.units import Units


def cell_sentence(record: CellRecord, device: str, units: Units) -> str:
    """Returns one line that tells a record: `[7] train · ok · 4.2 s · peak 3.10 GiB · …`."""
    parts = [f"{cell_label(record)} {one_line(cell_title(record), 80)}".strip()]
    parts += [one_line(record.error or record.status, 200), format_seconds(record.seconds)]
    delta = record.devices.get(device)
    if delta is None:
        return " · ".join([*parts, f"not measured on {device}"])
    parts.append(f"peak {format_bytes(delta.peak, units)}")
    parts.append(f"{format_bytes(delta.before, units)} → {format_bytes(delta.after, units)}")
    return " · ".join([*parts, f"{format_change(record.change(device), units)} stayed"])


def stack_sentence(record: CellRecord, device: str, units: Units, shown: Shown) -> str:
    """Returns what the cell's bar is made of: `at its end parameter 2.00 MiB, user 16.0 MiB`."""
    stack = stack_of(record, device, shown)
    if not stack:
        return ""
    words = [
        f"{rest_word(record, device, shown) if part == REST else part} {format_bytes(size, units)}"
        for part, size in sorted(stack.items(), key=lambda item: (item[0] == REST, -item[1]))
    ]
    return f"at its end {', '.join(words)}"


def newest_first(records: Sequence[CellRecord]) -> list[CellRecord]:
    """Returns the cells, the newest first, each followed by its blocks in the order they ran."""
    cells: list[list[CellRecord]] = []
    cell_of: dict[int, list[CellRecord]] = {}
    for record in records:
        cell = None if record.parent is None else cell_of.get(record.parent)
        if cell is None:
            cell = []
            cells.append(cell)
        cell.append(record)
        cell_of[record.serial] = cell
    return [record for cell in reversed(cells) for record in cell]


def cell_table(
    records: Sequence[CellRecord], device: str, units: Units, shown: Shown | None = None
) -> TableData:
    """Returns the table of records, the newest cell first, blocks below their cell as they ran.

    With `shown` each row has its bar, and says what the bar is made of, where there is no chart.
    """
    newest = newest_first(records)
    deltas = [record.devices.get(device) for record in newest]
    changes = [record.change(device) for record in newest]
    highest = [None if delta is None else delta.peak for delta in deltas]
    labels, took = [cell_label(r) for r in newest], [format_seconds(r.seconds) for r in newest]
    titles = [_row_title(r) for r in newest]
    bars = None
    if shown is not None:
        most = _longest(records, device)
        bars = [_bar(record, device, shown, most) for record in newest]
        titles = [_row_title(record, 40) for record in newest]
        made_of = [_made_of(record, device, units, shown) for record in newest]
        titles = [f"{title}\n{parts}".strip() for title, parts in zip(titles, made_of, strict=True)]
    columns = [
        Column("cell", "In[n] of the cell", "figure", track(labels), labels,
               [float(r.serial) for r in newest], "cell"),
        Column("what ran", "Label, or first line", "text", ELASTIC,
               titles, id="what",
               alarm=[r.status != "ok" for r in newest], bars=bars),
        Column("took", "Time to launch; nothing is synchronized", "figure", track(took), took,
               [r.seconds for r in newest], "took", wide=True),
        _figure_column("peak", "▲", f"Largest allocated bytes while it ran, on {device}",
                       figures(highest, units), highest),
        _figure_column("stayed", "±", f"Allocated after it minus before it, in all, on {device}",
                       figures(changes, units, signed=True), changes),
    ]  # fmt: skip
    return TableData(
        columns=columns,
        keys=[record.serial for record in newest],
        tips=[_cell_tip(record, device, units) for record in newest],
        empty="Each measured cell is a row here, the newest first.",
        palette=[*PALETTE, *([word, f"{NEUTRAL}99", "inherit", word] for word in REST_WORDS)],
        places=[place_of(record) for record in newest],
    )


def _longest(records: Sequence[CellRecord], device: str) -> int:
    deltas = [record.devices[device] for record in records if device in record.devices]
    return max((max(delta.peak or 0, delta.after or 0) for delta in deltas), default=0)


def _bar(record: CellRecord, device: str, shown: Shown, most: int) -> Parts:
    """Returns the cell's bar, beside `most` bytes; a block has none, it is a part of its cell."""
    stack = {} if record.parent is not None else stack_of(record, device, shown)
    rest = stack.pop(REST, 0)
    parts = bar_parts(stack, most)
    if rest and most:
        word = len(PALETTE) + REST_WORDS.index(rest_word(record, device, shown))
        parts.insert(0, [word, round(100 * rest / most, 2)])
    return parts


def _figure_column(
    word: str, sign: str, tip: str, shown: Figures, values: Sequence[int | None]
) -> Column:
    label, short = f"{word} {shown.unit}", f"{sign} {shown.unit}"
    return Column(
        label,
        tip,
        "figure",
        track([label, *shown.texts]),
        shown.texts,
        floats(values),
        id=word,
        short=short,
        narrow=track([short, *shown.texts]),
    )


def _made_of(record: CellRecord, device: str, units: Units, shown: Shown) -> str:
    stack = {} if record.parent is not None else stack_of(record, device, shown)
    unit = column_unit(stack.values(), units)
    words = [
        f"{rest_word(record, device, shown) if part == REST else letter_of(part)}"
        f" {unit.format(size)}"
        for part, size in stack.items()
    ]
    return f"{', '.join(words)} {unit.suffix}" if words else ""


def _row_title(record: CellRecord, longest: int = LONGEST_TEXT) -> str:
    inner = "↳ " if record.parent is not None else ""
    status = "" if record.status == "ok" else f"{record.status} · "
    return inner + status + one_line(cell_title(record), longest)


def _cell_tip(record: CellRecord, device: str, units: Units) -> str:
    notes = (one_line(note.sentence, 200) for note in record.notes)
    return "\n".join([cell_sentence(record, device, units), *notes])
