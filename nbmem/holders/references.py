"""The heap turned round: one pass over it tells who refers to an object, for objects of any depth.

`gc.get_referrers` compares every reference on the heap with every object it is asked for, and must
be asked again for each level. Here the references are copied once, as addresses, and sorted by what
they lead to; finding the holders of one object is then a search in a sorted array.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from array import array
from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK = 128
"""Objects asked for their references in one call."""
LARGE = 64
"""References of an object that are listed once, not at each question."""
BLOCK = 1 << 18
"""References copied before they are sifted."""
_SPARSE = 6
"""Places in the sieve for each object that is looked for, at least."""
_SIGN, _RANGE = 1 << 31, 1 << 32


def _copy_raw(items: list[Any]) -> bytes:
    """Returns the addresses of a list's items: a copy of the array that the list keeps."""
    start = ctypes.c_void_p.from_address(id(items) + _AT).value
    return ctypes.string_at(start, len(items) * 8) if start else b""


def _copy_plain(items: list[Any]) -> bytes:
    return array("q", map(id, items)).tobytes()


_AT = list.__basicsize__ - 16
"""Where in a list's own memory CPython has the pointer to its items."""


def _choose_copy() -> Callable[[list[Any]], bytes]:
    probe = [object(), [], gc, object()]
    right = sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8
    sound = right and list.__basicsize__ in (40, 48, 56)
    return _copy_raw if sound and _copy_raw(probe) == _copy_plain(probe) else _copy_plain


addresses_of = _choose_copy()
"""Returns the ids of a list's items as bytes, 8 each."""


@functools.cache
def _openmp() -> ctypes.CDLL | None:
    """Returns the library by which torch computes on several threads; None where it is another."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        return library if library.omp_get_max_threads() and library.omp_set_num_threads else None
    except (OSError, AttributeError):
        return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch computes on this thread alone; other threads of the user's are not touched.

    On a machine that is busy, waiting for each other costs threads more than they save.
    """
    before, openmp = torch.get_num_threads(), _openmp()
    if openmp is None:
        yield
        return
    openmp.omp_set_num_threads(1)
    try:
        yield
    finally:
        openmp.omp_set_num_threads(before)


class References:
    """Every reference between these objects. Holds them strongly until `clear`.

    Args:
        objects: what to look at: in most cases `list_objects()`.
        also: objects that are asked for, wherever they are.
    """

    def __init__(self, objects: list[Any], also: list[Any]) -> None:
        self.objects = objects
        self._starts = array("q", [0])
        """For each chunk: how many references the chunks before it have."""
        self._ends: dict[int, list[int]] = {}
        """By chunk that was looked into: the same within it, after each of its objects."""
        self._inside: dict[int, set[int]] = {}
        """By id of a large holder that was looked into: the ids of what it refers to."""
        with one_thread():
            self._keys, self._positions = self._read(also)

    def clear(self) -> None:
        """Lets go of everything."""
        self.objects.clear()
        self._ends.clear()
        self._inside.clear()
        self._keys = self._positions = self._starts = array("q")

    def holders_of(self, thing: Any) -> list[Any]:
        """Returns the objects that refer to it, each as many times as it does."""
        keys, key = self._keys, _key(id(thing))
        first = bisect_left(keys, key)
        if first == len(keys) or keys[first] != key:
            return []
        last = bisect_right(keys, key, first)
        found: list[Any] = []
        for position in self._positions[first:last]:
            holder = self._holder_at(position)
            if holder is None or not self._refers(holder, thing):
                holder = self._look_again(position, thing, found)
            if holder is not None:
                found.append(holder)
        return found

    def _holder_at(self, position: int) -> Any:
        chunk = bisect_right(self._starts, position) - 1
        ends = self._ends.get(chunk)
        if ends is None:
            counts = map(len, map(gc.get_referents, self._chunk(chunk)))
            ends = self._ends[chunk] = list(accumulate(counts))
        index = bisect_right(ends, position - self._starts[chunk])
        return self.objects[chunk * CHUNK + index] if index < len(ends) else None

    def _look_again(self, position: int, thing: Any, told: list[Any]) -> Any:
        """Looks nearby, where another thread moved things or two addresses have one key."""
        for holder in self._chunk(bisect_right(self._starts, position) - 1):
            if self._refers(holder, thing) and not any(one is holder for one in told):
                return holder
        return None

    def _refers(self, holder: Any, thing: Any) -> bool:
        inside = self._inside.get(id(holder))
        if inside is None:
            held = gc.get_referents(holder)
            if len(held) < LARGE:
                return any(one is thing for one in held)
            inside = self._inside[id(holder)] = set(map(id, held))
        return id(thing) in inside

    def _chunk(self, chunk: int) -> list[Any]:
        return self.objects[chunk * CHUNK : (chunk + 1) * CHUNK]

    # -- the pass --------------------------------------------------------------------------------

    def _read(self, also: list[Any]) -> tuple[array[int], array[int]]:
        """Returns a key for each reference to one of the objects, sorted, and its position."""
        mask = (1 << (_SPARSE * len(self.objects)).bit_length()) - 1
        wanted = torch.zeros(mask + 1, dtype=torch.bool, device="cpu")
        for items in (self.objects, also):
            for start in range(0, len(items), BLOCK):
                block = bytearray(addresses_of(items[start : start + BLOCK]))
                wanted[(_tensor(block) >> 4) & mask] = True
        keys, positions = array("i"), array("i")
        for start, block in self._blocks():
            shifted = _tensor(block) >> 4
            kept = wanted[shifted & mask].nonzero().squeeze(1)
            keys.extend(_array(shifted[kept]))
            positions.extend(_array(kept + start))
        del wanted
        _sort_both(keys, positions)
        return keys, positions

    def _blocks(self) -> Iterator[tuple[int, bytearray]]:
        """Goes through the addresses of all references, with the position of each first one."""
        objects, referents, starts = self.objects, gc.get_referents, self._starts
        copy, total, first, block = addresses_of, 0, 0, bytearray()
        for index in range(0, len(objects), CHUNK):
            held = referents(*objects[index : index + CHUNK])
            block += copy(held)
            total += len(held)
            starts.append(total)
            if total - first >= BLOCK:
                yield first, block
                first, block = total, bytearray()
        if block:
            yield first, block


def _key(address: int) -> int:
    """Returns what stands for an address in the sorted array: 32 of its bits, signed."""
    key = (address >> 4) % _RANGE
    return key - _RANGE if key >= _SIGN else key


def _tensor(block: bytearray) -> torch.Tensor:
    return torch.frombuffer(block, dtype=torch.int64)


def _array(tensor: torch.Tensor) -> array[int]:
    """Returns the lower 32 bits of each number."""
    copy = array("i", bytes(4 * len(tensor)))
    if copy:
        torch.frombuffer(copy, dtype=torch.int32).copy_(tensor)
    return copy


def _sort_both(keys: array[int], others: array[int]) -> None:
    """Sorts the keys in place, and the others in the same order."""
    if keys:
        first = torch.frombuffer(keys, dtype=torch.int32)
        second = torch.frombuffer(others, dtype=torch.int32)
        ordered, order = first.sort()
        first.copy_(ordered)
        del ordered
        second.copy_(second[order])
