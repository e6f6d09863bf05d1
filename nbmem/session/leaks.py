"""Leaks and holders of a session: what the rooms below are told, and what targets may be.

table, names, roots ──> holders' web ──> plain facts ─┐
origins, runs, last cell ──────────────────────────────┴─> judged ──> LeakReport
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from nbmem.errors import NameNotFoundError
from nbmem.heap import notes_on_frozen
from nbmem.holders.roots import find_roots
from nbmem.holders.web import open_web
from nbmem.inventory import explain_property, find_places, find_thing
from nbmem.leaks import explain_chains, judge_leaks
from nbmem.reclaim import Finder, plan_reclaim, reclaim_leaks
from nbmem.records import Leak, ReclaimReport
from nbmem.session import roots
from nbmem.session.allocated_at import cells_by_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from nbmem.holders.web import Web
    from nbmem.records import Holders, Inventory, LeakReport, Note
    from nbmem.session.core import Session

_BELOW = (".", "[", " → ", " (")
"""What may follow a name in the names of what it leads to."""
_LONGEST = 80
_MOST_TOLD = 10_000
_PATIENCE = 20
"""How many times longer than for a cell's report the walk of names may take: somebody asked."""


class LeakFinder:
    """Finds leaks and holders for a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.notes: list[Note] = []
        """What could not be listed for the web that was opened last."""
        self._told: dict[str, None] = {}
        """Texts of what leaks were found to be held by: none of them names a variable to drop."""

    def find(self) -> LeakReport:
        """Returns what is alive beyond need, largest first."""
        web, report = self.look()
        with web:
            return report

    def look(self) -> tuple[Web, LeakReport]:
        """Returns the web, which whoever asks closes, and the leaks in it."""
        inventory = self._session.take_inventory()
        web = self.open_web()
        try:
            report = self._judge(inventory, self._noted(web.holders))
            self._told.update((cut, None) for leak in report.leaks for cut in leak.cuts)
            while len(self._told) > _MOST_TOLD:
                del self._told[next(iter(self._told))]
            return web, report
        except BaseException:
            web.__exit__(None, None, None)
            raise

    def _judge(self, inventory: Inventory, holders: Holders) -> LeakReport:
        session = self._session
        return judge_leaks(
            inventory,
            holders,
            origin_of=session.origins.find,
            runs=session.runs.all(),
            last_count=session.watcher.last_count,
            last_serials=frozenset(self._last_serials()),
            threshold=session.settings.leak_threshold,
            now=time.time(),
        )

    def holders(self, keys: Sequence[int]) -> Holders:
        """Returns why these storages are alive."""
        with self.open_web(frozenset(keys)) as web:
            return explain_chains(only(self._noted(web.holders), keys))

    def _noted(self, holders: Holders) -> Holders:
        notes = (*holders.notes, *self.notes, *notes_on_frozen("leaks"))
        return replace(holders, notes=notes)

    def plan(self, targets: object, *, everything: bool) -> ReclaimReport:
        """Returns what `reclaim` would do."""
        asked, finder = as_targets(targets), Finder(self.look, self.holders, self._told)
        return plan_reclaim(self._session.holdings(), finder, asked, everything=everything)

    def reclaim(self, targets: object, *, everything: bool) -> ReclaimReport:
        """Frees leaks; returns the proof. Refuses on another thread while a cell runs."""
        asked, finder = as_targets(targets), Finder(self.look, self.holders, self._told)
        cell = self._session.watcher.running
        if cell is not None and threading.current_thread() is not threading.main_thread():
            return _not_now(cell)
        return reclaim_leaks(self._session.holdings(), finder, asked, everything=everything)

    def open_web(self, asked: Collection[int] = ()) -> Web:
        """Returns the web of what keeps storages alive, to be used as a context manager."""
        session = self._session
        self.notes.clear()
        return open_web(
            session.table,
            roots.user_names(session.shell),
            output_cache=roots.output_cache(session.shell),
            roots=find_roots(session.shell, cells_by_file(session.shell).get, self.notes),
            asked=asked,
            made_at=self._clock(),
            threshold=session.settings.leak_threshold,
            budget=_PATIENCE * session.settings.name_budget,
            explained=roots.output_places(session.shell),
        )

    def _clock(self) -> Callable[[int], tuple[int, int] | None]:
        """Returns what tells when a storage was made.

        Within a record, serials say so only where tracking saw the storage being made.
        """
        origin_of = self._session.origins.find

        def made_at(key: int) -> tuple[int, int] | None:
            origin = origin_of(key)
            return None if origin is None else (origin.serial, key if origin.in_order else 0)

        return made_at

    def _last_serials(self) -> Iterator[int]:
        """Yields the records of the last cell that ran (of a script, the last one) and of now."""
        session, last = self._session, self._session.watcher.last_count
        for opened in (session.watcher.innermost, session.blocks.innermost):
            if opened is not None:
                yield opened.serial
        records = session.history.records()
        if last is None:
            yield from (record.serial for record in records[-1:])
            return
        for record in reversed(records):
            if record.execution_count == last:
                yield record.serial
            elif record.parent is None and record.execution_count is not None:
                break


def only(holders: Holders, keys: Collection[int]) -> Holders:
    """Returns what is said of these storages alone."""
    asked = frozenset(keys)
    return replace(holders, held=tuple(each for each in holders.held if each.key in asked))


def _not_now(cell: str) -> ReclaimReport:
    """Returns that nothing was done: the cell may be about to use what would go."""
    refused = f"{cell} runs on the main thread: reclaim once more when it has ended"
    return ReclaimReport("reclaim", (), (), (refused,), None, None, "nothing")


# What may be asked for.


def as_targets(targets: object) -> tuple[Leak | str, ...] | None:
    """Returns targets as a tuple: a leak, a name or text, several of them; None stays None.

    Raises:
        TypeError: they are something else; the message has the right form.
    """
    if targets is None:
        return None
    if issubclass(type(targets), (Leak, str)):
        targets = (targets,)
    if not issubclass(type(targets), (list, tuple)):
        raise TypeError(_wrong_target(targets))
    for target in cast("Sequence[object]", targets):
        if not issubclass(type(target), (Leak, str)):
            raise TypeError(_wrong_target(target))
    return tuple(cast("Sequence[Leak | str]", targets))


def _wrong_target(target: object) -> str:
    return (
        f"a target is a Leak, the name of a variable or the text of a holder, or a list of these,"
        f" not a {type(target).__name__}: write nbmem.reclaim_memory('x') or"
        " nbmem.reclaim_memory(nbmem.find_leaks())"
    )


def find_keys(session: Session, name: str) -> tuple[tuple[int, ...], Inventory]:
    """Returns the storages that a name stands for, largest first, and the inventory they are of.

    A name of the inventory stands for its storage, a variable or `Out[3]` for all that it leads
    to but by graphs, the beginning of a name (`model.layer3`) for all names that go on from it.

    Raises:
        NameNotFoundError: it stands for none.
    """
    inventory = session.take_inventory()
    keys = [s.key for s in inventory.storages if name in s.names] or _led_to(session, name)
    if not keys:
        begun = tuple(f"{name}{mark}" for mark in _BELOW)
        keys = [s.key for s in inventory.storages if any(n.startswith(begun) for n in s.names)]
    keys = keys or _led_to_otherwise(session, name)
    why = "" if keys else _why_not_read(session, name, inventory)
    keys = keys or ([] if why else _told_of(session, name, inventory))
    wanted = frozenset(keys)
    found = tuple(s.key for s in inventory.storages if s.key in wanted)
    if not found:
        raise NameNotFoundError(why or _why_none(session, name))
    return found, inventory


def _led_to(session: Session, name: str) -> list[int]:
    """Returns the storages that a variable or an entry of the output cache leads to."""
    names, outputs = roots.user_names(session.shell), roots.output_cache(session.shell)
    names = {name: names[name]} if name in names else {}
    outputs = {name: outputs[name]} if name in outputs and not names else {}
    if not names and not outputs:
        return []
    live = [ref.serial for ref in session.table.live()]
    found = find_places(session.table, names, live, output_cache=outputs)
    return [key for key, places in found.items() if places]


def _led_to_otherwise(session: Session, name: str) -> list[int]:
    """Returns the storages to which a name leads by a way that no inventory prints."""
    names, outputs = roots.user_names(session.shell), roots.output_cache(session.shell)
    things = find_thing(name, names, outputs)
    try:
        live = [ref.serial for ref in session.table.live()]
        found = find_places(session.table, {name: things[0]}, live) if things else {}
        whole = [key for key, places in found.items() if any(len(p.steps) == 1 for p in places)]
        return whole or [key for key, places in found.items() if places]
    finally:
        things.clear()


def _told_of(session: Session, name: str, inventory: Inventory) -> list[int]:
    """Returns the storages of which a chain is told that has this text, or is cut there."""
    holders = session.find_holders([s.key for s in inventory.storages])
    return [
        held.key
        for held in holders.held
        if any(name in (chain.cut, chain.text) for chain in held.chains)
    ]


def _why_not_read(session: Session, name: str, inventory: Inventory) -> str:
    """Returns which code of the user's or a library's the name would have to run, if any."""
    names, outputs = roots.user_names(session.shell), roots.output_cache(session.shell)
    known = (one for storage in inventory.storages for one in storage.names)
    return explain_property(name, names, outputs, known)


def _why_none(session: Session, name: str) -> str:
    short = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    if name in roots.user_names(session.shell):
        return f"`{short}` leads to no tensor; `%gpumem tensors` lists the names that do"
    return (
        f"`{short}` leads to no live tensor: it was renamed, deleted or assigned anew;"
        " `%gpumem tensors` lists the names of now"
    )
