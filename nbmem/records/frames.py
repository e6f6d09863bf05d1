"""Frames of a stack as texts: which one a user looks for."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable
from itertools import chain

_FRAME = re.compile(r"(?P<file>.*?):(?P<line>\d+) (?P<function>.*)", re.DOTALL)
_PYTHON = re.compile(r"\.(pyw?|ipynb)$|^<[^>]*>$")
_LIBRARY = re.compile(
    r"/(site|dist)-packages/|/lib(64)?/python\d|^<frozen |/torchinductor_", re.IGNORECASE
)
_ALLOCATING = re.compile(r"torch::(unwind|CapturedTraceback)\b|gather_with_cpp|CachingAllocator")
"""C++ functions that every stack of the allocator's history begins with (`stacks="all"`)."""
_STDLIB = sysconfig.get_path("stdlib").replace("\\", "/") + "/"


def innermost_own(stack: Iterable[str]) -> str | None:
    """Returns the innermost frame (`file:line function`) that is the user's own code.

    Args:
        stack: innermost first, as `torch.cuda.memory._snapshot()` has `frames`.

    Returns:
        Else the innermost of Python, else the innermost of C++ that is not the allocator's; None
        if there is no frame.
    """
    frames = tuple(stack)
    python = [(frame, file) for frame in frames if _PYTHON.search(file := _file_of(frame))]
    own = (frame for frame, file in python if not _is_library(file))
    called = (frame for frame in frames if not _ALLOCATING.search(frame))
    return next(chain(own, (frame for frame, _ in python), called, frames), None)


def _file_of(frame: str) -> str:
    match = _FRAME.fullmatch(frame)
    return match["file"].replace("\\", "/") if match else ""


def _is_library(file: str) -> bool:
    return file.startswith(_STDLIB) or _LIBRARY.search(file) is not None
