"""How much of a storage its tensors and arrays show."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.storages import layout_of
from nbmem.holders.owners import why_unmovable
from nbmem.holders.ties import ROOT
from nbmem.records import ViewFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.heap import StorageRef
    from nbmem.holders.places import Places
    from nbmem.holders.ties import Ties

_BASE = torch._C.TensorBase
_BASE_FIELD = vars(_BASE)["_base"].__get__
_is_leaf = vars(_BASE)["is_leaf"].__get__
_requires_grad = vars(_BASE)["requires_grad"].__get__
_STRIDED = torch.strided
Extent = tuple[int, int, int]
"""First byte, byte behind the last, bytes shown between them."""


def base_of(tensor: Any) -> Any:
    """Returns the tensor that torch keeps for a view's sake; None where there is none."""
    if not issubclass(type(tensor), torch.Tensor):
        return None
    try:
        return _BASE_FIELD(tensor)
    except RuntimeError:  # a view whose base was changed in place under no_grad
        return None


def shown_by(tensors: list[Any], ties: Ties) -> list[Any]:
    """Returns what shows a storage to the user: of tensors over it, those that somebody holds.

    A base that only its views keep shows nothing. For a tensor that only numpy's arrays keep, the
    arrays stand that somebody holds.
    """
    bases = {id(base_of(t)) for t in tensors if issubclass(type(t), torch.Tensor)}
    shown: dict[int, Any] = {}
    for tensor in tensors:
        if id(tensor) in ties.incoming or id(tensor) not in bases:
            shown.update((id(one), one) for one in _through_arrays(tensor, ties))
    return list(shown.values())


def is_plainly_shown(ref: StorageRef, thing: Any, ties: Ties) -> bool:
    """Returns whether one look tells that half or more of a storage is shown, as mostly.

    Args:
        ref: the storage.
        thing: a tensor over it.
        ties: who holds it: an array of numpy's may show less than the tensor under it.
    """
    held = ties.incoming.get(id(thing))
    if not held or is_array(ties.objects.get(held[0].holder)):
        return False
    if not issubclass(type(thing), torch.Tensor) or layout_of(thing) is not _STRIDED:
        return False
    size = _BASE.numel(thing) * _BASE.element_size(thing)
    return bool(2 * size >= ref.bytes and _BASE.is_contiguous(thing))


def _through_arrays(thing: Any, ties: Ties) -> list[Any]:
    found, stack, seen = [], [thing], {id(thing)}
    while stack:
        one = stack.pop()
        arrays = [h for h in _holders(one, ties) if is_array(h) and h.base is one]
        if len(arrays) < len(ties.incoming.get(id(one), ())) or not arrays:
            found.append(one)
        stack += [array for array in arrays if id(array) not in seen]
        seen.update(map(id, arrays))
    return found


def _holders(thing: Any, ties: Ties) -> list[Any]:
    return [ties.objects[t.holder] for t in ties.incoming.get(id(thing), ()) if t.holder != ROOT]


def is_array(thing: Any) -> bool:
    """Returns whether it is an array of numpy's own type, whose attributes run no other code."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(thing) is numpy.ndarray


def view_fact(
    ref: StorageRef, shown: list[Any], start: int, names: Callable[[Any], str], places: Places
) -> ViewFact | None:
    """Returns how much of a storage is shown; None where it is at least half.

    Args:
        ref: the storage.
        shown: every tensor and array that shows it.
        start: the address of its first byte.
        names: the name of a tensor or array; empty where it has none.
        places: finds where one stands.
    """
    parts = [_extent(thing, start) for thing in shown]
    if not parts or None in parts:
        return None
    extents = {part for part in parts if part is not None}
    used = min(sum(size for _, _, size in extents), _covered(extents))
    if 2 * used >= ref.bytes:
        return None
    called = [names(thing) for thing in shown]
    arrays = any(map(is_array, shown))
    names_of_all = tuple(called) if all(called) else ()
    attached = any(map(_keeps_its_base, shown))
    tied = _overlap(extents) or any(map(_takes_gradients, shown))
    stand = [] if tied else list(filter(None, map(places.of, shown)))
    return ViewFact(
        *(ref.serial, ref.bytes, used, names_of_all, arrays, attached),
        tuple(stand) if len(stand) == len(shown) else (),
        places.siblings(shown[0]),
        _why_it_stays(shown, overlap=len(extents) < len(parts) or _overlap(extents)),
    )


def _takes_gradients(thing: Any) -> bool:
    """Returns whether it is a leaf such as a parameter: a clone's graph would end there."""
    if is_array(thing):
        return False
    return bool(_is_leaf(thing) and _requires_grad(thing))


def _overlap(extents: Iterable[Extent]) -> bool:
    """Returns whether several show the same bytes: copies would no longer change together."""
    ends = sorted((first, last) for first, last, size in extents if size)
    return any(one[1] > other[0] for one, other in pairwise(ends))


def _why_it_stays(shown: list[Any], *, overlap: bool) -> str:
    """Returns why what shows a storage can't be moved, as in `ViewFact.stays`."""
    arrays = sum(map(is_array, shown))
    if arrays:
        return "shared" if arrays < len(shown) or overlap else ""
    return why_unmovable(shown, [base for base in map(base_of, shown) if base is not None])


def _keeps_its_base(thing: Any) -> bool:
    """Returns whether the graph of a view ends at what it was cut from, as at a weight."""
    base = base_of(thing)
    if base is None or _is_leaf(thing):
        return False
    return bool(_is_leaf(base) and _requires_grad(base))


def _extent(thing: Any, start: int) -> Extent | None:
    """Returns what a tensor or array shows; None where its layout has no strides."""
    if is_array(thing):
        first = thing.__array_interface__["data"][0] - start
        return _reach(first, thing.itemsize, thing.shape, thing.strides)
    if issubclass(type(thing), torch.UntypedStorage) or layout_of(thing) is not _STRIDED:
        return None
    size = _BASE.element_size(thing)
    strides = tuple(step * size for step in _BASE.stride(thing))
    return _reach(_BASE.storage_offset(thing) * size, size, tuple(_BASE.size(thing)), strides)


def _reach(first: Any, size: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Extent:
    if 0 in shape:
        return first, first, 0
    ends = [(length - 1) * step for length, step in zip(shape, strides, strict=True)]
    shown = size
    for length, step in zip(shape, strides, strict=True):
        shown *= length if step else 1
    low, high = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
    return first + low, first + high + size, shown


def _covered(extents: Iterable[Extent]) -> int:
    total, end = 0, 0
    for first, last, _ in sorted(extents):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
