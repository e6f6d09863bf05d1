"""Which of all tensors and ways a value of the user's needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem.holders.index import is_tensor
from nbmem.holders.wanted import NOT, find_in_use, find_wanted, state_along, wants
from nbmem.holders.ways import ways_to

if TYPE_CHECKING:
    from collections.abc import Container

    from nbmem.holders.index import StorageIndex
    from nbmem.holders.ties import Ties
    from nbmem.holders.ways import Way


class Needs:
    """What values need, asked of the ties.

    Args:
        ties: all ways between objects.
        used: texts of roots besides variables whose objects are in use.
    """

    def __init__(self, ties: Ties, used: Container[str]) -> None:
        self._in_use = in_use = find_in_use(ties)
        self.states = find_wanted(ties, in_use, roots=used)
        self.besides_optimizers = find_wanted(ties, in_use, roots=used, without_optimizers=True)
        self._ties = ties
        self._used = used
        self._used_holders: set[int] = set()

    def clear(self) -> None:
        """Lets go of everything."""
        self.states.clear()
        self.besides_optimizers.clear()

    def storages(self, index: StorageIndex) -> set[int]:
        """Returns the serials of the storages that some value needs."""
        return {
            serial
            for key, state in self.states.items()
            if index.known(key) and wants(state, self._ties.objects[key])
            for serial in index.known(key)
        }

    def kept_besides(self, index: StorageIndex) -> set[int]:
        """Returns the serials of the storages that something besides optimizers needs."""
        return {serial for key in self.besides_optimizers for serial in index.known(key)}

    def add_used(self, holders: set[int], index: StorageIndex) -> set[int]:
        """Takes objects (ids) as in use, with all they lead to; returns the serials of storages."""
        if not holders:
            return set()
        self._used_holders |= holders
        below = self._ties.reached_from(holders)
        return {serial for key in below for serial in index.known(key)}

    def needs(self, way: Way) -> bool:
        """Returns whether it is by this way that a value needs the tensor at its end."""
        if id(way.objects[0]) in self._used_holders:
            return True
        steps = zip(way.ties, way.objects, strict=True)
        state, last = state_along(steps, self._in_use, self._used), way.objects[-1]
        return wants(state, last) if is_tensor(last) else state > NOT

    def ways_of_values(self, thing: Any) -> list[Way]:
        """Returns the ways by which values need an object, shortest first."""
        return [way for way in ways_to(self._ties, thing)[0] if self.needs(way)]
