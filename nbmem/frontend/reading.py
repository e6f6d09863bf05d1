"""What a page sent, checked: whatever else comes is a sentence, never an error of Python's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbmem.errors import NbmemError

LARGEST = 64 * 1024
"""Bytes of a message from a page; ours have some fifty."""
_NAME = 40
KINDS = ("refresh", "rebuild", "collect", "show_cell")


class BadMessageError(NbmemError):
    """A message that nbmem can't do anything with; the text is a sentence for the page."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page asks for."""

    kind: str
    """One of `KINDS`."""
    serial: int | None = None
    """Of the record to show."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a page says of itself."""

    protocol: int
    widgets: bool = True
    """Whether it can draw widgets."""


def read_opening(message: Any) -> Opening:
    """Returns what the page says that opens a comm.

    Raises:
        BadMessageError: no page of ours writes so.
    """
    fields = _fields(message)
    protocol = fields.get("protocol")
    if type(protocol) is not int:
        raise BadMessageError("This page does not say which nbmem it has: reload the page.")
    return Opening(protocol, widgets=fields.get("widgets") is not False)


def read_message(message: Any) -> Asked:
    """Returns what the page asks for.

    Raises:
        BadMessageError: nothing that nbmem knows.
    """
    fields = _fields(message)
    kind = fields.get("type")
    if type(kind) is not str:
        raise BadMessageError("A message to nbmem does not say what it asks for: reload the page.")
    if kind not in KINDS:
        told = kind if len(kind) <= _NAME else f"{kind[:_NAME]}…"
        raise BadMessageError(
            f"nbmem does not know the message {told!r}: update the kernel's nbmem"
            " (`%pip install -U nbmem`) or reload the page."
        )
    if kind != "show_cell":
        return Asked(kind)
    serial = fields.get("serial")
    if type(serial) is not int or serial < 0:
        raise BadMessageError("nbmem finds a cell by its whole number only: reload the page.")
    return Asked(kind, serial)


def _fields(message: Any) -> dict[str, Any]:
    content = message.get("content")
    data = content.get("data") if type(content) is dict else None
    attached = sum(memoryview(part).nbytes for part in message.get("buffers") or ())
    if attached > LARGEST or _is_large(data):
        size = f"{LARGEST // 1024} KiB"
        raise BadMessageError(f"nbmem reads messages of at most {size}: this one was larger.")
    if type(data) is not dict:
        raise BadMessageError("nbmem cannot read a message without named fields: reload the page.")
    return data


def _is_large(data: Any) -> bool:
    """Returns whether `data` has more than `LARGEST` bytes, some eight each for what is no text."""
    left, waiting = LARGEST, [data]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= len(item) if isinstance(item, str | bytes) else 8
        if type(item) is dict:
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return left < 0
