"""Graphs grouped by what would be detached: one variable, or the items of one container."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.storages import gradient_of
from nbmem.holders.places import Places
from nbmem.holders.saved import Group, find_cycles, read_group
from nbmem.holders.ways import ways_to
from nbmem.holders.words import pattern_of_way
from nbmem.records import GraphFact, PathStep

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from nbmem.heap import HeapScan
    from nbmem.holders.index import StorageIndex
    from nbmem.holders.needs import Needs
    from nbmem.holders.ties import Ties
    from nbmem.holders.ways import Way
    from nbmem.holders.words import WordWriter


MadeAt = Callable[[int], "tuple[int, int] | None"]


class GraphGroups:
    """All graphs of a scan, grouped."""

    def __init__(self, ties: Ties, needs: Needs, writer: WordWriter) -> None:
        self._ties = ties
        self._needs = needs
        self._writer = writer
        self._groups: dict[tuple[str, bool], Group] = {}
        self.cyclic: dict[int, Any] = {}
        """By `id`: tensors without a known holder that their own graph keeps alive."""

    def read(
        self,
        scan: HeapScan,
        index: StorageIndex,
        nodes: Mapping[int, int | None],
        needed: Container[int],
    ) -> None:
        """Reads what the graphs of all tensors keep, and of bare nodes.

        Args:
            scan: whose graph it is.
            index: which storages tensors show.
            nodes: where the graph of each bare node begins, by the `id` of the node.
            needed: serials of storages that some value needs.
        """
        begun = scan.graph.begun()
        begun.update((key, at) for key, at in nodes.items() if at is not None)
        for key in begun:
            for group in self._groups_of(key):
                group.roots.append(key)
        for group in self._groups.values():
            if not group.cut:  # of nameless results the last keeps what the others do
                group.roots.sort(key=lambda key: -scan.graph.nodes[begun[key]].sequence)
            read_group(scan, group, begun, index.serials_of, needed, nodes.keys())
        loose = [key for key in scan.graph.begun() if key not in self._ties.objects]
        self.cyclic = find_cycles(scan, loose)

    def take_found(self, index: StorageIndex) -> None:
        """Adds what the search upwards found below the `ctx` of a Function, as a whole model."""
        for group in self._groups.values():
            for key, by in group.contexts.items():
                for below in self._ties.reached_from([key]) if key in self._ties.objects else ():
                    for serial in index.known(below):
                        group.saved.setdefault(serial, by)

    def all(self) -> Iterable[Group]:
        """Returns the groups."""
        return self._groups.values()

    def _groups_of(self, key: int) -> list[Group]:
        """Returns the groups to which the graph of a tensor belongs, by the tensor's `id`."""
        thing = self._ties.objects.get(key)
        if thing is None:
            return [self._group("", "unknown", wanted=False)]
        ways = self._needs.ways_of_values(thing)
        if ways:
            text, holder = _cut_of_value(ways[0])
            return [self._group(text, holder, wanted=True)]
        cuts = [self._writer.find_cut(way, wanted=False) for way in ways_to(self._ties, thing)[0]]
        by_text = {cut.text: cut.holder for cut in cuts}
        return [self._group(text, holder, wanted=False) for text, holder in by_text.items()]

    def _group(self, cut: str, holder: str, *, wanted: bool) -> Group:
        return self._groups.setdefault((cut, wanted), Group(cut, holder, wanted))

    def facts(
        self, needed: Container[int], index: StorageIndex, made_at: MadeAt
    ) -> Iterable[GraphFact]:
        """Goes through the facts about graphs of tensors that values need.

        Args:
            needed: serials of storages that some value needs.
            index: which storages tensors show.
            made_at: when a storage was made, as in `open_web`.
        """
        places = Places(self._ties, self._needs, self._writer)
        for group in self._groups.values():
            keys = tuple(serial for serial in group.saved if serial not in needed)
            if group.wanted and keys:
                newest = max(keys)
                ran = group.ran or _is_backpropagated(
                    self._leaves(group), made_at(newest), index, made_at
                )
                yield GraphFact(
                    *(group.cut, group.holder, group.apart, keys, newest, group.stepped, ran),
                    freed=group.freed,
                    partly=group.partly,
                    silent=group.silent,
                    places=self._places(group, places),
                )

    def _places(self, group: Group, places: Places) -> tuple[PathStep, ...]:
        """Returns where the tensors of a group stand; of a bare node, its name."""
        roots = [self._ties.objects[key] for key in group.roots if key in self._ties.objects]
        if all(issubclass(type(root), torch.Tensor) for root in roots):
            if any(gradient_of(root) is not None for root in roots):
                return ()  # another tensor in its place would not have its gradient
            return places.of_all(roots)
        place = places.of(roots[0]) if len(roots) == 1 else None
        if place is None or place.kind == "list item":
            return ()
        return (PathStep("node", place.text),)

    def _leaves(self, group: Group) -> list[Any]:
        return [self._ties.objects[key] for key in group.leaves if key in self._ties.objects]


def _cut_of_value(way: Way) -> tuple[str, str]:
    """Returns what is detached at once, and where that is."""
    text, many = pattern_of_way(way)
    if many:
        return text, "container"
    if len(way.objects) > 1 and issubclass(type(way.objects[-2]), torch.nn.Module):
        return text, "module_attribute"
    return text, "autograd_graph"


def _is_backpropagated(
    leaves: list[Any], made: tuple[int, int] | None, index: StorageIndex, made_at: MadeAt
) -> bool:
    """Returns whether all leaves have gradients, each made after the graph was."""
    gradients = [gradient_of(leaf) for leaf in leaves]
    if made is None or not gradients or any(gradient is None for gradient in gradients):
        return False
    times = [made_at(serial) for gradient in gradients for serial in index.serials_of(gradient)]
    return all(time is not None and _is_later(time, made) for time in times)


def _is_later(time: tuple[int, int], other: tuple[int, int]) -> bool:
    """Returns whether a storage was surely made after another; 0: unknown when in its record."""
    if time[0] == other[0] and 0 in (time[1], other[1]):
        return False
    return time > other
