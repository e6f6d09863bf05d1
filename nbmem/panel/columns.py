"""Records to the columns of the panel's tables: texts for people, numbers for sorting."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from nbmem.render.palette import colour_of, ink_of, letter_of
from nbmem.render.scale import cell_label, cell_title, chart_unit
from nbmem.units import format_bytes, format_change, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, StorageRecord
    from nbmem.units import Units

LONGEST_TEXT = 160
"""Characters of a name that are sent to the page; a longer one loses its middle."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; lists have one entry a row."""

    label: str
    tip: str
    kind: str
    """`name`, `text`, `figure`, `quiet` or `badge`."""
    width: str
    """A CSS grid track."""
    text: list[str]
    sort: list[float | None] | None = None
    """Numbers to sort by; None: by text."""
    short: str | None = None
    """The label where there is little room."""
    narrow: str | None = None
    """The track where there is little room, if another."""
    wide: bool = False
    """Shown only where there is room."""
    colour: list[str] | None = None
    ink: list[str] | None = None
    alarm: list[bool] | None = None


@dataclass(frozen=True, slots=True)
class TableData:
    """All that a table shows."""

    columns: list[Column]
    keys: list[int]
    tips: list[str]
    """What a row says when pointed at."""
    empty: str
    """The sentence where there are no rows."""
    unlisted: str = ""
    """The sentence about rows that were not sent."""
    complete: bool = field(default=True)
    """False where the kernel must be asked to filter rows that were not sent."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dict that `json.dumps` takes."""
        columns = [shallow_dict(column) for column in self.columns]
        return {**shallow_dict(self), "columns": columns}


