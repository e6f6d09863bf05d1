"""What keeps storages alive, in words, before text or HTML lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbmem.render.leak_words import free_lines
from nbmem.render.listing import Detail, Listing, details_of
from nbmem.render.names import clean
from nbmem.render.tables import Column, Table
from nbmem.units import Units, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.records import Chain, HeldStorage, Holders

_MOST_CUTS = 12
_MOST_CHAINS = 12
_LARGEST = 3
"""Storages whose ways are shown one by one, of several that were asked for."""
_WAY = 24
_NAMELESS = "a storage without a name"
_FREES = "“frees” is what goes when that holder goes and all others stay."


@dataclass(frozen=True, slots=True)
class HoldersWords:
    """Holders in words: all of them added up, then the ways to single storages."""

    title: str
    table: Table | None
    """Of several storages: the holders with their bytes."""
    storages: tuple[Listing, ...]
    after: tuple[str, ...]


def tell_holders(
    holders: Holders, name: str, names: Mapping[int, str], units: Units, *, narrow: bool = False
) -> HoldersWords:
    """Returns why the asked storages are alive.

    Args:
        holders: of the storages that were asked for, and of no other.
        name: what was asked for.
        names: of each storage, by its key.
        units: `IEC` or `SI`.
        narrow: there is no room for ways beside other columns.
    """
    held = sorted(holders.held, key=lambda each: -each.bytes)
    notes = tuple(dict.fromkeys(clean(note.sentence) for note in holders.notes))
    if not held:
        return HoldersWords(f"{clean(name)} holds no storage.", None, (), notes)
    if len(held) == 1:
        listing = _listing(held[0], clean(name), holders, units, narrow=narrow)
        return HoldersWords("", None, (listing,), notes)
    size = format_bytes(sum(each.bytes for each in held), units)
    title = f"{clean(name)} · {size} in {format_count(len(held), 'storage')}"
    named = ((each, clean(names.get(each.key, "")) or _NAMELESS) for each in held[:_LARGEST])
    shown = tuple(_listing(each, text, holders, units, narrow=narrow) for each, text in named)
    rest = format_count(len(held) - len(shown), "smaller storage")
    more = (f"The ways to {rest} are not shown one by one.",) if len(held) > len(shown) else ()
    return HoldersWords(title, _cuts_table(held, units), shown, (*more, *notes))


@dataclass(slots=True)
class _Cut:
    """What goes through one cut, added up."""

    holds: int = 0
    alone: int = 0
    count: int = 0
    wanted: bool = False


def _cuts_table(held: Sequence[HeldStorage], units: Units) -> Table:
    """Returns all that holds the storages: how much goes by each, and how much with it alone."""
    cuts: dict[str, _Cut] = {}
    for storage in held:
        texts = {_holder_of(chain) for chain in storage.chains}
        for text in texts:
            cut = cuts.setdefault(text, _Cut())
            cut.holds += storage.bytes
            cut.count += 1
            cut.alone += storage.bytes if texts == {text} and not storage.more else 0
        for chain in storage.chains:
            cuts[_holder_of(chain)].wanted |= chain.wanted
    ordered = sorted(cuts, key=lambda text: (-cuts[text].holds, -cuts[text].alone, text))
    shown = [cuts[text] for text in ordered[:_MOST_CUTS]]
    rest = format_count(len(ordered) - len(shown), "more holder")
    columns = (
        Column("holds", tuple(format_bytes(c.holds, units) for c in shown), figures=True),
        Column("frees", tuple(format_bytes(c.alone, units) for c in shown), figures=True),
        Column("storages", tuple(f"{c.count:,}" for c in shown), figures=True, spare=True),
        Column("needed", tuple(_needed(cut.wanted) for cut in shown)),
        Column("holder", tuple(map(clean, ordered[:_MOST_CUTS])), elastic=True, code=True),
    )
    left = (f"{rest} not shown.",) if len(ordered) > len(shown) else ()
    return Table("", columns, (*left, _FREES))


def _holder_of(chain: Chain) -> str:
    """Returns what must go: the variable, where a value of the user's needs it."""
    return chain.steps[0].text if chain.wanted and chain.steps else chain.cut


def _needed(wanted: bool) -> str:
    return "by you" if wanted else "no"


def _listing(
    held: HeldStorage, name: str, holders: Holders, units: Units, *, narrow: bool
) -> Listing:
    """Returns every way to one storage, shortest first."""
    shown, hidden = held.chains[:_MOST_CHAINS], len(held.chains) - _MOST_CHAINS
    more = held.more + max(hidden, 0)
    first: dict[str, int] = {}
    for number, chain in enumerate(shown, 1):
        first.setdefault(_holder_of(chain), number)
    ways = tuple(clean(chain.text) for chain in shown)
    columns = (
        Column("", tuple(str(number) for number in range(1, len(shown) + 1)), figures=True),
        *([] if narrow else [Column("way", ways, elastic=True, code=True, least=_WAY)]),
        Column("needed", tuple(_needed(chain.wanted) for chain in shown)),
    )
    return Listing(
        title=f"{name} · {format_bytes(held.bytes, units)}",
        lead=_summary(held, holders, units),
        columns=columns,
        details=tuple(
            (*details_of(("", way if narrow else "", True)), *_details(chain, first, number))
            for number, (way, chain) in enumerate(zip(ways, shown, strict=True), 1)
        ),
        after=(f"{format_count(more, 'more way')} not listed.",) if more else (),
        below="way",
    )


def _details(chain: Chain, first: Mapping[str, int], number: int) -> tuple[Detail, ...]:
    before = first[_holder_of(chain)]
    if before != number:
        return details_of(("", f"goes together with {before}", False))
    return (*free_lines(chain.remedy), *details_of(("costs", clean(chain.cost), False)))


def _summary(held: HeldStorage, holders: Holders, units: Units) -> str:
    """Returns how many holders there are, and what cutting frees."""
    size, cuts = format_bytes(held.bytes, units), {_holder_of(chain) for chain in held.chains}
    if not cuts:
        if not holders.complete:
            return "No holder was found before the search was cut short."
        return "No holder was found: what holds it is no Python object that can be listed."
    if held.more or not holders.complete:
        if len(cuts) == 1:
            return "One holder was listed; there may be more."
        return f"At least {len(cuts)} holders: cutting one frees nothing."
    if len(cuts) == 1:
        return f"One holder: cutting it frees {size}."
    count = "Two" if len(cuts) == 2 else f"{len(cuts):,}"
    every = "both" if len(cuts) == 2 else "all of them"
    return f"{count} holders: cutting one frees nothing, cutting {every} frees {size}."
