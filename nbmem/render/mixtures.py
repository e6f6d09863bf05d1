"""What a group of storages is made of: a bar of category letters in text, of colours in HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.palette import letter_of
from nbmem.render.tables import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH = 14
"""Letters of the longest bar."""
HEADING = "made of"


def mixture_column(mixtures: Sequence[Mapping[str, int]]) -> Column:
    """Returns a bar of letters a row: as long as the row is large, a letter for each part of it."""
    largest = max((sum(mixture.values()) for mixture in mixtures), default=0)
    return Column(HEADING, tuple(letter_bar(m, largest) for m in mixtures), spare=True)


def letter_bar(mixture: Mapping[str, int], largest: int, width: int = WIDTH) -> str:
    """Returns letters in proportion to bytes: the row with `largest` bytes has `width` of them.

    >>> letter_bar({"parameter": 30, "gradient": 30, "user": 60}, 120, 8)
    'PPGGUUUU'
    """
    whole = sum(mixture.values())
    if not whole or not largest:
        return ""
    length = max(1, round(width * whole / largest))
    exact = {category: length * size / whole for category, size in mixture.items()}
    cells = {category: int(share) for category, share in exact.items()}
    missing = length - sum(cells.values())
    by_rest = sorted(exact, key=lambda category: cells[category] - exact[category])
    for category in by_rest[:missing]:
        cells[category] += 1
    return "".join(letter_of(category) * count for category, count in cells.items())


def categories_in(mixtures: Sequence[Mapping[str, int]]) -> tuple[str, ...]:
    """Returns the categories that occur, in their order."""
    met = {category for mixture in mixtures for category in mixture}
    return tuple(category for category in CATEGORIES if category in met)
