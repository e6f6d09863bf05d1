"""Giving the visible part of a large storage a storage of its own, so that the rest can go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from nbmem.heap.storages import (
    accelerator_runs,
    bare_torch,
    is_nested,
    is_pinned,
    is_quantized,
    layout_of,
)
from nbmem.reclaim.captured import any_captured
from nbmem.reclaim.detaching import (
    Target,
    become,
    grad_fn_of,
    grad_of,
    has_own_rules,
    is_leaf,
    retains_grad,
    set_grad,
)
from nbmem.reclaim.layouts import Arranged, Layout, arrange, layout_in_storage
from nbmem.reclaim.lending import why_lent
from nbmem.reclaim.outcome import Outcome, list_of
from nbmem.units import format_bytes

_BASE = torch._C.TensorBase
_FIELDS = vars(_BASE)
_base_of: Callable[[torch.Tensor], torch.Tensor | None] = _FIELDS["_base"].__get__
_data: Any = _FIELDS["data"]
_device_of: Callable[[torch.Tensor], torch.device] = _FIELDS["device"].__get__
_requires_grad: Callable[[torch.Tensor], bool] = _FIELDS["requires_grad"].__get__
_storage_of: Callable[[torch.Tensor], torch.UntypedStorage] = _BASE.untyped_storage
_holders_in_torch: Callable[[torch.Tensor], int] = _FIELDS["_use_count"]
_HOOKS = tuple(_FIELDS[name] for name in ("_backward_hooks", "_post_accumulate_grad_hooks"))
_BY_ADDRESS = ("cupy", "numba", "pycuda")
"""Libraries that read a tensor's memory by its address and let nobody know."""


def shrink_views(targets: Sequence[Target]) -> Outcome:
    """Moves these tensors, which show parts of large storages, to storages of just their size.

    Each stays the same object with the same numbers, its place as a leaf, gradient, hooks and
    graph; tensors that overlap still do. Strides stay where no gaps are to be closed. A storage
    is left alone, with the reason, where anything else may show it or read its memory.

    Args:
        targets: every tensor that shows any of these storages.
    """
    outcome = Outcome()
    with bare_torch():
        groups = [group for group in _by_storage(targets) if not _is_refused(group, outcome)]
        devices = _devices_of(groups)
        _wait(devices)  # any stream may still write what is copied
        try:
            for group in groups:
                _shrink(group, outcome)
        finally:
            _wait(devices)  # and read the copy, or get the memory that was left
    return outcome


def _devices_of(groups: Sequence[Sequence[Target]]) -> list[torch.device]:
    """Returns the accelerators whose streams may use these tensors' memory."""
    tensors = [group[0].tensor for group in groups]
    found = {_device_of(tensor) for tensor in tensors} - {torch.device("cpu")}
    kind = torch.accelerator.current_accelerator()
    if kind is not None and accelerator_runs() and any(map(is_pinned, tensors)):
        indexes = range(torch.accelerator.device_count())
        devices = [torch.device(kind.type, index) for index in indexes]
        # Asking another to wait would start it.
        found.update(device for device in devices if torch.accelerator.memory_reserved(device))
    return sorted(found, key=str)


def _wait(devices: Iterable[torch.device]) -> None:
    for device in devices:
        torch.accelerator.synchronize(device)


def why_not_shrink(targets: Sequence[Target]) -> str:
    """Returns why `shrink_views` would leave these alone; empty where it would move them."""
    with bare_torch():
        reasons = map(_why_not, _by_storage(targets))
        return next(filter(None, reasons), "")


def shrunk_bytes(targets: Sequence[Target]) -> int | None:
    """Returns the bytes that the new storages would have; None where nothing would be moved."""
    total = 0
    with bare_torch():
        for group in _by_storage(targets):
            if _why_not(group):
                return None
            total += sum(size for size, _ in _arranged(group))
    return total


def _arranged(group: Sequence[Target]) -> Arranged:
    return arrange([layout_in_storage(target.tensor) for target in group])


def _by_storage(targets: Sequence[Target]) -> list[list[Target]]:
    groups: dict[int, list[Target]] = {}
    seen: set[int] = set()
    for target in targets:
        if id(target.tensor) not in seen:
            seen.add(id(target.tensor))
            groups.setdefault(_key_of(target.tensor), []).append(target)
    return list(groups.values())


def _key_of(tensor: torch.Tensor) -> int:
    try:
        return int(_storage_of(tensor)._cdata)
    except (RuntimeError, ValueError):  # a layout without one storage
        return -id(tensor)


def _is_refused(group: Sequence[Target], outcome: Outcome) -> bool:
    reason = _why_not(group)
    if reason:
        names, first = list_of(target.name for target in group), group[0].name
        outcome.refused.append(f"{names}: {reason}; `{first} = {first}.clone()`")
    return bool(reason)


def _shrink(group: list[Target], outcome: Outcome) -> None:
    names = list_of(target.name for target in group)
    old = _storage_of(group[0].tensor)
    before, after = old.nbytes(), 0
    layouts = [layout_in_storage(target.tensor) for target in group]
    parts = arrange(layouts)
    if sum(size for size, _ in parts) >= before:
        outcome.refused.append(f"{names}: shows all of its {format_bytes(before)}")
        return
    for size, members in parts:
        new = _copy(old, size, [(layouts[index], layout) for index, layout in members])
        after += size
        for index, layout in members:
            _move(group[index].tensor, new, layout)
    outcome.done.append(
        f"move {names} from a storage of {format_bytes(before)} to {format_bytes(after)}"
    )


