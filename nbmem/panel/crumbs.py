"""The way from the top of the modules to where the user stands, as buttons; core widgets only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import Box, Button, Layout

from nbmem.panel.columns import one_line
from nbmem.panel.plan_box import together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST = 8
"""Steps that are shown; of a longer way the middle is left out."""


class Crumbs:
    """Buttons that lead back; they are made once and take other words as the way changes."""

    def __init__(self, on_press: Callable[[str], None]) -> None:
        self._paths: list[str] = []
        self._buttons = [self._make(n, on_press) for n in range(MOST)]
        self.widget = Box(self._buttons, layout=Layout(display="flex", flex_flow="row wrap"))
        self.widget.add_class("nbmem-crumbs")

    def _make(self, position: int, on_press: Callable[[str], None]) -> Button:
        button = Button(layout=Layout(width="auto", display="none"))
        button.on_click(lambda _button: on_press(self._paths[position]))
        return button

    def show(self, crumbs: Sequence[tuple[str, str]]) -> None:
        """Shows the way; its last step is where the user stands."""
        shown = list(crumbs)
        if len(shown) > MOST:
            shown = [shown[0], ("…", shown[-MOST + 1][1]), *shown[-MOST + 2 :]]
        self._paths = [path for _word, path in shown]
        for n, button in enumerate(self._buttons):
            here = n < len(shown)
            button.layout.display = None if here else "none"
            if here:
                self._tell(button, *shown[n], ends=n == len(shown) - 1)

    def _tell(self, button: Button, word: str, path: str, *, ends: bool) -> None:
        with together(button):
            button.description = one_line(word, 28)
            button.tooltip = f"Back to {one_line(path) or 'all modules'}"
            button.disabled = ends
