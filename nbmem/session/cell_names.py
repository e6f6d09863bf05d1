"""Which names a cell is sure to assign before anything reads them, from its source alone.

Where in doubt a name is left out: read anywhere before (in a function that is called by then
too), assigned only under a condition, in a loop or in a `try`, or after anything that may end the
cell or read names unseen (`await`, a magic, `eval`).
"""

from __future__ import annotations

import ast
import gc
import re
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

_UNSEEN = frozenset(
    ("globals", "locals", "vars", "dir", "exec", "eval", "get_ipython", "__import__", "breakpoint")
)
"""May read any name."""
_ENDS = frozenset(("exit", "quit", "_exit", "abort"))
_OUTPUT = re.compile(r"_(\d+|_{0,2})\Z|Out\Z|_oh\Z|get_ipython\Z")
_WRAPPED = (staticmethod, classmethod)
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_MOST = 2_000
"""Objects looked at for functions that may be called; beyond that nothing is certain."""


def names_made_first(code: str, namespace: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names that `code` certainly assigns at its top level before any read of them.

    Args:
        code: of a cell, as Python.
        namespace: the user's, for what functions that the cell calls read in turn.
    """
    tree, scan = _parse(code), _Scan(namespace)
    for statement in tree.body if tree else ():
        if not scan.take(statement):
            break
    return tuple(scan.made)


def reads_outputs(code: str) -> bool:
    """Returns whether a cell reads what earlier cells showed; True where it can't be told."""
    tree = _parse(code)
    return tree is None or any(_OUTPUT.match(name) for name in _loaded(tree))


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Scan:
    """Goes through statements in the order in which they run."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.made: dict[str, None] = {}
        self._namespace = namespace
        self._read: set[str] = set()

    def take(self, statement: ast.stmt) -> bool:
        """Takes up one statement; returns False where nothing after it is certain."""
        if isinstance(statement, ast.With):
            items = [item.context_expr for item in statement.items]
            return self._look(items) and all(map(self.take, statement.body))
        if not self._look([statement]):
            return False
        for name in _targets(statement):
            if name not in self._read:
                self.made[name] = None
        return True

    def _look(self, nodes: Iterable[ast.AST]) -> bool:
        """Notes what is read; returns False where that can't be told."""
        for node in nodes:
            names = set(_loaded(node))
            names |= _read_by_calls(names, self._namespace)
            if names & (_UNSEEN | _ENDS) or _may_leave(node):
                return False
            self._read |= names
        return True


def _loaded(tree: ast.AST) -> Iterator[str]:
    """Yields every name that is read or deleted, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and node.attr in _ENDS:
            yield node.attr


def _may_leave(tree: ast.AST) -> bool:
    """Returns whether it may end the cell, or let other code run in the middle."""
    leaving = (ast.Raise, ast.Assert, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(isinstance(node, leaving) for node in ast.walk(tree))


def _targets(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        found: list[ast.expr] = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        found = [statement.target]
    else:
        return
    while found:
        target = found.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            found += target.elts
        elif isinstance(target, ast.Starred):
            found.append(target.value)
        elif isinstance(target, ast.Name):
            yield target.id


def _read_by_calls(names: set[str], namespace: Mapping[str, Any]) -> set[str]:
    """Returns the names that the user's functions and classes under `names` may read."""
    found: set[str] = set()
    waiting: list[Any] = [namespace[name] for name in names if name in namespace]
    seen: set[int] = set()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if type(thing) is types.FunctionType:
            new = set(_names_in(thing.__code__)) - found
            found |= new
            waiting += [namespace[name] for name in new if name in namespace]
        waiting += _called_by(thing)
        if len(seen) > _MOST:
            return found | _UNSEEN
    return found


def _called_by(thing: Any) -> list[Any]:
    """Returns what runs when `thing` is called or used, as far as it is the user's."""
    kind = type(thing)
    if kind is types.FunctionType:
        return [each for each in _contents(thing) if callable(each)] + list(vars(thing).values())
    if kind is types.MethodType:
        return [thing.__func__, thing.__self__]
    if kind is partial:
        return [thing.func, *thing.args, *thing.keywords.values()]
    if kind in _WRAPPED:
        return [thing.__func__]
    if kind is property:
        return [each for each in (thing.fget, thing.fset) if each is not None]
    if any(kind is one for one in _CONTAINERS):
        return gc.get_referents(thing)
    if not issubclass(kind, type):
        return [kind, *gc.get_referents(thing)] if _is_of_notebook(kind) else []
    bases = type.__dict__["__mro__"].__get__(thing)
    return [each for base in bases if _is_of_notebook(base) for each in _members(base)]


def _contents(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue


def _is_of_notebook(kind: type) -> bool:
    return _members_of(kind).get("__module__") == "__main__"


def _members(kind: type) -> list[Any]:
    return [each for each in _members_of(kind).values() if type(each) in _CALLED]


def _members_of(kind: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = type.__dict__["__dict__"].__get__(kind)
    return found


_CALLED = (types.FunctionType, property, partial, *_WRAPPED)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield from _names_in(constant)
