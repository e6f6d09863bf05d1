"""The history as a Bokeh figure: a bar a cell, a mark at its peak, a line at capacity.

All heights are allocated bytes on one device. The coloured parts of a bar are what is alive at the
cell's end by category, or only what the cell made of it; its grey foot is the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from bokeh.models import (
    BasicTicker,
    BoxAnnotation,
    BoxZoomTool,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    Label,
    PanTool,
    Range1d,
    Span,
    TapTool,
)
from bokeh.plotting import figure

from nbmem.records import CATEGORIES
from nbmem.render.names import clean, shorten_middle
from nbmem.render.palette import HATCHES, NEUTRAL, colour_of, ink_of, letter_of
from nbmem.render.scale import cell_label, cell_title, chart_unit, chartable
from nbmem.render.stacks import REST, REST_WORDS, Shown, rest_word, stack_of
from nbmem.units import column_unit, format_bytes, format_change, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.records import CellRecord, DeviceDelta
    from nbmem.units import Units

CAPACITY_FROM = 0.25
"""The line at capacity is drawn once a peak has come to this part of it; lower bars would vanish
at the foot of a chart as high as the device."""

BAR_WIDTH = 0.8
REST_ALPHA = 0.6
HATCH_ALPHA = 0.25
HATCH_SCALE = 8
_LONGEST_TITLE = 60
_PART_WORDS = (*REST_WORDS, *(f"{letter_of(word)} {word}" for word in CATEGORIES))
_PLACES = 4
"""Decimals of a height in the chart's unit: a pixel is far more."""


@dataclass(frozen=True, slots=True)
class ChartData:
    """What the chart draws, ready for JSON."""

    columns: dict[str, list[Any]]
    """Of the figure's source; heights are in `unit`."""
    labels: list[str]
    """Under the bars, from left to right: `[7]`."""
    unit: str
    top: float
    """Upper end of the y axis, in `unit`."""
    capacity: float | None
    """In `unit`; None where it is unknown or far above every peak."""
    capacity_text: str
    part_words: list[str]
    """What each digit in the column `parts` stands for: a bar's parts from its top to its foot."""

    def head(self) -> dict[str, Any]:
        """Returns what is said once, as a dict that `json.dumps` takes."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in told.items() if name not in ("columns", "labels")}

    def lists(self) -> dict[str, list[Any]]:
        """Returns what has an entry a bar; its place from the left is the bar's own."""
        return {name: values for name, values in self.columns.items() if name != "x"}


def chart_data(
    records: Sequence[CellRecord], device: str, units: Units = "IEC", shown: Shown = "alive"
) -> ChartData:
    """Returns the columns of the chart of `device`, heights scaled to one unit."""
    cells = chartable(records, device)
    highest = max((_highest(record.devices[device]) for record in cells), default=0)
    scale, unit = chart_unit(highest, units)
    capacity = _capacity_in_sight(cells, device, highest)
    return ChartData(
        columns=_columns(cells, device, scale, units) | _stacks(cells, device, scale, units, shown),
        labels=[cell_label(record) for record in cells],
        unit=unit,
        top=round(max(highest, capacity or 0) * 1.08 / scale, 4) or 1.0,
        capacity=None if capacity is None else capacity / scale,
        capacity_text=_capacity_text(device, capacity, units),
        part_words=list(_PART_WORDS),
    )


def _highest(delta: DeviceDelta) -> int:
    return max(delta.after or 0, delta.peak or 0)


def _capacity_in_sight(cells: list[CellRecord], device: str, highest: int) -> int | None:
    capacity = cells[-1].devices[device].capacity if cells else None
    if not capacity or highest < CAPACITY_FROM * capacity:
        return None
    return capacity


def _capacity_text(device: str, capacity: int | None, units: Units) -> str:
    if capacity is None:
        return ""
    what = "installed memory" if device in ("cpu", "host") else "capacity"
    return f"{what} {format_bytes(capacity, units)}"


