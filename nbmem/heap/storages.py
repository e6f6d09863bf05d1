"""Reading one tensor's storages without running anybody's code."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import torch

from nbmem.heap.pinned import pinned_total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BASE = torch._C.TensorBase
"""Its methods are called unbound: a subclass may have its own under the same names."""
_SPARSE: dict[torch.layout, tuple[Callable[[torch.Tensor], torch.Tensor], ...]] = {
    torch.sparse_coo: (_BASE._indices, _BASE._values),
    torch.sparse_csr: (_BASE.crow_indices, _BASE.col_indices, _BASE.values),
    torch.sparse_bsr: (_BASE.crow_indices, _BASE.col_indices, _BASE.values),
    torch.sparse_csc: (_BASE.ccol_indices, _BASE.row_indices, _BASE.values),
    torch.sparse_bsc: (_BASE.ccol_indices, _BASE.row_indices, _BASE.values),
}
_NESTED = (
    _BASE._nested_tensor_size,
    _BASE._nested_tensor_strides,
    _BASE._nested_tensor_storage_offsets,
)
_PER_CHANNEL = (_BASE.q_per_channel_scales, _BASE.q_per_channel_zero_points)
_PER_CHANNEL_SCHEMES = (torch.per_channel_affine, torch.per_channel_affine_float_qparams)

_FIELDS = vars(_BASE)
layout_of: Callable[[torch.Tensor], torch.layout] = _FIELDS["layout"].__get__
is_nested: Callable[[torch.Tensor], bool] = _FIELDS["is_nested"].__get__
is_quantized: Callable[[torch.Tensor], bool] = _FIELDS["is_quantized"].__get__
_grad_of: Callable[[torch.Tensor], torch.Tensor | None] = _FIELDS["grad"].__get__
_grad_fn_of: Callable[[torch.Tensor], object] = _FIELDS["grad_fn"].__get__
_is_leaf: Callable[[torch.Tensor], bool] = _FIELDS["is_leaf"].__get__
_retains_grad: Callable[[torch.Tensor], bool] = _FIELDS["retains_grad"].__get__
untyped_storage = _BASE.untyped_storage


@contextmanager
def bare_torch() -> Iterator[None]:
    """Within it no `__torch_function__`, `__torch_dispatch__` or mode of the user's is called."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


@contextmanager
def outside_transforms() -> Iterator[None]:
    """Within it torch computes plainly, although a `torch.func` transform runs around it."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        yield
        return
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    with temporarily_clear_interpreter_stack():
        yield


def storages_of(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """Returns the storages that hold the tensor's bytes, each once.

    One for a plain tensor, those of indices and values for a sparse one, those of the sizes as
    well for a nested one; none for meta, fake and wrapper tensors, whose inner tensors are tensors
    of their own.
    """
    with bare_torch():
        return [storage for storage in read_storages(tensor) if is_real(storage)]


def is_real(storage: torch.UntypedStorage) -> bool:
    """Returns whether the storage has memory of its own, unlike a meta, fake or wrapper one."""
    if storage.device.type == "meta":  # the pointer of a fake one may not be asked for
        return False
    try:
        storage.data_ptr()
    except RuntimeError:
        return False
    return True


def read_storages(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    """Returns the tensor's storages, real or not; to be called within `bare_torch()`."""
    try:
        if is_nested(tensor) or is_quantized(tensor):
            return _read_parts(tensor)
        return [untyped_storage(tensor)]
    except (RuntimeError, ValueError):  # sparse, opaque, functorch's; not initialized yet
        return _read_parts(tensor)


def _read_parts(tensor: torch.Tensor) -> list[torch.UntypedStorage]:
    parts: dict[int, torch.UntypedStorage] = {}
    for read in _readers_of(tensor):
        try:
            storage = untyped_storage(read(tensor))
        except (RuntimeError, ValueError):
            continue
        parts[storage._cdata] = storage
    return list(parts.values())


def _readers_of(tensor: torch.Tensor) -> tuple[Callable[[torch.Tensor], torch.Tensor], ...]:
    if torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python):
        return (_itself,)  # its parts are Python's; C++ would cast it to what it is not and crash
    sparse = _SPARSE.get(layout_of(tensor))
    if sparse is not None:
        return sparse
    if is_nested(tensor):
        return (_itself, *_NESTED)
    if is_quantized(tensor) and _BASE.qscheme(tensor) in _PER_CHANNEL_SCHEMES:
        return (_itself, *_PER_CHANNEL)
    return (_itself,)


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Returns the gradient of a leaf, or of a tensor told to keep its own; None for all else.

    Asking another tensor would make torch warn. To be called within `bare_torch()`.
    """
    try:
        return _grad_of(tensor) if _is_leaf(tensor) or _retains_grad(tensor) else None
    except RuntimeError:  # torch refuses to tell: a view whose base was changed in place
        return None


def begins_graph(tensor: torch.Tensor) -> bool:
    """Returns whether an operation of an autograd graph made the tensor."""
    try:
        return _grad_fn_of(tensor) is not None
    except RuntimeError:  # a view whose base was changed in place under no_grad
        return False


def accelerator_runs() -> bool:
    """Returns whether a GPU's runtime has started in this process; asking does not start it.

    Pinned memory counts too: torch can pin without starting CUDA in its own sense.
    """
    if pinned_total():
        return True
    found = torch.accelerator.current_accelerator()
    kinds = ("cuda", "xpu") if found is None else ("cuda", "xpu", found.type)
    told = [getattr(getattr(torch, kind, None), "is_initialized", None) for kind in kinds]
    if any(is_initialized is not None and is_initialized() for is_initialized in told):
        return True
    if found is None or told[-1] is not None:
        return False
    with suppress(RuntimeError):  # a vendor's allocator that torch can't ask
        return bool(torch._C._accelerator_isAllocatorInitialized())
    return False


def is_pinned(tensor: torch.Tensor) -> bool:
    """Returns whether it is page-locked memory of the host: `tensor.is_pinned()`.

    To be asked only while `accelerator_runs()`: before, nothing is pinned, and asking would start
    the runtime.
    """
    try:
        return _BASE.is_pinned(tensor)
    except RuntimeError:  # of a layout that can't be pinned
        return False
