"""Messages made short enough to be searched."""

from __future__ import annotations

_END = 8_000
"""Characters of a long message that are read, at either end."""


def on_one_line(text: str) -> str:
    """Returns a message with single spaces; of a long one the beginning and the end."""
    if len(text) > 2 * _END + 3:
        text = f"{text[:_END]} … {text[-_END:]}"
    return " ".join(text.split())
