"""Where names begin: the variables the user can see, and IPython's cache of outputs."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from nbmem.inventory import find_pool_owners

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbmem.heap.pools import PoolId
    from nbmem.records import PoolOwner

_OUTPUT_NAME = re.compile(r"_(\d+|_{0,2})\Z")
_INPUT_NAME = re.compile(r"_(i\d*|ii|iii|ih|oh|dh)\Z")
_LAST_SHOWN = ("_", "__", "___")
_OF_IPYTHON = {"In", "Out", "exit", "quit", "get_ipython"}


def user_names(shell: InteractiveShell | None) -> dict[str, Any]:
    """Returns the variables that the user made: those of the shell, or of a script's `__main__`."""
    if shell is None:
        return _of_script(vars(sys.modules["__main__"]))
    hidden, shown = shell.user_ns_hidden, vars(shell.displayhook)
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if (_is_the_users(name) or _is_assigned(name, value, shown))
        and not (name in hidden and hidden[name] is value)
    }


def _is_assigned(name: object, value: object, shown: dict[str, Any]) -> bool:
    """Returns whether the user gave `_` a value: IPython's own are what its display hook has."""
    if type(name) is not str:
        return False
    return name in _LAST_SHOWN and not _is_plain(value) and shown.get(name) is not value


def _is_the_users(name: object) -> bool:
    return (
        type(name) is str
        and name not in _OF_IPYTHON
        and not _OUTPUT_NAME.match(name)
        and not _INPUT_NAME.match(name)
    )


def _of_script(names: dict[str, Any]) -> dict[str, Any]:
    pairs = [(name, value) for name, value in list(names.items()) if type(name) is str]
    return {name: value for name, value in pairs if not name.startswith("__")}


def output_cache(shell: InteractiveShell | None) -> dict[str, Any]:
    """Returns what IPython keeps of shown values, by the expression that reads each copy.

    `Out[3]`, `_`, `__`, `___` and `_3` come first; a hidden copy is listed only where none of them
    holds the same object.
    """
    if shell is None:
        return {}
    cache = {f"Out[{n}]": value for n, value in list(_outputs(shell).items())}
    seen = {id(value) for value in cache.values()}
    shown = vars(shell.displayhook)
    for name, value in [*_named_copies(shell), *_hidden_copies(shell)]:
        if _is_assigned(name, value, shown):
            continue
        if not _is_plain(value) and (name in ("_", "__", "___") or id(value) not in seen):
            cache.setdefault(name, value)
            seen.add(id(value))
    return cache


def _outputs(shell: InteractiveShell) -> dict[Any, Any]:
    found = shell.user_ns.get("_oh")
    return found if type(found) is dict else {}


def _named_copies(shell: InteractiveShell) -> list[tuple[str, Any]]:
    names = shell.user_ns
    return [(n, v) for n, v in list(names.items()) if type(n) is str and _OUTPUT_NAME.match(n)]


def _hidden_copies(shell: InteractiveShell) -> list[tuple[str, Any]]:
    copies = [
        (f"get_ipython().user_ns_hidden[{n!r}]", v)
        for n, v in list(shell.user_ns_hidden.items())
        if type(n) is str and _OUTPUT_NAME.match(n)
    ]
    for attribute in ("_", "__", "___"):
        copies.append(
            (f"get_ipython().displayhook.{attribute}", vars(shell.displayhook).get(attribute))
        )
    last = shell.last_execution_result
    if last is not None:
        copies.append(("get_ipython().last_execution_result.result", last.result))
    return copies


def output_places(shell: InteractiveShell | None) -> set[int]:
    """Returns the ids of IPython's own holders of names and shown values, which no chain names."""
    if shell is None:
        main = sys.modules["__main__"]
        return {id(main), id(vars(main))}
    hook = shell.displayhook
    places = (
        *(shell.user_ns, shell.user_global_ns, shell.user_ns_hidden, shell.user_module),
        *(_outputs(shell), hook, vars(hook), shell.last_execution_result),
    )
    return set(map(id, places))


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (str, int, float, bool, bytes)


def pool_owners(
    shell: InteractiveShell | None, budget: float
) -> dict[PoolId, tuple[PoolOwner, ...]]:
    """Returns who keeps each private pool, by the user's names; `budget` is in seconds."""
    return find_pool_owners(user_names(shell), output_cache(shell), budget)
