"""The line of the panel that moves while a cell runs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ipywidgets import HTML, Layout

from nbmem.panel.words import FONT
from nbmem.render.live_words import live_words, title_words

if TYPE_CHECKING:
    from nbmem.panel.contract import SessionLike
    from nbmem.records import LiveReading
    from nbmem.units import Units

_CUT = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap;"


class LiveLine:
    """`● [7] train one epoch  12 s · now 2.90 GiB · peak 3.10 GiB`, gone when the cell ended."""

    def __init__(self, session: SessionLike) -> None:
        self._session = session
        self.widget = HTML(layout=Layout(display="none", min_width="0", overflow="hidden"))
        self.widget.add_class("nbmem-live")

    def show(self, reading: LiveReading) -> None:
        """Shows a reading; called from the thread that made it."""
        if self.widget.comm is None:  # closed meanwhile
            return
        self.widget.value = line_html(reading, self._session.settings.units)
        self.widget.layout.display = None if reading.running else "none"


def line_html(reading: LiveReading, units: Units) -> str:
    """Returns the line as HTML, escaped; empty for a cell that ended."""
    if not reading.running:
        return ""
    title = escape(title_words(reading.number, reading.title))
    figures = "font-variant-numeric:tabular-nums;white-space:nowrap;"
    return (
        f'<div style="{FONT}display:flex;flex-wrap:wrap;gap:0 10px;line-height:20px">'
        f'<span style="{_CUT}min-width:0"><span aria-hidden="true">● </span>{title}</span>'
        f'<span style="{figures}">{escape(live_words(reading, units))}</span></div>'
    )
