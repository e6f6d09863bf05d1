"""Messages made ready to be searched."""

from __future__ import annotations

_END = 8_000
"""Characters of a long message that are read, at either end."""
_HANDLED = "During handling of the above exception, another exception occurred:"
"""Stands in a traceback that another process sent as text, after an error that was caught there."""


def on_one_line(text: str) -> str:
    """Returns a message with single spaces; of a long one the beginning and the end.

    Of a traceback in it, what was caught before is left out.
    """
    if len(text) > 2 * _END + 3:
        text = f"{text[:_END]} … {text[-_END:]}"
    return " ".join(text.rpartition(_HANDLED)[2].split())
