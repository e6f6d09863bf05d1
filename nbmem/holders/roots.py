"""Everything that keeps things alive and is neither a variable nor a shown value.

What no code can list stays out: functions given to `atexit` and `os.register_at_fork` (Python keeps
both out of sight), values on the stacks of running frames, contexts that only a callback of an
event loop holds. The search from below names those as held by something unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nbmem.holders.errors import find_debugged, find_errors
from nbmem.holders.registries import (
    find_events,
    find_figures,
    find_finalizers,
    find_garbage,
    find_global_hooks,
    find_interpreter_callbacks,
    find_log_handlers,
    find_widgets,
)
from nbmem.holders.root import KINDS, Root, told_apart
from nbmem.holders.running import find_callers, find_context, find_tasks, find_threads
from nbmem.records import Note

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["KINDS", "Root", "find_roots"]

_Find = Callable[[], list[Root]]


def find_roots(
    shell: InteractiveShell | None,
    cell_of_file: Callable[[str], int | None],
    notes: list[Note] | None = None,
) -> list[Root]:
    """Returns the roots as things stand now; runs nothing of the user's and never raises.

    The roots hold what they speak of: let go of them with the look.

    Args:
        shell: None in a script.
        cell_of_file: the execution count of the cell that was compiled under this file name.
        notes: gets a note for each kind of root that could not be listed.
    """
    parts: tuple[tuple[str, _Find], ...] = (
        ("errors", lambda: find_errors(shell, cell_of_file)),
        ("the debugger", lambda: find_debugged(shell)),
        ("running functions", find_callers),
        ("threads", find_threads),
        ("asyncio tasks", find_tasks),
        ("context variables", find_context),
        ("IPython's events", lambda: find_events(shell)),
        ("interpreter callbacks", find_interpreter_callbacks),
        ("finalizers", find_finalizers),
        ("logging handlers", find_log_handlers),
        ("global hooks", find_global_hooks),
        ("widgets", find_widgets),
        ("figures", find_figures),
        ("gc.garbage", find_garbage),
    )
    roots: list[Root] = []
    for what, find in parts:
        try:
            roots += find()
        except Exception as error:  # a library may keep them in another way than is known
            if notes is not None:
                notes.append(_note(what, error))
    return told_apart(roots)


def _note(what: str, error: Exception) -> Note:
    sentence = (
        f"Chains from {what} are not told: they could not be listed ({type(error).__name__})."
    )
    return Note("holders", "broken", sentence)
