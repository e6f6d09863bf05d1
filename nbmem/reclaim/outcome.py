"""What a primitive act did, and what it refused, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Outcome:
    """Sentences only: nothing that an act looked at is kept alive by it."""

    done: list[str] = field(default_factory=list)
    """What was done, one sentence each."""
    refused: list[str] = field(default_factory=list)
    """What was left as it is, one sentence each with the reason and the next step."""

    def add(self, other: Outcome) -> None:
        """Takes over what another act did."""
        self.done += other.done
        self.refused += other.refused


def count_of(count: int, what: str) -> str:
    """Returns `1 frame`, `3 frames`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def list_of(names: Iterable[str], most: int = 3) -> str:
    """Returns names as text, those beyond `most` counted."""
    names = list(dict.fromkeys(names))
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def inline(code: str) -> str:
    """Returns lines of code as they stand in a sentence."""
    return "; ".join(code.splitlines())


_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__


def type_name(thing: Any) -> str:
    """Returns the name of a thing's type, without asking the thing or its metaclass."""
    return str(_type_name(type(thing)))
