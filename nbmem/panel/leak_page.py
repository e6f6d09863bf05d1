"""The Leaks section: what is found, what is chosen of it, the plan, and what came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipywidgets import HTML, Box

from nbmem.panel import leak_words as told
from nbmem.panel.errors import ErrorLine
from nbmem.panel.plan_box import HIDDEN, SHOWN, PlanBox, button, row, together
from nbmem.panel.redraw import Throttle
from nbmem.panel.turns import Turn
from nbmem.panel.words import line_html

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nbmem.panel.contract import SessionLike
    from nbmem.panel.leaks import LeakList
    from nbmem.panel.snapshot import Snapshot
    from nbmem.records import Inventory, Leak, ReclaimReport
    from nbmem.units import Units

LOOKING = "Looking for leaks"
OUTDATED = "What was planned has changed since, so the plan was taken back: press the button again."


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan that waits for an answer."""

    targets: list[Leak]
    of_choice: bool
    """These are the chosen ones; else all."""
    report: ReclaimReport
    asked: list[Leak | str]
    """What is freed: the leaks, or for some of them what would fill them again."""


class LeakPage:
    """All of the section but its table, which the panel's body draws."""

    def __init__(self, session: SessionLike, found: LeakList, after: Callable[[], None]) -> None:
        self._session, self._found, self._after = session, found, after
        self._planned: _Plan | None = None
        self._pace = Throttle(self._find)
        self._busy = False
        self._units: Units = "IEC"
        self.turn = Turn(session, self._wait)
        self._state, self._line, self._detail = HTML(), HTML(), HTML()
        self._free = button("Free…", told.free_tip([]), self._press_chosen)
        self._source = button("Remove the hook…", "", self._press_source)
        self._source.tooltip = "Shows what goes when the hook goes that would fill it again."
        self._costless = button("Free all that costs nothing", "", self._press_costless)
        self._all = button("Free all…", "", self._press_all)
        self._all.tooltip = "Shows what would be freed, and what that costs, before anything is."
        tip, press = "Frees what is listed above.", self._press_confirm
        self._plan = PlanBox(tip, "Free nothing", on_confirm=press, on_keep=self._kept)
        buttons = [self._free, self._source, self._costless, self._all]
        self._buttons = Box([*buttons, self.turn.stop], layout=row())
        self.widgets = [self._state, self._buttons, self._line, self._plan.widget, self._detail]
        self.say("")
        self._enable()

    # Looking.

    def look(self) -> None:
        """Finds leaks and draws them, when no cell runs; says so where that takes a while."""
        if self._found.report is None:
            self._state.value = told.sentences_html([f"{LOOKING} …"])
        self.turn.take(LOOKING, self._look)

    def look_soon(self) -> None:
        """Finds leaks at the pace that they allow: at most a tenth of the time."""
        self.turn.soon(self._pace.ask)

    def close(self) -> None:
        """Ends it: nothing is looked for or done after this."""
        self._pace.close()
        self.turn.drop()

    def _look(self) -> None:
        self._pace.now()

    def _find(self) -> None:
        if self.turn.cell is None:
            with self.error_line(LOOKING):
                self._found.follow(self._session.find_leaks())
            self._after()

    # Drawing.

    def show(self, snapshot: Snapshot) -> None:
        """Draws all but the table."""
        self._units = snapshot.units
        self._show_state(snapshot.inventory)
        self.update()

    def _show_state(self, inventory: Inventory | None) -> None:
        report = self._found.report
        if report is not None:
            sentences = told.state_sentences(report, inventory, self._units)
            self._state.value = told.sentences_html(sentences)
        self._buttons.layout.display = SHOWN if self._found.leaks else HIDDEN

    def choose(self) -> None:
        """Follows a choice of the user's: what was answered before is not about it."""
        if not self.turn.is_waiting:
            self.say("")
        self.update()

    def update(self) -> None:
        """Follows what is there, and what of it is chosen."""
        self._check_plan()
        chosen = self._found.chosen
        with together(self._free, self._source, self._costless):
            self._source.description = told.source_label(chosen)
            self._source.layout.display = SHOWN if told.sources_of(chosen) else HIDDEN
            self._free.description = told.free_label(chosen, self._units)
            self._free.tooltip = told.free_tip(chosen)
            self._costless.tooltip = told.costless_tip(self._found, self._units)
            self._enable()
        self._detail.value = told.details_html(chosen, self._units)
        self._detail.layout.display = HIDDEN if self._plan.is_shown else SHOWN

    def _check_plan(self) -> None:
        """Takes a plan back that speaks of something else than what is there, or is chosen."""
        plan = self._planned
        if plan is None:
            return
        if any(leak not in self._found.leaks for leak in plan.targets):
            self._forget_plan()
            self.say(OUTDATED)
        elif plan.of_choice and plan.targets != self._found.chosen:
            self._forget_plan()

    def say(self, text: str) -> None:
        """Puts one line under the buttons."""
        self._line.value = line_html(text, lines=1)

    def error_line(self, what: str) -> ErrorLine:
        """Makes one line of any error inside, so that none reaches the notebook."""
        return ErrorLine(what, self.say)

    def _wait(self, sentence: str) -> None:
        self.say(sentence)
        self._enable()

    def _enable(self) -> None:
        busy = self._busy or self.turn.is_waiting
        self._free.disabled = busy or not any(leak.reclaimable for leak in self._found.chosen)
        self._source.disabled = busy
        self._costless.disabled = busy or not self._found.costless
        self._all.disabled = busy or not self._found.takeable
        self._plan.enable(not busy)

    # What the user does.

    def _press_chosen(self) -> None:
        chosen, label = self._found.chosen, self._free.description.rstrip("…")
        if told.is_costless(chosen):
            self.turn.take(label, lambda: self._reclaim(chosen))
        else:
            self.turn.take(label, lambda: self._show_plan(chosen, [*chosen], of_choice=True))

    def _press_source(self) -> None:
        """Removes what would fill the chosen leaks again; of the others the leak itself goes."""
        chosen = self._found.chosen
        asked: list[Leak | str] = [leak for leak in chosen if not leak.sources]
        asked += told.sources_of(chosen)
        label = self._source.description.rstrip("…")
        self.turn.take(label, lambda: self._show_plan(chosen, asked, of_choice=True))

    def _press_costless(self) -> None:
        self.turn.take(self._costless.description, lambda: self._reclaim(None))

    def _press_all(self) -> None:
        found = self._found.takeable
        self.turn.take("Free all", lambda: self._show_plan(found, [*found], of_choice=False))

    def _show_plan(self, targets: list[Leak], asked: list[Leak | str], *, of_choice: bool) -> None:
        with self.error_line("The plan"):
            report = self._session.plan_reclaim(asked)
            self._planned = _Plan(targets, of_choice, report, asked)
            label = told.confirm_label(report, self._units)
            html = told.plan_html(report, self._units)
            self._plan.show(html, label, offers=bool(report.planned))
            self.say("")
            self.update()

    def _forget_plan(self) -> None:
        self._planned = None
        self._plan.hide()

    def _kept(self, offered: bool) -> None:
        self._planned = None
        self.say("Nothing was freed." if offered else "")
        self.update()

    def _press_confirm(self) -> None:
        plan = self._planned
        if plan is not None:
            label = self._plan.confirm.description
            self.turn.take(label, lambda: self._reclaim(plan.asked, plan.report))

    def _reclaim(
        self, targets: Sequence[Leak | str] | None, plan: ReclaimReport | None = None
    ) -> None:
        self._forget_plan()
        self._busy = True
        self._enable()
        try:
            with self.error_line("Freeing"):
                report = self._session.reclaim(targets)
                self.say(told.outcome(report, plan, self._session.settings.units))
        finally:
            self._busy = False
        self._look()
