"""Storages moved to another device, and with each every tensor that shows it.

    enqueue all copies ──> wait once a device ──> point each tensor at its copy ──> let go

Where a copy fails nothing was touched; where pointing fails, all is pointed back. The tensors stay
the same objects: names, hooks, gradients, versions and what optimizers know them by stay theirs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psutil
import torch

from nbmem.heap import HeapScan
from nbmem.heap.storages import bare_torch, begins_graph, read_storages, untyped_storage
from nbmem.inventory.readers import type_name

_BASE: Any = torch._C.TensorBase
_FIELDS = vars(_BASE)
_dtype_of: Callable[[torch.Tensor], torch.dtype] = _FIELDS["dtype"].__get__
_base_of: Callable[[torch.Tensor], torch.Tensor | None] = _FIELDS["_base"].__get__
requires_grad: Callable[[torch.Tensor], bool] = _FIELDS["requires_grad"].__get__
_point_at: Callable[[torch.Tensor, torch.Tensor], None] = _FIELDS["data"].__set__
# Torch dropped named dimensions in 2.13.
_has_names: Callable[[torch.Tensor], bool] = getattr(_BASE, "has_names", lambda _: False)
_uses_of: Callable[[int], int] = torch._C._storage_Use_Count
HOST = "cpu"
STAYING = (HOST, "meta")
"""Where memory is that no accelerator would get back."""
FOREIGN = (
    "is on a device whose tensors torch can't re-point to the CPU: `.cpu()` moves a model, and "
    "makes a copy of a tensor"
)
"""Why nothing moves that is on such a device, as a vendor's own is (`npu`, …)."""
_NO_ROOM = re.compile(r"out of (\w+ )?memory|allocate memory|not enough memory")
"""In an error that says nothing by its type: other words than these have to do with memory, too."""


class Carrier(Protocol):
    """Where storages are, and how their bytes get elsewhere."""

    def device_of(self, storage: torch.UntypedStorage) -> str:
        """Returns torch's name of the device: `cuda:0`, `cpu`."""

    def accelerators(self) -> bool:
        """Returns whether this machine has an accelerator."""

    def wait(self, device: str) -> None:
        """Waits until the device has done what it was told: nothing writes any more."""

    def copy(self, storage: torch.UntypedStorage, device: str) -> torch.UntypedStorage:
        """Returns a storage on another device that gets the same bytes, pinned if on the CPU.

        The bytes are complete after `wait` for both devices.
        """

    def allocated(self, device: str) -> int | None:
        """Returns the bytes in live blocks, as the allocator says; None where it can't tell."""

    def host_room(self) -> int:
        """Returns the bytes of main memory that can be had without swapping."""


class TorchCarrier:
    """The real one."""

    def device_of(self, storage: torch.UntypedStorage) -> str:
        """Returns torch's name of the device; every CPU is `cpu`."""
        return HOST if storage.device.type == HOST else str(storage.device)

    def accelerators(self) -> bool:
        """Returns whether torch sees an accelerator; starts none."""
        return torch.accelerator.is_available()

    def wait(self, device: str) -> None:
        """Waits for all streams of the device: a side stream may still write what is copied."""
        torch.accelerator.synchronize(torch.device(device))

    def copy(self, storage: torch.UntypedStorage, device: str) -> torch.UntypedStorage:
        """Enqueues a copy of the bytes as they are, NaNs included; does not wait for it."""
        made = torch.empty(
            storage.nbytes(), dtype=torch.uint8, device=device, pin_memory=device == HOST
        )
        bytes_of = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return untyped_storage(made.copy_(bytes_of, non_blocking=True))

    def allocated(self, device: str) -> int | None:
        """Returns `torch.accelerator.memory_allocated(device)`."""
        try:
            return torch.accelerator.memory_allocated(torch.device(device))
        except (RuntimeError, ValueError):  # an allocator without counters; not the accelerator
            return None

    def host_room(self) -> int:
        """Returns what the system calls available."""
        return int(psutil.virtual_memory().available)


class MoveError(Exception):
    """Nothing was moved, or all of it was moved back."""

    def __init__(self, reason: str, out_of_memory: bool) -> None:
        super().__init__(reason)
        self.out_of_memory = out_of_memory


