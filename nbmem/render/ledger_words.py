"""What a ledger says, sum by sum, before text or HTML lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.capacity_words import capacity_words
from nbmem.render.names import clean
from nbmem.render.palette import colour_of, letter_of
from nbmem.render.tables import Column, Table, sizes
from nbmem.units import ColumnUnit, Units, column_unit, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import (
        AllocatorBlock,
        DeviceLedger,
        LedgerLine,
        LedgerSum,
        Note,
        PoolMemory,
        PoolOwner,
        ProcessMemory,
    )

DERIVED = "≈"
LEGEND = (
    f"{DERIVED} is what the other lines leave of the total; each other line is read or counted."
)
_HEADINGS = {
    "allocated": "What torch has allocated",
    "reserved": "What torch has reserved",
    "total": "The whole card",
    "storages": "What torch's storages hold",
    "resident": "What this process holds (RSS)",
    "installed": "The whole machine",
    "pinned": "What torch has pinned of main memory",
}
_MOST_BLOCKS = 12
_MOST_PROCESSES = 12
_MOST_POOLS, _MOST_OWNERS = 6, 3
_COLOURS = ("#0072B2", "#6BB3DE", "#E69F00", "#CC79A7", "#009E73")
_GREYS = ("#777777", "#A0A0A0", "#5C5C5C", "#C0C0C0")
_FREE = frozenset({"free", "available"})


@dataclass(frozen=True, slots=True)
class SumLine:
    """One line of a sum in words."""

    mark: str
    """The letter of a category, `≈` for what is derived, or nothing."""
    label: str
    """Two spaces before it for each line that it is a part of."""
    count: str
    size: str
    """In the unit of the sum."""
    exact: str
    """The same in bytes: these add up as they stand."""
    equals: str
    category: str = ""
    colour: str = ""
    """Of its part of the bar; empty where it has none."""
    share: float = 0.0
    """Of the total, from 0 to 1: its part of the bar."""


@dataclass(frozen=True, slots=True)
class SumWords:
    """One sum in words."""

    heading: str
    unit: str
    lines: tuple[SumLine, ...]
    total: SumLine
    verdict: str
    """Whether it closes, and how one knows."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """The ledger of one device in words."""

    title: str
    sums: tuple[SumWords, ...]
    tables: tuple[Table, ...]
    """Blocks without an owner and processes, where there are any."""
    notes: tuple[str, ...]


def tell_device(ledger: DeviceLedger, units: Units) -> DeviceWords:
    """Returns the ledger of one device in words."""
    title = clean(ledger.device if ledger.name is None else f"{ledger.device} · {ledger.name}")
    tables = [
        _pools(ledger.pools, units),
        _blocks(ledger.blocks, units),
        _processes(ledger.processes, units),
    ]
    return DeviceWords(
        title=f"Ledger of {title}",
        sums=tuple(_tell_sum(each, units) for each in ledger.sums),
        tables=tuple(table for table in tables if table is not None),
        notes=(*_capacity(ledger, units), *sentences_of(ledger.notes)),
    )


def _capacity(ledger: DeviceLedger, units: Units) -> tuple[str, ...]:
    parts = ledger.capacity
    if parts is None:
        return ()
    told = capacity_words(parts, units)
    return (f"{told[0].upper()}{told[1:]}.", *sentences_of(parts.notes))


def legend_of(devices: Iterable[DeviceWords]) -> tuple[str, ...]:
    """Returns what `≈` means, where a line bears it."""
    marks = {line.mark for device in devices for told in device.sums for line in told.lines}
    return (LEGEND,) if DERIVED in marks else ()


def sentences_of(notes: Iterable[Note]) -> tuple[str, ...]:
    """Returns the notes as sentences, each once."""
    return tuple(dict.fromkeys(clean(note.sentence) for note in notes))


def _tell_sum(told: LedgerSum, units: Units) -> SumWords:
    lines = _in_order(told.lines)
    missing = _missing(told)
    whole = [*(line.bytes for line, _ in lines), told.total.bytes, missing or None]
    unit = _unit(whole, units)
    colours = _colours([line for line, depth in lines if depth == 0])
    words = [
        _line(line, depth, unit.format(line.bytes), colours.get(line.code, ""), told.total.bytes)
        for line, depth in lines
    ]
    if missing:
        words.append(_unexplained(missing, unit.format(missing)))
    return SumWords(
        heading=_HEADINGS.get(told.code, clean(told.total.label)),
        unit=unit.suffix,
        lines=tuple(words),
        total=_line(told.total, 0, unit.format(told.total.bytes), "", None),
        verdict=_verdict(told, units),
        notes=sentences_of(told.notes),
    )


def _unit(whole: Iterable[int | None], units: Units) -> ColumnUnit:
    """Returns the unit of a sum, with two decimals: a small line beside a card is not 0."""
    unit = column_unit(whole, units)
    return ColumnUnit(unit.suffix, unit.divisor, 2 if unit.divisor > 1 else 0)


def _missing(told: LedgerSum) -> int:
    return 0 if told.remainder is None else told.remainder


def _in_order(lines: Sequence[LedgerLine]) -> list[tuple[LedgerLine, int]]:
    """Returns each line with its depth; what is part of a line stands below it."""
    codes = {line.code for line in lines}
    below: dict[str | None, list[LedgerLine]] = {}
    for line in lines:
        parent = line.part_of if line.part_of in codes and line.part_of != line.code else None
        below.setdefault(parent, []).append(line)
    ordered: list[tuple[LedgerLine, int]] = []
    waiting = [(line, 0) for line in reversed(below.get(None, []))]
    while waiting:
        line, depth = waiting.pop()
        ordered.append((line, depth + (line.part_of is not None and depth == 0)))
        waiting += [(part, depth + 1) for part in reversed(below.pop(line.code, []))]
    return ordered


def _colours(lines: Sequence[LedgerLine]) -> dict[str, str]:
    """Returns a colour a line: its category's; what is free stays the ground of the bar."""
    others = [line.code for line in lines if line.code not in CATEGORIES and line.code not in _FREE]
    rest = _GREYS if len(others) < len(lines) and _has_category(lines) else _COLOURS
    named = {line.code: colour_of(line.code) for line in lines if line.code in CATEGORIES}
    return named | {code: rest[index % len(rest)] for index, code in enumerate(others)}


