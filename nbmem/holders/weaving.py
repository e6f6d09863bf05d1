"""How a web is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap import scan_heap
from nbmem.heap.storages import gradient_of
from nbmem.holders.bounded import find_bounded
from nbmem.holders.extents import is_array, is_plainly_shown, shown_by, view_fact
from nbmem.holders.facts import (
    gradient_facts,
    lost_parameters,
    may_be_unused,
    parameters_of,
    state_fact,
)
from nbmem.holders.finding import find_others
from nbmem.holders.grouping import GraphGroups
from nbmem.holders.index import StorageIndex, is_tensor
from nbmem.holders.memory import lent, needed_with
from nbmem.holders.needs import Needs
from nbmem.holders.owners import is_shared
from nbmem.holders.places import Places, ties_to
from nbmem.holders.steppers import Steppers
from nbmem.holders.telling import Teller
from nbmem.holders.ties import Ties, tie_up
from nbmem.holders.wanted import is_throwaway
from nbmem.holders.web import Web
from nbmem.holders.words import WordWriter
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.names import write_names
from nbmem.inventory.parts import parts_of
from nbmem.inventory.walk import NameWalk
from nbmem.records import (
    Chain,
    GradientFact,
    HeldStorage,
    Holders,
    Note,
    PathStep,
    StateFact,
    ViewFact,
    write_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence

    from nbmem.heap import Group, HeapScan, StorageTable
    from nbmem.holders.roots import Root
    from nbmem.inventory.trail import Trail

_MOST_TARGETS = 50_000
"""Tensors for which the heap is searched upwards."""
_MANY = 64
"""So many small things in one container may be worth telling together."""
_USED = ("running",)
"""Kinds of roots whose objects are in use."""


class Weaver:
    """Makes one web.

    Args:
        table: takes up what the scan finds.
        roots: what holds things besides names.
        threshold: bytes below which facts about one storage are not worth telling.
        explained: ids of holders that names, shown values and roots speak of.
    """

    def __init__(
        self,
        table: StorageTable,
        roots: Sequence[Root],
        threshold: int,
        explained: Collection[int] = (),
    ) -> None:
        self._explained = set(explained)
        self._web = Web()
        self._roots = {root.text: root for root in roots}
        self._threshold = threshold
        self._ties = Ties()
        self._index = StorageIndex(table)
        self._table = table
        self._texts: dict[int, str] = {}
        """Names of tensors, by `id`."""
        self._notes: list[Note] = []
        self._needs: Needs
        self._groups: GraphGroups
        self._writer: WordWriter
        self._needed: set[int] = set()
        self._optimizers: list[tuple[str, Any]] = []
        """Those that values need, by name."""
        self._states: tuple[StateFact, ...] = ()
        self._owners_of_unused: list[Any] = []
        """Tensors with gradients that nobody may need: who else has them is searched."""
        self._lost: set[int] = set()
        """Serials of the storages that, of all values, only optimizers need."""
        self._given: set[int] = set()
        """Ids of the caller's own copies of namespaces."""
        self._named: set[int] = set()
        self._names: Mapping[str, object] = {}
        self._shared: list[Group] = []
        """Storages that overlap."""

    def weave(
        self,
        names: Mapping[str, object],
        outputs: Mapping[str, object],
        asked: Collection[int],
        made_at: Callable[[int], tuple[int, int] | None],
        budget: float | None,
    ) -> Web:
        """Returns the web; see `open_web`."""
        try:
            self._given, self._names = {id(names), id(outputs)}, names
            self._named = {id(v) for n, v in list(names.items()) if not is_throwaway(n)}
            first = self._walk(names, outputs, budget)
            complete = not self._notes or all(note.code != "budget" for note in self._notes)
            self._writer = WordWriter(outputs, self._roots)
            with scan_heap(self._table, first=first) as scan:
                nodes = dict(zip(map(id, first), scan.roots, strict=True))
                first.clear()
                self._read(scan, nodes)
            gradients, views = self._read_facts()
            self._search()
            self._groups.take_found(self._index)
            needed = self._needed - self._lost
            graphs = tuple(self._groups.facts(needed, self._index, made_at))
            teller = self._tell(asked)
            held = [
                teller.held(ref, wanted=serial in self._needed)
                for serial, ref in self._index.refs.items()
                if self._is_told(serial, asked) and ref() is not None
            ]
            held.sort(key=lambda one: (-one.bytes, one.key))
            gradients = self._with_steppers(gradients)
            states = tuple(self._with_others(fact, teller) for fact in self._states)
            suspended = tuple(teller.suspended())
            facts = (graphs, views, gradients, states, suspended)
            notes, bounded = tuple(self._notes), find_bounded(self._ties, self._index)
            self._web.holders = Holders(tuple(held), *facts, complete, notes, bounded)
            return self._web
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._ties.clear()
        self._index.clear()
        self._roots.clear()
        self._names = {}
        self._optimizers.clear()
        self._owners_of_unused.clear()

    def _is_told(self, serial: int, asked: Collection[int]) -> bool:
        return serial not in self._needed or serial in asked

    # -- names and graphs --------------------------------------------------------------------

    def _walk(
        self, names: Mapping[str, object], outputs: Mapping[str, object], budget: float | None
    ) -> list[Any]:
        """Returns what the scan begins at, besides what it finds."""
        others = [(root.text, root.thing) for root in self._roots.values()]
        trail = NameWalk(budget).run(names, outputs, others)
        try:
            reach_gradients(trail)
            self._take_trail(trail)
            tensors = [t for t in trail.tensors if issubclass(type(t), torch.Tensor)]
            return [*(node for node, _ in trail.graphs), *tensors]
        finally:
            trail.clear()

    def _take_trail(self, trail: Trail) -> None:
        texts = write_names(trail).texts
        for index, thing in enumerate(trail.tensors):
            link = trail.first_link(index)
            if link < len(texts):
                self._texts[id(thing)] = texts[link]
        self._ties = tie_up(trail, texts)
        self._notes += trail.notes

    def _read(self, scan: HeapScan, begun: Mapping[int, int | None]) -> None:
        things = [thing for thing in self._ties.objects.values() if is_tensor(thing)]
        self._index.take(scan, things)
        used = {text for text, root in self._roots.items() if root.kind in _USED}
        self._needs = Needs(self._ties, used)
        self._needed = self._needs.storages(self._index)
        self._shared = self._table.groups()
        self._take_shared()
        self._groups = GraphGroups(self._ties, self._needs, self._writer)
        self._optimizers = self._find_optimizers()
        states = [self._state_fact(name, one) for name, one in self._optimizers]
        self._states = tuple(fact for fact in states if fact is not None)
        self._lost = {serial for fact in self._states for serial in fact.keys}
        bare = {key: at for key, at in begun.items() if not is_tensor(self._ties.objects.get(key))}
        self._groups.read(scan, self._index, bare, self._needed - self._lost)
        self._notes += scan.notes

    # -- facts -------------------------------------------------------------------------------

    def _read_facts(self) -> tuple[tuple[GradientFact, ...], tuple[ViewFact, ...]]:
        gradients = self._gradient_facts(self._optimizers)
        return gradients, self._view_facts()

    def _view_facts(self) -> tuple[ViewFact, ...]:
        """Returns the small views of memory that nothing but them keeps."""
        facts = [fact for serial in self._needed if (fact := self._view_fact(serial)) is not None]
        refs = [self._index.refs[fact.key] for fact in facts]
        states, names = self._needs.states, self._names
        owned = lent(refs, self._ties, states, names, over_tensors=False)
        return tuple(fact for fact in facts if fact.key not in owned)

    def _find_optimizers(self) -> list[tuple[str, Any]]:
        """Returns the optimizers that values need, by name."""
        found = []
        for key, thing in self._ties.objects.items():
            if issubclass(type(thing), torch.optim.Optimizer) and self._needs.states.get(key):
                ways = self._needs.ways_of_values(thing)
                if ways:
                    found.append((write_path(self._writer.steps(ways[0])), thing))
        return found

    def _gradient_facts(self, optimizers: list[tuple[str, Any]]) -> tuple[GradientFact, ...]:
        stepped_by = {id(p): name for name, one in optimizers for p in parameters_of(one)}
        owners = [
            (thing, self._texts[key])
            for key, thing in self._ties.objects.items()
            if key in self._texts and self._needs.states.get(key)
            if issubclass(type(thing), torch.Tensor)
        ]
        sizes = {serial: ref.bytes for serial, ref in self._index.refs.items()}
        facts = gradient_facts(owners, self._index.serials_of, sizes, stepped_by)
        gradients = {id(g): g for owner, _ in owners if (g := gradient_of(owner)) is not None}
        facts = [fact for fact in facts if self._hangs_alone(fact.key, gradients)]
        told = {fact.key for fact in facts}
        modules: dict[int, str] = {}
        for owner, _ in owners:
            gradient = gradient_of(owner)
            for serial in () if gradient is None else self._index.serials_of(gradient):
                if serial in told:
                    self._web.owners.setdefault(serial, []).append(owner)
                    modules[serial] = self._module_of(owner)
        unused = [fact.key for fact in facts if may_be_unused(fact)]
        owned = {id(o): o for key in unused for o in self._web.owners.get(key, ())}
        self._owners_of_unused = list(owned.values())
        return tuple(replace(fact, module=modules.get(fact.key, "")) for fact in facts)

    def _hangs_alone(self, serial: int, gradients: Container[int]) -> bool:
        """Returns whether nothing but parameters holds a gradient's storage, as far as is known.

        What a tensor besides shows, such as one flat buffer for all gradients, is that tensor's.
        """
        over = self._index.over.get(serial, ())
        return all(id(one) in gradients and len(ties_to(self._ties, one)) < 2 for one in over)

    def _module_of(self, parameter: Any) -> str:
        """Returns the outermost module on the way to a parameter, as the user comes to it."""
        for way in self._needs.ways_of_values(parameter)[:1]:
            for at, thing in enumerate(way.objects):
                if issubclass(type(thing), torch.nn.Module):
                    above = type(way)(way.ties[: at + 1], way.objects[: at + 1])
                    return write_path(self._writer.steps(above))
        return ""

    def _state_fact(self, name: str, optimizer: Any) -> StateFact | None:
        besides = self._needs.besides_optimizers
        kept = self._needs.kept_besides(self._index)
        fact = state_fact(optimizer, name, besides, self._index.serials_of, kept)
        if fact is not None:
            self._web.optimizers[name] = optimizer
            self._web.lost[name] = lost_parameters(optimizer, besides)
        return fact

    def _with_steppers(self, facts: Sequence[GradientFact]) -> tuple[GradientFact, ...]:
        """Returns the facts with who else has the parameters of gradients that none may need."""
        known = {id(one) for _, one in self._optimizers}
        steppers, owners = (
            Steppers(self._ties, self._writer, self._roots, known),
            self._web.owners,
        )
        return tuple(
            replace(fact, held_by=steppers.find(owners.get(fact.key, ())))
            if may_be_unused(fact)
            else fact
            for fact in facts
        )

    def _with_others(self, fact: StateFact, teller: Teller) -> StateFact:
        """Returns the fact with what else holds the storages that only optimizers need."""
        others = []
        for serial in fact.keys:
            chains = list(teller.chains_of(serial))
            chains += [
                Chain((PathStep("variable", other.optimizer),), "optimizer", False, other.optimizer)
                for other in self._states
                if other is not fact and serial in other.keys
            ]
            ref = self._index.refs.get(serial)
            if chains and ref is not None:
                others.append(HeldStorage(serial, ref.bytes, tuple(chains)))
        return replace(fact, others=tuple(others))

    def _view_fact(self, serial: int) -> ViewFact | None:
        ref = self._index.refs.get(serial)
        if ref is None or ref.bytes < max(self._threshold // _MANY, 1):
            return None
        over = self._index.over.get(serial, [])
        if over and is_plainly_shown(ref, over[0], self._ties):
            return None
        start = next((part.storage.data_ptr() for one in over[:1] for part in parts_of(one)), 0)
        shown = shown_by(over, self._ties)
        if any(is_shared(one) for one in over[:1] if issubclass(type(one), torch.Tensor)):
            return None
        places = Places(self._ties, self._needs, self._writer)
        fact = view_fact(ref, shown, start, self._name_of, places)
        if fact is not None:
            self._web.tensors[serial] = shown
        return fact

    def _name_of(self, thing: Any) -> str:
        """Returns the name of a tensor or an array; empty where it has none."""
        if id(thing) in self._texts or not is_array(thing):
            return self._texts.get(id(thing), "")
        ways = self._needs.ways_of_values(thing)
        return write_path(self._writer.steps(ways[0])) if ways else ""

    # -- upwards -----------------------------------------------------------------------------

    def _search(self) -> None:
        """Asks the heap who else holds what no value needs."""
        needed = self._needed - self._lost
        lost = [ref for serial, ref in self._index.refs.items() if serial not in needed]
        lost.sort(key=lambda ref: -ref.bytes)
        targets = [
            thing
            for ref in lost
            for thing in self._index.over.get(ref.serial, ())
            if not self._index.was_looked_up(thing)
        ]
        targets += self._owners_of_unused
        if len(targets) > _MOST_TARGETS:
            left = f"{len(targets) - _MOST_TARGETS:,} small tensors were not searched for holders."
            self._notes.append(Note("holders", "budget", left))
        states, cyclic = self._needs.states, self._groups.cyclic
        targets, ours = targets[:_MOST_TARGETS], self._ours()
        in_graphs = self._index.in_graphs | self._index.kept_by_views()
        explained = self._explained
        used = find_others(
            self._ties, targets, states, ours, cyclic, in_graphs, explained, self._named
        )
        self._needed |= self._needs.add_used(used, self._index)
        self._take_shared()

    def _take_shared(self) -> None:
        """Takes storages as needed whose memory something has that a value needs."""
        self._needed |= needed_with(self._shared, self._needed)
        lost = [ref for serial, ref in self._index.refs.items() if serial not in self._needed]
        self._needed |= lent(lost, self._ties, self._needs.states, self._names)
        self._needed |= needed_with(self._shared, self._needed)

    def _ours(self) -> set[int]:
        """Returns the ids of what we hold tensors in ourselves."""
        web = self._web
        tables: list[dict[Any, Any]] = [self._index.over, web.tensors, web.owners, web.lost]
        inner = {id(values) for table in tables for values in table.values()}
        others: list[object] = [self._ties.objects, web.optimizers, self._groups.cyclic]
        others += [self._optimizers, self._owners_of_unused]
        return inner | self._given | {id(table) for table in (*tables, *others)}

    def _tell(self, asked: Collection[int]) -> Teller:
        teller = Teller(self._ties, self._needs, self._writer, self._web.points)
        stale = {id(one) for name, one in self._optimizers if name in self._web.lost}
        for serial in self._index.refs:
            if serial in self._lost and serial not in asked:
                for thing in self._index.over.get(serial, ()):
                    teller.tell_tensor(serial, thing, but=stale)
            elif self._is_told(serial, asked):
                for thing in self._index.over.get(serial, ()):
                    teller.tell_tensor(serial, thing)
        for group in self._groups.all():
            for serial in group.saved:
                if serial in self._lost or self._is_told(serial, asked):
                    teller.tell_saved(serial, group)
            teller.add_roots(group)
        for overlapping in self._shared:
            serials = [serial for serial, _, _ in overlapping]
            if any(self._is_told(serial, asked) for serial in serials):
                teller.tell_together(serials)
        return teller
