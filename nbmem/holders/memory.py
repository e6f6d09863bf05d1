"""Memory that several have: storages that overlap, numpy's arrays, buffers and DLPack capsules.

A storage that no value needs may show memory that a value needs all the same: the file under a
model's parameters, the array that `from_numpy` was given. Letting go of it would give nothing back.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from array import array
from bisect import bisect_left
from contextlib import suppress
from types import CellType
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.ranges import uncovered
from nbmem.holders.owners import mapping_at
from nbmem.holders.root import is_exactly
from nbmem.holders.wanted import NOT, is_throwaway
from nbmem.inventory.readers import type_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nbmem.heap import Group, StorageRef
    from nbmem.holders.ties import Ties

Span = tuple[int, int]
"""First address, and the one behind the last."""
_BUFFERS: tuple[type, ...] = (bytes, bytearray, memoryview, array, mmap.mmap)
_CAPSULE = "PyCapsule"
_OPENED = "safe_open"
"""A file of safetensors' that is open: in Rust, where nobody sees what it holds."""
_CAPSULES = (b"dltensor", b"dltensor_versioned")
_uses_of = torch._C._storage_Use_Count
_HEADER = 32
"""Bytes before the tensor in a versioned capsule: version, context, deleter, flags."""


class _Buffer(ctypes.Structure):
    """`Py_buffer`, as far as its beginning; the rest is room."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("room", ctypes.c_char * 256),
    )


def needed_with(groups: Iterable[Group], needed: set[int]) -> set[int]:
    """Returns the serials of storages that overlap a needed one, directly or through others."""
    found = set[int]()
    for group in groups:
        serials = {serial for serial, _, _ in group}
        if not needed.isdisjoint(serials):
            found |= serials
    return found - needed


def lent(
    refs: Iterable[StorageRef],
    ties: Ties,
    states: Mapping[int, int],
    names: Mapping[str, object],
    *,
    over_tensors: bool = True,
) -> set[int]:
    """Returns the serials of storages whose memory is that of an array or a buffer of a value.

    Args:
        refs: storages of which that is to be known.
        ties: all ways between objects.
        states: how values need objects, by `id`.
        names: the user's variables.
        over_tensors: arrays count that only show the memory of a tensor, as of `.numpy()`.
    """
    asked = [(ref, ref.begin, ref.begin + ref.bytes) for ref in refs if ref.begin and ref.bytes]
    if not asked:
        return set()
    values = list(_values(ties, states, names))
    taken: list[Span] = []
    for value in values:
        if not over_tensors and _shows_a_tensor(value):
            continue
        try:
            span = _span_of(value)
        except (ValueError, TypeError, BufferError):  # released, or exported by nobody
            continue
        if span is not None:
            uncovered(taken, *span)
    opened = "safetensors" in sys.modules and any(type_name(type(v)) == _OPENED for v in values)
    return {
        ref.serial
        for ref, begin, end in asked
        if _meets(taken, begin, end) or (opened and _has_other_holder(ref) and _is_from_file(begin))
    }


def _has_other_holder(ref: StorageRef) -> bool:
    """Returns whether Python code outside of torch refers to a storage that is no tensor's."""
    storage = ref()
    if storage is None:
        return False
    by_torch = _uses_of(storage._cdata) > 1  # slices of it, or tensors
    return sys.getrefcount(storage) > _references_of_asking() + by_torch


def _references_of_asking() -> int:
    """Returns the references that a variable has while it is asked: 2, and 1 since Python 3.14."""
    lone = object()
    return sys.getrefcount(lone)


def _meets(taken: list[Span], begin: int, end: int) -> bool:
    at = bisect_left(taken, (end,))
    return at > 0 and taken[at - 1][1] > begin


def _values(ties: Ties, states: Mapping[int, int], names: Mapping[str, object]) -> Iterable[Any]:
    """Goes through the objects that values need, and what these hold that no walk enters."""
    holders = [thing for key, thing in ties.objects.items() if states.get(key, NOT) > NOT]
    yield from holders
    for value in [value for name, value in list(names.items()) if not is_throwaway(name)]:
        yield value
        yield from _inside(value)
    seen = set(map(id, holders))
    for start in range(0, len(holders), _CHUNK):
        for held in gc.get_referents(*holders[start : start + _CHUNK]):
            if id(held) not in seen:
                seen.add(id(held))
                yield held
                if type(held) is dict or type(held) is tuple:
                    yield from _inside(held)
                if type(held) is tuple:  # as of the cells of a closure
                    yield from _contents_of_cells(held)


_CHUNK = 4_096


def _inside(container: Any) -> Iterator[Any]:
    """Goes through what a dict or tuple holds, and those in it, that gc does not track.

    No walk enters one: it holds nothing but what gc does not track either, as buffers are.
    """
    level = [container]
    while level := [x for x in level if is_exactly(x, dict, tuple) and not gc.is_tracked(x)]:
        level = gc.get_referents(*level)
        if _PLAIN.issuperset(map(id, map(type, level))):
            return
        yield from level


_PLAIN = frozenset(map(id, (bool, complex, float, int, str, type(None))))


def _contents_of_cells(held: tuple[Any, ...]) -> Iterable[Any]:
    for cell in held:
        if type(cell) is CellType:
            with suppress(ValueError):  # empty
                yield cell.cell_contents


def _shows_a_tensor(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    while numpy is not None and type(value) is numpy.ndarray:
        value = value.base
    return issubclass(type(value), torch.Tensor)


def _span_of(value: Any) -> Span | None:
    kind = type(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(kind, numpy.ndarray):
        first, last = numpy.lib.array_utils.byte_bounds(value)
        return int(first), int(last)
    if any(kind is one for one in _BUFFERS):
        return _span_of_buffer(value)
    if type_name(kind) == _CAPSULE:
        return _span_of_capsule(value)
    return None


def _span_of_buffer(value: Any) -> Span:
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(value), ctypes.byref(buffer), 0)
    begin, size = buffer.buf or 0, buffer.len
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return begin, begin + size


def _span_of_capsule(value: Any) -> Span | None:
    """Returns the address of a DLPack tensor; its extent is not needed to know whose it is."""
    api, capsule = ctypes.pythonapi, ctypes.py_object(value)
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    for name in _CAPSULES:
        if api.PyCapsule_IsValid(capsule, name):
            tensor = (get(value, name) or 0) + (0 if name == _CAPSULES[0] else _HEADER)
            data = ctypes.c_void_p.from_address(tensor).value or 0
            begin = data + ctypes.c_uint64.from_address(tensor + _OFFSET).value
            return begin, begin + 1
    return None


_OFFSET = 40
"""Of `byte_offset` in a `DLTensor`: behind data, device, ndim, dtype, shape and strides."""


def _is_from_file(begin: int) -> bool:
    """Returns whether an address is that of a mapped file."""
    found = mapping_at(begin)
    return found is not None and found.from_file