def _why_not(group: Sequence[Target]) -> str:
    tensors = [target.tensor for target in group]
    if reason := next(filter(None, map(_unmovable, tensors)), ""):
        return reason
    storage_is_read = why_lent(group) or _not_alone(tensors)
    return storage_is_read or _read_by_address(_storage_of(tensors[0]))


def _unmovable(tensor: torch.Tensor) -> str:
    if has_own_rules(tensor):
        return "its class has code of its own for its memory"
    if layout_of(tensor) is not torch.strided or is_nested(tensor) or is_quantized(tensor):
        return "its layout has several storages or numbers of its own beside"
    if torch._C.TensorBase.is_inference(tensor):
        return "it was made under inference_mode, where only a copy, `x.clone()`, gets other memory"
    try:
        made_by, base = grad_fn_of(tensor), _base_of(tensor)
    except RuntimeError:
        return "it is a view whose base was changed in place"
    if _holders_in_torch(tensor) > 1:
        return "a graph that awaits its backward, or a library that was handed it, reads it"
    if base is None and made_by is None:
        return ""
    if made_by is not None and retains_grad(tensor):
        return "it keeps its gradient in the middle of a graph"
    return "" if _can_become(tensor) else "torch itself keeps an eye on it"


def _can_become(tensor: torch.Tensor) -> bool:
    other = torch.empty(0)
    return become(tensor, other) and become(tensor, other)


def _not_alone(tensors: Sequence[torch.Tensor]) -> str:
    """Returns what else shows the storage, in words; empty where these tensors are all."""
    if _references_to(tensors[0]) > _references_to(torch.empty(1)):
        return "its storage is held as an object"
    storage = _storage_of(tensors[0])
    bases = _Bases(tensors)
    uses = torch._C._storage_Use_Count(storage._cdata)
    if uses > len(tensors) + len(bases.tensors) + 1:  # one more: the object that is asked here
        return "something else shows it too, such as a numpy array or what a graph saved"
    return "the tensor that it is a part of is in use" if bases.in_use() else ""


def _references_to(tensor: torch.Tensor) -> int:
    """Returns Python's references to a tensor's storage, that of this call included."""
    return sys.getrefcount(_storage_of(tensor))


class _Bases:
    """The tensors of which some are views, as far as these are not among them."""

    def __init__(self, views: Sequence[torch.Tensor]) -> None:
        self.tensors: dict[int, torch.Tensor] = {}
        self.views: dict[int, int] = {}
        known = {id(tensor) for tensor in views}
        for tensor in views:
            base = _base_of(tensor)
            if base is not None and id(base) not in known:
                self.tensors[id(base)] = base
                self.views[id(base)] = self.views.get(id(base), 0) + 1

    def in_use(self) -> bool:
        """Returns whether anything but its views holds one of them."""
        lone = _references_of_lone()
        return any(
            _holders_in_torch(self.tensors[key]) > count + 1 or self.references(key) > lone
            for key, count in self.views.items()
        )

    def references(self, key: int) -> int:
        """Returns Python's references to a base, those of this object included."""
        return sys.getrefcount(self.tensors[key])


def _references_of_lone() -> int:
    """Returns the references to a base that only a view holds: releases of torch differ in it."""
    with torch.inference_mode(False):
        views = [torch.empty(2)[:1]]
    bases = _Bases(views)
    return bases.references(*bases.views)


def _read_by_address(storage: torch.UntypedStorage) -> str:
    if storage.device.type == "cpu":
        return ""
    readers = [name for name in _BY_ADDRESS if name in sys.modules]
    if readers:
        return f"{readers[0]} is loaded and may read its memory by address"
    if any_captured():
        return "a captured graph may read its memory by address"
    return ""


def _copy(
    old: torch.UntypedStorage, size: int, moves: Sequence[tuple[Layout, Layout]]
) -> torch.UntypedStorage:
    """Returns a new storage with what these layouts show of the old one, each put where told."""
    pinned = old.device.type == "cpu" and accelerator_runs() and old.is_pinned()
    made = torch.empty(size, dtype=torch.uint8, device=old.device, pin_memory=pinned)
    new = _storage_of(made)
    for before, after in moves:
        after.raw(new).copy_(before.raw(old))
    return new


def _move(tensor: torch.Tensor, new: torch.UntypedStorage, layout: Layout) -> None:
    shown = layout.tensor_in(new)
    if _base_of(tensor) is None and grad_fn_of(tensor) is None:
        _data.__set__(tensor, shown)
    elif grad_fn_of(tensor) is None:
        become(tensor, _as_leaf(tensor, shown))
    else:
        become(tensor, _with_graph(tensor, shown))


def _as_leaf(tensor: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Returns `shown` with all that autograd knows of the leaf `tensor`."""
    _BASE.requires_grad_(shown, _requires_grad(tensor))
    if is_leaf(tensor):
        set_grad(shown, grad_of(tensor))
    for hooks in _HOOKS:
        found = hooks.__get__(tensor)
        if found is not None:
            hooks.__set__(shown, found)
    return shown


def _with_graph(tensor: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a result that has `shown` as its numbers and leads on to its graph."""
    with torch.enable_grad():
        copied = _BASE.clone(tensor)
    _data.__set__(copied, shown)
    return copied
