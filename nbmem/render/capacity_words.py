"""What torch can get of a device, in words: a sum whose parts are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.units import format_bytes

if TYPE_CHECKING:
    from nbmem.records import DeviceCapacity
    from nbmem.units import Units

CAN_GET = "torch can get"
DRIVER = "kept by the driver"
LIMIT = "beyond torch's limit"
_OTHERS = "of others (own context and libraries, other processes)"
_ALL_ELSE = "of all else (own memory, other processes, the system)"


def capacity_words(parts: DeviceCapacity, units: Units) -> str:
    """Returns `torch can get 7.75 GiB: the card's 8.38 GiB − 384 MiB kept by the driver − …`."""
    told = f"{CAN_GET} {format_bytes(parts.bytes, units)}"
    if parts.total is None:
        return told
    whole = f"{whole_word(parts)} {format_bytes(parts.total, units)}"
    unknown = "" if parts.others is not None else "; what others hold of it is not known"
    less = [f"{format_bytes(size, units)} {word}" for size, word in less_of(parts)]
    return f"{told}: {' − '.join([whole, *less])}{unknown}"


def less_of(parts: DeviceCapacity) -> list[tuple[int, str]]:
    """Returns what torch can't get of the total, in bytes and words."""
    less = [
        (parts.driver or 0, DRIVER),
        (parts.others or 0, _ALL_ELSE if parts.unified else _OTHERS),
        (parts.beyond_limit, LIMIT),
    ]
    return [(size, word) for size, word in less if size]


def whole_word(parts: DeviceCapacity) -> str:
    """Returns whose total it is: `the card's`, `the MIG instance's`, `main memory's`."""
    if parts.unified:
        return "main memory's"
    return "the MIG instance's" if parts.instance else "the card's"
