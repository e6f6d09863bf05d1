"""The virtualised table as a widget: rows go down as one binary message, choices come up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from nbmem.panel.columns import Asked, TableData
from nbmem.panel.rows import RowStream

if TYPE_CHECKING:
    from collections.abc import Callable

_HERE = Path(__file__).parent


def _script(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


SCRIPT_OF_ROWS = _script("rows.js")
_NOTHING = TableData(columns=[], keys=[], tips=[], empty="")
_LONGEST_FILTER = 400


class Table(anywidget.AnyWidget):
    """A table of `TableData`; `selected` holds the keys of the chosen rows."""

    _esm = SCRIPT_OF_ROWS + _script("keyboard.js") + _script("table.js")
    _css = (_HERE / "panel.css").read_text(encoding="utf-8")

    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    multiple = traitlets.Bool(False).tag(sync=True)
    filterable = traitlets.Bool(False).tag(sync=True)
    groupings: Any = traitlets.List().tag(sync=True)
    """Pairs of what can be asked for as `Asked.by`, and its words."""
    visible_rows = traitlets.Int(6).tag(sync=True)
    roomy_rows = traitlets.Int(0).tag(sync=True)
    """As many where the panel stands in two columns; 0: no more than elsewhere."""
    fits = traitlets.Bool(False).tag(sync=True)
    """It is lower where it has fewer rows."""
    tells = traitlets.Bool(True).tag(sync=True)
    """The line below says what is chosen, and of the row where one stands all that it knows."""
    label = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        *,
        on_hello: Callable[[], None],
        on_ask: Callable[[Asked], None] | None = None,
        on_turn: Callable[[int], None] | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(**traits)
        self._data = _NOTHING
        self._stream = RowStream()
        self._on_hello = on_hello
        self._on_ask = on_ask
        self._on_turn = on_turn
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
        before, self._data = self._data, data
        # What a page filters and sorts by itself it need not be told.
        known = replace(before, asked=data.asked) if data.complete else before
        if data != known:
            self._push(self._follow())

    def _follow(self) -> bytes:
        data = self._data
        return self._stream.follow(data.keys, data.head(), data.lists())

    def _push(self, message: bytes) -> None:
        self.send({"type": "rows"}, [message])

    def _receive(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("type") == "hello":
            self._follow()
            self._push(self._stream.whole())
            self._on_hello()
        elif content.get("type") == "ask" and self._on_ask is not None:
            self._on_ask(_asked(content))
        elif content.get("type") == "turn" and self._on_turn is not None:
            self._on_turn(int(content.get("key", 0)))


def _asked(content: dict[str, Any]) -> Asked:
    texts = {name: str(content.get(name, "")) for name in ("filter", "by", "sort")}
    texts["filter"] = texts["filter"][:_LONGEST_FILTER]
    return Asked(**texts, turn=-1 if content.get("turn") == -1 else 1)