def _has_category(lines: Sequence[LedgerLine]) -> bool:
    return any(line.code in CATEGORIES for line in lines)


def _line(line: LedgerLine, depth: int, size: str, colour: str, whole: int | None) -> SumLine:
    category = line.code if line.code in CATEGORIES else ""
    mark = DERIVED if line.derived else letter_of(category) if category else ""
    label = clean(line.label)
    if depth and not label.startswith("of it"):
        label = f"of it {label}"
    return SumLine(
        mark=mark,
        label="  " * min(depth, 3) + label,
        count="" if line.count is None else f"{line.count:,}",
        size=size,
        exact="?" if line.bytes is None else exact(line.bytes),
        equals=clean(line.equals),
        category=category,
        colour=colour,
        share=max(line.bytes or 0, 0) / whole if whole and depth == 0 else 0.0,
    )


def _unexplained(missing: int, size: str) -> SumLine:
    label = "not explained" if missing > 0 else "counted beyond the total"
    return SumLine("!", label, "", size, exact(missing), "")


def exact(size: int) -> str:
    """Returns bytes to the last one, as people read them: `1,166,016,512`."""
    return f"{size:,}".replace("-", "−")


def _verdict(told: LedgerSum, units: Units) -> str:
    if told.remainder is None:
        return "not closed: a figure is unknown"
    if told.remainder:
        what = "not explained" if told.remainder > 0 else "counted beyond the total"
        return f"does not close: {format_bytes(abs(told.remainder), units)} {what}"
    if any(line.derived for line in told.lines):
        return f"closes by the line {DERIVED}"
    return "closes to the byte"