def _columns(
    cells: list[CellRecord], device: str, scale: int, units: Units
) -> dict[str, list[Any]]:
    deltas = [record.devices[device] for record in cells]
    return {
        "x": list(range(len(cells))),
        "serial": [record.serial for record in cells],
        "cell": [cell_label(record) for record in cells],
        "title": [shorten_middle(clean(cell_title(record)), _LONGEST_TITLE) for record in cells],
        "time": [_time_text(record) for record in cells],
        "height": [round(_highest(delta) / scale, _PLACES) for delta in deltas],
        "peak": [None if d.peak is None else round(d.peak / scale, _PLACES) for d in deltas],
        "peak_text": [format_bytes(delta.peak, units) for delta in deltas],
        "after_text": [format_bytes(delta.after, units) for delta in deltas],
        "delta_text": [format_change(record.change(device), units) for record in cells],
    }


def _stacks(
    cells: list[CellRecord], device: str, scale: int, units: Units, shown: Shown
) -> dict[str, list[Any]]:
    """Returns the heights of each part, and what the pointer reads of them, a line a part."""
    stacks = [stack_of(record, device, shown) for record in cells]
    columns: dict[str, list[Any]] = {
        part: [round(stack.get(part, 0) / scale, _PLACES) for stack in stacks]
        for part in (REST, *CATEGORIES)
    }
    columns["parts"] = [
        "".join(str(_part_index(part, record, device, shown)) for part in _told(stack))
        for record, stack in zip(cells, stacks, strict=True)
    ]
    columns["part_figures"] = ["\n".join(_part_figures(stack, units)) for stack in stacks]
    return columns


def _told(stack: dict[str, int]) -> list[str]:
    """The order of a bar from its top, so that the words stand as the colours do."""
    return [part for part in reversed((REST, *CATEGORIES)) if part in stack]


def _part_index(part: str, record: CellRecord, device: str, shown: Shown) -> int:
    if part == REST:
        return _PART_WORDS.index(rest_word(record, device, shown))
    return len(REST_WORDS) + CATEGORIES.index(part)


def _part_figures(stack: dict[str, int], units: Units) -> list[str]:
    unit = column_unit(stack.values(), units)
    return [f"{unit.format(stack[part])} {unit.suffix}" for part in _told(stack)]


def _time_text(record: CellRecord) -> str:
    took = format_seconds(record.seconds)
    return took if record.status == "ok" else f"{took}, {record.error or record.status}"


def history_figure(data: ChartData, *, height: int = 170) -> figure:
    """Returns the figure of `data`; every part that changes later has a name of its own."""
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        min_width=180,
        toolbar_location=None,
        tools="",
        x_range=Range1d(-0.6, max(len(data.labels), 1) - 0.4, name="nbmem-x"),
        y_range=Range1d(0, data.top, name="nbmem-y"),
        name="nbmem-history",
        output_backend="canvas",
    )
    words = ["\n".join(data.part_words[int(n)] for n in parts) for parts in data.columns["parts"]]
    source = ColumnDataSource(data.columns | {"part_words": words}, name="nbmem-cells")
    _add_bars(plot, source)
    _add_capacity(plot, data)
    _add_tools(plot, source)
    _set_axes(plot, data)
    return plot


def _add_bars(plot: figure, source: ColumnDataSource) -> None:
    parts = [REST, *CATEGORIES]
    plot.vbar_stack(
        parts,
        x="x",
        width=BAR_WIDTH,
        color=[NEUTRAL, *(colour_of(category) for category in CATEGORIES)],
        fill_alpha=[REST_ALPHA, *([1.0] * len(CATEGORIES))],
        nonselection_fill_alpha=[REST_ALPHA, *([1.0] * len(CATEGORIES))],
        hatch_pattern=["blank", *(HATCHES[category] for category in CATEGORIES)],
        hatch_color=[NEUTRAL, *(ink_of(category) for category in CATEGORIES)],
        hatch_alpha=HATCH_ALPHA,
        nonselection_hatch_alpha=HATCH_ALPHA,
        hatch_scale=HATCH_SCALE,
        line_color=None,
        source=source,
    )
    plot.scatter(
        "x",
        "peak",
        marker="triangle",
        size=7,
        line_color=None,
        fill_color=NEUTRAL,
        selection_fill_color=NEUTRAL,
        nonselection_fill_alpha=1.0,
        source=source,
        name="nbmem-peaks",
    )


