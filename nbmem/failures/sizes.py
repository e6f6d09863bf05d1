"""Sizes as error messages print them, to bytes."""

from __future__ import annotations

import re
from fractions import Fraction
from math import prod

SIZE = r"(?<![\d.,])(-?\d[\d,]{0,30}(?:\.\d{1,20})?)\s*(bytes?|[KMGTPE]i?B|[KMGTPE]|B)(?![A-Za-z])"
"""A number and its unit, two groups; `20.00 MiB`, `2.13GiB`, `8,192 bytes`, XLA's `26.40G`."""
_PREFIXES = "KMGTPE"
_BITS = re.compile(r"(\d+)(?:_t|_ref|b)?\b")
_TYPES = {"float": 4, "half": 2, "double": 8, "bool": 1, "complex": 8}
"""Bytes of an item of those types whose names do not end in their bits."""
_NUMBERS = re.compile(r"\d+")


def bytes_of(number: str, unit: str) -> int:
    """Returns the bytes that `number` and `unit` stand for; every prefix is a power of 1024.

    >>> bytes_of("20.00", "MiB")
    20971520
    """
    power = _PREFIXES.find(unit[0].upper()) + 1 if unit[0] in _PREFIXES else 0
    return round(Fraction(number.replace(",", "")) * (1 << 10 * power))


def bytes_of_array(shape: str, dtype: str) -> int | None:
    """Returns the bytes of an array as its shape and its type's name say; None for other types.

    >>> bytes_of_array("64,224,224,64", "float")
    822083584
    """
    each = _item_bytes(dtype)
    return None if each is None else each * prod(map(int, _NUMBERS.findall(shape)))


def _item_bytes(dtype: str) -> int | None:
    name = dtype.lower()
    if name in _TYPES:
        return _TYPES[name]
    if not name.startswith(("float", "bfloat", "int", "uint", "complex")):
        return None
    bits = _BITS.search(name)
    whole = bits is not None and int(bits[1]) >= 8 and not int(bits[1]) % 8
    return int(bits[1]) // 8 if bits is not None and whole else None
