"""What is parked, and where it came from: weak references and plain facts."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from nbmem.heap.storages import bare_torch, read_storages
from nbmem.reclaim.moves import HOST, Carrier, Load, TorchCarrier
from nbmem.records import ParkedThing


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """One storage that was parked; nothing is kept alive."""

    name: str
    """As the user gave it."""
    device: str
    """Where it came from."""
    storage: weakref.ref[torch.UntypedStorage]
    """The one in main memory."""
    tensors: tuple[weakref.ref[torch.Tensor], ...]
    """Those that showed it when it was parked."""

    def living(self) -> list[torch.Tensor]:
        """Returns the tensors that are alive."""
        return [tensor for ref in self.tensors if (tensor := ref()) is not None]


class ParkingLot:
    """Everything that is parked in this process."""

    def __init__(self, carrier: Carrier | None = None) -> None:
        self.carrier: Carrier = carrier or TorchCarrier()
        self._parked: list[Parked] = []
        self._lent: dict[int, tuple[torch.UntypedStorage, list[weakref.ref[torch.Tensor]]]] = {}

    def put(self, loads: Iterable[Load]) -> None:
        """Remembers what was parked."""
        for load in loads:
            tensors = tuple(weakref.ref(tensor) for tensor in load.tensors)
            self._parked.append(Parked(load.name, load.source, weakref.ref(load.storage), tensors))

    def take(self, entries: Iterable[Parked]) -> None:
        """Forgets what is no longer parked."""
        gone = set(map(id, entries))
        self._parked = [entry for entry in self._parked if id(entry) not in gone]

    def entries(self) -> list[Parked]:
        """Returns what is parked still; what died or left main memory is forgotten."""
        with bare_torch():
            self._parked = [entry for entry in self._parked if self.storages_of(entry)]
        return self._parked.copy()

    def storages_of(self, entry: Parked) -> list[torch.UntypedStorage]:
        """Returns the storage that was parked, or those that its tensors have in its place.

        Empty where nothing of it is in main memory. To be called within `bare_torch()`.
        """
        parked = entry.storage()
        found = {parked._cdata: parked} if parked is not None else {}
        for tensor in entry.living():
            for storage in read_storages(tensor):
                if self.carrier.device_of(storage) == HOST:
                    found[storage._cdata] = storage
        return list(found.values())

    def things(self) -> tuple[ParkedThing, ...]:
        """Returns what is parked, by the name it was parked under and where it came from."""
        sums: dict[tuple[str, str], dict[int, int]] = {}
        for entry in self.entries():
            with bare_torch():
                sizes = {one._cdata: one.nbytes() for one in self.storages_of(entry)}
            sums.setdefault((entry.name, entry.device), {}).update(sizes)
        return tuple(
            ParkedThing(name, sum(sizes.values()), len(sizes), device)
            for (name, device), sizes in sums.items()
        )

    def lend(self, storage: torch.UntypedStorage, tensors: Iterable[torch.Tensor]) -> None:
        """Keeps main memory that numpy arrays may show until the tensors that lent it are gone.

        An array holds the tensor that it was made of, and not the memory.
        """
        key = storage._cdata
        forget = self._forget_when_gone(key)
        self._lent[key] = (storage, [weakref.ref(tensor, forget) for tensor in tensors])

    def _forget_when_gone(self, key: int) -> Callable[[object], None]:
        lent = self._lent

        def forget(gone: object) -> None:
            entry = lent.get(key)
            if entry is not None and all(ref is gone or ref() is None for ref in entry[1]):
                del lent[key]

        return forget
