"""The buttons, the plan before an act and the line that answers after it; core widgets only."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ipywidgets import HTML, Box, Button, Layout, VBox

from nbmem.panel import words
from nbmem.panel.header import has_accelerator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbmem.panel.contract import SessionLike
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import ReclaimReport, StorageRecord
    from nbmem.units import Units

HIDDEN, SHOWN = "none", None


def button(text: str, tip: str, act: Callable[[], None]) -> Button:
    """Returns a button as wide as its text that calls `act`."""
    made = Button(description=text, tooltip=tip, layout=Layout(width="auto"))
    made.on_click(lambda _button: act())
    return made


class Acts:
    """`del`, `gc.collect()` and `empty cache` over a session.

    The session frees and proves; here the user chooses, sees the plan, and reads the answer.
    """

    def __init__(self, session: SessionLike, after: Callable[[], None]) -> None:
        self._session = session
        self._after = after
        self._chosen: list[StorageRecord] = []
        self._planned: tuple[int, ...] = ()
        self._cache_tip = "Gives cached blocks that no tensor uses back to the device."
        self.line = HTML()
        """The answer; apart from `widget`, so that it is seen where that is closed."""
        self._del = button("del", words.del_tip([]), self._press_del)
        self._collect = button("gc.collect()", "Frees what only cycles keep.", self._press_collect)
        self._empty = button("empty cache", self._cache_tip, self._press_empty)
        self._plan_list = HTML()
        self._confirm = button("Drop", "Drops what is listed above.", self._press_confirm)
        self._keep = button("Keep all", "Drops nothing.", self._press_keep)
        self._confirm.button_style = "danger"
        self._plan = VBox(
            [self._plan_list, Box([self._confirm, self._keep], layout=_row())],
            layout=Layout(display=HIDDEN),
        )
        buttons = Box([self._del, self._collect, self._empty], layout=_row())
        self.widget = VBox([buttons, self._plan])
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
        self._del.description = words.del_label(chosen, snapshot.units)
        self._del.tooltip = words.del_tip(chosen)
        self._empty.tooltip = self._cache_tip if self._has_cache else words.NO_CACHE
        self._enable()

    def say(self, text: str) -> None:
        """Puts one line under the buttons."""
        self.line.value = words.line_html(text)

    @contextmanager
    def telling(self, what: str) -> Iterator[None]:
        """Makes one line of any error inside, so that none reaches the notebook."""
        try:
            yield
        except Exception as error:
            self.say(words.trouble_sentence(what, error))

    def _enable(self) -> None:
        self._del.disabled = self._busy or not self._chosen
        self._collect.disabled = self._busy
        self._empty.disabled = self._busy or not self._has_cache
        self._confirm.disabled = self._keep.disabled = self._busy

    def _press_del(self) -> None:
        keys = tuple(storage.key for storage in self._chosen)
        if not keys:
            return
        with self.telling("The plan for del"):
            plan = words.with_names(self._session.plan_drop(keys), self._chosen)
            if not plan.planned and self._say_gone():
                return
            if words.is_simple(self._chosen) and not plan.refused:
                self._act("del", lambda: self._session.drop_storages(keys))
            else:
                self._show_plan(plan, keys)

    def _say_gone(self) -> bool:
        """Reads again; returns whether something chosen was gone already, having said so."""
        before = self._chosen
        self._after()
        alive = {storage.key for storage in self._chosen}
        gone = [storage for storage in before if storage.key not in alive]
        if gone:
            self.say(words.gone_sentence(gone))
        return bool(gone)

    def _show_plan(self, plan: ReclaimReport, keys: tuple[int, ...]) -> None:
        self._planned = keys
        self._plan_list.value = words.plan_html(plan)
        self._confirm.description = words.confirm_label(plan, self._chosen, self._units)
        self._confirm.layout.display = SHOWN if plan.planned else HIDDEN
        self._keep.description = "Keep all" if plan.planned else "Close"
        self._plan.layout.display = SHOWN
        self.say("")

    def _forget_plan(self) -> None:
        self._planned = ()
        self._plan.layout.display = HIDDEN

    def _press_keep(self) -> None:
        offered = self._keep.description == "Keep all"
        self._forget_plan()
        self.say("Nothing was dropped." if offered else "")

    def _press_confirm(self) -> None:
        keys = self._planned
        if keys:
            self._act("del", lambda: self._session.drop_storages(keys))

    def _press_collect(self) -> None:
        self._act("gc.collect()", self._session.collect)

    def _press_empty(self) -> None:
        self._act("empty cache", self._session.empty_cache)

    def _act(self, what: str, act: Callable[[], ReclaimReport]) -> None:
        chosen = self._chosen
        self._forget_plan()
        self._busy = True
        self._enable()
        try:
            with self.telling(what):
                report = words.with_names(act(), chosen)
                self.say(words.answer(report, self._session.settings.units))
        finally:
            self._busy = False
            self._enable()
        self._after()


def _row() -> Layout:
    return Layout(display="flex", flex_flow="row wrap", align_items="center")
