"""Bytes to text: the only room that does so.

Sizes are int bytes everywhere else. Text has three significant digits; IEC units (KiB,
1024) by default, SI units (kB, 1000) when the setting asks for them.
"""

from __future__ import annotations

from typing import Literal

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
    sign, value, index = ("−" if size < 0 else ""), float(abs(size)), 0
    while value >= base - 0.5 and index < len(suffixes) - 1:
        value, index = value / base, index + 1
    digits = f"{value:.0f}" if index == 0 else _three_digits(value)
    return f"{sign}{digits} {suffixes[index]}"


def format_change(size: int | None, units: Units = "IEC") -> str:
    """Returns a change of `size` bytes with its sign: `+300 MiB`, `−12.0 KiB`, `±0 B`."""
    if size is None or size < 0:
        return format_bytes(size, units)
    return f"±{format_bytes(0, units)}" if size == 0 else f"+{format_bytes(size, units)}"


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
