"""The chart as a widget: a Bokeh figure sent once, its data as a trait, BokehJS on demand."""

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

from nbmem.render.chart import chart_data, history_figure

if TYPE_CHECKING:
    from collections.abc import Callable

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

    _esm = (_HERE / "chart.js").read_text(encoding="utf-8")

    item = traitlets.Unicode().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    version = traitlets.Unicode(bokeh.__version__).tag(sync=True)
    selected = traitlets.Int(None, allow_none=True).tag(sync=True)
    height = traitlets.Int(_HEIGHT).tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    empty = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, on_hello: Callable[[], None], **traits: Any) -> None:
        nothing = chart_data((), "cpu")
        item = json.dumps(json_item(history_figure(nothing, height=_HEIGHT)))
        super().__init__(item=item, data=nothing.to_dict(), **traits)
        self._on_hello = on_hello
        self.on_msg(self._receive)

    def show(self, data: ChartData) -> None:
        """Sends `data` to every view, unless they show it already."""
        self.data = data.to_dict()

    def _receive(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("type") == "need-bokehjs":
            self.send({"type": "bokehjs"}, [bokehjs()])
        elif content.get("type") == "hello":
            self._on_hello()