def _add_capacity(plot: figure, data: ChartData) -> None:
    shown = data.capacity is not None
    plot.add_layout(
        Span(
            location=data.capacity or 0,
            dimension="width",
            line_dash="dashed",
            line_color="#D55E00",
            visible=shown,
            name="nbmem-capacity",
        )
    )
    plot.add_layout(
        Label(
            x=4,
            x_units="screen",
            y=data.capacity or 0,
            y_offset=-2,
            text=data.capacity_text,
            text_baseline="top",
            text_font_size="11px",
            visible=shown,
            name="nbmem-capacity-text",
        )
    )


# Bokeh escapes what it puts in place of `@name`. Two columns of lines, one line a part.
_TIP = """<div style="max-width:260px;line-height:16px">
<div style="overflow-wrap:anywhere"><b>@cell</b> @title</div>
<div>peak @peak_text · end @after_text (@delta_text)</div>
<div>took @time</div>
<div style="display:flex;justify-content:space-between;gap:12px;margin-top:4px">
<div style="white-space:pre">@part_words</div>
<div style="white-space:pre;text-align:right">@part_figures</div>
</div></div>"""


def _add_tools(plot: figure, source: ColumnDataSource) -> None:
    # One unseen bar a cell takes pointer and tap, so that a thin slice is no smaller a target.
    whole = plot.vbar(
        x="x",
        width=1.0,
        top="height",
        fill_color=NEUTRAL,
        fill_alpha=0.0,
        line_color=None,
        selection_fill_alpha=0.25,
        selection_line_color=NEUTRAL,
        nonselection_fill_alpha=0.0,
        level="underlay",
        hover_fill_alpha=0.12,
        source=source,
        name="nbmem-targets",
    )
    plot.add_tools(
        HoverTool(renderers=[whole], tooltips=_TIP, mode="vline", attachment="vertical"),
        TapTool(renderers=[whole]),
        brush := BoxZoomTool(dimensions="width", overlay=_brushed(), name="nbmem-brush"),
        PanTool(dimensions="width", name="nbmem-pan"),
    )
    plot.toolbar.active_drag = brush


def _brushed() -> BoxAnnotation:
    return BoxAnnotation(
        fill_color=NEUTRAL,
        fill_alpha=0.25,
        line_color=NEUTRAL,
        syncable=False,
        visible=False,
        propagate_hover=True,
    )


def _ticks(count: int, most: int = 10) -> list[int]:
    step = max(1, -(-count // most))
    return list(range(count - 1, -1, -step))[::-1]


def _set_axes(plot: figure, data: ChartData) -> None:
    plot.xaxis.ticker = FixedTicker(ticks=_ticks(len(data.labels)), minor_ticks=[])
    plot.xaxis.major_label_overrides = dict(enumerate(data.labels))
    plot.xaxis.name, plot.yaxis.name = "nbmem-cells-axis", "nbmem-bytes-axis"
    plot.yaxis.axis_label = data.unit
    plot.yaxis.axis_label_standoff = 2
    plot.yaxis.ticker = BasicTicker(desired_num_ticks=4, num_minor_ticks=0)
    plot.xgrid.grid_line_color = None
    plot.ygrid.grid_line_color = NEUTRAL
    plot.ygrid.grid_line_alpha = 0.25
    plot.axis.axis_line_color = NEUTRAL
    plot.axis.major_tick_line_color = None
    plot.axis.axis_label_text_font_style = "normal"
    plot.outline_line_color = None
    plot.background_fill_color = None
    plot.border_fill_color = None
    plot.min_border, plot.min_border_right = 4, 12
