"""What is known of one storage while an inventory is being made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nbmem.inventory.paths import Step
from nbmem.records import CATEGORIES, Note, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import StorageRef

MAX_NAMES = 20
"""Names kept for each storage; the others are counted in a note."""

PARAMETER, BUFFER, GRADIENT, OPTIMIZER_STATE, SAVED, USER, UNKNOWN = range(len(CATEGORIES))
FIRST, OF_GRADIENT, OF_STATE, PRIVATE, OF_GRAPH, LAST = 0, 1, 2, 3, 6, 7
"""Ranks of names: the user's variables, `.grad`, an optimizer's state, graphs, IPython's caches.

PRIVATE is added to the first three where the way leads through an attribute that is not public, and
to the first where it is an optimizer's list of parameters.
"""
_TELLING = {
    Step.PARAMETER: PARAMETER,
    Step.BUFFER: BUFFER,
    Step.GRADIENT: GRADIENT,
    Step.STATE: OPTIMIZER_STATE,
}
OF_STEP = tuple(_TELLING.get(step, USER) for step in Step)
"""The category that a step gives to what it leads to."""

_BASE: Any = torch._C.TensorBase
_shape_of = _BASE.shape.__get__
_dtype_of = _BASE.dtype.__get__
_numel_of = _BASE.numel
_DTYPES: dict[torch.dtype, str] = {}
_BARE = Note(
    "shape", "no_tensor", "No tensor that Python can reach shows this storage: these are its bytes."
)


class Row:
    """One storage: the tensors that share it, their names, what it is for."""

    __slots__ = (
        "best",
        "best_named",
        "category",
        "led",
        "module",
        "more",
        "names",
        "rank",
        "saved_at",
        "saved_by",
        "seen",
        "views",
    )

    def __init__(self) -> None:
        self.best: torch.Tensor | None = None
        self.best_named = False
        self.views = 0
        self.names: tuple[str, ...] = ()
        self.more = 0
        self.category = UNKNOWN
        self.led = False
        self.rank = FIRST
        self.module: str | None = None
        self.saved_at: tuple[int, str] | None = None
        """The graph's node that keeps it, by index, and which of the node's values it is."""
        self.saved_by: str | None = None
        """The same in words, where nothing else says what the storage is for."""
        self.seen = False
        """Whether Python holds it, be it as a bare storage."""

    def take(self, tensor: torch.Tensor | None, named: bool, category: int) -> None:
        """Takes up one more tensor that Python holds; None where it holds the bare storage."""
        self.seen = True
        if category < self.category:
            self.category = category
        if tensor is None:
            return
        self.views += 1
        if self.best is None:
            self.best, self.best_named = tensor, named
        else:
            self.show(tensor, named)

    def show(self, tensor: torch.Tensor | None, named: bool) -> None:
        """Takes the tensor for the record's shape if it shows the storage better."""
        if tensor is None:
            return
        if self.best is not None:
            if self.best_named != named:
                if self.best_named:
                    return
            elif _numel_of(tensor) <= _numel_of(self.best):
                return
        self.best, self.best_named = tensor, named

    def add_name(self, name: str, rank: int = FIRST) -> None:
        """Adds a name, or counts it where there are enough; lower ranks stand before higher."""
        if not self.names:
            self.names, self.rank = (name,), rank
        elif len(self.names) >= MAX_NAMES:
            self.more += 1
        elif rank < self.rank:
            self.names, self.rank = (name, *self.names), rank
        else:
            self.names += (name,)

    @property
    def lacks_name(self) -> bool:
        """Whether it has no name, or none but an entry of IPython's caches."""
        return not self.names or self.rank == LAST

    def lead_with(self, name: str) -> None:
        """Puts a variable before others that are only views: its tensor gives the shape."""
        if not self.led and name in self.names:
            self.names = (name, *(other for other in self.names if other != name))
            self.led = True

    def is_for(self, category: int) -> None:
        """Takes a category that one of the tensors gives it; the first of CATEGORIES wins."""
        if category < self.category:
            self.category = category

    def write(
        self, ref: StorageRef, origin: tuple[int | None, int | None, int | None]
    ) -> StorageRecord:
        """Returns the record of the storage."""
        dtype, shape, notes = _show_best(self.best, ref.bytes)
        if self.more:
            notes = (*notes, Note("names", "more", f"It has {self.more:,} more names."))
        return StorageRecord(
            ref.serial,
            ref.bytes,
            ref.total.device,
            dtype,
            shape,
            CATEGORIES[self.category],
            self.names,
            origin[0],
            origin[1],
            self.views,
            self.seen,
            notes,
            1,
            self.module,
            self.saved_by,
            origin[2],
        )


def _show_best(
    tensor: torch.Tensor | None, size: int
) -> tuple[str, tuple[int, ...], tuple[Note, ...]]:
    if tensor is None:
        return "uint8", (size,), (_BARE,)
    dtype = _dtype_of(tensor)
    name = _DTYPES.get(dtype)
    if name is None:
        name = _DTYPES[dtype] = str(dtype).removeprefix("torch.")
    try:
        return name, tuple(_shape_of(tensor)), ()
    except RuntimeError:  # a nested tensor has no one shape
        return name, (_numel_of(tensor),), ()
