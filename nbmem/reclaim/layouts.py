"""Where in a smaller storage tensors would lie that now show parts of a large one: numbers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

_BASE = torch._C.TensorBase
_FIELDS = vars(_BASE)
_dtype_of: Callable[[torch.Tensor], torch.dtype] = _FIELDS["dtype"].__get__
_MOST_UNITS = 4_000_000
"""Numbers that are looked at one by one to tell whether tensors with gaps overlap."""
_RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""A type of each size whose bytes torch copies as they are."""

Arranged = list[tuple[int, list[tuple[int, "Layout"]]]]
"""Bytes of each new storage, and which tensors lie in it and how."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in a storage; offset and strides count items."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    conjugated: bool = False
    negated: bool = False

    @property
    def empty(self) -> bool:
        """Whether it shows nothing."""
        return 0 in self.shape

    def span(self) -> tuple[int, int]:
        """Returns the first byte that it shows and the one after the last."""
        size = self.dtype.itemsize
        begin = self.offset * size
        if self.empty:
            return begin, begin
        reach = sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        return begin, begin + (reach + 1) * size

    def raw(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """Returns the numbers that it shows of `storage` as plain bytes, each once."""
        shape = [
            1 if stride == 0 and n else n
            for n, stride in zip(self.shape, self.strides, strict=True)
        ]
        plain = torch.empty(0, dtype=_RAW[self.dtype.itemsize], device=storage.device)
        return plain.set_(storage, self.offset, shape, self.strides)

    def tensor_in(self, storage: torch.UntypedStorage) -> torch.Tensor:
        """Returns a new tensor that lies so in `storage`."""
        with torch.no_grad():
            made = torch.empty(0, dtype=self.dtype, device=storage.device)
            made.set_(storage, self.offset, self.shape, self.strides)
            made = _BASE.detach(_BASE.conj(made)) if self.conjugated else made
            return _BASE.detach(torch._neg_view(made)) if self.negated else made


def layout_in_storage(tensor: torch.Tensor) -> Layout:
    """Returns how a tensor lies in its storage."""
    return Layout(
        _dtype_of(tensor),
        tuple(_BASE.size(tensor)),
        _BASE.storage_offset(tensor),  # type: ignore[arg-type]
        tuple(_BASE.stride(tensor)),
        _BASE.is_conj(tensor),
        _BASE.is_neg(tensor),
    )


def arrange(layouts: Sequence[Layout]) -> Arranged:
    """Returns how tensors would lie in storages of their own; what overlaps stays together."""
    arranged: Arranged = []
    for group in _touching(layouts):
        arranged += _arrange_group([(index, layouts[index]) for index in group])
    return arranged


def _touching(layouts: Sequence[Layout]) -> Iterator[list[int]]:
    """Goes through groups of tensors of which the bytes from first to last overlap."""
    order = sorted(range(len(layouts)), key=lambda index: layouts[index].span())
    group: list[int] = []
    reach = -1
    for index in order:
        begin, end = layouts[index].span()
        if group and begin >= reach:
            yield group
            group = []
        group.append(index)
        reach = max(reach, end) if len(group) > 1 else end
    if group:
        yield group


Member = tuple[int, Layout]


def _arrange_group(group: list[Member]) -> Arranged:
    if len({_geometry(layout) for _, layout in group}) == 1:
        return [_without_gaps(group)]
    units = _units_of(group)
    if units is None:
        return [_as_it_lies(group)]
    return [_arrange_tied(part, units) for part in _tied(group, units)]


def _geometry(layout: Layout) -> tuple[object, ...]:
    return layout.dtype.itemsize, layout.shape, layout.offset, layout.strides


def _without_gaps(group: list[Member]) -> tuple[int, list[Member]]:
    """Arranges tensors that show the very same: the gaps go, the order of dimensions stays."""
    layout = group[0][1]
    strides, step = list(layout.strides), 1
    moving = [d for d, n in enumerate(layout.shape) if n > 1 and layout.strides[d]]
    reach = 0
    for d in sorted(moving, key=lambda d: layout.strides[d]):
        if layout.strides[d] <= reach:  # it overlaps itself, as windows do
            return _as_it_lies(group)
        reach += (layout.shape[d] - 1) * layout.strides[d]
        strides[d], step = step, step * layout.shape[d]
    size = 0 if layout.empty else step * layout.dtype.itemsize
    return size, [(i, replace(one, offset=0, strides=tuple(strides))) for i, one in group]


def _as_it_lies(group: list[Member]) -> tuple[int, list[Member]]:
    """Arranges tensors as they are, from the first byte shown to the last."""
    spans = [layout.span() for _, layout in group]
    widest = max(layout.dtype.itemsize for _, layout in group)
    begin = min(begin for begin, _ in spans) // widest * widest
    moved = [(i, replace(one, offset=one.offset - begin // one.dtype.itemsize)) for i, one in group]
    return max(end for _, end in spans) - begin, moved


# What has gaps is looked at number by number.


def _unit_of(group: Sequence[Member]) -> int:
    return min(layout.dtype.itemsize for _, layout in group)


def _units_of(group: list[Member]) -> dict[int, torch.Tensor] | None:
    """Returns for each tensor the units of memory that it shows; None where these are too many."""
    unit, count = _unit_of(group), 0
    for _, layout in group:
        shown = layout.dtype.itemsize // unit
        for n, stride in zip(layout.shape, layout.strides, strict=True):
            shown *= n if stride else min(n, 1)
        count += shown
    if count > _MOST_UNITS:
        return None
    return {index: _indices(layout, layout.dtype.itemsize // unit) for index, layout in group}


def _indices(layout: Layout, wide: int) -> torch.Tensor:
    found = torch.arange(wide) + layout.offset * wide
    for n, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        steps = torch.arange(n if stride else min(n, 1)) * (stride * wide)
        found = (steps[:, None] + found[None, :]).flatten()
    return found


def _tied(group: list[Member], units: dict[int, torch.Tensor]) -> list[list[Member]]:
    """Returns the parts of a group in which tensors really show the same memory."""
    root = {index: index for index, _ in group}

    def find(index: int) -> int:
        while root[index] != index:
            index = root[index]
        return index

    places = torch.cat([units[index] for index, _ in group])
    owners = torch.cat([torch.full_like(units[index], index) for index, _ in group])
    order = places.argsort(stable=True)
    places, owners = places[order], owners[order]
    same = places[1:] == places[:-1]
    pairs = torch.stack([owners[:-1][same], owners[1:][same]], dim=1)
    for first, second in torch.unique(pairs, dim=0).tolist():
        root[find(first)] = find(second)
    parts: dict[int, list[Member]] = {}
    for index, layout in group:
        parts.setdefault(find(index), []).append((index, layout))
    return list(parts.values())


def _arrange_tied(part: list[Member], units: dict[int, torch.Tensor]) -> tuple[int, list[Member]]:
    """Arranges tensors that overlap, with the gaps closed where all strides allow it."""
    if len({_geometry(layout) for _, layout in part}) == 1:
        return _without_gaps(part)
    unit = _unit_of(part)
    shown = torch.unique(torch.cat([units[index] for index, _ in part]))
    closed = [(i, _closed(one, one.dtype.itemsize // unit, units[i], shown)) for i, one in part]
    moved = [(i, layout) for i, layout in closed if layout is not None]
    return (len(shown) * unit, moved) if len(moved) == len(part) else _as_it_lies(part)


def _closed(layout: Layout, wide: int, mine: torch.Tensor, shown: torch.Tensor) -> Layout | None:
    """Returns the layout once only what is `shown` is left; None where no strides describe it."""
    if layout.empty:
        return replace(layout, offset=0)
    places = torch.searchsorted(shown, mine)
    sizes = [n if stride else 1 for n, stride in zip(layout.shape, layout.strides, strict=True)]
    grid = places.reshape(*sizes, wide)
    first = int(grid.flatten()[0])
    strides = list(layout.strides)
    for d, n in enumerate(sizes):
        if n > 1:
            strides[d] = int(grid.select(d, 1).flatten()[0]) - first
    if first % wide or any(strides[d] % wide for d, n in enumerate(sizes) if n > 1):
        return None
    moving = tuple(strides[d] // wide if n > 1 else strides[d] for d, n in enumerate(sizes))
    moved = replace(layout, offset=first // wide, strides=moving)
    return moved if bool((_indices(moved, wide) == places).all()) else None
