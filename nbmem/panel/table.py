"""The virtualised table as a widget: rows go down as one binary message, choices come up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from nbmem.panel.columns import TableData

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = Path(__file__).parent
_NOTHING = TableData(columns=[], keys=[], tips=[], empty="")


class Table(anywidget.AnyWidget):
    """A table of `TableData`; `selected` holds the keys of the chosen rows."""

    _esm = (_HERE / "table.js").read_text(encoding="utf-8")
    _css = (_HERE / "panel.css").read_text(encoding="utf-8")

    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    multiple = traitlets.Bool(False).tag(sync=True)
    filterable = traitlets.Bool(False).tag(sync=True)
    visible_rows = traitlets.Int(6).tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        *,
        on_hello: Callable[[], None],
        on_filter: Callable[[str], None] | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(**traits)
        self._data = _NOTHING
        self._on_hello = on_hello
        self._on_filter = on_filter
        self.on_msg(self._receive)

    @property
    def data(self) -> TableData:
        """The rows that every view shows."""
        return self._data

    def show(self, data: TableData) -> None:
        """Sends `data` to every view, unless they show it already; choices of gone rows end."""
        keys = set(data.keys)
        if data.complete and not keys.issuperset(self.selected):
            self.selected = [key for key in self.selected if key in keys]
        if data != self._data:
            self._data = data
            self._push()

    def _push(self) -> None:
        rows = json.dumps(self._data.to_dict(), separators=(",", ":")).encode()
        self.send({"type": "rows"}, [rows])

    def _receive(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("type") == "hello":
            self._push()
            self._on_hello()
        elif content.get("type") == "filter" and self._on_filter is not None:
            self._on_filter(str(content.get("text", "")))
