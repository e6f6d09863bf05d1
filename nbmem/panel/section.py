"""A part of the panel under a title that opens and closes it; core widgets only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipywidgets import HTML, Box, Button, Layout, VBox

from nbmem.panel.jumps import CSS as JUMP_CSS
from nbmem.panel.words import aside_html

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ipywidgets import Widget

OPEN, CLOSED = "nbmem-open", "nbmem-closed"
CSS = (
    """
.nbmem-panel .nbmem-section { border-top: 1px solid var(--jp-border-color2, rgba(128,128,128,.4)); }
.nbmem-panel button.nbmem-title {
  flex: 0 1 auto; width: auto; max-width: 100%; height: 28px; min-width: 0;
  margin: 2px 0; padding: 0 4px 0 0;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; text-align: left;
  font-weight: 600; font-size: var(--jp-ui-font-size1, 13px); line-height: 28px;
  color: var(--jp-ui-font-color1, inherit); background: transparent; box-shadow: none;
}
.nbmem-panel button.nbmem-title::before {
  display: inline-block; width: 16px; font-weight: 400; content: "▾"; content: "▾" / "";
}
.nbmem-panel button.nbmem-title.nbmem-closed::before { content: "▸"; content: "▸" / ""; }
.nbmem-panel button.nbmem-title:hover { color: var(--jp-brand-color1, #1976d2); }
.nbmem-panel button.nbmem-title:focus:not(:focus-visible) { outline: none; }
.nbmem-panel button.nbmem-title:enabled:is(:hover, :focus, :active),
.nbmem-panel .nbmem-crumbs button:enabled:is(:hover, :focus, :active) {
  background: transparent; box-shadow: none;
}
.nbmem-panel .nbmem-now { animation: nbmem-leave 0s 1s forwards; }
.nbmem-panel .nbmem-later { font-size: 0; animation: nbmem-come 0s 1s forwards; }
@keyframes nbmem-leave { to { font-size: 0; } }
@keyframes nbmem-come { to { font-size: inherit; } }
.nbmem-panel .nbmem-crumbs button {
  width: auto; height: 24px; margin: 0; padding: 0 4px; line-height: 24px;
  color: var(--jp-content-link-color, #1976d2); background: transparent; box-shadow: none;
}
.nbmem-panel .nbmem-crumbs button:disabled { color: var(--jp-ui-font-color1, inherit); opacity: 1; }
.nbmem-panel .nbmem-crumbs button:not(:first-child)::before {
  content: "›"; content: "›" / ""; padding-right: 6px; color: var(--jp-ui-font-color2, GrayText);
}
.nbmem-panel .nbmem-rows select {
  padding: 2px 0; font-family: var(--jp-code-font-family, monospace); font-size: 12px;
}
.nbmem-panel .nbmem-columns { display: flex; flex-flow: row wrap; gap: 0 24px; overflow: visible; }
.nbmem-panel .nbmem-columns > * { flex: 1 1 430px; min-width: 0; overflow: visible; }
"""
    + JUMP_CSS
)


def two_columns(left: Sequence[Widget], right: Sequence[Widget]) -> Box:
    """Returns two columns, where there is room; elsewhere the right one stands below the left."""
    columns = Box([VBox(list(left)), VBox(list(right))])
    columns.add_class("nbmem-columns")
    return columns


class Section:
    """A title, a few quiet words beside it, and content that is drawn only while open."""

    def __init__(
        self,
        title: str,
        content: Sequence[Widget],
        *,
        is_open: bool = True,
        on_turn: Callable[[], None],
    ) -> None:
        self._title, self._beside = title, ""
        self._on_turn = on_turn
        self.is_open = is_open
        self._button = Button()
        self._button.add_class("nbmem-title")
        self._button.on_click(lambda _button: self.turn())
        # Words that have no room beside the title wrap to a line that is cut off.
        self._aside = HTML(layout=Layout(flex="1 1 64px", min_width="0", overflow="hidden"))
        row = Layout(display="flex", flex_flow="row wrap", height="32px", overflow="hidden")
        head = Box([self._button, self._aside], layout=row)
        self.content = VBox(list(content))
        self.widget = VBox([head, self.content])
        self.widget.add_class("nbmem-section")
        self.tell(title)
        self._dress()

    def tell(self, title: str, aside: str = "") -> None:
        """Changes the title and the words beside it."""
        self._button.description, self._beside = title, aside
        self._aside.value = aside_html(self._title, aside)

    def tell_later(self, words: str) -> None:
        """Has the words beside the title give way to these after a second; empty: no more."""
        self._aside.value = aside_html(self._title, self._beside, words)

    def turn(self) -> None:
        """Opens it, or closes it."""
        self.is_open = not self.is_open
        self._dress()
        self._on_turn()

    def hide(self, hidden: bool) -> None:
        """Takes the whole section away, or brings it back."""
        self.widget.layout.display = "none" if hidden else None

    def _dress(self) -> None:
        self._button.add_class(OPEN if self.is_open else CLOSED)
        self._button.remove_class(CLOSED if self.is_open else OPEN)
        self._button.tooltip = f"{'Hide' if self.is_open else 'Show'} {self._title.lower()}"
        self.content.layout.display = None if self.is_open else "none"
