"""Live tensors as tables in words: one by one, in groups, as a tree of modules, by place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.mixtures import categories_in, mixture_column
from nbmem.render.names import clean, nameless_alone, says_something, words_of
from nbmem.render.palette import letter_of
from nbmem.render.tables import Column, Table, sizes
from nbmem.totals import device_of, filter_storages, group_storages, natural, sort_storages
from nbmem.units import Units, format_bytes, format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbmem.records import Inventory, StorageRecord
    from nbmem.totals import Group

NOTHING = "No tensor is alive."
_LONGEST_FILTER = 60
_NAME = 44
"""Columns of a name, of which two are seldom the same, before dtype and shape give way."""


def storages_table(
    inventory: Inventory, units: Units, rows: int, *, text: str = "", sort: str = "size"
) -> Table:
    """Returns the first storages in the order asked for, and how many bytes are not shown.

    Raises:
        ValueError: filter `text` or `sort` makes no sense.
    """
    found = sort_storages(filter_storages(inventory.storages, text), sort)
    if not found:
        return nothing_table(inventory, units, text)
    listed = [storage for storage in found if says_something(storage)] or found
    shown, rest = listed[:rows], listed[rows:]
    left = [_left_out(rest, sort, units)] if rest else []
    if empty := sum(s.stands_for for s in found) - sum(s.stands_for for s in listed):
        left.append(f"Not shown: {format_count(empty, 'storage')} of 0 B without a name.")
    title = title_of("Live tensors", found, inventory, units, text)
    columns = _storage_columns(shown, units)
    return Table(title, columns, (*left, *notes_of(inventory)), tuple(s.category for s in shown))


def _left_out(rest: Sequence[StorageRecord], sort: str, units: Units) -> str:
    size = format_bytes(sum(s.bytes for s in rest), units)
    more = "smaller storage" if sort == "size" else "more storage"
    return f"{format_count(len(rest), more)} of {size} in all are not shown."


def groups_table(
    inventory: Inventory, units: Units, rows: int, by: str, *, text: str = "", sort: str = "size"
) -> Table:
    """Returns groups of storages with their bytes, shares and counts; they add up to the title.

    Raises:
        ValueError: filter `text`, `by` or `sort` makes no sense.
    """
    found = filter_storages(inventory.storages, text)
    groups = _ordered(group_storages(found, by), sort)
    if not found:
        return nothing_table(inventory, units, text)
    lines = [(clean(g.key), g.bytes, g.count, g.by_category) for g in groups[:rows]]
    if rest := groups[rows:]:
        lines.append((f"{len(rest):,} more", *_summed(rest)))
    keys, figures, counts, mixtures = zip(*lines, strict=True)
    title = title_of(f"Live tensors by {by}", found, inventory, units, text)
    columns = [
        Column(by, keys, elastic=True, code=by in ("name", "module")),
        *share_columns(figures, counts, units),
    ]
    if by == "category":
        letters = tuple(letter_of(key) if key in CATEGORIES else "" for key in keys)
        columns.insert(0, Column("", letters))
        return Table(title, tuple(columns), notes_of(inventory), keys)
    columns.append(mixture_column(mixtures))
    legend = categories_in(mixtures)
    return Table(title, tuple(columns), notes_of(inventory), mixtures=mixtures, legend=legend)


def share_columns(
    figures: Sequence[int], counts: Sequence[int], units: Units, whole: int | None = None
) -> tuple[Column, ...]:
    """Returns size, share of `whole` (of their sum where that is None), and count."""
    total = sum(figures) if whole is None else whole
    shares = tuple(_share(size, total) if total else "" for size in figures)
    return (
        sizes("size", figures, units),
        Column("share", shares, figures=True),
        Column("count", tuple(f"{count:,}" for count in counts), figures=True, spare=True),
    )


def _share(size: int, total: int) -> str:
    return format_share(size, total).replace("under ", "<")


def title_of(
    what: str, found: Iterable[StorageRecord], inventory: Inventory, units: Units, text: str
) -> str:
    """Returns `Live tensors · 84.0 MiB in 5 storages`, and of how many where they were filtered."""
    title = f"{what} · {_sum_of(found, units)}"
    if not text.strip():
        return title
    return f"{title} that match {_quoted(text)}, of {_sum_of(inventory.storages, units)}"


def nothing_table(inventory: Inventory, units: Units, text: str) -> Table:
    """Returns the sentence for no tensor at all, or for none that matches."""
    sentence = NOTHING
    if inventory.storages:
        alive = _sum_of(inventory.storages, units)
        sentence = f"None matches {_quoted(text)}: alive are {alive}."
    return Table("Live tensors", (), (sentence, *notes_of(inventory)))


def notes_of(inventory: Inventory) -> tuple[str, ...]:
    """Returns the notes of an inventory as sentences."""
    return tuple(clean(note.sentence) for note in inventory.notes)


def _quoted(text: str) -> str:
    short = " ".join(clean(text).split())
    return f"“{short if len(short) <= _LONGEST_FILTER else short[: _LONGEST_FILTER - 1] + '…'}”"


def _sum_of(storages: Iterable[StorageRecord], units: Units) -> str:
    size = count = 0
    for storage in storages:
        size, count = size + storage.bytes, count + storage.stands_for
    return f"{format_bytes(size, units)} in {format_count(count, 'storage')}"


def _ordered(groups: Sequence[Group], sort: str) -> list[Group]:
    if sort == "size":
        return list(groups)
    if sort != "name":
        raise ValueError(f"groups are sorted by size or name, not by {sort!r}")
    return sorted(groups, key=lambda group: natural(group.key))


def _summed(groups: Sequence[Group]) -> tuple[int, int, Mapping[str, int]]:
    mixture: dict[str, int] = {}
    for group in groups:
        for category, size in group.by_category.items():
            mixture[category] = mixture.get(category, 0) + size
    return sum(g.bytes for g in groups), sum(g.count for g in groups), mixture


def _storage_columns(shown: Sequence[StorageRecord], units: Units) -> tuple[Column, ...]:
    full = tuple(words_of(s.shape, clean(s.dtype)) for s in shown)
    shapes = tuple(
        text.removeprefix(clean(s.dtype)).strip() for text, s in zip(full, shown, strict=True)
    )
    columns = [
        sizes("size", (s.bytes for s in shown), units),
        Column("", tuple(letter_of(s.category) for s in shown)),
        Column("name", tuple(_name(s) for s in shown), elastic=True, code=True, least=_NAME),
        Column("dtype and shape", full, spare=True, narrower=Column("shape", shapes)),
        Column("cell", tuple(_made_by(s) for s in shown), figures=True),
    ]
    if len({device_of(s) for s in shown}) > 1:
        columns.append(Column("device", tuple(clean(device_of(s)) for s in shown)))
    return tuple(columns)


def _name(storage: StorageRecord) -> str:
    if storage.names:
        return clean(storage.names[0])
    if storage.stands_for > 1:
        return format_count(storage.stands_for, "small storage")
    return nameless_alone(storage)


def _made_by(storage: StorageRecord) -> str:
    return "" if storage.created_by is None else f"[{storage.created_by}]"
