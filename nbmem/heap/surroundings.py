"""What of the process a look changes for its own time, and how it comes back after an interrupt.

An interrupt may come at any line, also at the one that would put things back.
"""

from __future__ import annotations

import gc
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Params = ParamSpec("Params")
Result = TypeVar("Result")


def _unknown(*_: Any) -> None:
    """Stands for what this torch does not tell."""


function_state: Callable[[], Any] = getattr(torch._C, "_get_torch_function_state", _unknown)
set_function_state: Callable[[Any], None] = getattr(torch._C, "_set_torch_function_state", _unknown)


class Surroundings:
    """Whether the collector runs, and whether torch asks `__torch_function__`, as of now."""

    __slots__ = ("_collecting", "_state")

    def __init__(self) -> None:
        self._collecting = gc.isenabled()
        self._state = function_state()

    def restore(self) -> None:
        """Makes both as they were."""
        set_function_state(self._state)
        (gc.enable if self._collecting else gc.disable)()


def undone_by_interrupt(look: Callable[Params, Result]) -> Callable[Params, Result]:
    """Makes a function leave the surroundings as they were also when it is interrupted."""

    @wraps(look)
    def careful(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        surroundings = Surroundings()
        try:
            return look(*args, **kwargs)
        except KeyboardInterrupt:
            surroundings.restore()
            raise

    return careful
