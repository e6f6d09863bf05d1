"""What pages are told, word for word as in the samples that the page's own tests read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from panel_session import cell, reading

from nbmem._version import __version__
from nbmem.frontend import messages
from nbmem.frontend.marks import Marks, costliest_of, mark_of
from nbmem.records import DeviceDelta, LiveReading

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "sidebar"
MIB, GIB = 2**20, 2**30
PEAK = 3_328_599_654  # 3.10 GiB
CAPACITY = 8_514_772_664  # 7.93 GiB
NOW = 3_113_851_290  # 2.90 GiB


def sample(name):
    return json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))


def trained(serial=5, **more):
    facts = {"label": "train one epoch", "cell_id": "c7", "execution_count": 7}
    figures = {"device": "cuda:0", "capacity": CAPACITY}
    return cell(serial, GIB, GIB + 300 * MIB, PEAK, **{**facts, **figures, **more})


def live_reading(**more):
    facts = {
        "number": 7,
        "cell_id": "c7",
        "title": "train one epoch",
        "seconds": 12.4,
        "device": "cuda:0",
        "allocated": NOW,
        "peak": PEAK,
        "capacity": CAPACITY,
        "taken_at": 1000.5,
    }
    return LiveReading(**{**facts, **more})


def present():
    counters = reading("cuda:0", "accelerator", PEAK, capacity=CAPACITY)
    return messages.state(
        counters,
        "IEC",
        costliest=costliest_of([trained()]),
        is_empty=False,
        copy='<div class="nbmem-copy"><b>nbmem panel</b></div>',
        taken_at=1000.0,
    )


def test_a_running_cell_is_told_as_in_the_sample():
    assert sample("live") == messages.live(live_reading(), "IEC")


def test_the_end_of_a_cell_is_told_as_in_the_sample():
    assert sample("live_end") == messages.live(live_reading(running=False), "IEC")


def test_a_cell_that_nobody_measures_is_told_as_in_the_sample():
    unknown = dict.fromkeys(("number", "cell_id", "allocated", "peak"))
    note = "not measured: %gpumem on records every cell"
    told = messages.live(live_reading(**unknown, title="", device="cpu", note=note), "IEC")
    assert sample("live_unmeasured") == told


def test_the_present_is_told_as_in_the_sample():
    assert sample("state") == present()


def test_badges_are_told_as_in_the_sample():
    assert sample("marks") == messages.marks([mark_of(trained(), "IEC")], whole=False)


@pytest.mark.parametrize("name", ["hello", "hello_busy"])
def test_the_answer_to_a_page_is_told_as_in_the_sample(name):
    busy = name == "hello_busy"
    told = messages.hello(
        model_id=None if busy else "abc123",
        waits="The panel comes when cell [7] has ended." if busy else "",
        marks=[] if busy else [mark_of(trained(), "IEC")],
        state=None if busy else present(),
        live=messages.live(live_reading(), "IEC") if busy else None,
    )
    assert {**sample(name), "version": __version__} == told


def test_panel_bye_and_trouble_are_told_as_in_the_samples():
    assert sample("panel") == messages.panel("abc123")
    assert sample("bye") == messages.bye()
    sentence = sample("trouble")["sentence"]
    assert sample("trouble") == messages.trouble(sentence)


def test_a_page_of_another_protocol_learns_who_is_here_and_nothing_else():
    assert {"type": "hello", "protocol": 1, "version": __version__} == messages.foreign_hello()
    assert set(sample("from_the_future")) == set(messages.foreign_hello())


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("12 s · now 3.11 GB · peak 3.33 GB", {}),
        ("3 min 5 s · now 3.11 GB · peak 3.33 GB", {"seconds": 185.9}),
        (
            "12 s · now 3.11 GB · peak not measured: %gpumem on records every cell",
            {"peak": None, "note": "peak not measured: %gpumem on records every cell"},
        ),
    ],
)
def test_a_running_cell_in_the_units_that_are_set(text, more):
    assert text == messages.live(live_reading(**more), "SI")["text"]


def test_of_main_memory_the_status_says_what_is_in_tensors():
    told = messages.live(live_reading(device="cpu", allocated=64 * MIB, capacity=8 * GIB), "IEC")
    assert "64.0 MiB in tensors" == told["status"]
    assert 0.008 == told["share"]  # 64 of 8192 MiB


def test_before_the_first_cell_the_present_says_that_nothing_is_measured():
    counters = reading("cpu", "cpu", 3 * MIB, capacity=6 * MIB)
    told = messages.state(counters, "IEC", costliest=None, is_empty=True, copy="", taken_at=1.0)
    assert ("nothing is measured yet", None) == (told["hint"], told["costliest"])
    assert "cpu: 3.00 MiB in tensors of 6.00 MiB" == told["tip"]
    assert 0.5 == told["share"]


def test_a_device_that_cannot_be_read_has_no_share_and_no_status():
    counters = reading("cuda:0", "accelerator", None, capacity=6 * MIB)
    told = messages.state(counters, "IEC", costliest=None, is_empty=True, copy="", taken_at=1.0)
    assert ("", None) == (told["status"], told["share"])
    assert "cuda:0: its allocated bytes are not known" == told["tip"]


@pytest.mark.parametrize(
    ("stayed", "tip", "after"),
    [
        ("", "nothing stayed", GIB),
        ("−300 MiB", "−300 MiB stayed", GIB - 300 * MIB),
        ("", "what stayed is not known", None),
    ],
)
def test_a_badge_says_what_stayed_only_where_something_did(stayed, tip, after):
    record = cell(5, GIB, after, PEAK, device="cuda:0", capacity=CAPACITY, execution_count=7)
    mark = mark_of(record, "IEC")
    assert stayed == mark["stayed"]
    assert mark["tip"].endswith(f"39 % of cuda:0; {tip}")


def test_a_badge_whose_peak_is_not_known_says_so():
    mark = mark_of(trained(devices={}), "IEC")
    assert ("▲ ?", None) == (mark["peak"], mark["share"])
    assert "[7] train one epoch: no device was measured" == mark["tip"]
    mark = mark_of(cell(5, 0, MIB, None, execution_count=7, first_line="x = 1"), "IEC")
    assert "[7] x = 1: peak not known; +1.00 MiB stayed" == mark["tip"]


def test_a_badge_speaks_of_the_accelerator_that_took_most():
    def delta(device, peak):
        return DeviceDelta(device, 0, 0, 0, peak, None, None, 4 * GIB)

    devices = {name: delta(name, peak) for name, peak in
               [("cuda:0", MIB), ("cuda:1", GIB), ("cpu", 3 * GIB), ("host", 4 * GIB)]}  # fmt: skip
    assert "▲ 1.00 GiB" == mark_of(trained(devices=devices), "IEC")["peak"]
    idle = {**devices, "cuda:0": delta("cuda:0", 0), "cuda:1": delta("cuda:1", 0)}
    mark = mark_of(trained(devices=idle), "IEC")
    assert "▲ 3.00 GiB" == mark["peak"]
    assert "75 % of main memory" in mark["tip"]


def test_a_cell_that_ran_again_has_one_badge_and_only_that_is_sent():
    first, again = trained(serial=5), trained(serial=8, execution_count=9)
    other = cell(6, 0, MIB, MIB, execution_count=8, cell_id="c8")
    marks = Marks()
    changed, whole = marks.changes([first, other], "IEC")
    assert ([5, 6], False) == ([mark["serial"] for mark in changed], whole)
    changed, whole = marks.changes([first, other, again], "IEC")
    assert ([8], False) == ([mark["serial"] for mark in changed], whole)
    assert ([], False) == marks.changes([first, other, again], "IEC")
    assert [6, 8] == [mark["serial"] for mark in marks.all([first, other, again], "IEC")]


def test_badges_of_a_history_that_was_cut_are_sent_as_a_whole():
    marks = Marks()
    other = cell(6, 0, MIB, MIB, execution_count=8, cell_id="c8")
    marks.changes([trained(), other], "IEC")
    changed, whole = marks.changes([other], "IEC")
    assert ([6], True) == ([mark["serial"] for mark in changed], whole)


def test_other_units_make_other_badges():
    marks = Marks()
    marks.changes([trained()], "IEC")
    changed, _whole = marks.changes([trained()], "SI")
    assert ["▲ 3.33 GB"] == [mark["peak"] for mark in changed]


def test_blocks_and_scripts_have_no_badge_and_are_not_the_costliest():
    block = replace(cell(6, 0, 0, 9 * GIB), parent=5)
    script = replace(cell(7, 0, 0, 9 * GIB), execution_count=None)
    records = [trained(), block, script, cell(8, 0, 0, MIB)]
    assert [5, 8] == [mark["serial"] for mark in Marks().all(records, "IEC")]
    assert {"cell_id": "c7", "number": 7, "serial": 5} == costliest_of(records)
    assert costliest_of([block, script]) is None


def test_a_hostile_label_is_one_line():
    mark = mark_of(trained(label="a\n\u202eb" + "x" * 500), "IEC")
    assert mark["tip"].startswith("[7] a\\n\\u202ebxx")
    assert len(mark["tip"]) < 200
