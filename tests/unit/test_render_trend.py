"""What a report says of a cell that was run again and again."""

import re
from dataclasses import replace

import pytest
from pages import Page
from samples import GIB, GROWING, KIB, MIB, cell, delta, storage

from nbmem.records import Copies, RunTrend
from nbmem.render import cell_report_html, cell_report_text
from nbmem.render.trend import sparkline


def run_again(*copies, runs=3, growth=12 * MIB, kept=(12 * MIB, 24 * MIB, 36 * MIB), lines=()):
    trend = RunTrend(runs, {"cuda:0": 0}, {"cuda:0": growth}, {"cuda:0": kept}, copies, lines)
    return cell(1, delta(before=24 * MIB, after=36 * MIB, peak=36 * MIB), run=runs, trend=trend)


def words_of(record, word):
    lines = cell_report_text(record, width=120).splitlines()
    return [line[10:] for line in lines if line.startswith(f"  {word} ")]


def test_growth_is_told_from_the_third_run_on():
    assert ["each run adds 12.0 MiB: 3 runs keep 36.0 MiB  ▃▆█"] == words_of(run_again(), "growth")
    assert [] == words_of(run_again(runs=2), "growth")


@pytest.mark.parametrize(
    "kept",
    [
        (800_000, 800_000, 1_200_000, 1_200_000, 1_600_000, 2_000_000),
        (100_000, 500_000, 900_000, 1_300_000, 1_705_000, 2_105_000),  # one is 1.25 % off
        (2_000_000,),
    ],
)
def test_uneven_runs_are_not_said_to_add_the_same_each(kept):
    record = run_again(runs=6, growth=400_000, kept=kept)
    record = replace(record, devices={"cuda:0": delta(after=2_000_000, peak=2_000_000)})
    (told,) = words_of(record, "growth")
    assert told.startswith("about 391 KiB a run: 6 runs keep ")
    assert "each run adds" not in cell_report_html(record)


def test_runs_that_differ_by_less_than_a_hundredth_add_the_same():
    record = run_again(growth=100 * MIB, kept=(200 * MIB, 300 * MIB, 400 * MIB + 900 * KIB))
    (told,) = words_of(record, "growth")
    assert told.startswith("each run adds 100 MiB: 3 runs keep 401 MiB")


@pytest.mark.parametrize("growth", [0, -4 * MIB, 36 * KIB])
def test_a_cell_that_does_not_grow_by_a_thousandth_is_not_called_growing(growth):
    copies = Copies("x", "cuda:0", MIB, MIB, 1, 1)
    record = run_again(copies, growth=growth)
    assert [] == words_of(record, "growth") + words_of(record, "older")


def test_a_cell_run_once_has_no_trend():
    record = replace(run_again(), trend=None)
    assert "each run adds" not in cell_report_text(record)


def test_older_copies_are_told_with_who_holds_them_worst_first():
    record = run_again(
        Copies("acts[*]", "cuda:0", MIB, 2 * MIB, 1, 2),
        Copies("model.*.weight", "cuda:0", 22 * MIB, 44 * MIB, 9, 18, ("Out[3]", "old.weight")),
        Copies("no name", "cuda:0", MIB, MIB, 1, 1),
    )
    assert [
        "44.0 MiB of model.*.weight from earlier runs in 18 storages, held by Out[3], old.weight",
        "2.00 MiB of acts[*] from earlier runs in 2 storages",
    ] == words_of(record, "older")


def test_copies_without_a_name_are_told_so():
    record = run_again(Copies("no name", "cuda:0", MIB, 2 * MIB, 1, 2))
    assert ["2.00 MiB without a name from earlier runs in 2 storages"] == words_of(record, "older")


def test_what_was_made_once_and_stays_is_no_older_copy():
    record = run_again(
        Copies("opt.state[*]['exp_avg']", "cuda:0", 0, GIB, 0, 9),
        Copies("loss", "cuda:0", 4, 0, 1, 0),
        Copies("far", "cpu", MIB, MIB, 1, 1),
    )
    assert [] == words_of(record, "older")


def test_the_line_that_made_most_of_it_is_told():
    lines = (
        Copies("3", "cuda:0", MIB, 2 * MIB, 1, 2, (), "x = 1"),
        Copies("12", "cuda:0", MIB, 24 * MIB, 1, 2, (), "    losses.append(loss)"),
    )
    record = run_again(lines=lines)
    assert ["made 24.0 MiB of it: losses.append(loss)"] == words_of(record, "line 12")
    assert [] == words_of(record, "line 3")


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("▁▅█", [0, 4, 8]),
        ("██", [5, 5]),
        ("▁█", [1, 1000]),
        ("", [7]),
        ("", []),
        ("", [0, 0, 0]),
    ],
)
def test_a_line_of_blocks_begins_at_nothing(line, sizes):
    assert line == sparkline(sizes)


