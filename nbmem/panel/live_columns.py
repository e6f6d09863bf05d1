"""Live storages, and groups of them, to the columns of the panel's table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.panel.columns import (
    ELASTIC,
    Column,
    TableData,
    badge_column,
    bar_parts,
    figures,
    floats,
    one_line,
    track,
)
from nbmem.panel.jumps import CellPlaces
from nbmem.panel.live import is_plain
from nbmem.panel.rows import RowStream
from nbmem.render.names import nameless_alone
from nbmem.totals import device_of
from nbmem.units import column_unit, format_bytes, format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.panel.columns import Asked
    from nbmem.panel.live import Line, Lines, LiveList
    from nbmem.records import StorageRecord
    from nbmem.totals import Group
    from nbmem.units import Units

MOST_ROWS = 500
"""Rows sent to the page; the filter asks the kernel about the rest."""
MOST_BYTES = 180_000
"""Of one message of rows: with long names it has fewer of them."""
NOTHING = "No tensor is alive. Make one and press ⟳, or run a cell with %%gpumem."
_NAMES_IN_TIP = 4


def storage_name(storage: StorageRecord) -> str:
    """Returns the name a user would look for, or what it is where it has none."""
    if storage.names:
        return storage.names[0]
    return f"({nameless_alone(storage)})"


def shape_text(storage: StorageRecord) -> str:
    """Returns `[64, 1, 28, 28]`."""
    return f"[{', '.join(map(str, storage.shape))}]"


def live_table(live: LiveList, units: Units, cells: CellPlaces | None = None) -> TableData:
    """Returns the table of what was asked for: as many rows as a message may have."""
    lines = live.lines()
    rows = MOST_ROWS
    while True:
        data = _table(lines, live, units, rows, cells or CellPlaces())
        size = len(RowStream().follow(data.keys, data.head(), data.lists()))
        if size <= MOST_BYTES or rows <= 1:
            return data
        rows = max(1, min(rows - 1, int(0.95 * len(data.keys) * MOST_BYTES / size)))


def _table(lines: Lines, live: LiveList, units: Units, rows: int, cells: CellPlaces) -> TableData:
    """Returns the table of at most `rows` rows.

    Where every storage has room and the filter is words, the page filters and sorts by itself: it
    then needs no answer from a kernel that may be busy.
    """
    asked, whole = live.asked, lines
    local = not asked.by and is_plain(asked.filter) and lines.count <= rows
    if local:
        whole = live.all_lines()
    listed = whole.listed[:rows]
    made = group_table(listed, units, asked.by) if asked.by else storage_table(listed, units)
    return replace(
        made,
        trouble=whole.trouble,
        unlisted="" if local else _unlisted(lines, len(listed), asked, units),
        complete=local,
        asked=asked,
        opened=sorted(live.opened) if asked.by else None,
        places=[
            None if line.storage is None else cells.of_storage(line.storage) for line in listed
        ],
    )


def _unlisted(lines: Lines, listed: int, asked: Asked, units: Units) -> str:
    if lines.trouble:
        return ""
    rest = lines.listed[listed:]
    parts = []
    if asked.filter.strip():
        text = one_line(asked.filter.strip(), 30)
        parts.append(f"{lines.matching:,} match “{text}” of {lines.count:,}")
    if rest:
        sizes = [line.storage.bytes if line.storage else line.group.bytes  # type: ignore[union-attr]
                 for line in rest if not line.parent]  # fmt: skip
        size = format_bytes(sum(sizes), units)
        parts.append(f"{len(rest):,} more, {size} together: filter to see them")
    if lines.hidden:
        parts.append(f"{lines.hidden:,} more in opened groups")
    return " · ".join(parts)


def storage_table(lines: Sequence[Line], units: Units) -> TableData:
    """Returns the table of live storages, in the order given."""
    storages = [line.storage for line in lines if line.storage is not None]
    sizes = figures([storage.bytes for storage in storages], units)
    made_by = [_made_by(s) for s in storages]
    wide = [
        Column("shape", "Shape of the tensor that best shows it", "quiet", _shape_track(storages),
               [shape_text(s) for s in storages], wide=True),
        Column("dtype", "Type of its elements", "quiet", "64px",
               [one_line(s.dtype, 20) for s in storages], id="dtype", wide=True),
        Column("cell", "The cell that made it", "figure", "6ch", made_by,
               floats([s.created_by for s in storages]), id="cell", wide=True),
    ]  # fmt: skip
    if len({device_of(storage) for storage in storages}) > 1:
        devices = [device_of(storage) for storage in storages]
        tip = "Where its bytes are"
        wide.append(Column("device", tip, "quiet", track(devices), devices, id="device", wide=True))
    return TableData(
        columns=[
            Column("name", "Your name for it, the shortest of several", "name",
                   ELASTIC, [one_line(storage_name(s)) for s in storages], id="name"),
            *wide,
            Column(sizes.unit, "Bytes of the storage; views share it and are counted once",
                   "figure", track([sizes.unit, *sizes.texts]), sizes.texts,
                   floats([s.bytes for s in storages]), id="size"),
            badge_column([s.category for s in storages]),
        ],
        keys=[storage.key for storage in storages],
        tips=[storage_tip(storage, units) for storage in storages],
        empty=NOTHING,
    )  # fmt: skip


def group_table(lines: Sequence[Line], units: Units, by: str) -> TableData:
    """Returns the table of groups, the storages of an opened one below it."""
    sizes = [_bytes(line) for line in lines]
    whole = sum(size for size, line in zip(sizes, lines, strict=True) if not line.parent)
    most = max(sizes, default=0)
    unit = column_unit([line.group.bytes for line in lines if line.group is not None], units)
    texts = [unit.format(size) for size in sizes]
    counts = ["" if line.group is None else f"{line.group.count:,}" for line in lines]
    shares = [format_share(size, whole) if whole else "" for size in sizes]
    return TableData(
        columns=[
            Column(by, f"What they have in common: the {by}", "name", ELASTIC,
                   [_title(line) for line in lines], id="name"),
            Column("by category", "Bytes by category, beside the largest group", "bar",
                   "minmax(60px, 0.7fr)", [""] * len(lines), wide=True,
                   bars=[bar_parts(_categories(line), most) for line in lines]),
            Column("count", "How many storages it is", "figure", track(["count", *counts]), counts,
                   id="count", short="n", narrow=track(["n", *counts], 1)),
            Column("share", "Of the bytes of all groups", "quiet", "7ch", shares, wide=True),
            Column(unit.suffix, "Bytes; each storage is counted once", "figure",
                   track([unit.suffix, *texts]), texts, floats(sizes), id="size"),
            badge_column([_category(line) for line in lines]),
        ],
        keys=[line.key for line in lines],
        tips=[_tip(line, share, units) for line, share in zip(lines, shares, strict=True)],
        empty=NOTHING,
        complete=False,
        parents=[line.parent for line in lines],
    )  # fmt: skip


def _bytes(line: Line) -> int:
    return line.storage.bytes if line.storage is not None else _group(line).bytes


def _group(line: Line) -> Group:
    if line.group is None:
        raise ValueError("a line is a storage or a group")
    return line.group


def _title(line: Line) -> str:
    return one_line(_group(line).key if line.storage is None else storage_name(line.storage))


def _categories(line: Line) -> dict[str, int]:
    if line.storage is not None:
        return {line.storage.category: line.storage.bytes}
    return dict(_group(line).by_category)


def _category(line: Line) -> str:
    """The category of all of it; nothing where there are several."""
    kinds = list(_categories(line))
    return kinds[0] if len(kinds) == 1 else ""


def _tip(line: Line, share: str, units: Units) -> str:
    if line.storage is not None:
        return storage_tip(line.storage, units)
    group = _group(line)
    kinds = [f"{word} {format_bytes(size, units)}" for word, size in group.by_category.items()]
    size = f"{format_bytes(group.bytes, units)} ({group.bytes:,} B), {share} of all"
    return "\n".join(
        [one_line(group.key), f"{format_count(group.count, 'storage')}, {size}", ", ".join(kinds)]
    )


def _shape_track(storages: Sequence[StorageRecord]) -> str:
    longest = max((len(shape_text(storage)) for storage in storages), default=6)
    return f"{min(longest, 18) + 1}ch"


def _made_by(storage: StorageRecord) -> str:
    return "" if storage.created_by is None else f"[{storage.created_by}]"


def storage_tip(storage: StorageRecord, units: Units) -> str:
    """Returns what is known of a storage, a fact a line."""
    names = [one_line(name, 80) for name in storage.names[:_NAMES_IN_TIP]]
    more = len(storage.names) - len(names)
    first = ", ".join(names) or storage_name(storage)
    shape = one_line(shape_text(storage), 60)
    facts = [
        f"{first} and {format_count(more, 'more name')}" if more else first,
        f"{storage.category}, {one_line(storage.dtype, 20)} {shape} on {device_of(storage)}",
        f"{format_bytes(storage.bytes, units)} ({storage.bytes:,} B)",
    ]
    if storage.module is not None:
        facts.append(f"of {one_line(storage.module, 80)}")
    if storage.saved_by is not None:
        facts.append(f"saved by {one_line(storage.saved_by, 80)}")
    if storage.views > 1:
        facts.append(f"{storage.views:,} tensors share it")
    if storage.created_by is not None:
        line = "" if storage.line is None else f", line {storage.line}"
        facts.append(f"made by {_made_by(storage)}{line}")
    return "\n".join([*facts, *(one_line(note.sentence, 200) for note in storage.notes[:2])])
