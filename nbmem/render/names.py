"""Names and labels made fit to print: they may hold anything."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbmem.records import StorageRecord

_LONGEST = 2000
_INDEX = re.compile(r"""\['[^']*'\]|\["[^"]*"\]|(\[)[^\[\]'"]*\]|(\.)\d+(?=\.|$|\[)""")
"""A key in quotes, which is kept; an index in brackets; a number between dots."""
_GRAPH_NAME = re.compile(
    r"(?P<root>.*)(?P<node> → graph\[\d+\])(?P<kind> \w+?)(?P<backward>Backward\d*)?"
    r"(?P<kept>\.\S+(?: \([^)]*\))?)(?P<home> (?:of|after) .*)?"
)
"""What an autograd graph keeps: root, node, operation, what it saved, and the module."""
_NARROW = (("home", 24), ("root", 20), ("kind", 0), ("kind", 6), ("root", 12), ("home", 16))
_NARROWER = (("home", 11), ("root", 6), ("kind", 2))
"""What gives way, in order, and the columns that it keeps; 0: all but the word Backward."""
_WIDE = frozenset("WF")
_SHORTEST_ROOT = 4
_NO_WIDTH = frozenset({"Mn", "Me"})


def clean(text: str) -> str:
    """Returns `text` on one line, with nothing in it that a terminal or a page would obey.

    Control characters, line breaks, marks that turn the direction of writing and half surrogates
    are written as escapes.
    """
    if len(text) <= _LONGEST and text.isprintable():
        return text
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]}…{text[-half:]}"
    return "".join(char if _is_printable(char) else _escape(char) for char in text)


def _is_printable(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] not in "CZ"


def _escape(char: str) -> str:
    return " " if unicodedata.category(char) == "Zs" else ascii(char)[1:-1]


def width_of(text: str) -> int:
    """Returns the columns that `text` takes in a terminal: East Asian wide ones two, marks none."""
    return sum(map(_width, text))


def _width(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def shorten_middle(text: str, width: int) -> str:
    """Returns `text` in at most `width` columns; what does not fit goes from its middle.

    >>> shorten_middle("model.encoder.layer.0.weight", 16)
    'model.….0.weight'
    """
    if width_of(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    tail = _take(text[::-1], (width - 1) * 6 // 10)[::-1]
    head = _take(text, width - 1 - width_of(tail))
    return f"{head}…{tail.lstrip()}" if head else f"…{tail}"


def shorten_name(name: str, width: int) -> str:
    """Returns a name in at most `width` columns; a graph's node and operation go last.

    >>> shorten_name("total → graph[1399] AddmmBackward0.mat1 of net.2", 44)
    'total → graph[1399] Addmm….mat1 of net.2'
    """
    match = _GRAPH_NAME.fullmatch(name) if width_of(name) > width else None
    if match is None:
        return shorten_middle(name, width)
    for home in dict.fromkeys((match["home"] or "", "")):
        if short := _shorten_parts(match, home, width):
            return short
    room = width - width_of(match["node"])
    if room < _SHORTEST_ROOT:
        return shorten_middle(name, width)
    return f"{shorten_middle(match['root'], room)}{match['node']}"


def _shorten_parts(match: re.Match[str], home: str, width: int) -> str:
    """Returns the name with `home` at its end, or nothing where there is no room for that."""
    kind = f"{match['kind']}{match['backward'] or ''}"
    room = {"root": width_of(match["root"]), "kind": width_of(kind), "home": width_of(home)}
    over = sum(room.values()) + width_of(match["node"] + match["kept"]) - width
    without_backward = width_of(match["kind"]) + 1
    for part, least in (*_NARROW, *_NARROWER):
        given = min(max(over, 0), max(room[part] - (least or without_backward), 0))
        room[part], over = room[part] - given, over - given
    if over > 0:
        return ""
    root = shorten_middle(match["root"], room["root"])
    if room["kind"] < width_of(kind):
        kind = f"{_take(match['kind'], room['kind'] - 1)}…"
    return f"{root}{match['node']}{kind}{match['kept']}{_shorten_home(home, room['home'])}"


def _shorten_home(home: str, width: int) -> str:
    word = " after " if home.startswith(" after ") else home[: len(" of ")]
    return word + shorten_middle(home[len(word) :], width - len(word))


def _take(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _width(char)
        if used > width:
            return text[:index]
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Returns `text` filled up with spaces to `width` columns; `right` puts it at the right."""
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def pattern_of(name: str) -> str:
    """Returns `name` with its indices as `*`: names of one loop or one model have one pattern.

    >>> pattern_of("opt.state[model.0.weight]['exp_avg']")
    "opt.state[*]['exp_avg']"
    >>> pattern_of("model.12.bias")
    'model.*.bias'
    """
    return _INDEX.sub(_starred, name)


def _starred(match: re.Match[str]) -> str:
    if match[1]:
        return "[*]"
    return ".*" if match[2] else match[0]


def words_of(shape: tuple[int, ...], dtype: str) -> str:
    """Returns `float32 [1024, 16384]`."""
    return f"{dtype} [{', '.join(map(str, shape))}]" if dtype else ""


def says_something(storage: StorageRecord) -> bool:
    """Returns whether a storage is worth a row: it has bytes, or a name."""
    return storage.bytes > 0 or bool(storage.names)


def nameless(storage: StorageRecord) -> str:
    """Returns what stands where a storage has no name: its label, and the line that made it."""
    label = f" · {clean(storage.label)}" if storage.label else ""
    return f"{_by_origin(storage)}{label}"


def _by_origin(storage: StorageRecord) -> str:
    if storage.line is not None and storage.created_by is not None:
        return f"no name, made by line {storage.line} of [{storage.created_by}]"
    return "no name" if storage.visible else "no name, held outside Python"


def nameless_alone(storage: StorageRecord) -> str:
    """Returns the same for a row of its own: the operation that saved it, where it is known."""
    if storage.saved_by is None:
        return nameless(storage)
    module = "" if storage.module is None else f" · {clean(storage.module)}"
    return f"no name, saved by {clean(storage.saved_by)}{module}"
