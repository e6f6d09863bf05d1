"""What hooks made of a saved tensor, and what a function holds: followed to the tensors in it.

A hook may pack a tensor into anything: a tuple, an object, a file's name. It is followed through
Python's containers, instances and closures; nothing of the user's is called.
"""

from __future__ import annotations

import gc
import os
import sys
import types
import weakref
from collections import deque
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.nodes import SAVED, read_node_type

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 20_000
"""Objects looked at for one packed value."""
_LONGEST_PATH = 4_096
_NOT_FOLLOWED = (
    type,
    types.ModuleType,
    types.FrameType,
    types.CodeType,
    types.TracebackType,
    types.BuiltinFunctionType,
    types.GeneratorType,
    types.CoroutineType,
    weakref.ref,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.UntypedStorage,
    torch.TypedStorage,
)
"""Their tensors have names of their own, or belong to code that runs."""


class Finder:
    """Finds tensors in what hooks and contexts hold.

    Args:
        tensor_types: ids of the types that are tensors.
    """

    def __init__(self, tensor_types: set[int]) -> None:
        self._tensor_types = tensor_types
        self._followed: dict[int, bool] = {}
        self._kept: list[type] = []
        self.cut = False
        """Some value holds more objects than are looked at."""
        self.paths: dict[str, None] = {}
        """Texts and paths met on the way that may name a file."""

    def find(self, values: Iterable[Any], *, paths: bool = False) -> list[torch.Tensor]:
        """Returns the tensors held by these values, each once, nearest first.

        Args:
            values: where to begin.
            paths: note what may name a file.
        """
        queue, seen, found = deque(values), set[int](), list[torch.Tensor]()
        keep: list[Any] = []  # an id is only its own while the object lives
        while queue:
            item = queue.popleft()
            if id(item) in seen:
                continue
            seen.add(id(item))
            keep.append(item)
            if len(seen) > MOST:
                self.cut = True
                break
            kind = type(item)
            if kind is SAVED:
                queue.extend(read_saved(item))
            elif id(kind) in self._tensor_types:
                found.append(item)
            elif kind is str or issubclass(kind, PurePath):
                if paths:
                    self._note_path(item, kind)
            else:
                queue.extend(self._referents(item, kind))
        return found

    def _referents(self, item: Any, kind: type) -> list[Any]:
        if kind is types.FunctionType:
            return held_by_function(item)
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray:
            return held_by_array(item)
        if not gc.is_tracked(item) and kind is not tuple and kind is not types.CellType:
            return []
        return gc.get_referents(item) if self._may_be_followed(kind) else []

    def _may_be_followed(self, kind: type) -> bool:
        known = self._followed.get(id(kind))
        if known is None:
            self._kept.append(kind)
            known = not issubclass(kind, _NOT_FOLLOWED) and read_node_type(kind) is None
            self._followed[id(kind)] = known
        return known

    def _note_path(self, item: Any, kind: type) -> None:
        text = item if kind is str else PurePath.__str__(item)
        if os.sep in text and len(text) < _LONGEST_PATH and len(self.paths) < MOST:
            self.paths[text] = None


def held_by_array(array: Any) -> list[Any]:
    """Returns what a numpy array's memory belongs to, and its elements where they are objects."""
    elements = array.ravel()[:MOST].tolist() if array.dtype.kind == "O" else []
    return [array.base, *elements]


def held_by_function(function: types.FunctionType) -> list[Any]:
    """Returns the cells of its closure and its defaults; its globals are the user's names."""
    held: list[Any] = list(function.__closure__ or ())
    held += function.__defaults__ or ()
    held += (function.__kwdefaults__ or {}).values()
    held += vars(function).values()
    return held


def read_saved(saved: Any) -> tuple[Any, ...]:
    """Returns what a `SavedTensor` really stores, and the hook that would unpack it if any.

    Nothing is unpacked. Empty where backward has freed it.
    """
    try:
        data, hook = saved.data, saved.unpack_hook
    except RuntimeError:  # freed
        return ()
    return (data,) if hook is None else (data, hook)
