"""Where tensors are: bytes by category and by model against devices, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbmem.panel.columns import figures, one_line
from nbmem.panel.words import FONT, QUIET
from nbmem.render.html_parts import RULE, chip, escape, tag
from nbmem.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.totals import Place, Places
    from nbmem.units import Units

MOST_MODELS = 20
_FIGURE = "text-align:right;font-variant-numeric:tabular-nums;padding:2px 0 2px 12px"
_NAME = "text-align:left;width:100%;padding:2px 0;white-space:nowrap;font-weight:normal"
_HEAD = f"font-weight:normal;vertical-align:bottom;{QUIET}"
_LONGEST_MODEL = 24


def places_aside(places: Places, units: Units) -> str:
    """Returns the sums in a few words: `cuda:0 3.10 GiB · cpu 512 MiB`."""
    shown = [
        f"{device} {format_bytes(places.total.bytes[device], units)}"
        for device in places.devices[:3]
    ]
    more = len(places.devices) - len(shown)
    return " · ".join([*shown, *([f"{more} more"] if more else [])])


def places_html(places: Places, units: Units) -> str:
    """Returns the table: a row a category, then a row a model where there are several devices."""
    if not places.devices:
        return tag("div", "No tensor is alive, so none is anywhere.", f"{FONT}line-height:24px;")
    rows = [*places.categories, places.total]
    models = places.modules if len(places.devices) > 1 and len(places.modules) > 1 else ()
    shown = models[:MOST_MODELS]
    columns = [
        figures([row.bytes.get(device, 0) for row in (*rows, *shown)], units)
        for device in places.devices
    ]
    lines = [[column.texts[n] for column in columns] for n in range(len(rows) + len(shown))]
    body = [_row(_category(row), cells) for row, cells in zip(rows[:-1], lines, strict=False)]
    body.append(_row("all", lines[len(rows) - 1], above=True))
    body += [
        _row(_model(model.key), cells, above=n == 0)
        for n, (model, cells) in enumerate(zip(shown, lines[len(rows) :], strict=True))
    ]
    heads = [
        f"{device} {column.unit}" for device, column in zip(places.devices, columns, strict=True)
    ]
    table = tag("table", tag("thead", _head(heads)) + tag("tbody", "".join(body)), _TABLE)
    rest = len(models) - len(shown)
    left = tag("div", f"{format_count(rest, 'smaller model')} not shown", QUIET) if rest else ""
    return tag("div", table + left, f"{FONT}overflow-x:auto;line-height:18px;max-width:560px;")


_TABLE = "border-collapse:collapse;width:100%;background:transparent;font-size:inherit"


def _head(devices: Sequence[str]) -> str:
    first = tag("th", "", _HEAD)
    whole = ";white-space:nowrap" if len(devices) <= 2 else ""
    style = f"{_FIGURE};{_HEAD}{whole}"
    return tag(
        "tr",
        first + "".join(tag("th", escape(text), style, scope="col") for text in devices),
    )


def _category(place: Place) -> str:
    return f"{chip(place.key)} {escape(place.key)}"


def _model(name: str) -> str:
    short = one_line(name, _LONGEST_MODEL)
    return escape(short) if short == name else tag("span", escape(short), title=one_line(name))


def _row(name: str, cells: Sequence[str], *, above: bool = False) -> str:
    """Returns one row; `name` is HTML already."""
    rule = f";border-top:{RULE}" if above else ""
    first = tag("th", name, f"{_NAME}{rule}", scope="row")
    quiet = ["opacity:.5" if text == "0" else "" for text in cells]
    figures_ = [
        tag("td", escape(text), f"{_FIGURE};white-space:nowrap{rule};{faint}".rstrip(";"))
        for text, faint in zip(cells, quiet, strict=True)
    ]
    return tag("tr", first + "".join(figures_), "background:transparent")
