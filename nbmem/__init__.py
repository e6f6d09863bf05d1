"""Which cell took the memory, what still holds it, and give it back.

In a notebook: `%load_ext nbmem`, then `%%gpumem` on a cell. In a script: the functions below.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbmem._version import __version__

if TYPE_CHECKING:
    from nbmem.api import (
        find_holders,
        find_leaks,
        get_history,
        list_storages,
        measure,
        read_devices,
        reclaim_memory,
        take_ledger,
    )

__all__ = [
    "__version__",
    "find_holders",
    "find_leaks",
    "get_history",
    "list_storages",
    "load_ipython_extension",
    "measure",
    "read_devices",
    "reclaim_memory",
    "take_ledger",
    "unload_ipython_extension",
]

_FUNCTIONS = frozenset(__all__) - {
    "__version__",
    "load_ipython_extension",
    "unload_ipython_extension",
}


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        return getattr(import_module("nbmem.api"), name)
    raise AttributeError(f"module 'nbmem' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ipython: Any) -> None:
    """Loads nbmem into IPython: what `%load_ext nbmem` calls."""
    import_module("nbmem.loading").load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Takes nbmem out again and leaves the shell and torch as they were."""
    import_module("nbmem.loading").unload(ipython)
