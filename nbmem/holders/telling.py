"""Chains in words, by storage, and the places where each can be cut."""

from __future__ import annotations

import types
from functools import cache
from typing import TYPE_CHECKING, Any

from nbmem.heap import count_frozen
from nbmem.holders.ties import ROOT, Tie
from nbmem.holders.ways import Way, ways_to
from nbmem.holders.web import CutPoint
from nbmem.holders.words import Cut, WordWriter
from nbmem.inventory.paths import Step
from nbmem.records import Chain, HeldStorage, PathStep, SuspendedFact

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from nbmem.heap import StorageRef
    from nbmem.holders.needs import Needs
    from nbmem.holders.saved import Group
from nbmem.holders.ties import Ties

_RootWay = tuple[Way, str, str, int, tuple[PathStep, ...]]
"""A way to a tensor with a graph, where and at what it is cut, and its steps."""


@cache
def _below(kind: str) -> tuple[PathStep, PathStep]:
    return PathStep("graph", "graph"), PathStep("saved", f"saved by {kind}")


class Teller:
    """Writes chains; `points` takes up where they can be cut."""

    def __init__(
        self, ties: Ties, needs: Needs, writer: WordWriter, points: dict[str, list[CutPoint]]
    ) -> None:
        self._ties = ties
        self._needs = needs
        self._writer = writer
        self._points = points
        self._chains: dict[int, list[Chain]] = {}
        self._more: dict[int, int] = {}
        self._noted: set[tuple[str | int, ...]] = set()
        """Cuts and the ids of all objects on the way, as far as points were noted."""
        self._root_ways: dict[tuple[int, str], list[_RootWay]] = {}

    def tell_tensor(self, serial: int, thing: Any, but: Container[int] = ()) -> None:
        """Tells every way to one tensor of a storage, but those through these objects (ids)."""
        ways, more = ways_to(self._ties, thing, but=but)
        self._more[serial] = self._more.get(serial, 0) + more
        self._writer.name_hooks(ways)
        needed = [self._needs.needs(way) for way in ways]
        cuts = [self._writer.find_cut(w, wanted=n) for w, n in zip(ways, needed, strict=True)]
        if not any(needed):
            cuts = _in_common(ways, cuts)
        for way, cut, is_needed in zip(ways, cuts, needed, strict=True):
            self._note(serial, self._writer.write(way, cut, wanted=is_needed), way, cut.at)

    def tell_saved(self, serial: int, group: Group) -> None:
        """Tells by which tensors' graphs of one group a storage is kept."""
        saved = group.saved[serial]
        for way, text, holder, at, steps in self._ways_of_root(saved.root, group):
            chain = Chain((*steps, *_below(saved.kind)), holder, False, text)
            self._note(serial, chain, way, at)

    def tell_together(self, serials: list[int]) -> None:
        """Tells of storages with one memory what is told of any: it goes when all of them do.

        That C++ holds one of them needs no other reason than those that lie over it.
        """
        by_cut: dict[tuple[str, str], Chain] = {}
        for serial in serials:
            for chain in self._chains.get(serial, ()):
                by_cut.setdefault((chain.cut, chain.holder), chain)
        known = {cut: chain for cut, chain in by_cut.items() if cut[1] not in _UNEXPLAINED}
        for serial in serials if known else ():
            mine = [c for c in self._chains.get(serial, ()) if (c.cut, c.holder) in known]
            own = {(chain.cut, chain.holder) for chain in mine}
            self._chains[serial] = mine + [c for cut, c in known.items() if cut not in own]

    def _ways_of_root(self, key: int, group: Group) -> list[_RootWay]:
        """Returns the ways to a tensor with a graph, written once for all that the graph keeps."""
        known = self._root_ways.get((key, group.cut))
        if known is not None:
            return known
        root = self._ties.objects.get(key)
        ways = [] if root is None else self._needs.ways_of_values(root)
        if not ways and root is not None:
            ways = ways_to(self._ties, root)[0]
        self._writer.name_hooks(ways)
        found = []
        for way in ways:
            cut = self._writer.find_cut(way, wanted=False)
            text, holder, at = cut.text, cut.holder, cut.at
            if group.wanted:
                text, holder, at = group.cut, group.holder, len(way.objects) - 1
            found.append((way, text, holder, at, self._writer.steps(way)))
        self._root_ways[key, group.cut] = found
        return found

    def add_roots(self, group: Group) -> None:
        """Notes where every graph of a group is cut, those that keep nothing alone included."""
        points = self._points.get(group.cut)
        if points is None or not group.wanted:
            return
        known = {id(point.way.objects[-1]) for point in points}
        for key in group.roots:
            root = self._ties.objects.get(key)
            for way in self._needs.ways_of_values(root) if key not in known else ():
                steps = (*self._writer.steps(way), PathStep("graph", "graph"))
                chain = Chain(steps, group.holder, False, group.cut)
                at = len(way.objects) - 1
                points.append(CutPoint(group.cut, group.holder, chain, way, at))

    def _note(self, serial: int, chain: Chain, way: Way, at: int) -> None:
        chains = self._chains.setdefault(serial, [])
        if not chains or all(one.text != chain.text for one in chains):
            chains.append(chain)
        points = self._points.setdefault(chain.cut, [])
        if points and points[-1].way is way:
            return
        known: tuple[str | int, ...] = (chain.cut, *_ids_of(way))
        if known not in self._noted:
            self._noted.add(known)
            points.append(CutPoint(chain.cut, chain.holder, chain, way, at))
            hook = None if chain.wanted else self._writer.hook_on(way)
            if hook is not None and hook.text != chain.cut:
                point = CutPoint(hook.text, hook.holder, chain, way, hook.at)
                self._points.setdefault(hook.text, []).append(point)

    def chains_of(self, serial: int) -> list[Chain]:
        """Returns what was told of one storage, shortest first; nothing where nothing was."""
        return sorted(self._chains.get(serial, ()), key=lambda chain: len(chain.steps))

    def held(self, ref: StorageRef, *, wanted: bool) -> HeldStorage:
        """Returns what was told of one storage; garbage holds nothing that something else holds."""
        chains = self._chains.get(ref.serial) or [self._unseen()]
        others = [chain for chain in chains if chain.holder != "garbage"]
        chains = sorted(others or chains, key=lambda chain: len(chain.steps))
        more = self._more.get(ref.serial, 0)
        return HeldStorage(ref.serial, ref.bytes, tuple(chains), more, wanted)

    def _unseen(self) -> Chain:
        """Returns the chain of a storage that no object of Python's leads to."""
        if not count_frozen():
            return _UNSEEN
        way = Way((Tie(ROOT, None, None, "frozen", _FROZEN.steps[0].text),), (None,))
        self._points.setdefault(_FROZEN.cut, [CutPoint(_FROZEN.cut, "frozen", _FROZEN, way, 0)])
        return _FROZEN

    def suspended(self) -> Iterable[SuspendedFact]:
        """Goes through the generators and iterators that chains lead through."""
        by_cut: dict[str, tuple[str, set[int]]] = {}
        for serial, chains in self._chains.items():
            for chain in chains:
                if chain.holder in ("suspended_frame", "iterator_buffer"):
                    by_cut.setdefault(chain.cut, (chain.holder, set()))[1].add(serial)
        for cut, (holder, keys) in by_cut.items():
            targets = (point.target for point in self._points.get(cut, ()))
            awaited = any(type(target) is types.AsyncGeneratorType for target in targets)
            yield SuspendedFact(cut, holder, tuple(sorted(keys)), max(keys), awaited)


