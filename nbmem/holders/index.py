"""Which storages tensors show, and which tensors show a storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.extents import base_of
from nbmem.inventory.parts import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nbmem.heap import HeapScan, StorageRef, StorageTable


class StorageIndex:
    """Storages by their serials. Holds the tensors it was told of until `clear`."""

    def __init__(self, table: StorageTable) -> None:
        self.refs: dict[int, StorageRef] = {}
        """Everything that lived when the index was made, by serial."""
        self.over: dict[int, list[Any]] = {}
        """Tensors and bare storages by the serial of what they show."""
        self.in_graphs: set[int] = set()
        """Ids of the tensors that graphs keep, and of the `ctx` of Functions."""
        self._serials: dict[int, tuple[int, ...]] = {}
        self._table = table

    def clear(self) -> None:
        """Lets go of everything."""
        for table in (self.refs, self.over, self._serials):
            table.clear()
        self.in_graphs.clear()

    def take(self, scan: HeapScan, things: Iterable[Any]) -> None:
        """Enters what a scan found, and further tensors."""
        self.refs = {ref.serial: ref for ref in self._table.live()}
        entries, saved = scan.entries, [tensor for _, _, tensor in scan.graph.saved()]
        self.in_graphs.update(map(id, saved))
        self.in_graphs.update(map(id, scan.graph.functions()))
        for thing in (*scan.tensors, *saved, *things):
            if id(thing) not in self._serials:
                entry = entries.get(id(thing))
                self._enter(thing, self._look_up(thing) if entry is None else (entry.serial,))

    def kept_by_views(self) -> set[int]:
        """Returns the ids of the tensors that torch keeps because others are views of them."""
        bases = (base_of(t) for over in self.over.values() for t in over if len(over) > 1)
        return {id(base) for base in bases if base is not None}

    def serials_of(self, thing: Any) -> tuple[int, ...]:
        """Returns the storages of a tensor, by their serials."""
        known = self._serials.get(id(thing))
        return self._enter(thing, self._look_up(thing)) if known is None else known

    def known(self, key: int) -> tuple[int, ...]:
        """Returns the storages of a tensor that was entered, by its `id`."""
        return self._serials.get(key, ())

    def was_looked_up(self, thing: Any) -> bool:
        """Returns whether the tensor has a Python object only because a scan looked at it."""
        return id(thing) in self._table.looked_up

    def _enter(self, thing: Any, serials: tuple[int, ...]) -> tuple[int, ...]:
        self._serials[id(thing)] = serials
        for serial in serials:
            self.over.setdefault(serial, []).append(thing)
        return serials

    def _look_up(self, thing: Any) -> tuple[int, ...]:
        refs = [self._table.find(part.storage) for part in parts_of(thing)]
        return tuple(ref.serial for ref in refs if ref is not None)


def is_tensor(thing: Any) -> bool:
    """Returns whether it is a tensor or a bare storage."""
    return issubclass(type(thing), torch.Tensor | torch.UntypedStorage)