def test_hostile_names_stay_text_in_a_trend():
    evil = "<script>alert(1)</script>\x1b[31m\n\u202e" * 50
    record = run_again(
        Copies(evil, "cuda:0", MIB, 2 * MIB, 1, 2, (evil, evil)),
        lines=(Copies(evil, "cuda:0", MIB, 2 * MIB, 1, 2, (), evil),),
    )
    page = Page(cell_report_html(record))
    assert "script" not in page.tags
    assert len(cell_report_html(record)) < 4000
    assert "\x1b" not in cell_report_text(record)


def test_the_page_says_the_same_and_folds_what_graphs_keep_by_module():
    page = Page(cell_report_html(GROWING))
    assert "growth each run adds 12.0 MiB: 3 runs keep 36.0 MiB ▃▆█" in page.text
    assert (
        "saved for backward, by module 12.0 MiB model 3 storages 4.0 MiB 0 1 storage" in page.text
    )
    assert 2 == page.tags.count("details")


def test_what_one_module_saved_is_not_told_by_module():
    created = [storage(n, MIB, "saved for backward", module="net.fc") for n in range(4)]
    record = cell(1, delta(after=4 * MIB, peak=4 * MIB), created=created)
    assert "by module" not in cell_report_html(record)


# Rows of the report.


def rows_with(*sizes, rows=6):
    created = [storage(n, size, "user", f"x{n}") for n, size in enumerate(sizes)]
    whole = sum(sizes)
    record = cell(1, delta(after=whole, peak=whole), created=created)
    lines = cell_report_text(record, rows=rows).splitlines()
    return [line.split(None, 3)[3] for line in lines if "  user  " in line]


def test_several_tiny_names_share_a_row():
    expected = ["x0  float32 [16]", "x1  float32 [16]", "x2, x3, x4"]
    assert expected == rows_with(64 * MIB, 32 * MIB, 4, 4, 4)


def test_a_single_tiny_name_keeps_its_row():
    assert ["x0  float32 [16]", "x1  float32 [16]"] == rows_with(64 * MIB, 4)


def test_a_name_of_a_hundredth_keeps_its_row_among_tiny_ones():
    expected = ["x0  float32 [16]", "x1  float32 [16]", "x2, x3"]
    assert expected == rows_with(98 * MIB, 2 * MIB, 4, 4)


def test_tiny_names_share_the_last_row_with_those_that_had_no_room():
    assert ["x0  float32 [16]", "x1, x2, x3, x4"] == rows_with(
        9 * MIB, 8 * MIB, 7 * MIB, 4, 4, rows=2
    )


def test_empty_storages_without_a_name_have_no_row_but_are_counted():
    empty = [storage(n, 0, "unknown") for n in range(2, 8)]
    created = [storage(1, 4 * MIB, "user", "x"), storage(9, 0, "user", "none_yet"), *empty]
    told = cell_report_text(cell(1, delta(after=4 * MIB, peak=4 * MIB), created=created))
    assert "4.00 MiB in 8 storages made here, 6 of them empty and without a name" in told
    assert ["x", "none_yet"] == re.findall(r"user +(\S+)", told)
    assert "unknown" not in told


def test_a_cell_that_left_only_empty_storages_without_a_name_is_quiet():
    sizes = delta(before=4 * MIB, after=4 * MIB, peak=4 * MIB)
    told = cell_report_text(cell(1, sizes, created=[storage(1, 0, "unknown")]))
    assert "  nothing stayed · 4.00 MiB before, after and at the peak" == told.splitlines()[1]
    assert 2 == len(told.splitlines())


def test_a_peak_of_a_cell_that_left_only_empty_storages_is_told_without_rows():
    sizes = delta(before=4 * MIB, after=4 * MIB, peak=9 * MIB)
    record = cell(1, sizes, created=[storage(1, 0, "unknown")])
    told = cell_report_text(record)
    assert "→  end 4.00 MiB   nothing stayed" in told
    assert "storage" not in told + Page(cell_report_html(record)).text


def test_only_tiny_names_beside_a_model_are_one_row():
    weights = storage(9, GIB, "parameter", "net.w")
    created = [weights, storage(1, 4, "user", "a"), storage(2, 4, "user", "b")]
    record = cell(1, delta(after=GIB + 8, peak=GIB + 8), created=created)
    assert "user       a, b" in cell_report_text(record)