@dataclass(slots=True)
class Load:
    """A storage with every tensor that shows it. It holds them: to be dropped after the act."""

    storage: torch.UntypedStorage
    tensors: list[torch.Tensor]
    source: str
    target: str
    name: str
    parts: bool = False
    """A sparse, nested or quantized tensor is made of it."""

    @property
    def bytes(self) -> int:
        """Of the storage."""
        return self.storage.nbytes()


class Sharing:
    """Which tensors of a scan show which storage, and who in C++ is known to hold them."""

    def __init__(self, scan: HeapScan, known: Iterable[torch.Tensor] = ()) -> None:
        """Takes every tensor of the scan, and `known` ones: it holds them."""
        self._of: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
        self._parts: set[int] = set()
        kept = [(id(tensor), node.kind) for node, _, tensor in scan.graph.saved()]
        self._kept = {key for key, _ in kept}
        self._saved = {key for key, kind in kept if kind != "AccumulateGrad"}
        self._held = Counter(gradient for _, gradient in scan.gradients)
        self._bases: dict[int, torch.Tensor] = {}
        """Of each view, by its `id`: often nobody but its views holds a base."""
        for tensor in _each_once(scan, known):
            storages = read_storages(tensor)
            base = _base_of(tensor)
            if base is not None:
                self._bases[id(tensor)] = base
                self._held[id(base)] += 2
            if len(storages) == 1:
                self._of[storages[0]._cdata].append(tensor)
            else:
                self._parts.update(storage._cdata for storage in storages)

    def load(self, address: int, source: str, target: str, name: str) -> Load | None:
        """Returns the storage with the tensors that show it; None where none does."""
        tensors = {id(tensor): tensor for tensor in self._of.get(address, ())}
        for tensor in list(tensors.values()):
            base = self._bases.get(id(tensor))
            # After `view.data = …` they have no memory in common.
            if base is not None and any(s._cdata == address for s in read_storages(base)):
                tensors[id(base)] = base
        if not tensors:
            return None
        parts, shown = address in self._parts, list(tensors.values())
        return Load(untyped_storage(shown[0]), shown, source, target, name, parts)

    def awaits_backward(self, load: Load) -> bool:
        """Returns whether a graph made one of the tensors, or keeps it for a backward pass."""
        return any(id(each) in self._saved or begins_graph(each) for each in load.tensors)

    def obstacle(self, load: Load) -> str | None:
        """Returns why this storage can't be moved, as a clause that follows its name."""
        if load.parts:
            return "is part of a sparse, nested or quantized tensor, which torch can't re-point"
        for tensor in load.tensors:
            reason = kind_obstacle(tensor) or _extent_obstacle(tensor, load.bytes)
            if reason is not None:
                return reason
        if _holders_of(load) != _holders_of_a_fresh_one():
            return (
                "has memory that more than its tensors hold: a storage object, an export by DLPack,"
                " or C++, as DistributedDataParallel's buckets"
            )
        if any(self._is_held_elsewhere(tensor) for tensor in load.tensors):
            return (
                "is held in C++ as well, as by DistributedDataParallel, a scripted module or an"
                " export by DLPack, which would not hear of the move"
            )
        return None

    def _is_held_elsewhere(self, tensor: torch.Tensor) -> bool:
        # What a graph keeps it may keep in ways that torch does not show.
        known = 1 + self._held[id(tensor)]
        return id(tensor) not in self._kept and _BASE._use_count(tensor) > known


