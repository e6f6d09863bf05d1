"""Where chains begin: modules, classes, the interpreter's own tables and frames that run."""

from __future__ import annotations

import builtins
import gc
import sys
import types
from collections import Counter
from typing import Any

from nbmem.holders.root import (
    MACHINERY,
    attributes_of,
    is_exactly,
    is_in,
    is_of,
    names_of,
    traits_of,
)
from nbmem.holders.unseen import OURS, is_of_nbmem, running_frames
from nbmem.inventory.frames import read_locals

_SHELL = "IPython.core.interactiveshell"
_OF_THE_USER = ("user_ns", "user_ns_hidden", "user_module")
"""What the shell has of the user's."""
_MOST, _LONGEST = 50_000, 1_000
"""Objects of IPython's that are followed, and entries of a container that is."""
_CONTAINERS = (dict, list, tuple, set)
_NOT_FOLLOWED = (types.ModuleType, types.FunctionType, types.FrameType, type)
_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


class Beginnings:
    """Knows where chains begin at this moment. Holds modules and frames until `clear`.

    What runs now of nbmem, IPython and the kernel holds nothing longer than the question takes.
    """

    def __init__(self) -> None:
        self._modules: dict[int, types.ModuleType] = {}
        """By the id of their dicts."""
        self._listed: set[int] = set()
        for module in list(sys.modules.values()):
            if issubclass(type(module), types.ModuleType):
                self._modules[id(_names_of_module(module))] = module
                self._listed.add(id(module))
        self._tables = {id(sys.modules): "sys.modules", id(vars(builtins)): "builtins"}
        self.frames: dict[int, tuple[types.FrameType, str]] = {}
        """Those that run and are not nbmem's own, by id, each with what it is called."""
        self._own: Counter[int] = Counter()
        self._in_use: set[int] | None = None
        """Ids of what IPython's shell leads to; None: not asked for yet."""
        self._note_frames()

    def clear(self) -> None:
        """Lets go of modules and frames."""
        self._modules.clear()
        self.frames.clear()

    def owner_of(self, holder: Any) -> Any:
        """Returns the module instead of its dict; anything else as it is."""
        return self._modules.get(id(holder), holder) if type(holder) is dict else holder

    def find(self, thing: Any) -> tuple[str, str] | None:
        """Returns kind and text of the root that a thing is; None where it is none."""
        kind = type(thing)
        if id(thing) in self._listed:
            return "module", f"module {_name_of_module(thing)}"
        if issubclass(kind, type):
            return "class", f"class {name_of_class(thing)}"
        if id(thing) in self._tables:
            return "interpreter", self._tables[id(thing)]
        if id(thing) in self.frames:
            return "thread", self.frames[id(thing)][1]
        if not issubclass(kind, types.FunctionType | types.MethodType) and is_of(thing):
            return self._of_ipython(thing)
        return None

    def _of_ipython(self, thing: Any) -> tuple[str, str] | None:
        """Returns the root that an object of IPython's is; None where the shell has let go of it.

        What a cell came to is garbage together with its error once another cell has run.
        """
        if self._in_use is None:
            self._in_use = find_in_use()
        lost = self._in_use and id(thing) not in self._in_use
        return None if lost else ("ipython", f"IPython's {_qualname_of(type(thing))}")

    def is_ours(self, holder: Any) -> bool:
        """Returns whether it is an object of one of nbmem's own classes."""
        module = _namespace_of(type(holder)).get("__module__")
        return type(module) is str and module.partition(".")[0] == OURS

    def references_to(self, thing: Any) -> int:
        """Returns how many locals of nbmem's own running frames are this object."""
        return self._own[id(thing)]

    def _note_frames(self) -> None:
        for frame, thread in running_frames():
            if is_of_nbmem(frame) or is_in(frame, MACHINERY):
                self._own.update(id(value) for _, value in read_locals(frame))
            else:
                text = f"{frame.f_code.co_name}() in thread {thread!r}"
                self.frames[id(frame)] = frame, text


def find_in_use() -> set[int]:
    """Returns the ids of what IPython's shell leads to by objects of its own; empty without one.

    Empty also where that is more than can be looked at. The user's values are not followed.
    """
    shell = names_of(_SHELL).get("InteractiveShell")
    shell = _namespace_of(shell).get("_instance") if issubclass(type(shell), type) else None
    if shell is None:
        return set()
    spared = {
        id(held.get(n)) for held in (traits_of(shell), attributes_of(shell)) for n in _OF_THE_USER
    }
    found, level = {id(shell)}, [shell]
    while level:
        held = gc.get_referents(*level)
        level = []
        for one in held:
            if id(one) not in found and id(one) not in spared and _is_followed(one):
                found.add(id(one))
                level.append(one)
        if len(found) > _MOST:
            return set()
    return found


def _is_followed(thing: Any) -> bool:
    if is_exactly(thing, *_CONTAINERS):
        return len(thing) <= _LONGEST
    return not issubclass(type(thing), _NOT_FOLLOWED) and is_of(thing)


def _name_of_module(module: types.ModuleType) -> str:
    name = _names_of_module(module).get("__name__")
    return name if type(name) is str else "without a name"


def name_of_class(cls: type) -> str:
    """Returns a class's name, with its module where it is not the notebook's."""
    name, module = _qualname_of(cls), _namespace_of(cls).get("__module__")
    plain = type(module) is not str or module in ("__main__", "builtins")
    return name if plain else f"{module}.{name}"
