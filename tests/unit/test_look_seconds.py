"""What nbmem itself takes of the user's time: in the record, and in the report where it is felt."""

from __future__ import annotations

import json
import time

import pytest
from samples import cell, delta

import nbmem
from nbmem.history import History
from nbmem.records import CellRecord, StepSummary, from_json, to_json
from nbmem.render import cell_report_html, cell_report_text
from nbmem.session import current_session


def record_of(seconds, looks, **more):
    return cell(7, delta(), seconds=seconds, look_seconds=looks, **more)


@pytest.mark.parametrize(
    ("seconds", "looks", "said"),
    [
        (10.0, 0.3, "+ 300 ms by nbmem"),
        (1.0, 0.21, "+ 210 ms by nbmem"),
        (0.3, 0.1, "+ 100 ms by nbmem"),
        (60.0, 4.2, "+ 4.2 s by nbmem"),
        (10.0, 0.2, None),
        (1.0, 0.19, None),
        (0.1, 0.03, "+ 30 ms by nbmem"),
        (0.001, 0.03, None),
        (0.09, 0.19, None),
        (1.0, None, None),
    ],
)
def test_looks_are_told_from_a_fifth_of_a_second_or_of_the_cell_on(seconds, looks, said):
    record = record_of(seconds, looks)
    for report in (cell_report_text(record), cell_report_html(record)):
        assert (said is not None) is ("by nbmem" in report)
        assert said is None or said in report


def test_a_quiet_cell_takes_two_lines_whatever_the_looks_took():
    assert 2 == len(cell_report_text(record_of(0.001, 0.03)).split("\n"))
    assert 2 == len(cell_report_text(record_of(0.001, 3.0)).split("\n"))


def test_looks_of_a_loop_are_set_against_all_its_runs():
    steps = StepSummary(100, 10.0, {}, {}, {})
    assert "by nbmem" not in cell_report_text(record_of(0.1, 0.15, steps=steps))
    assert "+ 2.5 s by nbmem" in cell_report_text(record_of(0.1, 2.5, steps=steps))


def test_look_seconds_go_to_json_and_back_and_older_files_have_none():
    record = record_of(1.0, 0.25)
    data = json.loads(json.dumps(to_json(record)))
    assert record == from_json(CellRecord, data)
    del data["look_seconds"]
    assert from_json(CellRecord, data).look_seconds is None


def test_look_seconds_have_a_column():
    history = History()
    history.put(record_of(1.0, 0.25))
    history.put(cell(8, delta()))
    column = history.to_pandas()["look_seconds"]
    assert "float64" == str(column.dtype)
    assert [0.25, True] == [column.iloc[0], bool(column.isna().iloc[1])]


def test_what_a_look_takes_is_in_look_seconds_and_not_in_seconds(notebook, monkeypatch):
    session = current_session()
    merge, listing = session._scopes.merge_scan, session.recorder._take_inventory

    def slow_merge(notes):
        time.sleep(0.15)
        merge(notes)

    def slow_listing():
        time.sleep(0.15)
        return listing()

    notebook.run("%%gpumem\nx = 1")
    monkeypatch.setattr(session._scopes, "merge_scan", slow_merge)
    monkeypatch.setattr(session.recorder, "_take_inventory", slow_listing)
    started = time.perf_counter()
    notebook.run("%%gpumem\nx = 1")
    took = time.perf_counter() - started
    record = notebook.records[-1]
    assert 0.3 <= record.look_seconds <= took - record.seconds
    assert "by nbmem" in notebook.reports[-1]


def test_look_seconds_of_a_block_add_up_over_its_runs(bare):
    looks = []
    for _ in range(3):
        with nbmem.measure("step") as block:
            pass
        looks.append(block.record.look_seconds)
    assert 0 < looks[0] < looks[1] < looks[2]
