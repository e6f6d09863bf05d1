"""The user's names and IPython's copies, and how one of them is dropped."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbmem.heap import StorageTable
from nbmem.inventory import PlaceStep
from nbmem.records import DeviceReading

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_CACHED = re.compile(r"_\d+\Z")
_LAST = ("_", "__", "___")
EMPTY = ""
"""What IPython itself puts into `_`, `__` and `___` when it flushes its cache."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What an act may touch, and how its outcome is read. Handed over by the session."""

    table: StorageTable
    shell: InteractiveShell | None
    names: Callable[[], Mapping[str, Any]]
    """The user's variables, as they are when it is called."""
    outputs: Callable[[], Mapping[str, Any]]
    """IPython's copies of shown values, by the expression that reads each."""
    read_devices: Callable[[], Sequence[DeviceReading]]
    """The counters as they are: an act scans the heap itself where it counts on it."""


def drop_variable(shell: InteractiveShell | None, name: str) -> None:
    """Takes a variable out of the user's namespace."""
    if shell is None:
        vars(sys.modules["__main__"]).pop(name, None)
        return
    value = shell.user_ns.pop(name, None)
    shell.user_global_ns.pop(name, None)
    if shell.user_ns_hidden.get(name) is value:
        shell.user_ns_hidden.pop(name, None)


def drop_throwaway(shell: InteractiveShell | None, name: str) -> None:
    """Lets go of what `_`, `__` or a name like it holds, and nothing that stands elsewhere.

    Where the user had assigned a name of IPython's, it becomes IPython's again.
    """
    if shell is None or name not in _LAST:
        drop_variable(shell, name)
        return
    names, hidden = shell.user_ns, shell.user_ns_hidden
    held, meant = names.get(name), hidden.get(name, vars(shell.displayhook).get(name, EMPTY))
    if meant is held:  # IPython put it there: its own two copies go along
        meant = hidden[name] = EMPTY
        setattr(shell.displayhook, name, EMPTY)
    names[name] = meant


def drop_output(shell: InteractiveShell, values: Iterable[object]) -> None:
    """Takes every copy of these shown values out of IPython: seven places for each."""
    doomed = {id(value) for value in values}
    hook, hidden = vars(shell.displayhook), shell.user_ns_hidden
    _drop_copies(hook, doomed, {})
    _drop_copies(hidden, doomed, {})
    # `_` goes back to what IPython thinks it is: it updates `_` no more once the two differ.
    _drop_copies(shell.user_ns, doomed, hidden)
    for outputs in _output_dicts(shell):
        _pop_all(outputs, [key for key, value in outputs.items() if id(value) in doomed])
    for result in (shell.last_execution_result, hook.get("exec_result")):
        if result is not None and id(result.result) in doomed:
            result.result = None


def _output_dicts(shell: InteractiveShell) -> list[dict[Any, Any]]:
    """Returns the dicts of shown values: one, unless the user assigned `Out` or `_oh`."""
    found = [shell.user_ns.get("_oh"), getattr(shell.history_manager, "output_hist", None)]
    return list({id(one): one for one in found if type(one) is dict}.values())


def _drop_copies(names: dict[Any, Any], doomed: set[int], instead: Mapping[Any, Any]) -> None:
    found = [n for n, v in list(names.items()) if type(n) is str and id(v) in doomed]
    _pop_all(names, [name for name in found if _CACHED.match(name)])
    names.update({name: instead.get(name, EMPTY) for name in found if name in _LAST})


def _pop_all(names: dict[Any, Any], keys: list[Any]) -> None:
    for key in keys:
        names.pop(key, None)


def find_entry(
    names: Mapping[str, Any], steps: Sequence[PlaceStep]
) -> tuple[dict[Any, Any], Any] | None:
    """Returns the plain dict and the key at the end of a way; None where it leads elsewhere.

    Only exact dicts and lists are stepped through: nothing of the user's code runs.
    """
    held: Any = names.get(str(steps[0].key))
    for step in steps[1:-1]:
        if type(held) is list and step.kind == "list item" and type(step.key) is int:
            held = held[step.key] if step.key < len(held) else None
        elif type(held) is dict and step.kind == "dict entry":
            held = held.get(step.key)
        else:
            return None
    return (held, steps[-1].key) if type(held) is dict and steps[-1].key in held else None