def shallow_dict(record: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass; unlike `asdict` it copies no list."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def shorten(text: str, most: int = LONGEST_TEXT) -> str:
    """Returns `text` on one line; of more than `most` characters the middle becomes `…`."""
    line = " ".join(text[: 4 * most].split()) if len(text) <= 4 * most else text
    if len(line) <= most:
        return line
    tail = most // 3
    return " ".join(f"{line[: most - tail - 1]}…{line[-tail:]}".split())


def figures(sizes: Sequence[int | None], units: Units, *, signed: bool = False) -> Figures:
    """Returns one column's sizes as texts in one unit, that of the largest."""
    largest = max((abs(size) for size in sizes if size is not None), default=0)
    scale, unit = chart_unit(largest, units)
    places = 0 if scale == 1 else 1 if largest >= 100 * scale else 2
    return Figures(unit, [_figure(size, scale, places, signed) for size in sizes])


@dataclass(frozen=True, slots=True)
class Figures:
    """Texts of one column, and their common unit."""

    unit: str
    texts: list[str]


def _figure(size: int | None, scale: int, places: int, signed: bool) -> str:
    if size is None:
        return "?"
    if size == 0:
        return "0"
    sign = "−" if size < 0 else "+" if signed else ""
    value = f"{abs(size) / scale:.{places}f}"
    if float(value) == 0:
        return f"{sign}<{10**-places:.{places}f}"
    return sign + value


def storage_name(storage: StorageRecord) -> str:
    """Returns the name a user would look for, or what it is where it has none."""
    if storage.names:
        return storage.names[0]
    return "(no name)" if storage.visible else "(held by a graph or by C++)"


def shape_text(storage: StorageRecord) -> str:
    """Returns `[64, 1, 28, 28]`."""
    return f"[{', '.join(map(str, storage.shape))}]"


def _shape_track(storages: Sequence[StorageRecord]) -> str:
    longest = max((len(shape_text(storage)) for storage in storages), default=6)
    return f"{min(longest, 18) + 1}ch"


def _made_by(storage: StorageRecord) -> str:
    return "" if storage.created_by is None else f"[{storage.created_by}]"


def _storage_tip(storage: StorageRecord, units: Units) -> str:
    parts = [
        ", ".join(shorten(name) for name in storage.names[:6]) or storage_name(storage),
        f"{storage.category}, {storage.dtype} {shape_text(storage)} on {storage.device}",
        f"{format_bytes(storage.bytes, units)} ({storage.bytes:,} B)",
    ]
    if len(storage.names) > 6:
        parts[0] += f" and {len(storage.names) - 6} more names"
    if storage.views > 1:
        parts.append(f"{storage.views} tensors share it")
    if storage.created_by is not None:
        parts.append(f"made by {_made_by(storage)}")
    return "\n".join([*parts, *(note.sentence for note in storage.notes)])


def storage_table(
    storages: Sequence[StorageRecord], units: Units, *, unlisted: str = ""
) -> TableData:
    """Returns the table of live storages, in the order given."""
    sizes = figures([storage.bytes for storage in storages], units)
    wide = [
        Column("shape", "Shape of the tensor that best shows it", "quiet", _shape_track(storages),
               [shape_text(s) for s in storages], wide=True),
        Column("dtype", "Type of its elements", "quiet", "64px",
               [s.dtype for s in storages], wide=True),
        Column("cell", "The cell that made it", "figure", "6ch", [_made_by(s) for s in storages],
               _floats([s.created_by for s in storages]), wide=True),
    ]  # fmt: skip
    if len({storage.device for storage in storages}) > 1:
        devices = [storage.device for storage in storages]
        wide.append(Column("device", "Where its bytes are", "quiet", "56px", devices, wide=True))
    return TableData(
        columns=[
            Column("name", "The user's name for it, the shortest of several", "name",
                   "minmax(0, 1fr)", [shorten(storage_name(s)) for s in storages]),
            *wide,
            Column(sizes.unit, "Bytes of the storage; views share it and are counted once",
                   "figure", _track([sizes.unit, *sizes.texts]), sizes.texts,
                   [float(s.bytes) for s in storages]),
            _category_column(storages),
        ],
        keys=[storage.key for storage in storages],
        tips=[_storage_tip(storage, units) for storage in storages],
        empty="No tensor is alive. Make one and press ⟳, or run a cell with %%gpumem.",
        unlisted=unlisted,
        complete=not unlisted,
    )  # fmt: skip


def _category_column(storages: Sequence[StorageRecord]) -> Column:
    return Column(
        "kind",
        "P parameter, B buffer, G gradient, O optimizer state, S saved for backward, U user",
        "badge",
        "28px",
        [letter_of(storage.category) for storage in storages],
        colour=[colour_of(storage.category) for storage in storages],
        ink=[ink_of(storage.category) for storage in storages],
    )


def cell_sentence(record: CellRecord, device: str, units: Units) -> str:
    """Returns one line that tells a record: `[7] train · ok · 4.2 s · peak 3.10 GiB · …`."""
    parts = [f"{cell_label(record)} {shorten(cell_title(record), 80)}".strip()]
    parts += [record.error or record.status, format_seconds(record.seconds)]
    delta = record.devices.get(device)
    if delta is None:
        return " · ".join([*parts, f"not measured on {device}"])
    parts.append(f"peak {format_bytes(delta.peak, units)}")
    parts.append(f"{format_bytes(delta.before, units)} → {format_bytes(delta.after, units)}")
    return " · ".join([*parts, f"{format_change(delta.delta, units)} stayed"])


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


def cell_table(records: Sequence[CellRecord], device: str, units: Units) -> TableData:
    """Returns the table of records, the newest cell first, blocks below their cell as they ran."""
    newest = newest_first(records)
    deltas = [record.devices.get(device) for record in newest]
    changes = [None if delta is None else delta.delta for delta in deltas]
    highest = [None if delta is None else delta.peak for delta in deltas]
    stayed = figures(changes, units, signed=True)
    peaks = figures(highest, units)
    return TableData(
        columns=[
            Column("cell", "In[n] of the cell", "figure", _track([cell_label(r) for r in newest]),
                   [cell_label(r) for r in newest], [float(r.serial) for r in newest]),
            Column("what ran", "Label, or first line", "text", "minmax(0, 1fr)",
                   [_row_title(r) for r in newest], alarm=[r.status != "ok" for r in newest]),
            Column("took", "Time to launch; nothing is synchronized", "figure",
                   _track([format_seconds(r.seconds) for r in newest]),
                   [format_seconds(r.seconds) for r in newest], [r.seconds for r in newest],
                   wide=True),
            _figure_column("peak", "▲", f"Largest allocated bytes while it ran, on {device}",
                           peaks, highest),
            _figure_column("stayed", "±", f"Allocated after it minus before it, on {device}",
                           stayed, changes),
        ],
        keys=[record.serial for record in newest],
        tips=[_cell_tip(record, device, units) for record in newest],
        empty="Each measured cell is a row here, the newest first.",
    )  # fmt: skip


def _figure_column(
    word: str, sign: str, tip: str, shown: Figures, values: Sequence[int | None]
) -> Column:
    label, short = f"{word} {shown.unit}", f"{sign} {shown.unit}"
    return Column(
        label,
        tip,
        "figure",
        _track([label, *shown.texts]),
        shown.texts,
        _floats(values),
        short=short,
        narrow=_track([short, *shown.texts]),
    )


def _track(texts: Sequence[str]) -> str:
    """Returns the grid track that is as wide as the widest of `texts`."""
    return f"{max(map(len, texts), default=4) + 1}ch"


def _floats(values: Sequence[int | None]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]


def _row_title(record: CellRecord) -> str:
    inner = "↳ " if record.parent is not None else ""
    status = "" if record.status == "ok" else f"{record.status} · "
    return inner + status + shorten(cell_title(record))


def _cell_tip(record: CellRecord, device: str, units: Units) -> str:
    notes = (note.sentence for note in record.notes)
    return "\n".join([cell_sentence(record, device, units), *notes])
