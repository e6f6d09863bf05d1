"""What a report says of a device that the cell did not measure: bytes made and freed, no more."""

from __future__ import annotations

from samples import MIB, cell, delta, storage

from nbmem.records import RunTrend
from nbmem.render import cell_report_html, cell_report_text

STILL = delta(before=4 * MIB, after=4 * MIB, peak=4 * MIB)
MOVED = delta(before=4 * MIB, after=8 * MIB, peak=8 * MIB)


def on_cpu(key, size, *names):
    return storage(key, size, "user", *names, device="cpu")


def line_of(record, word="cpu"):
    lines = cell_report_text(record, width=120).splitlines()
    return next((" ".join(line.split()) for line in lines if line.strip().startswith(word)), "")


def test_made_and_freed_are_told_with_the_option_that_measures():
    made = [on_cpu(1, 3 * MIB, "data[0]"), on_cpu(2, 2 * MIB, "data[1]")]
    record = cell(7, STILL, created=made, freed={"cpu": MIB})
    assert (
        "cpu 5.00 MiB in 2 storages made here, 1.00 MiB made by earlier cells freed; "
        "not measured without --device cpu"
    ) == line_of(record)
    assert "5.00 MiB in 2 storages made here" in cell_report_html(record)


def test_what_was_measured_is_then_called_by_its_device():
    record = cell(7, STILL, created=[on_cpu(1, 5 * MIB, "x")])
    assert line_of(record, "cuda:0").startswith("cuda:0: nothing stayed")
    assert "cuda:0: nothing stayed" in cell_report_html(record)


def test_a_few_numbers_beside_the_work_of_a_gpu_are_left_out():
    few = [on_cpu(1, 4, "step")]
    assert "" == line_of(cell(7, MOVED, created=few))
    assert "4 B in 1 storage" in line_of(cell(7, STILL, created=few))


def test_what_has_neither_name_nor_bytes_is_left_out():
    assert "" == line_of(cell(7, STILL, created=[on_cpu(1, 0)]))


def test_growth_is_told_however_small_the_step_is():
    trend = RunTrend(
        runs=3,
        older={"cpu": 2000},
        growth_per_run={"cpu": 1000},
        kept={"cpu": (1000, 2000, 3000)},
    )
    grown = cell(7, MOVED, created=[on_cpu(1, 1000, "losses[2]")], trend=trend)
    assert "growth each run adds 1000 B: 3 runs keep 2.93 KiB ▃▆█" == line_of(grown, "growth")
    beside = {"alive": {"cpu": {"user": 1000 * MIB}}}
    many = cell(7, MOVED, created=[on_cpu(1, 1000, "losses[2]")], trend=trend, **beside)
    assert "" == line_of(many, "growth")


def test_a_device_that_was_measured_is_told_once():
    record = cell(7, delta("cpu", before=0, after=MIB, peak=MIB), created=[on_cpu(1, MIB, "x")])
    assert "not measured" not in cell_report_text(record)
