"""Why chosen storages are alive: every way that holds them, as text, when somebody asks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ipywidgets import HTML

from nbmem.panel.columns import one_line
from nbmem.panel.leak_words import BLOCK, code_html, sentences_html
from nbmem.panel.live_columns import storage_name
from nbmem.panel.plan_box import button, together
from nbmem.panel.words import QUIET, sentence
from nbmem.render.html_parts import tag
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.panel.acts import Acts
    from nbmem.panel.contract import SessionLike
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import Chain, HeldStorage, Holders, StorageRecord
    from nbmem.units import Units

MOST_STORAGES = 5
MOST_CHAINS = 12
OUTDATED = "As it was before the last cell or act: press “held by” to look again."
_TIP = "Finds every way that holds the chosen tensors."
_NOTHING = "Nothing that can be followed holds it: C++ does, or garbage not yet collected."


class Held:
    """The button `held by` and the text that answers it."""

    def __init__(self, session: SessionLike) -> None:
        self._session = session
        self._chosen: list[StorageRecord] = []
        self._asked: tuple[int, ...] = ()
        self._told = ""
        self._units: Units = "IEC"
        self.acts: Acts
        """Whose turn a search waits for, and whose line tells what went wrong."""
        self.button = button("held by", "Choose rows of the table of live tensors first.",
                             self._press)  # fmt: skip
        self.button.disabled = True
        self.text = HTML()

    def update(self, snapshot: Snapshot, keys: Sequence[int]) -> None:
        """Follows what is chosen; an answer about something else goes."""
        self._chosen = snapshot.storages(keys)
        self._units = snapshot.units
        with together(self.button):
            self.button.disabled = not self._chosen
            self.button.tooltip = _TIP if self._chosen else "Choose rows of live tensors first."
        if self._asked and self._asked != self._keys():
            self._asked, self.text.value = (), ""

    def grow_old(self) -> None:
        """Says of an answer that it speaks of the past."""
        if self._asked:
            self.text.value = sentences_html([OUTDATED]) + self._told

    def _keys(self) -> tuple[int, ...]:
        return tuple(storage.key for storage in self._chosen)

    def _press(self) -> None:
        chosen = self._chosen
        self.acts.turn.take("Looking for holders", lambda: self._look(chosen))

    def _look(self, chosen: list[StorageRecord]) -> None:
        keys = tuple(storage.key for storage in chosen)
        with self.acts.error_line("Looking for holders"):
            found = self._session.find_holders(keys[:MOST_STORAGES])
            self._told = held_html(found, chosen, self._units)
            self._asked, self.text.value = keys, self._told


def held_html(found: Holders, chosen: Sequence[StorageRecord], units: Units) -> str:
    """Returns of each chosen storage every way that holds it, escaped."""
    ways = {held.key: held for held in found.held}
    parts = [_storage(each, ways.get(each.key), units) for each in chosen[:MOST_STORAGES]]
    notes = [note.sentence for note in found.notes]
    if len(chosen) > MOST_STORAGES:
        rest = format_count(len(chosen) - MOST_STORAGES, "chosen tensor")
        notes.insert(0, f"{rest} more: choose fewer to read what holds them")
    label = "What holds the chosen tensors"
    block = tag("div", "".join(parts), BLOCK, role="region", aria_label=label)
    return block + sentences_html(notes)


def _storage(storage: StorageRecord, held: HeldStorage | None, units: Units) -> str:
    name = one_line(storage_name(storage), 80)
    head = tag("b", escape(f"{name} · {format_bytes(storage.bytes, units)}")) + " held by"
    if held is None or not held.chains:
        return tag("div", head + tag("div", escape(_NOTHING), QUIET), "margin-bottom:8px")
    shown = held.chains[:MOST_CHAINS]
    items = "".join(tag("li", _chain(chain)) for chain in shown)
    rest = len(held.chains) - len(shown) + held.more
    foot = [f"and {format_count(rest, 'more way')}" if rest else "", _together(held, units)]
    told = "".join(tag("div", escape(sentence(text)), QUIET) for text in foot if text)
    ways = tag("ul", items, "margin:2px 0;padding-left:18px")
    return tag("div", head + ways + told, "margin-bottom:8px")


def _chain(chain: Chain) -> str:
    way = escape(one_line(chain.text, 300))
    if chain.wanted:
        needed = tag("div", "a value that you can name needs it", QUIET)
        return way + needed + code_html(chain.remedy)
    cost = f", which costs {one_line(chain.cost, 200)}" if chain.cost else ""
    goes = tag("div", escape(f"goes with {one_line(chain.cut, 200)}{cost}"), QUIET)
    return way + goes + code_html(chain.remedy)


def _together(held: HeldStorage, units: Units) -> str:
    cuts = {chain.cut for chain in held.chains}
    if held.wanted or held.more or len(cuts) < 2:
        return ""
    every = "both" if len(cuts) == 2 else f"all {len(cuts)}"
    size = format_bytes(held.bytes, units)
    return f"cutting one of them frees nothing, cutting {every} frees {size}"
