"""Whose memory a storage shows: torch's own, a mapping that others see, or what an object lent.

Only torch's own memory can be given back by moving what is shown of it. A copy of what is shown of
a shared mapping would be cut from its file or its other processes, and one of what an object lent
would free nothing while that object lives.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from nbmem.heap.storages import is_nested, is_quantized

_WORDS = 8
"""Words at the beginning of a storage's C++ object among which its pointers are."""
_storage_of = torch._C.TensorBase.untyped_storage
_holders_in_torch: Callable[[torch.Tensor], int] = vars(torch._C.TensorBase)["_use_count"]
_retains_grad = vars(torch._C.TensorBase)["retains_grad"].__get__
_is_leaf = vars(torch._C.TensorBase)["is_leaf"].__get__


class Mapping(NamedTuple):
    """What the system says of a part of this process's memory."""

    shared: bool
    """What is written there reaches a file or other processes."""
    from_file: bool


def mapping_at(address: int) -> Mapping | None:
    """Returns what is mapped at an address; None where the system does not say."""
    for first, last, mapping in _mappings():
        if first <= address < last:
            return mapping
    return None


def _mappings() -> Iterator[tuple[int, int, Mapping]]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                extent, may, _, _, inode, *_ = line.split()
                first, last = (int(part, 16) for part in extent.split("-"))
                yield first, last, Mapping("s" in may, inode != "0")
    except (OSError, ValueError):  # another system
        return


def is_shared(tensor: torch.Tensor) -> bool:
    """Returns whether what is written to a tensor on the CPU reaches a file or other processes."""
    storage = _storage_of(tensor)
    if storage.device.type != "cpu" or (storage.resizable() and not storage.is_shared()):
        return False
    if not storage.is_shared() and is_of_torch(storage):
        return False
    found = mapping_at(storage.data_ptr())
    return storage.is_shared() if found is None else found.shared


def why_unmovable(tensors: Sequence[torch.Tensor], bases: Sequence[torch.Tensor]) -> str:
    """Returns why these tensors can't be given other memory, as in `ViewFact.stays`.

    Args:
        tensors: all that show one storage.
        bases: those that they are views of.
    """
    known = set(map(id, tensors))
    others = {id(base): base for base in bases if id(base) not in known}
    views = Counter(map(id, bases))
    storage = _storage_of(tensors[0])
    uses = len(tensors) + len(others) + 1  # one more: the object that is asked here
    if (
        any(_holders_in_torch(tensor) > 1 + views[id(tensor)] for tensor in tensors)
        or any(_holders_in_torch(base) > 1 + views[key] for key, base in others.items())
        or any(map(_awaits_gradient, tensors))
        or torch._C._storage_Use_Count(storage._cdata) > uses
    ):
        return "read"
    return "copied" if not _is_plain(storage) or any(map(_has_rules, tensors)) else ""


def _awaits_gradient(tensor: torch.Tensor) -> bool:
    return bool(_retains_grad(tensor) and not _is_leaf(tensor))


def _is_plain(storage: torch.UntypedStorage) -> bool:
    """Returns whether it is torch's own memory of which nobody else was told the address."""
    if storage.device.type != "cpu":
        return bool(storage.resizable())
    return not storage.is_shared() and (bool(storage.resizable()) or is_of_torch(storage))


def _has_rules(tensor: torch.Tensor) -> bool:
    """Returns whether a tensor's memory can't be exchanged, though a copy of it can be made."""
    python = torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python)
    return bool(
        python
        or is_nested(tensor)
        or is_quantized(tensor)
        or torch._C.TensorBase.is_inference(tensor)
    )


class _Places(NamedTuple):
    """Where in a storage's C++ object the pointers are that tell whose its memory is."""

    data: int
    owner: int
    """torch's own allocator writes the address itself here, all others an object of theirs."""
    free: int
    """The function that frees it."""
    freed_by: int


def is_of_torch(storage: torch.UntypedStorage) -> bool:
    """Returns whether torch's allocator for the CPU made this memory; False where it is unknown."""
    places = _find_places()
    if places is None:
        return False
    words = _words_of(storage)
    data = storage.data_ptr()
    return (data, data, places.freed_by) == (
        words[places.data],
        words[places.owner],
        words[places.free],
    )


@cache
def _find_places() -> _Places | None:
    """Returns where these pointers are in this torch, found by example; None where they are not."""
    mine, other = torch.empty(64, dtype=torch.uint8, device="cpu"), bytearray(64)
    lent = torch.frombuffer(other, dtype=torch.uint8)
    words, data = _words_of(_storage_of(mine)), mine.data_ptr()
    found = [at for at, word in enumerate(words) if word == data]
    theirs = _words_of(_storage_of(lent))
    if len(found) != 2 or found[1] - found[0] != 2:
        return None
    places = _Places(found[0], found[1], found[0] + 1, words[found[0] + 1])
    address = lent.data_ptr()
    told = theirs[places.data] == address != theirs[places.owner]
    return places if told and theirs[places.free] != places.freed_by else None


def _words_of(storage: torch.UntypedStorage) -> list[int]:
    words: Any = (ctypes.c_uint64 * _WORDS).from_address(storage._cdata)
    return list(words)
