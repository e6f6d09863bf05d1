"""Bytes to text: the only room that does so.

Sizes are int bytes everywhere else. Text has three significant digits; IEC units (KiB,
1024) by default, SI units (kB, 1000) when the setting asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Units = Literal["IEC", "SI"]

_SUFFIXES: dict[Units, tuple[int, tuple[str, ...]]] = {
    "IEC": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")),
    "SI": (1000, ("B", "kB", "MB", "GB", "TB", "PB")),
}


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def format_bytes(size: int | None, units: Units = "IEC") -> str:
    """Returns `size` bytes as text with one unit and three digits; unknown (None) is `?`.

    >>> format_bytes(3 * 1024**3)
    '3.00 GiB'
    """
    if size is None:
        return "?"
    base, suffixes = _SUFFIXES[units]
    index = _unit_index(abs(size), base, len(suffixes))
    value = abs(size) / base**index
    digits = f"{value:.0f}" if index == 0 else _three_digits(value)
    return f"{'−' if size < 0 else ''}{digits} {suffixes[index]}"


def format_change(size: int | None, units: Units = "IEC") -> str:
    """Returns a change of `size` bytes with its sign: `+300 MiB`, `−12.0 KiB`, `±0 B`."""
    if size is None or size < 0:
        return format_bytes(size, units)
    return f"±{format_bytes(0, units)}" if size == 0 else f"+{format_bytes(size, units)}"


@dataclass(frozen=True, slots=True)
class ColumnUnit:
    """The one unit, and the one number of decimals, in which a column of sizes is written."""

    suffix: str
    divisor: int
    decimals: int

    def format(self, size: int | None, *, signed: bool = False) -> str:
        """Returns the figure alone; the suffix belongs to the heading or the last row.

        Unknown is `?`. What is too small for the column is `<0.01`, so that only nothing is `0`.
        """
        if size is None:
            return "?"
        sign = "−" if size < 0 else "+" if signed and size > 0 else ""
        step = 10**-self.decimals
        text = f"{abs(size) / self.divisor:,.{self.decimals}f}"
        if not text.strip("0."):
            return f"{sign}<{step:.{self.decimals}f}" if size else "0"
        return sign + text


def column_unit(sizes: Iterable[int | None], units: Units = "IEC") -> ColumnUnit:
    """Returns the unit in which all of `sizes` are told: that of the largest.

    The largest gets three significant digits. Where half of the sizes would vanish beside it, the
    next smaller unit is taken.

    >>> unit = column_unit([3 * 2**30, 512 * 2**20])
    >>> [unit.format(3 * 2**30), unit.format(512 * 2**20), unit.suffix]
    ['3.00', '0.50', 'GiB']
    """
    base, suffixes = _SUFFIXES[units]
    known = [abs(size) for size in sizes if size]
    largest, middle = max(known, default=0), median(known) if known else 0
    index = _unit_index(largest, base, len(suffixes))
    if index and middle / base**index < 0.01:
        index -= 1
    value = largest / base**index
    decimals = 0 if index == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return ColumnUnit(suffixes[index], base**index, decimals)


def _unit_index(size: float, base: int, count: int) -> int:
    index = 0
    while size >= base - 0.5 and index < count - 1:
        size, index = size / base, index + 1
    return index


def format_share(part: int, whole: int) -> str:
    """Returns `part` of `whole` as people say it: `39 %`, `0.4 %`, `under 0.1 %`.

    >>> format_share(39, 100)
    '39 %'
    """
    share = 100 * part / whole
    if share >= 9.95:
        return f"{share:.0f} %"
    return f"{share:.1f} %" if share >= 0.1 or part == 0 else "under 0.1 %"


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Returns a count with its noun: `1 storage`, `10,000 steps`, `2 copies`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_seconds(seconds: float) -> str:
    """Returns a duration as people say it: `85 µs`, `12 ms`, `4.2 s`, `3 min 5 s`, `2 h 3 min`."""
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_elapsed(seconds: float) -> str:
    """Returns how long something runs already, rounded down: `0.5 s`, `12 s`, `3 min 5 s`."""
    if seconds < 10:
        return f"{int(10 * seconds) / 10:.1f} s"
    return f"{int(seconds)} s" if seconds < 60 else format_seconds(int(seconds))
