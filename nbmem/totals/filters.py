"""The language of filters: words that must all match, `category=gradient`, `size>1MiB`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbmem.records import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.records import StorageRecord

Test = Callable[["StorageRecord"], bool]

_EXAMPLE = "for example: category=gradient size>1MiB"
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgtp", 1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Filter:
    """What a user asked for, read once and asked of many storages."""

    text: str
    tests: tuple[Test, ...]

    def matches(self, storage: StorageRecord) -> bool:
        """Returns whether every word and every comparison holds for `storage`."""
        return all(test(storage) for test in self.tests)


def filter_storages(storages: Iterable[StorageRecord], text: str) -> list[StorageRecord]:
    """Returns those of `storages`, in their order, that match everything in `text`.

    A word matches where any of names, category, module, graph node, dtype, shape, device and
    `[cell]` contains it, in capitals or not. `key=value` and the other comparisons look at one of
    `FILTER_KEYS`.

    Raises:
        ValueError: a key, a value or an operator makes no sense; the message says what does.
    """
    asked = parse_filter(text)
    return [storage for storage in storages if asked.matches(storage)]


def parse_filter(text: str) -> Filter:
    """Returns the filter that `text` asks for; an empty text lets everything through.

    Raises:
        ValueError: as `filter_storages`.
    """
    tests = [_test(match) for match in _TOKEN.finditer(text)]
    return Filter(text.strip(), tuple(tests))


def _test(match: re.Match[str]) -> Test:
    if match["unknown"]:
        accepted = ", ".join(FILTER_KEYS)
        raise ValueError(f"no {match['unknown']!r} to filter by, only {accepted}; {_EXAMPLE}")
    key, sign, value = match["key"], match["sign"], match["value"]
    if match["size_sign"]:
        key, sign, value = "size", match["size_sign"], match["size"]
    if key is None:
        return _contains(match[0].lower())
    value = value[1:-1] if value[:1] in ("'", '"') and value[-1:] == value[:1] else value
    if not value:
        raise ValueError(f"{match[0].strip()!r} lacks a value; {_EXAMPLE}")
    return _READERS[key.lower()](key.lower(), sign, value)


def _contains(word: str) -> Test:
    return lambda storage: word in _texts(storage)


def _texts(storage: StorageRecord) -> str:
    made_by = "" if storage.created_by is None else f"[{storage.created_by}]"
    shape = f"[{', '.join(map(str, storage.shape))}]"
    pinned = "pinned" if storage.pinned else ""
    others = (storage.module or "", storage.saved_by or "", made_by, pinned)
    parts = (*storage.names, storage.category, storage.dtype, shape, storage.device, *others)
    return "\n".join(parts).lower()


def _size(key: str, sign: str, value: str) -> Test:
    match = _SIZE.fullmatch(value)
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{value!r} is no {key}, as 4096, 64KiB, 1.5GiB or 2MB are; {_EXAMPLE}")
    compare, size = _COMPARE[sign], float(match[1]) * unit
    return lambda storage: compare(storage.bytes, size)


def _number(key: str, sign: str, value: str) -> Test:
    digits = value.removeprefix("[").removesuffix("]")
    compare = _COMPARE[sign]
    if key == "cell" and digits.lower() == "none" and sign in _EQUALITY:
        return lambda storage: compare(storage.created_by, None)
    if not digits.isdecimal() or len(digits) > 18:
        raise ValueError(f"{value!r} is no number for {key}; for example: {key}>=3")
    number = int(digits)
    if key == "views":
        return lambda storage: compare(storage.views, number)
    return lambda storage: storage.created_by is not None and compare(storage.created_by, number)


_EQUALITY = {"=": True, "==": True, "!=": False}


def _asked(key: str, sign: str) -> bool:
    """Returns whether equality is asked for (else: the contrary)."""
    if sign not in _EQUALITY:
        raise ValueError(f"{key} is compared with = or !=, not with {sign}; {_EXAMPLE}")
    return _EQUALITY[sign]


def _category(key: str, sign: str, value: str) -> Test:
    asked, word = _asked(key, sign), value.lower()
    chosen = {category for category in CATEGORIES if category.startswith(word)}
    if not chosen:
        accepted = ", ".join(CATEGORIES)
        raise ValueError(f"no category {value!r}, only {accepted}; for example: category=saved")
    return lambda storage: (storage.category in chosen) == asked


def _within(key: str, sign: str, value: str) -> Test:
    """A module means all that is within it."""
    asked, word = _asked(key, sign), value.lower()
    if word == "none":
        return lambda storage: (storage.module is None) == asked

    def test(storage: StorageRecord) -> bool:
        module = (storage.module or "").lower()
        return (module == word or module.startswith((f"{word}.", f"{word}["))) == asked

    return test


def _device(key: str, sign: str, value: str) -> Test:
    asked, word = _asked(key, sign), value.lower()

    def test(storage: StorageRecord) -> bool:
        device = storage.device.lower()
        return (device == word or device.partition(":")[0] == word) == asked

    return test


def _name(key: str, sign: str, value: str) -> Test:
    asked, word = _asked(key, sign), value.lower()
    if word == "none":
        return lambda storage: (not storage.names) == asked
    return lambda storage: any(word in name.lower() for name in storage.names) == asked


def _dtype(key: str, sign: str, value: str) -> Test:
    asked, word = _asked(key, sign), value.lower().removeprefix("torch.")
    return lambda storage: (storage.dtype.lower() == word) == asked


def _shape(key: str, sign: str, value: str) -> Test:
    asked, wanted = _asked(key, sign), re.sub(r"[\s\[\]()]", "", value).strip(",")
    if not re.fullmatch(r"[\d,]*", wanted):
        raise ValueError(f"{value!r} is no shape; for example: shape=[64,3,7,7]")
    return lambda storage: (",".join(map(str, storage.shape)) == wanted) == asked


_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def _flag(key: str, sign: str, value: str) -> Test:
    asked, wanted = _asked(key, sign), _YES.get(value.lower())
    if wanted is None:
        raise ValueError(f"{key} is yes or no, not {value!r}; for example: {key}=yes")
    return lambda storage: (storage.pinned == wanted) == asked


_READERS: dict[str, Callable[[str, str, str], Test]] = {
    "name": _name,
    "category": _category,
    "module": _within,
    "cell": _number,
    "size": _size,
    "dtype": _dtype,
    "shape": _shape,
    "device": _device,
    "pinned": _flag,
    "views": _number,
}
FILTER_KEYS = tuple(_READERS)
"""What a filter can compare."""

_SIGN = "!=|==|<=|>=|=|<|>"
_TOKEN = re.compile(
    rf"""size\s*(?P<size_sign>{_SIGN})\s*(?P<size>[\d.]+\s+(?:[kmgtp]i?b?|b)\b|\S*)
    |(?P<key>{"|".join(FILTER_KEYS)})\s*(?P<sign>{_SIGN})\s*
        (?P<value>"[^"]*"|'[^']*'|\[[\d,\s]*\]|\S*)
    |(?P<unknown>[^\W\d]\w*)(?:{_SIGN})\S*
    |\S+""",
    re.VERBOSE | re.IGNORECASE,
)
"""A comparison, with spaces around the sign or without; something like one; or a word."""
