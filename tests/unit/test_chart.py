"""The chart's columns and figure, from records written by hand."""

import json
import re

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, HoverTool
from panel_session import MIB, cell, storage

from nbmem.panel.legend import legend_html
from nbmem.records import CATEGORIES
from nbmem.render.chart import chart_data, history_figure
from nbmem.render.palette import colour_of


def test_a_bar_is_older_memory_and_what_the_cell_made_by_category():
    made = [storage(1, 2 * MIB, category="parameter"), storage(2, MIB), storage(3, MIB)]
    data = chart_data([cell(7, 4 * MIB, 8 * MIB, 10 * MIB, made)], "cpu")
    assert ["[7]"] == data.labels
    assert "MiB" == data.unit
    assert [4.0] == data.columns["rest"]
    assert [2.0] == data.columns["parameter"]
    assert [2.0] == data.columns["user"]
    assert [0.0] == data.columns["gradient"]
    assert [10.0] == data.columns["peak"]
    assert [10.0] == data.columns["height"]


def alive(record_parts, **more):
    return cell(7, 4 * MIB, 8 * MIB, 10 * MIB, alive={"cpu": record_parts}, **more)


def test_a_bar_is_all_that_is_alive_by_category_and_the_rest_of_the_counter():
    record = alive({"parameter": 2 * MIB, "user": 5 * MIB}, created=[storage(1, MIB)])
    data = chart_data([record], "cpu")
    assert ([2.0], [5.0], [1.0]) == tuple(
        data.columns[part] for part in ("parameter", "user", "rest")
    )
    told = [data.part_words[int(digit)] for digit in data.columns["parts"][0]]
    assert ["U user", "P parameter", "not in tensors found"] == told
    assert ["5.00 MiB\n2.00 MiB\n1.00 MiB"] == data.columns["part_figures"]


def test_a_bar_can_be_only_what_the_cell_made():
    record = alive({"parameter": 2 * MIB, "user": 6 * MIB}, created=[storage(1, MIB)])
    data = chart_data([record], "cpu", shown="stayed")
    assert ([0.0], [1.0], [7.0]) == tuple(
        data.columns[part] for part in ("parameter", "user", "rest")
    )
    told = [data.part_words[int(digit)] for digit in data.columns["parts"][0]]
    assert ["U user", "older than the cell"] == told


def test_a_cell_that_did_not_list_what_is_alive_falls_back_to_what_it_made():
    old = cell(1, 0, 3 * MIB, 3 * MIB, [storage(1, MIB)])
    data = chart_data([old, alive({"user": 8 * MIB})], "cpu")
    assert [1.0, 8.0] == data.columns["user"]
    assert [2.0, 0.0] == data.columns["rest"]


def test_a_category_of_a_later_version_is_shown_as_unknown():
    assert [8.0] == chart_data([alive({"quantum": 8 * MIB})], "cpu").columns["unknown"]


def test_the_legend_names_the_categories_that_occur_and_no_other():
    html = legend_html([alive({"parameter": 2 * MIB, "user": 6 * MIB})], "cpu")
    told = " ".join(re.sub(r"<[^>]*>", " ", html).split())
    assert "▲ peak P parameter U user" == told


def test_a_bar_speaks_of_one_device_only():
    made = [storage(1, MIB), storage(2, 3 * MIB, device="cuda:0")]
    data = chart_data([cell(1, 0, MIB, MIB, made)], "cpu")
    assert [1.0] == data.columns["user"]
    assert [0.0] == data.columns["rest"]
    assert [] == chart_data([cell(1, 0, MIB, MIB, made)], "cuda:0").labels


def test_a_block_inside_a_cell_has_no_bar_of_its_own():
    records = [cell(1, 0, MIB, MIB), cell(2, 0, MIB, MIB, parent=1), cell(3, 0, None, None)]
    assert ["[1]"] == chart_data(records, "cpu").labels


