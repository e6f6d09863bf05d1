"""The pieces of a tensor that have storages of their own, and the word that follows its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from nbmem.heap.storages import layout_of, read_storages, untyped_storage

if TYPE_CHECKING:
    from collections.abc import Callable

_BASE = torch._C.TensorBase
_Reading = tuple[str, "Callable[[torch.Tensor], torch.Tensor]"]
_ROWS: tuple[_Reading, ...] = (
    ("crow_indices", _BASE.crow_indices),
    ("col_indices", _BASE.col_indices),
    ("values", _BASE.values),
)
_COLUMNS: tuple[_Reading, ...] = (
    ("ccol_indices", _BASE.ccol_indices),
    ("row_indices", _BASE.row_indices),
    ("values", _BASE.values),
)
_SPARSE: dict[torch.layout, tuple[_Reading, ...]] = {
    torch.sparse_coo: (("indices", _BASE._indices), ("values", _BASE._values)),
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}
_OTHERS: tuple[_Reading, ...] = (
    ("", lambda tensor: tensor),
    ("sizes", _BASE._nested_tensor_size),
    ("strides", _BASE._nested_tensor_strides),
    ("offsets", _BASE._nested_tensor_storage_offsets),
    ("scales", _BASE.q_per_channel_scales),
    ("zero points", _BASE.q_per_channel_zero_points),
)


class Part(NamedTuple):
    """One storage of a tensor."""

    storage: torch.UntypedStorage
    word: str
    """What follows the tensor's name, in brackets; empty for the only part."""
    tensor: torch.Tensor | None
    """The piece that shows the storage; None where it is bare."""


def parts_of(thing: Any) -> list[Part]:
    """Returns the storages of a tensor, or a bare storage itself, real or not.

    One part for a plain tensor; several for a sparse, nested or quantized one. To be called
    within `bare_torch()`.
    """
    if issubclass(type(thing), torch.UntypedStorage):
        return [Part(thing, "", None)]
    storages = read_storages(thing)
    if len(storages) == 1:
        return [Part(storages[0], "", thing)]
    return _several(thing) if storages else []


def _several(tensor: torch.Tensor) -> list[Part]:
    found = []
    for word, read in _SPARSE.get(layout_of(tensor), _OTHERS):
        try:
            piece = read(tensor)
            found.append(Part(untyped_storage(piece), word, piece))
        except (RuntimeError, ValueError):
            continue  # not this kind of tensor
    return found


def with_word(name: str, word: str) -> str:
    """Returns the name of a part: `s (indices)`."""
    return f"{name} ({word})" if word else name


def as_tensor(part: Part) -> torch.Tensor:
    """Returns a tensor of the part's storage: its bytes, where no tensor shows it."""
    if part.tensor is not None:
        return part.tensor
    return torch.empty(0, dtype=torch.uint8, device=part.storage.device).set_(part.storage)
