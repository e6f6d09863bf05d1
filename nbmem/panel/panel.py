"""The panel: head, history, live tensors with acts, leaks and more, over one session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipywidgets import HTML, Box, Dropdown, Layout, VBox

from nbmem.panel import words
from nbmem.panel.acts import Acts
from nbmem.panel.bodies import Bodies, close_tree
from nbmem.panel.header import header_html
from nbmem.panel.held import Held
from nbmem.panel.leak_page import LeakPage
from nbmem.panel.leaks import LeakList
from nbmem.panel.ledger import ledger_aside, ledger_html
from nbmem.panel.live import LiveList
from nbmem.panel.live_line import LiveLine
from nbmem.panel.modules import ModuleWalk
from nbmem.panel.outputs import (
    Outputs,
    copy_bundle,
    live_class,
    sentence_bundle,
    style_html,
    view_bundle,
)
from nbmem.panel.places import places_aside, places_html
from nbmem.panel.plan_box import HIDDEN, SHOWN, button
from nbmem.panel.redraw import Throttle
from nbmem.panel.section import Section, two_columns
from nbmem.panel.snapshot import Snapshot, Wanted, take_snapshot
from nbmem.panel.static import copy_text
from nbmem.panel.titles import alive_title, history_aside, leak_title
from nbmem.totals import places_by_category

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.bodies import Kind
    from nbmem.panel.contract import SessionLike
    from nbmem.panel.plain import PlainBody
    from nbmem.panel.rich import RichBody
    from nbmem.records import Inventory, Ledger

BARS = [("bars: all that is alive", "alive"), ("bars: what the cell made", "stayed")]


class Panel:
    """A panel over `session`; `widget` is its tree of widgets.

    It keeps figures and names, never a tensor, a frame or an error. It redraws by itself after
    each record and act of the session, until `close`.

    Args:
        session: whose history is shown and who acts.
        kind: whether it has anywidgets, core ipywidgets only, or asks the page; where anywidget is
            not installed it has core ipywidgets only.
        live: has a line that moves while a cell runs; the sidebar has one of its own.
        on_drawn: takes what is shown, each time that it was drawn.
    """

    def __init__(
        self,
        session: SessionLike,
        *,
        kind: Kind = "full",
        live: bool = True,
        on_drawn: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._session = session
        self._on_drawn = on_drawn
        self._snapshot: Snapshot | None = None
        self._inventory: Inventory | None = None
        self._ledger: Ledger | None = None
        self._wanted = Wanted()
        self._live, self._walk, self._found = LiveList(), ModuleWalk(), LeakList()
        self._where = places_by_category(())
        self._outputs = Outputs()
        self._drawing = False
        self.closed = False
        self._ended = ""
        self._redraw = Throttle(self._draw, builds=True)
        self._rescan = Throttle(self._read)
        self._build(kind)
        self._ends = [
            session.subscribe(self._changed),
            session.watcher.subscribe(self._say_running),
        ]
        if live:
            self._ends.append(session.sampler.subscribe(self._live_line.show))
        self.refresh()

    def _build(self, kind: Kind) -> None:
        self._held = Held(self._session)
        self._live_line = LiveLine(self._session)
        self._acts = self._held.acts = Acts(self._session, self.refresh, [self._held.button])
        self._page = LeakPage(self._session, self._found, self._looked)
        self._bodies = self._make_bodies(kind)
        self._head = HTML(layout=Layout(flex="1 1 0", min_width="0", overflow="hidden"))
        self._again = button("⟳", "Read everything again", self._press_again)
        self._again.layout.width, self._again.layout.flex = "36px", "0 0 auto"
        self._again.add_class("nbmem-again")  # the sidebar has this button in its own header
        top = Box([self._head, self._again], layout=Layout(display="flex"))
        self._build_sections()
        style = HTML(layout=Layout(display=HIDDEN))
        first, second, *others = (each.widget for each in self._sections)
        above = two_columns([first], [second, self._acts.line])
        below = two_columns(others[:2], others[2:])
        parts = [top, self._live_line.widget, above, below, self._bodies.rescue, style]
        self.widget = VBox(parts)
        self.widget.add_class("nbmem-panel")
        self.widget.add_class(live_class(self.widget.model_id))
        style.value = style_html(self.widget.model_id)

    def _build_sections(self) -> None:
        self._choice = Dropdown(layout=Layout(width="auto", display=HIDDEN), tooltip="Device")
        self._choice.observe(self._device_chosen, "value")
        self._bars = Dropdown(options=BARS, layout=Layout(width="auto"), tooltip="Bars show")
        self._bars.observe(self._bars_chosen, "value")
        choices = Box(
            [self._choice, self._bars], layout=Layout(display="flex", flex_flow="row wrap")
        )
        self._places_table, self._ledger_sums = HTML(), HTML()
        body, draw = self._body, self._draw
        self._history = Section("History", [choices, body.history], on_turn=draw)
        alive = [body.alive, self._acts.widget, self._held.text]
        self._alive = Section("Live tensors", alive, on_turn=draw)
        leaks = [body.leaks, *self._page.widgets]
        self._leaks = Section("Leaks", leaks, is_open=False, on_turn=self._leaks_turned)
        self._modules = Section("Modules", [body.modules], on_turn=draw)
        places = [self._places_table]
        self._places = Section("Where tensors are", places, on_turn=draw)
        sums = [self._ledger_sums]
        self._sums = Section("Ledger", sums, is_open=False, on_turn=self._ledger_turned)
        self._sections = [self._history, self._alive, self._leaks, self._places, self._modules]
        self._sections.append(self._sums)

    def _make_bodies(self, kind: Kind) -> Bodies:
        return Bodies(
            kind,
            (self._live, self._walk, self._found),
            on_choice=self._chosen,
            on_leaks=self._leaks_chosen,
            on_hello=self._view_made,
            on_change=self._replace,
            say=self._acts.say,
            soon=self._acts.turn.soon,
        )

    # Drawing.

    def refresh(self) -> None:
        """Reads everything again and draws it, now."""
        self._rescan.now()
        self._redraw.now()

    @property
    def _body(self) -> RichBody | PlainBody:
        return self._bodies.now

    @property
    def snapshot(self) -> Snapshot | None:
        """What was drawn last."""
        return self._snapshot

    def choose_cell(self, serial: int) -> bool:
        """Opens the history at the cell of a record; returns False where it is not there."""
        if not self._history.is_open:
            self._history.turn()
        snapshot = self._snapshot
        if snapshot is None or all(record.serial != serial for record in snapshot.records):
            return False
        self._body.choose_cell(serial)
        return True

    def collect(self) -> None:
        """Does what the button `gc.collect()` does, when its turn has come."""
        self._acts.collect()

    def _changed(self) -> None:
        if getattr(self._session, "closed", False):
            self.close(words.NOT_LOADED)
            return
        self._say_running()  # at once: drawing may come a second later
        for turn in (self._acts.turn, self._page.turn):
            turn.cell_ended()
        self._held.grow_old()
        self._redraw.ask()
        self._rescan.ask()

    def _say_running(self) -> None:
        """Costs as good as nothing: it happens twice with every cell."""
        cell = self._acts.turn.cell
        for section in (self._alive, self._leaks):
            section.tell_later(f"{cell} is running: acts wait for its end" if cell else "")

    def _view_made(self) -> None:
        self._bodies.rescue.layout.display = HIDDEN
        self._changed()

    def _read(self) -> None:
        self._list()
        if self._leaks.is_open:
            self._page.look_soon()
        self._redraw.ask()

    def _list(self) -> None:
        with self._acts.error_line("Listing what is alive"):
            self._follow(self._session.take_inventory())
        if self._sums.is_open:
            self._take_ledger()

    def _looked(self) -> None:
        self._list()
        self._redraw.now()

    def _follow(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._live.follow(inventory.storages)
        self._walk.follow(inventory.storages)
        self._where = places_by_category(inventory.storages)

    def _take_ledger(self) -> None:
        with self._acts.error_line("Taking the ledger"):
            self._ledger = self._session.take_ledger()

    def _draw(self) -> None:
        if self._drawing:
            return
        self._drawing = True
        try:
            with self._acts.error_line("Drawing the panel"):
                inventory, ledger = self._inventory, self._ledger
                taken = take_snapshot(self._session, inventory, ledger, self._wanted)
                leaks = self._found.report if self._leaks.is_open else None
                self._show(replace(taken, leaks=leaks))
        finally:
            self._drawing = False

    def _show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._head.value = header_html(snapshot.readings, snapshot.inventory, snapshot.units)
        self._offer_devices(snapshot)
        self._bars.layout.display = SHOWN if snapshot.lists_alive else HIDDEN
        self._tell_titles(snapshot)
        for section, draw in self._parts(snapshot):
            if section.is_open:
                draw()
        self._chosen()
        self._outputs.follow(snapshot)
        if self._on_drawn is not None:
            self._on_drawn(snapshot)

    def _parts(self, snapshot: Snapshot) -> list[tuple[Section, Callable[[], None]]]:
        body = self._body
        return [
            (self._history, lambda: body.show_history(snapshot)),
            (self._alive, lambda: body.show_alive(snapshot)),
            (self._leaks, lambda: self._show_leaks(snapshot)),
            (self._places, lambda: self._show_places(snapshot)),
            (self._modules, lambda: body.show_modules(snapshot)),
            (self._sums, lambda: self._show_ledger(snapshot)),
        ]

    def _tell_titles(self, snapshot: Snapshot) -> None:
        units = snapshot.units
        self._history.tell("History", history_aside(snapshot))
        self._alive.tell(*alive_title(snapshot))
        self._leaks.tell(*leak_title(self._found.report, units))
        self._places.tell("Where tensors are", places_aside(self._where, units))
        self._places.hide(not self._where.devices)
        self._modules.tell("Modules", self._walk.summary(units))
        self._modules.hide(self._walk.is_empty)
        self._sums.tell("Ledger", ledger_aside(snapshot.ledger, units))
        self._say_running()

    def _show_leaks(self, snapshot: Snapshot) -> None:
        self._body.show_leaks(snapshot)
        self._page.show(snapshot)

    def _show_places(self, snapshot: Snapshot) -> None:
        self._places_table.value = places_html(self._where, snapshot.units)

    def _show_ledger(self, snapshot: Snapshot) -> None:
        self._ledger_sums.value = ledger_html(snapshot.ledger, snapshot.units)

    def _offer_devices(self, snapshot: Snapshot) -> None:
        devices = snapshot.devices
        if list(self._choice.options) != devices:
            self._choice.options = devices
        self._choice.value = snapshot.device
        self._choice.layout.display = SHOWN if len(devices) > 1 else HIDDEN

    # What the user does.

    def _chosen(self) -> None:
        if self._snapshot is not None:
            with self._acts.error_line("Choosing"):
                self._acts.update(self._snapshot, self._live.chosen)
                self._held.update(self._snapshot, self._live.chosen)

    def _leaks_chosen(self) -> None:
        if not self._drawing:
            with self._page.error_line("Choosing"):
                self._page.choose()

    def _leaks_turned(self) -> None:
        if self._leaks.is_open:
            self._page.look()
        self._draw()

    def _device_chosen(self, change: Any) -> None:
        if not self._drawing:
            self._wanted = replace(self._wanted, device=change["new"])
            self._draw()

    def _bars_chosen(self, change: Any) -> None:
        self._wanted = replace(self._wanted, shown=change["new"])
        self._draw()

    def _ledger_turned(self) -> None:
        if self._sums.is_open:
            self._take_ledger()
        self._draw()

    def _press_again(self) -> None:
        self._acts.say("")
        self.refresh()

    def _replace(self, old: RichBody | PlainBody, new: RichBody | PlainBody) -> None:
        for section, before, after in (
            (self._history, old.history, new.history),
            (self._alive, old.alive, new.alive),
            (self._leaks, old.leaks, new.leaks),
            (self._modules, old.modules, new.modules),
        ):
            children = section.content.children
            section.content.children = [after if each is before else each for each in children]
        self.refresh()

    # Showing and closing.

    def show(self) -> None:
        """Displays the panel; after `close` its place says so in a sentence."""
        from IPython.core.getipython import get_ipython

        if get_ipython() is None:
            print(copy_text(self._snapshot))  # noqa: T201
            return
        self._outputs.show(self.widget.model_id, self._snapshot)

    def _ipython_display_(self) -> None:
        self.show()

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, Any]:
        if self.closed:
            return sentence_bundle(self._ended)
        model_id = self.widget.model_id
        return {**view_bundle(model_id), **copy_bundle(self._snapshot, model_id)}

    def close(self, sentence: str = words.CLOSED) -> None:
        """Ends it: no redraw, no subscription, no open comm; its place shows `sentence`."""
        if self.closed:
            return
        self.closed = True
        self._ended = sentence
        for end in self._ends:
            end()
        self._acts.turn.drop()
        self._page.close()
        self._bodies.close()
        self._redraw.close()
        self._rescan.close()
        self._outputs.end(sentence)
        close_tree(self.widget)
        self._inventory = self._ledger = None
