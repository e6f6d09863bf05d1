"""Graphs grouped by what would be detached: one variable, or the items of one container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.storages import gradient_of
from nbmem.holders.saved import Group, find_cycles, read_group
from nbmem.holders.ways import ways_to
from nbmem.holders.words import pattern_of_way
from nbmem.records import GraphFact

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from nbmem.heap import HeapScan
    from nbmem.holders.index import StorageIndex
    from nbmem.holders.needs import Needs
    from nbmem.holders.ties import Ties
    from nbmem.holders.ways import Way
    from nbmem.holders.words import WordWriter


class GraphGroups:
    """All graphs of a scan, grouped."""

    def __init__(self, ties: Ties, needs: Needs, writer: WordWriter) -> None:
        self._ties = ties
        self._needs = needs
        self._writer = writer
        self._groups: dict[tuple[str, bool], Group] = {}
        self.cyclic: dict[int, Any] = {}
        """By `id`: tensors without a known holder that their own graph keeps alive."""

    def read(self, scan: HeapScan, index: StorageIndex) -> None:
        """Reads what the graphs of all tensors keep."""
        begun = scan.graph.begun()
        for key in begun:
            for group in self._groups_of(key):
                group.roots.append(key)
        for group in self._groups.values():
            read_group(scan, group, begun, index.serials_of)
        self.cyclic = find_cycles(scan, [key for key in begun if key not in self._ties.objects])

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
        self, needed: Container[int], index: StorageIndex, made_in: Callable[[int], int | None]
    ) -> Iterable[GraphFact]:
        """Goes through the facts about graphs of tensors that values need.

        Args:
            needed: serials of storages that some value needs.
            index: which storages tensors show.
            made_in: serial of the record that first showed a storage, by the storage's serial.
        """
        for group in self._groups.values():
            keys = tuple(serial for serial in group.saved if serial not in needed)
            if group.wanted and keys:
                newest = max(keys)
                ran = _is_backpropagated(self._leaves(group), made_in(newest), index, made_in)
                yield GraphFact(
                    *(group.cut, group.holder, len(group.roots), keys, newest, group.stepped, ran)
                )

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
    leaves: list[Any],
    made: int | None,
    index: StorageIndex,
    made_in: Callable[[int], int | None],
) -> bool:
    """Returns whether all gradients of the leaves were made by a later cell than the graph."""
    gradients = [gradient for leaf in leaves if (gradient := gradient_of(leaf)) is not None]
    cells = [made_in(serial) for gradient in gradients for serial in index.serials_of(gradient)]
    return bool(cells) and made is not None and all(c is not None and c > made for c in cells)
