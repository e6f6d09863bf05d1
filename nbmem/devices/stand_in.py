"""One function of a module that nbmem stands in for, and gives back as it was."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from nbmem.errors import hide_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class EntryPoint:
    """`module.name`, callable as it is without nbmem whether or not nbmem stands in for it."""

    __slots__ = ("_active", "_module", "_name", "_original", "_ours")

    def __init__(self, module: ModuleType, name: str) -> None:
        self._module = module
        self._name = name
        self._original: Any = None
        self._ours: Any = None
        self._active: list[bool] = [False]

    @property
    def exists(self) -> bool:
        """False where this build has no such function."""
        return hasattr(self._module, self._name)

    def call(self, *args: Any) -> Any:
        """Returns what the function says without nbmem's part."""
        function = self._original if self._ours is not None else getattr(self._module, self._name)
        return function(*args)

    def replace(self, answer: Callable[..., Any]) -> None:
        """Lets `answer(*args)` take the calls made from now on, until `restore`."""
        if self._ours is not None or not self.exists:
            return
        self._original = original = getattr(self._module, self._name)
        self._active = active = [True]

        @wraps(original)
        def ours(*args: Any, **kwargs: Any) -> Any:
            try:
                if active[0] and not kwargs:
                    return answer(*args)
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise

        self._ours = ours
        setattr(self._module, self._name, ours)

    def restore(self) -> None:
        """Puts the original back; if somebody has wrapped ours since, ours only passes on."""
        if self._ours is None:
            return
        self._active[0] = False
        if getattr(self._module, self._name, None) is self._ours:
            setattr(self._module, self._name, self._original)
        self._original = self._ours = None