def _each_once(scan: HeapScan, known: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    seen: set[int] = set()
    for tensor in (*known, *scan.tensors, *(kept for _, _, kept in scan.graph.saved())):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor


def kind_obstacle(tensor: torch.Tensor) -> str | None:
    """Returns why a tensor of this kind can't be moved in place; None where it can."""
    if is_wrapper(tensor):
        return (
            f"is a {type_name(type(tensor))}, which acts for the tensors"
            " inside it: move it by its own means, such as `.to('cpu')`"
        )
    if _FIELDS["layout"].__get__(tensor) is not torch.strided:
        return "is sparse, or of another layout that torch can't re-point: `.cpu()` makes a copy"
    if _FIELDS["is_nested"].__get__(tensor) or _FIELDS["is_quantized"].__get__(tensor):
        return "is nested or quantized, which torch can't re-point: `.cpu()` makes a copy"
    if _has_names(tensor):
        return "has named dimensions, which would be lost: `.rename(None)` takes them off"
    if not torch._has_compatible_shallow_copy_type(tensor, torch.empty(0)):
        return FOREIGN
    return None


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Returns whether Python code of the tensor's class stands in for its memory."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def _extent_obstacle(tensor: torch.Tensor, size: int) -> str | None:
    shape, strides = _BASE.size(tensor), _BASE.stride(tensor)
    if 0 in shape:
        return None
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    end = (_BASE.storage_offset(tensor) + last + 1) * _dtype_of(tensor).itemsize
    return "has no memory now: its storage was made smaller than it" if end > size else None


def _holders_of(load: Load) -> tuple[int, int]:
    """Returns how many hold the storage in C++, its tensors aside, and how many in Python."""
    uses = _uses_of(load.storage._cdata) - len(load.tensors)
    return uses, sys.getrefcount(load.storage)


def _holders_of_a_fresh_one() -> tuple[int, int]:
    tensor = torch.empty(1)
    return _holders_of(Load(untyped_storage(tensor), [tensor], HOST, HOST, ""))


def move(loads: Sequence[Load], carrier: Carrier) -> None:
    """Moves each storage to its target; afterwards `load.storage` is the new one.

    All copies are made before the first tensor is touched, so that the source's memory is given
    back at the end and never needed again.

    Raises:
        MoveError: a copy or a tensor failed; everything is as it was.
    """
    with bare_torch(), torch.no_grad():
        copies = _copy_all(loads, carrier)
        undo: list[tuple[torch.Tensor, torch.Tensor]] = []
        try:
            for load, copy in zip(loads, copies, strict=True):
                _point_all(load, copy, undo)
        except BaseException as error:
            for tensor, before in reversed(undo):
                _point_at(tensor, before)
            if isinstance(error, RuntimeError):
                raise _as_move_error(error) from None
            raise
    for load, copy in zip(loads, copies, strict=True):
        load.storage = copy


def _copy_all(loads: Sequence[Load], carrier: Carrier) -> list[torch.UntypedStorage]:
    """Returns complete copies; waits twice for each device, however many storages there are.

    The first wait ends what other streams still write, the second ends the copies.
    """
    devices = sorted({name for x in loads for name in (x.source, x.target)} - {HOST})
    copies: list[torch.UntypedStorage] = []
    try:
        for device in devices:
            carrier.wait(device)
        try:
            copies.extend(carrier.copy(load.storage, load.target) for load in loads)
        finally:  # also where one failed: memory that a copy still writes must not be let go
            for device in devices:
                carrier.wait(device)
    except (RuntimeError, MemoryError) as error:
        raise _as_move_error(error) from None
    return copies


def _as_move_error(error: Exception) -> MoveError:
    lines = str(error).strip().splitlines()
    kinds = (MemoryError, torch.OutOfMemoryError)
    short = isinstance(error, kinds) or _NO_ROOM.search(str(error).lower().replace("_", " "))
    return MoveError(lines[0] if lines else type(error).__name__, bool(short))


def _point_all(
    load: Load, copy: torch.UntypedStorage, undo: list[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    for tensor in load.tensors:
        before, after = shown_alike(tensor, load.storage), shown_alike(tensor, copy)
        undo.append((tensor, before))
        _point_at(tensor, after)


def shown_alike(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Returns a tensor that shows a storage as `tensor` shows its own.

    Of the same dtype, shape, strides and offset, conjugated or negated the same, and made for
    inference where `tensor` is: what `tensor.data = …` takes over, and nothing else.
    """
    with torch.inference_mode(_BASE.is_inference(tensor)):
        shown = torch.empty(0, dtype=_dtype_of(tensor), device=storage.device)
        shape, strides = _BASE.size(tensor), _BASE.stride(tensor)
        shown.set_(storage, _BASE.storage_offset(tensor), shape, strides)
        torch._C._set_conj(shown, _BASE.is_conj(tensor))
        torch._C._set_neg(shown, _BASE.is_neg(tensor))
    return shown
