"""A widget that is never shown: its script tells the kernel that a page loads anywidgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget

if TYPE_CHECKING:
    from collections.abc import Callable


class Probe(anywidget.AnyWidget):
    """Calls `on_answer` once for each page that loads it; a page of core widgets never does.

    A page makes its models when the kernel opens their comms, and when it is loaded, so nothing has
    to be drawn for the answer.
    """

    _esm = 'export default { initialize({ model }) { model.send({ type: "here" }); } };'

    def __init__(self, on_answer: Callable[[], None]) -> None:
        super().__init__()
        self._on_answer = on_answer
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("type") == "here":
            self._on_answer()
