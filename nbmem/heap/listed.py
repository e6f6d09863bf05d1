"""All objects that the garbage collector lists and that may be asked what they refer to."""

from __future__ import annotations

import gc
import sys
from typing import Any

_SHOWS_FREED = "_asyncio" if sys.version_info[:2] == (3, 12) else ""
"""Shows the iterators of futures that it freed and keeps for later. A reference to one, let go,
frees it a second time, and the next collection never ends."""


def list_objects() -> list[Any]:
    """Returns `gc.get_objects()` without what must not be asked for its referents."""
    refused = refused_object()
    objects = gc.get_objects()
    return objects if refused is None else [one for one in objects if one is not refused]


def refused_object() -> Any:
    """Returns the one object that must not be asked for its referents; None where there is none."""
    return sys.modules.get(_SHOWS_FREED)
