"""The buttons, the plan before an act and the line that answers after it; core widgets only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import HTML, Box, VBox

from nbmem.panel import words
from nbmem.panel.errors import ErrorLine
from nbmem.panel.header import has_accelerator
from nbmem.panel.plan_box import PlanBox, button, row, together
from nbmem.panel.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ipywidgets import Widget

    from nbmem.panel.contract import SessionLike
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import ReclaimReport, StorageRecord
    from nbmem.units import Units


class Acts:
    """`del`, `gc.collect()` and `empty cache` over a session.

    The session frees and proves; here the user chooses, sees the plan, and reads the answer. While
    a cell runs an act waits for its end.
    """

    def __init__(
        self, session: SessionLike, after: Callable[[], None], more: Sequence[Widget] = ()
    ) -> None:
        self._session = session
        self._after = after
        self._chosen: list[StorageRecord] = []
        self._planned: list[StorageRecord] = []
        self._cache_tip = "Gives cached blocks that no tensor uses back to the device."
        self.line = HTML()
        """The answer; apart from `widget`, so that it is seen where that is closed."""
        self.turn = Turn(session, self._wait)
        self._del = button("del", words.del_tip([]), self._press_del)
        self._collect = button("gc.collect()", "Frees what only cycles keep.", self.collect)
        self._empty = button("empty cache", self._cache_tip, self._press_empty)
        tip, press = "Drops what is listed above.", self._press_confirm
        self._plan = PlanBox(tip, "Keep all", on_confirm=press, on_keep=self._kept)
        buttons = [self._del, self._collect, self._empty, *more, self.turn.stop]
        self.widget = VBox([Box(buttons, layout=row()), self._plan.widget])
        self._units: Units = "IEC"
        self._busy = False
        self._has_cache = False
        self._enable()
        self.say("")

    def update(self, snapshot: Snapshot, keys: Sequence[int]) -> None:
        """Follows what is alive and what of it is chosen."""
        chosen = snapshot.storages(keys)
        if tuple(s.key for s in chosen) != tuple(s.key for s in self._chosen):
            self._forget_plan()
        self._chosen = chosen
        self._units = snapshot.units
        self._has_cache = has_accelerator(snapshot.readings)
        with together(self._del, self._empty):
            self._del.description = words.del_label(chosen, snapshot.units)
            self._del.tooltip = words.del_tip(chosen)
            self._empty.tooltip = self._cache_tip if self._has_cache else words.NO_CACHE
            self._enable()

    def say(self, text: str) -> None:
        """Puts one line under the buttons."""
        self.line.value = words.line_html(text)

    def error_line(self, what: str) -> ErrorLine:
        """Makes one line of any error inside, so that none reaches the notebook."""
        return ErrorLine(what, self.say)

    def _wait(self, sentence: str) -> None:
        self.say(sentence)
        self._enable()

    def _enable(self) -> None:
        busy = self._busy or self.turn.is_waiting
        self._del.disabled = busy or not self._chosen
        self._collect.disabled = busy
        self._empty.disabled = busy or not self._has_cache
        self._plan.enable(not busy)

    def _press_del(self) -> None:
        chosen = self._chosen
        if chosen:
            self.turn.take(self._del.description.rstrip("…"), lambda: self._plan_or_drop(chosen))

    def _plan_or_drop(self, chosen: list[StorageRecord]) -> None:
        keys = tuple(storage.key for storage in chosen)
        with self.error_line("The plan for del"):
            plan = words.with_names(self._session.plan_drop(keys), chosen)
            if not plan.planned and self._say_gone(chosen):
                return
            if words.is_simple(chosen) and not plan.refused:
                self._drop(chosen)
            else:
                self._show_plan(plan, chosen)

    def _drop(self, chosen: list[StorageRecord]) -> None:
        keys = tuple(storage.key for storage in chosen)
        self._act("del", lambda: words.with_names(self._session.drop_storages(keys), chosen))

    def _say_gone(self, chosen: list[StorageRecord]) -> bool:
        """Reads again; returns whether something chosen was gone already, having said so."""
        self._after()
        alive = {storage.key for storage in self._chosen}
        gone = [storage for storage in chosen if storage.key not in alive]
        if gone:
            self.say(words.gone_sentence(gone))
        return bool(gone)

    def _show_plan(self, plan: ReclaimReport, chosen: list[StorageRecord]) -> None:
        self._planned = chosen
        label = words.confirm_label(plan, chosen, self._units)
        self._plan.show(words.plan_html(plan), label, offers=bool(plan.planned))
        self.say("")

    def _forget_plan(self) -> None:
        self._planned = []
        self._plan.hide()

    def _kept(self, offered: bool) -> None:
        self._planned = []
        self.say("Nothing was dropped." if offered else "")

    def _press_confirm(self) -> None:
        planned = self._planned
        if planned:
            self.turn.take("del", lambda: self._drop(planned))

    def collect(self) -> None:
        """Runs the collector when its turn has come, and answers in the line."""
        self.turn.take("gc.collect()", lambda: self._act("gc.collect()", self._session.collect))

    def _press_empty(self) -> None:
        self.turn.take("empty cache", lambda: self._act("empty cache", self._session.empty_cache))

    def _act(self, what: str, act: Callable[[], ReclaimReport]) -> None:
        self._forget_plan()
        self._busy = True
        self._enable()
        try:
            with self.error_line(what):
                self.say(words.answer(act(), self._session.settings.units))
        finally:
            self._busy = False
            self._enable()
        self._after()
