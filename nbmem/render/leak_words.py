"""What leaks say, before text or HTML lays it out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.records import write_path
from nbmem.render.listing import Detail, Listing, details_of
from nbmem.render.names import clean
from nbmem.render.tables import Column, Table
from nbmem.render.tensor_tables import share_columns
from nbmem.units import Units, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nbmem.records import Leak, LeakReport

NARROW = 64
"""Columns below which the way to a leak gets a line of its own."""
_WHERE = 24
_MOST_ALONG = 3
_BEYOND = "beyond what your values need"


def _kind_of(leak: Leak) -> str:
    return words_of_code(leak.kind)


def _holder_of(leak: Leak) -> str:
    return words_of_code(leak.holder)


def _cell_of(leak: Leak) -> str:
    return "" if leak.created_by is None else f"[{leak.created_by}]"


_GROUPS: Mapping[str, Callable[[Leak], str]] = {
    "kind": _kind_of,
    "holder": _holder_of,
    "cell": lambda leak: _cell_of(leak) or "before any cell",
    "device": lambda leak: clean(leak.device),
}
GROUPED_BY = tuple(_GROUPS)
"""What leaks can be added up by."""


def words_of_code(code: str) -> str:
    """Returns one of `LEAK_KINDS` or `LEAK_HOLDERS` as people write it.

    >>> words_of_code("stale_output")
    'stale output'
    """
    return clean(code).replace("_", " ")


def way_of(leak: Leak) -> str:
    """Returns the shortest way to the leak, from its root to the tensor."""
    return clean(write_path(leak.path))


def where_of(leak: Leak) -> str:
    """Returns what holds the leak, in short: `losses[*]`, `Out[4] and 1 more`."""
    if not leak.cuts:
        return way_of(leak) or words_of_code(leak.holder)
    more = f" and {len(leak.cuts) - 1:,} more" if len(leak.cuts) > 1 else ""
    return clean(leak.cuts[0]) + more


def leaks_listing(
    report: LeakReport,
    units: Units,
    rows: int,
    *,
    device: str | None = None,
    narrow: bool = False,
) -> Listing:
    """Returns the largest leaks, each with its reason, what frees it, and what that costs.

    They are numbered as they stand in the report, whatever is left out.
    """
    found = _on(report, device)
    if not found:
        return Listing("", _none(report, device, units), after=_notes(report))
    shown, rest = found[:rows], [leak for _, leak in found[rows:]]
    return Listing(
        title=_title([leak for _, leak in found], device, units),
        columns=_columns(shown, units, narrow=narrow),
        details=tuple(_details(leak, units, narrow=narrow) for _, leak in shown),
        after=(
            *_left_out(rest, units),
            *_below(report, units),
            *_advice(found, units),
            *_along(found),
            *_notes(report),
        ),
        below="where",
    )


def _on(report: LeakReport, device: str | None) -> list[tuple[int, Leak]]:
    numbered = list(enumerate(report.leaks, 1))
    return [(n, leak) for n, leak in numbered if device is None or leak.device == device]


def leaks_by_table(
    report: LeakReport, by: str, units: Units, *, device: str | None = None
) -> Table:
    """Returns the bytes of leaks by kind, holder, cell or device; they add up to the title.

    Raises:
        ValueError: `by` is none of `GROUPED_BY`.
    """
    if by not in _GROUPS:
        raise ValueError(f"leaks are grouped by {', '.join(GROUPED_BY)}, not by {by!r}")
    found = [leak for _, leak in _on(report, device)]
    if not found:
        return Table("Leaks", (), (_none(report, device, units), *_notes(report)))
    groups: dict[str, list[Leak]] = {}
    for leak in found:
        groups.setdefault(_GROUPS[by](leak), []).append(leak)
    ordered = sorted(groups, key=lambda key: (-_bytes(groups[key]), key))
    told = [groups[key] for key in ordered]
    storages = [sum(leak.count for leak in leaks) for leaks in told]
    columns = (
        Column(by, tuple(ordered), elastic=True),
        *share_columns([_bytes(leaks) for leaks in told], storages, units)[:2],
        Column("storages", tuple(f"{count:,}" for count in storages), figures=True, spare=True),
        Column("leaks", tuple(f"{len(leaks):,}" for leaks in told), figures=True),
    )
    after = (*_below(report, units), *_notes(report))
    return Table(_title(found, device, units), columns, after)


def _title(leaks: Sequence[Leak], device: str | None, units: Units) -> str:
    storages = format_count(sum(leak.count for leak in leaks), "storage")
    where = "" if device is None else f" on {clean(device)}"
    size = format_bytes(_bytes(leaks), units)
    return f"{format_count(len(leaks), 'leak')}{where} · {size} in {storages} {_BEYOND}"


def _none(report: LeakReport, device: str | None, units: Units) -> str:
    least = f" of {format_bytes(report.threshold, units)} or more" if report.threshold else ""
    where = "" if device is None else f" on {clean(device)}"
    below = f" Smaller ones add up to {format_bytes(report.below, units)}." if report.below else ""
    if report.notes:  # what was not looked at may hold one
        return f"No leaks{least}{where} were found.{below}"
    needed = "every storage is needed by a value you can name"
    if device is not None:
        needed = "every storage there is needed by a value you can name"
    return f"No leaks{least}{where}: {needed}.{below}"


def _notes(report: LeakReport) -> tuple[str, ...]:
    return tuple(dict.fromkeys(clean(note.sentence) for note in report.notes))


def _bytes(leaks: Iterable[Leak]) -> int:
    return sum(leak.bytes for leak in leaks)


def _columns(
    shown: Sequence[tuple[int, Leak]], units: Units, *, narrow: bool
) -> tuple[Column, ...]:
    leaks = [leak for _, leak in shown]
    where = Column("where", tuple(map(where_of, leaks)), elastic=True, code=True, least=_WHERE)
    columns = [
        Column("", tuple(str(number) for number, _ in shown), figures=True),
        Column("size", tuple(format_bytes(leak.bytes, units) for leak in leaks), figures=True),
        Column("why", tuple(map(_kind_of, leaks))),
        *([] if narrow else [where]),
        Column("cell", tuple(map(_cell_of, leaks)), figures=True),
    ]
    if len({leak.device for leak in leaks}) > 1:
        columns.append(Column("device", tuple(clean(leak.device) for leak in leaks), spare=True))
    return tuple(columns)


def _details(leak: Leak, units: Units, *, narrow: bool) -> tuple[Detail, ...]:
    growth, way = "", way_of(leak)
    if leak.growth_per_run and leak.kind != "growing":
        growth = f"{format_bytes(leak.growth_per_run, units)} with each run of the cell"
    if narrow:
        way = way or where_of(leak)
    elif way == where_of(leak):
        way = ""
    return (
        *details_of(("", way, True), ("", clean(leak.reason), False), ("grows", growth, False)),
        *free_lines(leak.remedy),
        *free_lines(leak.instead, "or"),
        *details_of(("costs", clean(leak.cost), False), ("", _removed(leak), False)),
        *details_of(("", _stays(leak), False)),
    )


def free_lines(remedy: str, word: str = "free") -> tuple[Detail, ...]:
    """Returns code to be pasted, line by line and fit to print, with the word before it.

    Several lines stand at one margin below the word, so that they can be taken as they stand.
    """
    lines = [clean(line) for line in remedy.splitlines() if line.strip()]
    code = [Detail(line, code=True, whole=True) for line in lines]
    if len(code) < 2:
        return tuple(replace(line, word=word) for line in code)
    return (Detail(f"{word} by all of these lines:"), *code)


def _removed(leak: Leak) -> str:
    if not leak.sources:
        return ""
    what = clean(leak.sources[0]) if len(leak.sources) == 1 else f"{len(leak.sources)} hooks"
    return f"The second line removes the {what} too."


def _stays(leak: Leak) -> str:
    return "" if leak.reclaimable else "%gpumem reclaim leaves it alone."


def _left_out(rest: Sequence[Leak], units: Units) -> tuple[str, ...]:
    if not rest:
        return ()
    size = format_bytes(_bytes(rest), units)
    return (f"{format_count(len(rest), 'smaller leak')} of {size} in all are not shown.",)


def _below(report: LeakReport, units: Units) -> tuple[str, ...]:
    if not report.below:
        return ()
    least, size = (format_bytes(each, units) for each in (report.threshold, report.below))
    return (f"Leaks under {least} add up to {size} more.",)


def _along(found: Sequence[tuple[int, Leak]]) -> tuple[str, ...]:
    """Returns which leaks go with another one: what holds them holds that one, or one line does."""
    said = []
    for number, leak in found:
        cuts = set(leak.cuts)
        along = [
            n
            for n, one in found
            if n != number
            and ((one.cuts and cuts >= set(one.cuts)) or (one.remedy and one.remedy == leak.remedy))
        ]
        if along:
            which = ", ".join(map(str, along[:8]))
            said.append(f"What frees {number} frees {which} as well.")
    return tuple(said[:_MOST_ALONG])


def _advice(found: Sequence[tuple[int, Leak]], units: Units) -> tuple[str, ...]:
    """Returns which command takes what."""
    taken = [(n, leak) for n, leak in found if leak.reclaimable and not leak.on_request]
    free = [leak for _, leak in taken if not leak.cost]
    costly = [(n, leak) for n, leak in taken if leak.cost]
    asked = [n for n, leak in found if leak.reclaimable and leak.on_request]
    said = []
    if free:
        said.append(f"%gpumem reclaim frees {format_bytes(_bytes(free), units)} at no cost.")
    if costly:
        size = format_bytes(_bytes(leak for _, leak in taken), units)
        one = f"%gpumem reclaim {costly[0][0]} takes one that costs something"
        said.append(f"{one}; %gpumem reclaim --all takes {size}.")
    if asked:
        which = " ".join(map(str, asked[:8]))
        said.append(f"Only when asked for by number: %gpumem reclaim {which}.")
    return tuple(said)
