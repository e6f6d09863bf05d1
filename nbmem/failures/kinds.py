"""What the type of an error says by itself, and which types may carry which texts.

| the error is a | counts as out of memory |
|---|---|
| `MemoryError`, `OutOfMemoryError` (torch's, CuPy's, Ray's, by name) | always |
| `ResourceExhaustedError` (TensorFlow, Paddle) | unless its text names disk, files or a quota |
| `OSError` with ENOMEM, or Windows' numbers for it | always: `fork`, `mmap` |
| `RuntimeError`, `Exception`, `SystemError`, a library's own type | with any sign of a family |
| `ValueError`, other `OSError` | if its text begins with a distinct sentence (vLLM raises such) |
| `AssertionError`, `KeyError`, `TypeError`, `NameError`, … | never: they quote |
"""

from __future__ import annotations

import errno
import re
from typing import Literal

Trust = Literal["any", "distinct", "begins", "never"]
"""Which signs count: `any`, distinct ones anywhere, distinct ones at the beginning, none."""

_MEMORY = frozenset({"MemoryError", "OutOfMemoryError"})
_EXHAUSTED = "ResourceExhaustedError"
_OTHER_RESOURCE = re.compile(
    r"No space left on device|Disk quota|\b[Qq]uota\b|Too many open files|[Mm]essage larger than"
    r"|out of resource:|\bshared memory\b"
)
_QUOTES = frozenset(
    {
        "AssertionError",
        "AttributeError",
        "EOFError",
        "ImportError",
        "LookupError",
        "NameError",
        "StopIteration",
        "SubprocessError",
        "SyntaxError",
        "TypeError",
        "UnicodeError",
        "UsageError",
        "Warning",
    }
)
_BEGINS = frozenset({"ValueError", "OSError", "ArithmeticError"})
_SYSTEM_NUMBERS = frozenset({errno.ENOMEM})


def names_of(kind: type[BaseException]) -> frozenset[str]:
    """Returns the names of a type and its bases."""
    return frozenset(cls.__name__ for cls in kind.__mro__)


def source_by_type(names: frozenset[str], text: str, number: int | None) -> str | None:
    """Returns who refused memory, as far as the type alone says so; None for other types."""
    if _EXHAUSTED in names:
        return None if _OTHER_RESOURCE.search(text) else "tensorflow"
    if names & _MEMORY:
        return "python" if "MemoryError" in names else "allocator"
    return "system" if number in _SYSTEM_NUMBERS else None


def trust_in(names: frozenset[str]) -> Trust:
    """Returns which signs of a family count in the text of such an error."""
    if names & _MEMORY or _EXHAUSTED in names:
        return "any"
    if names & _QUOTES:
        return "never"
    return "begins" if names & _BEGINS else "any"
