"""Loading into IPython and out of it; the only room that asks whether torch is there at all."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from nbmem.errors import MissingPackageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

OLDEST_TORCH = (2, 10)


def load(shell: InteractiveShell) -> None:
    """Begins the session and registers the magics.

    Raises:
        UsageError: one line, where torch is missing or too old.
    """
    from IPython.core.error import UsageError

    try:
        check_torch()
    except MissingPackageError as error:
        raise UsageError(str(error)) from None
    session = import_module("nbmem.session").current_session(shell)
    import_module("nbmem.magics").register(shell)
    import_module("nbmem.frontend").open_sidebar(session, shell)


def unload(shell: InteractiveShell) -> None:
    """Leaves the shell and torch as they were; loaded again, nbmem still has its history."""
    import_module("nbmem.frontend").close_sidebar()
    import_module("nbmem.magics").unregister(shell)
    import_module("nbmem.session").close_session(keep_history=True)


def check_torch() -> None:
    """Checks that a torch is installed that nbmem can measure.

    Raises:
        MissingPackageError: with the line that installs one.
    """
    wanted = ".".join(map(str, OLDEST_TORCH))
    if not _has_torch():
        raise MissingPackageError(
            "nbmem measures PyTorch, which this kernel lacks: run `%pip install torch`,"
            " then `%load_ext nbmem` again"
        )
    found = _torch_version()
    if found is not None and _numbers(found) < OLDEST_TORCH:
        raise MissingPackageError(
            f"nbmem needs torch {wanted} or newer and this kernel has {found}:"
            f" run `%pip install 'torch>={wanted}'` and restart the kernel"
        )


def _has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # an import hook forbids it, or it was taken out of reach
        return False


def _torch_version() -> str | None:
    import sys

    loaded: Any = sys.modules.get("torch")
    if loaded is not None:
        return str(loaded.__version__)
    try:
        return version("torch")
    except PackageNotFoundError:  # a build of one's own on the path: it is asked when used
        return None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
