"""Whether anything outside torch may read the memory of a storage: numpy, a file, a process.

`.numpy()` makes a storage non-resizable for good, and so does `torch.load`, so that flag does not
tell. An array holds a tensor: the one that was asked, or one more over its storage. The garbage
collector does not list numpy's arrays, so the first shows as a reference that nothing listed has;
the second shows in the storage's use count.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import torch

from nbmem.holders.owners import is_of_torch
from nbmem.reclaim.detaching import Target

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
