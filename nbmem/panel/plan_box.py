"""The plan before an act, with the button that does it and the one that does not."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ipywidgets import HTML, Box, Button, Layout, VBox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HIDDEN, SHOWN = "none", None
CLOSE = "Close"


def button(text: str, tip: str, act: Callable[[], None]) -> Button:
    """Returns a button as wide as its text that calls `act`."""
    made = Button(description=text, tooltip=tip, layout=Layout(width="auto"))
    made.on_click(lambda _button: act())
    return made


def row() -> Layout:
    """Returns the layout of buttons side by side, which wrap where there is no room."""
    return Layout(display="flex", flex_flow="row wrap", align_items="center")


@contextmanager
def together(*buttons: Button) -> Iterator[None]:
    """Has each button tell its page as one message all that changes inside.

    A button that has its new text but is disabled yet takes no focus: Enter goes elsewhere.
    """
    with ExitStack() as held:
        for each in buttons:
            held.enter_context(each.hold_sync())
        yield


class PlanBox:
    """What would be done, hidden until it is shown.

    Args:
        confirm_tip: what the button says that does it.
        keep: the text of the button that does nothing.
        on_confirm: does it.
        on_keep: is told whether there was something to do.
    """

    def __init__(
        self,
        confirm_tip: str,
        keep: str,
        *,
        on_confirm: Callable[[], None],
        on_keep: Callable[[bool], None],
    ) -> None:
        self.text = HTML()
        self.confirm = button("", confirm_tip, on_confirm)
        self.confirm.button_style = "danger"
        self.keep = button(keep, "Does nothing.", self._kept)
        self._keep_label = keep
        self._on_keep = on_keep
        self.widget = VBox(
            [self.text, Box([self.confirm, self.keep], layout=row())],
            layout=Layout(display=HIDDEN),
        )

    def show(self, html: str, label: str, *, offers: bool) -> None:
        """Shows a plan; with nothing that could be done it can only be closed."""
        self.text.value = html
        self.confirm.description = label
        self.confirm.layout.display = SHOWN if offers else HIDDEN
        self.keep.description = self._keep_label if offers else CLOSE
        self.widget.layout.display = SHOWN

    def hide(self) -> None:
        """Takes the plan away."""
        self.widget.layout.display = HIDDEN

    @property
    def is_shown(self) -> bool:
        """Whether a plan waits for an answer."""
        return bool(self.widget.layout.display != HIDDEN)

    def enable(self, enabled: bool) -> None:
        """Lets both buttons be pressed, or not."""
        self.confirm.disabled = self.keep.disabled = not enabled

    def _kept(self) -> None:
        offered = self.keep.description == self._keep_label
        self.hide()
        self._on_keep(offered)