def _pools(pools: Sequence[PoolMemory], units: Units) -> Table | None:
    if not pools:
        return None
    shown, rest = pools[:_MOST_POOLS], pools[_MOST_POOLS:]
    columns = (
        sizes("size", (pool.reserved for pool in shown), units),
        sizes("in use", (pool.allocated for pool in shown), units),
        Column("pool", tuple(str(pool.pool) for pool in shown), spare=True),
        Column("kept by", tuple(_owners(pool) for pool in shown), elastic=True, code=True),
    )
    left = tuple(
        f"{pool.pool}: {clean(pool.remedy)} gives it back." for pool in shown if pool.remedy
    )
    if rest:
        size = format_bytes(sum(pool.reserved for pool in rest), units)
        left = (*left, f"{format_count(len(rest), 'smaller pool')}, {size}, more.")
    size = format_bytes(sum(pool.reserved for pool in pools), units)
    title = f"Private pools · {size} in {format_count(len(pools), 'pool')}"
    return Table(title, columns, left)


def _owners(pool: PoolMemory) -> str:
    if not pool.owners:
        if pool.allocated > pool.workspaces:
            return "tensors in it only"
        return "nobody any more but workspaces in it" if pool.workspaces else "nobody any more"
    named = [clean(owner.name) for owner in pool.owners if owner.name is not None]
    told = named[:_MOST_OWNERS]
    if hidden := len(pool.owners) - len(told):
        told.append(f"{hidden:,} more" if told else _hidden(pool.owners[0]))
    return ", ".join(told)


def _hidden(owner: PoolOwner) -> str:
    return owner.kind if owner.kind == "torch.compile" else f"a {owner.kind} without a name"


def _blocks(blocks: Sequence[AllocatorBlock], units: Units) -> Table | None:
    if not blocks:
        return None
    shown, rest = blocks[:_MOST_BLOCKS], blocks[_MOST_BLOCKS:]
    size = format_bytes(sum(block.bytes for block in blocks), units)
    count = format_count(sum(block.count for block in blocks), "block")
    columns = (
        sizes("size", (block.bytes for block in shown), units),
        Column("bytes", tuple(exact(b.bytes) for b in shown), figures=True, spare=True),
        Column("count", tuple(f"{b.count:,}" for b in shown), figures=True),
        Column("likely", tuple(clean(b.kind) for b in shown)),
        Column("label", tuple(clean(b.label) for b in shown), code=True),
        Column("pool", tuple(clean(b.pool) for b in shown), spare=True),
        Column("stream", tuple(_stream(b) for b in shown), figures=True, spare=True),
        Column("made at", tuple(_made_at(b) for b in shown), elastic=True, code=True, spare=True),
    )
    left: tuple[str, ...] = ()
    if rest:
        hidden = format_bytes(sum(block.bytes for block in rest), units)
        left = (f"{format_count(sum(b.count for b in rest), 'smaller block')}, {hidden}, more.",)
    title = f"Without an owner in Python · {size} in {count}"
    return Table(title, _told(columns), left)


def _stream(block: AllocatorBlock) -> str:
    return "several" if block.stream is None else str(block.stream)


def _told(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Returns the columns that say anything."""
    return tuple(column for column in columns if any(column.texts))


def _made_at(block: AllocatorBlock) -> str:
    waits = "" if block.state == "live" else clean(block.state)
    made = clean(block.made_at or "")
    return " · ".join(text for text in (made, waits) if text)


def _processes(processes: Sequence[ProcessMemory], units: Units) -> Table | None:
    if not processes:
        return None
    shown, rest = processes[:_MOST_PROCESSES], processes[_MOST_PROCESSES:]
    columns = (
        sizes("size", (one.bytes for one in shown), units),
        Column("pid", tuple(str(one.pid) for one in shown), figures=True),
        Column("process", tuple(_process(one) for one in shown), elastic=True),
    )
    known = [one.bytes for one in rest if one.bytes is not None]
    left: tuple[str, ...] = ()
    if rest:
        size = format_bytes(sum(known), units) if len(known) == len(rest) else "? B"
        left = (f"{format_count(len(rest), 'more process', 'more processes')}, {size}.",)
    title = (
        f"{format_count(len(processes), 'process', 'processes')} on the card, as nvidia-smi tells"
    )
    return Table(title, columns, left)


def _process(one: ProcessMemory) -> str:
    name = "?" if one.name is None else clean(one.name)
    return f"{name} (this process)" if one.own else name