def test_a_record_without_a_cell_is_called_by_its_own_number():
    assert ["#5"] == chart_data([cell(5, 0, 1, 1, execution_count=None)], "cpu").labels


def test_an_unknown_peak_has_no_mark():
    data = chart_data([cell(1, 0, MIB, None)], "cpu")
    assert [None] == data.columns["peak"]
    assert ["?"] == data.columns["peak_text"]
    assert [1.0] == data.columns["height"]


def test_the_line_at_capacity_comes_once_a_peak_is_a_quarter_of_it():
    far = [cell(1, 0, 25 * MIB, 255 * MIB, device="cuda:0", capacity=1024 * MIB)]
    near = [cell(1, 0, 25 * MIB, 256 * MIB, device="cuda:0", capacity=1024 * MIB)]
    assert chart_data(far, "cuda:0").capacity is None
    shown = chart_data(near, "cuda:0")
    assert 1024.0 == shown.capacity
    assert "capacity 1.00 GiB" == shown.capacity_text
    assert shown.top > 1024.0
    unknown = [cell(1, 0, 1, 256 * MIB, capacity=None)]
    assert chart_data(unknown, "cpu").capacity is None


def test_on_the_cpu_the_line_is_called_installed_memory():
    data = chart_data([cell(1, 0, MIB, 3 * MIB, capacity=4 * MIB)], "cpu")
    assert "installed memory 4.00 MiB" == data.capacity_text


def test_units_follow_the_setting_and_the_highest_figure():
    data = chart_data([cell(1, 0, 1_000_000, 2_500_000)], "cpu", "SI")
    assert "MB" == data.unit
    assert [2.5] == data.columns["peak"]
    assert ["+1.00 MB"] == data.columns["delta_text"]
    assert "GiB" == chart_data([cell(1, 0, 0, 1024**3)], "cpu").unit
    assert "B" == chart_data([], "cpu").unit


def test_the_newest_thousand_of_a_long_history_are_drawn():
    data = chart_data([cell(n, 0, n, n) for n in range(1, 1501)], "cpu")
    assert 1000 == len(data.labels)
    assert "[501]" == data.labels[0]
    assert "[1500]" == data.labels[-1]
    assert 400_000 > len(json.dumps([data.head(), data.lists()]))


def test_the_figure_draws_each_category_in_its_colour_from_one_source():
    data = chart_data([cell(1, 0, MIB, MIB, [storage(1, MIB)])], "cpu")
    plot = history_figure(data)
    stacks = [r for r in plot.renderers if r.name in CATEGORIES]
    assert list(CATEGORIES) == [renderer.name for renderer in stacks]
    assert [colour_of(name) for name in CATEGORIES] == [r.glyph.fill_color for r in stacks]
    assert 1 == len(list(plot.select({"type": ColumnDataSource})))
    assert "stretch_width" == plot.sizing_mode


def test_the_same_records_give_the_same_columns():
    records = [cell(n, 0, n * MIB, n * MIB, [storage(n, MIB)]) for n in range(1, 4)]
    assert chart_data(records, "cpu") == chart_data(list(records), "cpu")


def test_an_empty_history_makes_a_figure_that_can_be_embedded():
    item = json_item(history_figure(chart_data([], "cpu")))
    assert 40_000 > len(json.dumps(item))


def test_the_hover_shows_names_escaped():
    plot = history_figure(chart_data([], "cpu"))
    (hover,) = [tool for tool in plot.tools if isinstance(tool, HoverTool)]
    assert "@title" in hover.tooltips
    assert "safe" not in hover.tooltips


def test_a_long_first_line_loses_its_middle():
    record = cell(1, 0, 1, 1, first_line="a" * 5000 + "the end")
    (title,) = chart_data([record], "cpu").columns["title"]
    assert title.endswith("the end")
    assert title.startswith("aaa")
    assert 60 == len(title)
