"""The panel's body: core widgets, until a page answers that it draws anywidgets.

With `full` it begins with anywidgets and offers core widgets; with `plain` it stays with core
widgets; with `auto` it changes to anywidgets when a page answers the probe.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, cast

from ipywidgets import Widget

from nbmem.panel.plain import PlainBody
from nbmem.panel.plan_box import HIDDEN, SHOWN, button

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbmem.panel.leaks import LeakList
    from nbmem.panel.live import LiveList
    from nbmem.panel.modules import ModuleWalk
    from nbmem.panel.probe import Probe
    from nbmem.panel.rich import RichBody

Kind = Literal["auto", "full", "plain"]

RESCUE = "Chart or tables missing? Show the plain panel"
CSS = """
.nbmem-panel:has(.jupyter-widgets-error-widget) .nbmem-rescue { display: block !important; }
"""
"""A page that could not load a widget of ours offers the plain panel, whatever other pages draw."""


def kind_for(setting: str) -> Kind:
    """Returns which kind of body to build for `NbMem.panel`.

    In Colab `auto` is `plain` unless the user enabled third-party widgets there: making an
    anywidget would enable them, which loads scripts from other hosts.
    """
    colab = sys.modules.get("google.colab.output")
    if setting != "auto" or colab is None:
        return cast(Kind, setting)
    enabled = getattr(getattr(colab, "_widgets", None), "_installed_url", None)
    return "auto" if enabled else "plain"


class Bodies:
    """The body that the panel has now, and the change to the other one.

    Args:
        kind: which body to begin with, and whether a page is asked.
        shown: what the bodies show.
        on_choice: called when storages were chosen.
        on_leaks: called when leaks were chosen.
        on_hello: called when a page has drawn an anywidget.
        on_change: takes the old and the new body.
        say: takes a sentence for the user.
        soon: calls a function on the main thread.
    """

    def __init__(
        self,
        kind: Kind,
        shown: tuple[LiveList, ModuleWalk, LeakList],
        *,
        on_choice: Callable[[], None],
        on_leaks: Callable[[], None],
        on_hello: Callable[[], None],
        on_change: Callable[[RichBody | PlainBody, RichBody | PlainBody], None],
        say: Callable[[str], None],
        soon: Callable[[Callable[[], None]], None],
    ) -> None:
        self._shown, self._on_change = shown, on_change
        self._on_choice, self._on_leaks, self._on_hello = on_choice, on_leaks, on_hello
        self._say, self._soon = say, soon
        self._probe: Probe | None = None
        tip = "Uses only the widgets that every notebook page knows."
        self.rescue = button(RESCUE, tip, self.show_plain)
        self.rescue.add_class("nbmem-rescue")
        rich = self._make_rich() if kind == "full" else None
        self.rescue.layout.display = HIDDEN if rich is None else SHOWN
        self.now: RichBody | PlainBody = rich or self._make_plain()
        if kind == "auto":
            self._ask()

    def show_rich(self) -> None:
        """Changes to anywidgets, unless nobody waits for a page's answer any more."""
        if self._probe is not None:
            self.close()
            rich = self._make_rich()
            if rich is not None:
                self._change(rich)

    def show_plain(self) -> None:
        """Changes to core widgets for good."""
        self.close()
        self.rescue.layout.display = HIDDEN
        if not isinstance(self.now, PlainBody):
            self._change(self._make_plain())

    def close(self) -> None:
        """Asks no page any more."""
        probe, self._probe = self._probe, None
        if probe is not None:
            close_tree(probe)

    def _make_rich(self) -> RichBody | None:
        try:
            from nbmem.panel.rich import RichBody
        except ImportError as error:
            self._say_missing(error)
            return None
        choice, leaks, hello = self._on_choice, self._on_leaks, self._on_hello
        return RichBody(*self._shown, on_choice=choice, on_leaks=leaks, on_hello=hello)

    def _make_plain(self) -> PlainBody:
        return PlainBody(*self._shown, on_choice=self._on_choice, on_leaks=self._on_leaks)

    def _ask(self) -> None:
        try:
            from nbmem.panel.probe import Probe
        except ImportError as error:
            self._say_missing(error)
        else:
            self._probe = Probe(lambda: self._soon(self.show_rich))

    def _say_missing(self, error: ImportError) -> None:
        sentence = f"{error.name or error} is missing, so this is the plain panel."
        self._say(f"{sentence} `%pip install anywidget bokeh` brings the chart.")

    def _change(self, new: RichBody | PlainBody) -> None:
        old, self.now = self.now, new
        self._on_change(old, new)
        close_tree(old.history, old.alive, old.leaks, old.modules)


def close_tree(*roots: Widget) -> None:
    """Closes widgets with all they hold: children, layouts and styles have comms of their own."""
    waiting: list[Any] = list(roots)
    while waiting:
        held = waiting.pop()
        if isinstance(held, list | tuple):
            waiting.extend(held)
        elif isinstance(held, Widget) and held.comm is not None:
            waiting.extend(getattr(held, name) for name in held.keys)
            held.unobserve_all()
            held.close()