def _in_common(ways: list[Way], cuts: list[Cut]) -> list[Cut]:
    """Returns one cut for all ways where they all lead through what is acted upon there."""
    if len({cut.text for cut in cuts}) < 2:
        return cuts
    ids = [_ids_of(way) for way in ways]
    last = {(*one[-2:], way.ties[-1].key) for one, way in zip(ids, ways, strict=True)}
    at_last = all(cut.at == len(one) - 1 > 0 for one, cut in zip(ids, cuts, strict=True))
    if at_last and len(last) == 1:  # one attribute of one object, which has several names
        return [Cut(cut.at, cuts[0].holder, cuts[0].text) for cut in cuts]
    for way, cut in zip(ways, cuts, strict=True):
        key = id(way.objects[cut.at])
        if key != ids[0][-1] and all(key in one for one in ids):
            holder = next((c.holder for w, c in zip(ways, cuts, strict=True) if _of_root(w)), None)
            return [Cut(one.index(key), holder or cut.holder, cut.text) for one in ids]
    return cuts


def _of_root(way: Way) -> bool:
    """Returns whether a way begins where callbacks are registered, which says most."""
    return way.ties[0].step is Step.ROOT


def _ids_of(way: Way) -> list[int]:
    """Objects of the user's are told apart by identity: their `==` may be anything."""
    return list(map(id, way.objects))


_UNEXPLAINED = frozenset(("cpp", "unknown"))
_FROZEN = Chain((PathStep("frozen", "what gc.freeze() hid"),), "frozen", False, "gc.freeze()")
_UNSEEN = Chain((PathStep("unknown", "not found"),), "unknown", False, "what nbmem did not find")
