"""The web: names, other roots, the heap and autograd graphs joined, to ask why a storage is alive.

    walk of names and roots ─┐
    scan of the heap ────────┼─> what no value needs ─> search upwards ─> chains, facts, cuts
    autograd graphs ─────────┘

A `Web` alone holds what was found; leaving it lets go. `Web.holders` is plain facts.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbmem.heap.storages import bare_torch
from nbmem.heap.surroundings import undone_by_interrupt
from nbmem.records import Chain, Holders

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

    from nbmem.heap import StorageTable
    from nbmem.holders.roots import Root
    from nbmem.holders.ways import Way


@dataclass(frozen=True, slots=True, eq=False)
class CutPoint:
    """Where one chain can be cut, with the live objects; good only while its web is open."""

    cut: str
    """As in `Chain.cut`."""
    holder: str
    """As in `Chain.holder`."""
    chain: Chain
    way: Way
    """All ties and objects from the root to the tensor; to the tensor whose graph it is, where the
    chain leads through a graph."""
    at: int
    """Index of the object in `way.objects` that is acted upon; `way.ties[at]` says how the object
    before it (`way.objects[at - 1]`, or a root) holds it."""

    @property
    def target(self) -> Any:
        """The object that is acted upon: the exception, the container, the tensor with a graph."""
        return self.way.objects[self.at]


@dataclass(slots=True, eq=False)
class Web:
    """What keeps storages alive, with the objects themselves. Use as a context manager."""

    holders: Holders = field(default_factory=lambda: Holders(()))
    points: dict[str, list[CutPoint]] = field(default_factory=dict)
    """By `Chain.cut`."""
    tensors: dict[int, list[Any]] = field(default_factory=dict)
    """Tensors and bare storages by the serial of what they show, where facts speak of it."""
    owners: dict[int, list[Any]] = field(default_factory=dict)
    """Tensors whose gradient it is, by the serial of the gradient's storage."""
    optimizers: dict[str, Any] = field(default_factory=dict)
    """By name."""
    lost: dict[str, list[Any]] = field(default_factory=dict)
    """Parameters that nothing but the optimizer of this name needs."""

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for table in (self.points, self.tensors, self.owners, self.optimizers, self.lost):
            table.clear()

    def cuts(self, cut: str) -> list[CutPoint]:
        """Returns every chain's place where it is cut by this text of `Chain.cut`."""
        return self.points.get(cut, [])


@undone_by_interrupt
def open_web(
    table: StorageTable,
    names: Mapping[str, object],
    *,
    output_cache: Mapping[str, object] | None = None,
    roots: Sequence[Root] = (),
    asked: Collection[int] = (),
    made_at: Callable[[int], tuple[int, int] | None] = lambda _: None,
    threshold: int = 0,
    budget: float | None = None,
    explained: Collection[int] = (),
) -> Web:
    """Returns why everything is alive that no value of the user's needs; nothing is changed.

    Args:
        table: takes up what the scan finds.
        names: the user's variables.
        output_cache: IPython's copies of shown values, by the expression that reads each.
        roots: what else holds things: tracebacks, threads, callbacks.
        asked: serials of storages whose chains are told whether or not they are needed.
        made_at: when a storage was made, by its serial: the serial of the record that first showed
            it and its place among what that record saw made (0 where nobody saw it being made).
        threshold: bytes below which facts about one storage are not worth telling.
        budget: seconds for walking names; None: as long as it takes.
        explained: ids of holders that names, shown values and roots speak of: IPython's dicts.
    """
    from nbmem.holders.weaving import Weaver  # it needs the records above

    collecting = gc.isenabled()
    gc.disable()  # what is made here would start a collection, which frees what is looked at
    try:
        with bare_torch():
            weaver = Weaver(table, roots, threshold, explained)
            return weaver.weave(names, output_cache or {}, asked, made_at, budget)
    finally:
        if collecting:
            gc.enable()
