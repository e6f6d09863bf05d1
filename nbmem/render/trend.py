"""What running a cell again and again adds up to, in words: only where it grows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nbmem.render.names import clean, shorten_middle
from nbmem.units import Units, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nbmem.records import CellRecord, Copies

FROM_RUN = 3
"""Two runs may differ for many reasons; from the third on it is a trend."""
_NAMES = 2
_NEWS = 0.001
_EVEN = 0.01
"""Share of the growth by which a step from run to run may differ and still be the same."""
_LONGEST = 40
_LONGEST_SOURCE = 60
_LEVELS = "▁▂▃▄▅▆▇█"
NO_NAME = "no name"


def trend_facts(record: CellRecord, device: str, units: Units) -> list[tuple[str, str]]:
    """Returns word and sentence of what each run adds and of the older copies that stay.

    Nothing where the cell ran less than three times, or does not grow.
    """
    trend = record.trend
    growth = 0 if trend is None else trend.growth_per_run.get(device, 0)
    if trend is None or trend.runs < FROM_RUN or growth <= _least(record, device):
        return []
    kept = trend.kept.get(device, ())
    sums = f": {format_count(trend.runs, 'run')} keep {format_bytes(kept[-1], units)}"
    told = f"{_a_run(growth, kept, units)}{sums if kept else ''}"
    facts = [("growth", f"{told}  {sparkline(kept)}".rstrip())]
    facts += [("older", _copies(each, units)) for each in _worst(trend.by_name, device)[:_NAMES]]
    facts += [_line(each, units) for each in _worst(trend.by_line, device)[:1]]
    return facts


def _a_run(growth: int, kept: Sequence[int], units: Units) -> str:
    """Returns the growth as what each run adds only where every run that is shown added it."""
    size = format_bytes(growth, units)
    steps = [after - before for before, after in pairwise(kept)]
    even = all(abs(step - growth) <= _EVEN * growth for step in steps)
    return f"each run adds {size}" if steps and even else f"about {size} a run"


def _least(record: CellRecord, device: str) -> float:
    """Returns the bytes up to which growth is no news: a few scalars beside a model."""
    delta = record.devices.get(device)
    if delta is None:  # not measured, but listed
        return _NEWS * sum(record.alive.get(device, {}).values())
    return _NEWS * (delta.after or 0)


def sparkline(sizes: Sequence[int]) -> str:
    """Returns one column a size, from the lowest block for nothing to a full one for the largest.

    >>> sparkline([0, 4, 8])
    '▁▅█'
    """
    largest = max(sizes, default=0)
    if largest <= 0 or len(sizes) < 2:
        return ""
    top = len(_LEVELS) - 1
    return "".join(_LEVELS[(2 * max(size, 0) * top + largest) // (2 * largest)] for size in sizes)


def _worst(copies: Iterable[Copies], device: str) -> list[Copies]:
    """Returns what each run makes anew while older ones stay.

    What was made once and is still there (a model, optimizer state) has nothing new and is none.
    """
    grown = [each for each in copies if each.device == device and each.older and each.newer]
    return sorted(grown, key=lambda each: -each.older)


def _copies(copies: Copies, units: Units) -> str:
    what = "without a name" if copies.what == NO_NAME else f"of {_short(copies.what)}"
    count = format_count(copies.older_count, "storage")
    held = f", held by {', '.join(map(_short, copies.held_by))}" if copies.held_by else ""
    return f"{format_bytes(copies.older, units)} {what} from earlier runs in {count}{held}"


def _line(copies: Copies, units: Units) -> tuple[str, str]:
    source = shorten_middle(clean(copies.source).strip(), _LONGEST_SOURCE)
    made = f"made {format_bytes(copies.older, units)} of it"
    return f"line {clean(copies.what)}"[:8], f"{made}: {source}" if source else made


def _short(name: str) -> str:
    return shorten_middle(clean(name), _LONGEST)
