"""The chart as a widget: a Bokeh figure sent once, its bars as messages, BokehJS on demand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import bokeh
import traitlets
from bokeh.embed import json_item
from bokeh.resources import Resources

from nbmem.panel.rows import RowStream
from nbmem.panel.table import SCRIPT_OF_ROWS
from nbmem.render.chart import chart_data, history_figure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nbmem.panel.jumps import CellPlace
    from nbmem.render.chart import ChartData

_HEIGHT = 170
_HERE = Path(__file__).parent


@cache
def bokehjs() -> bytes:
    """Returns the BokehJS that belongs to the installed bokeh, as one script."""
    script = "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
    return script.encode()


class Chart(anywidget.AnyWidget):
    """The history of one device; `selected` holds the serial of the chosen bar, or None."""

    _esm = SCRIPT_OF_ROWS + "".join(
        (_HERE / name).read_text(encoding="utf-8") for name in ("zoom.js", "chart.js")
    )

    item = traitlets.Unicode().tag(sync=True)
    version = traitlets.Unicode(bokeh.__version__).tag(sync=True)
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)
    height = traitlets.Int(_HEIGHT).tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    empty = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, on_hello: Callable[[], None], **traits: Any) -> None:
        nothing = chart_data((), "cpu")
        item = json.dumps(json_item(history_figure(nothing, height=_HEIGHT)))
        super().__init__(item=item, **traits)
        self._data = nothing
        self._places: Mapping[int, CellPlace | None] = {}
        self._stream = RowStream()
        self._on_hello = on_hello
        self.on_msg(self._receive)

    @property
    def data(self) -> ChartData:
        """What every view shows."""
        return self._data

    def show(self, data: ChartData, places: Mapping[int, CellPlace | None]) -> None:
        """Sends `data` to every view, unless they show it already.

        Args:
            data: the bars.
            places: where the cell of each record is, by its serial.
        """
        if (data, places) != (self._data, self._places):
            self._data, self._places = data, places
            self._push(self._follow())

    def _follow(self) -> bytes:
        lists = self._data.lists()
        keys = lists.pop("serial")
        places = [self._places.get(serial) for serial in keys]
        return self._stream.follow(keys, self._data.head(), {**lists, "places": places})

    def _push(self, message: bytes) -> None:
        self.send({"type": "rows"}, [message])

    def _receive(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("type") == "need-bokehjs":
            self.send({"type": "bokehjs"}, [bokehjs()])
        elif content.get("type") == "hello":
            self._follow()
            self._push(self._stream.whole())
            self._on_hello()
