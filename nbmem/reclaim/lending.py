"""Whether anything outside torch may read the memory of a storage: numpy, a file, a process.

`.numpy()` makes a storage non-resizable for good, and so does `torch.load`, so that flag does not
tell. An array holds a tensor: the one that was asked, or one more over its storage. The garbage
collector does not list numpy's arrays, so the first shows as a reference that nothing listed has;
the second shows in the storage's use count.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from nbmem.reclaim.detaching import Target

_WORDS = 8
"""Words at the beginning of a storage's C++ object among which its pointers are."""
_storage_of = torch._C.TensorBase.untyped_storage


def why_lent(targets: Sequence[Target]) -> str:
    """Returns what outside torch may read the storage of these tensors; empty where nothing does.

    Args:
        targets: every tensor that shows one storage. No running function has one in a variable.
    """
    storage = _storage_of(targets[0].tensor)
    on_cpu = storage.device.type == "cpu"
    if storage.resizable() and not (on_cpu and storage.is_shared()):
        return ""
    if not on_cpu or storage.is_shared() or not is_of_torch(storage):
        return "a numpy array, another process or a file may share its memory"
    alone = _unlisted(Target("", torch.empty(0)))
    if any(_unlisted(target) > alone for target in targets):
        return "a numpy array, or a function that runs now, holds it"
    return ""


def _unlisted(target: Target) -> int:
    """Returns the references to a tensor that no object of the garbage collector's has."""
    listed = sum(
        sum(1 for held in gc.get_referents(holder) if held is target.tensor)
        for holder in gc.get_referrers(target.tensor)
    )
    return sys.getrefcount(target.tensor) - listed


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
