"""Texts and columns of the panel; what is expected was worked out by hand."""

import pytest
from panel_session import MIB, cell, reading, storage

from nbmem.panel.cell_columns import cell_table
from nbmem.panel.columns import figures, one_line
from nbmem.panel.header import bar_parts, header_html, main_device
from nbmem.panel.live import Line
from nbmem.panel.live_columns import storage_table
from nbmem.panel.words import answer, del_label, del_tip
from nbmem.records import Inventory, Note, ReclaimReport

GIB = 1024 * MIB


def listed(*storages):
    return storage_table([Line(each.key, each, None) for each in storages], "IEC")


def column(data, label):
    (found,) = [each for each in data.columns if each.label == label]
    return found


def test_a_column_has_one_unit_and_one_number_of_places():
    made = figures([3 * GIB, 512 * MIB, 1024, 0, None], "IEC")
    assert "GiB" == made.unit
    assert ["3.00", "0.50", "<0.01", "0", "?"] == made.texts
    assert ["288", "<1"] == figures([288 * MIB, MIB // 4], "IEC").texts
    assert ["28.8", "0.5"] == figures([30_198_989, MIB // 2], "IEC").texts
    assert ["12", "4"] == figures([12, 4], "IEC").texts
    assert [] == figures([], "IEC").texts


def test_changes_carry_their_sign():
    made = figures([2 * MIB, -MIB, 0, 4], "IEC", signed=True)
    assert ["+2.00", "−1.00", "0", "+<0.01"] == made.texts


def test_si_units():
    made = figures([2_500_000, 1000], "SI")
    assert ("MB", ["2.50", "<0.01"]) == (made.unit, made.texts)


def test_a_long_name_loses_its_middle_never_its_end():
    text = one_line("a" * 10_000 + "['end']")
    assert 120 == len(text)
    assert text.endswith("['end']")
    assert "…" in text
    assert "one\\ntwo" == one_line("one\ntwo")


def test_a_row_of_a_storage():
    data = listed(storage(5, MIB, ["w", "model.w"], "parameter", shape=(512, 512)))
    assert [5] == data.keys
    assert ["w"] == column(data, "name").text
    assert ["1.00"] == column(data, "MiB").text
    assert ["[512, 512]"] == column(data, "shape").text
    assert ["[3]"] == column(data, "cell").text
    assert ["P"] == column(data, "kind").text
    assert (
        "w, model.w\nparameter, float32 [512, 512] on cpu\n1.00 MiB (1,048,576 B)" in data.tips[0]
    )


def test_storages_without_a_name_say_what_holds_them():
    data = listed(storage(1, 4, []), storage(2, 4, [], visible=False))
    assert ["(no name)", "(no name, held outside Python)"] == column(data, "name").text


def test_the_device_is_a_column_only_where_there_are_two():
    one = listed(storage(1, 4))
    two = listed(storage(1, 4), storage(2, 4, device="cuda:0"))
    assert "device" not in [each.label for each in one.columns]
    assert ["cpu", "cuda:0"] == column(two, "device").text


def test_the_newest_cell_comes_first_and_a_failed_one_is_marked():
    failed = cell(2, MIB, MIB, 3 * MIB, label="train", status="oom", error="OutOfMemoryError: big")
    data = cell_table([cell(1, 0, MIB, 2 * MIB), failed], "cpu", "IEC")
    assert ["[2]", "[1]"] == column(data, "cell").text
    assert ["oom · train", "x1 = make()"] == column(data, "what ran").text
    assert [True, False] == column(data, "what ran").alarm
    assert ["3.00", "2.00"] == column(data, "peak MiB").text
    assert ["0", "+1.00"] == column(data, "stayed MiB").text
    assert "OutOfMemoryError: big" in data.tips[0]


def test_blocks_stand_below_their_cell_in_the_order_they_ran():
    def block(serial, parent, label):
        return cell(serial, MIB, MIB, MIB, parent=parent, execution_count=2, label=label)

    blocks = [block(3, 2, "forward"), block(4, 3, "inner"), block(5, 2, "backward")]
    orphan = block(9, 8, "its cell is no longer kept")
    data = cell_table([orphan, cell(1, 0, MIB, MIB), cell(2, 0, MIB, MIB), *blocks], "cpu", "IEC")
    assert [2, 3, 4, 5, 1, 9] == data.keys
    assert "↳ forward" == column(data, "what ran").text[1]


def test_a_cell_that_did_not_measure_the_device_is_unknown_not_zero():
    data = cell_table([cell(1, 0, MIB, MIB, device="cuda:0")], "cpu", "IEC")
    assert ["?"] == column(data, "peak B").text
    assert "not measured on cpu" in data.tips[0]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (3 * GIB, 2 * GIB, "Freed 1.00 GiB (3.00 → 2.00 GiB, allocated on cuda:0)."),
        (MIB, MIB, "del freed nothing (1.00 MiB, allocated on cuda:0)."),
        (MIB, 3 * MIB, "2.00 MiB more than before del (1.00 → 3.00 MiB, allocated on cuda:0)."),
        (None, MIB, "How many bytes came back is not known."),
    ],
)
def test_the_answer_says_what_came_back(before, after, said):
    report = ReclaimReport("del", (), (), (), before, after, "allocated on cuda:0")
    assert said == answer(report, "IEC")


def test_the_answer_names_what_still_holds_the_rest():
    notes = (Note("bytes_after", "x", "the cpu was not read"),)
    report = ReclaimReport("del", (), (), ("y stays",), 2, 1, "b", ("1 B lives on",), notes)
    expected = "Freed 1 B (2 → 1 B, b). y stays. 1 B lives on. the cpu was not read."
    assert expected == answer(report, "IEC")


def test_the_button_says_what_and_how_much():
    assert "del" == del_label([], "IEC")
    assert "del x (1.00 MiB)" == del_label([storage(1, MIB, ["x"])], "IEC")
    assert "del 1 (1.00 MiB)…" == del_label([storage(1, MIB, ["a.b"])], "IEC")
    assert "del 2 (3.00 MiB)…" == del_label([storage(1, MIB), storage(2, 2 * MIB)], "IEC")
    assert "Choose rows of the table of live tensors first." == del_tip([])


def test_the_bar_of_an_accelerator_adds_up_to_what_the_driver_says():
    card = reading(
        "cuda:0",
        "accelerator",
        3 * GIB,
        reserved=4 * GIB,
        driver_used=5 * GIB,
        capacity=8 * GIB,
    )
    alive = Inventory(
        (storage(1, 2 * GIB, device="cuda:0"), storage(2, GIB, [], device="cuda:0")), 0
    )
    parts = bar_parts(card, None, alive)
    assert [
        ("named", 2 * GIB),
        ("without a name", GIB),
        ("cached", GIB),
        ("others", GIB),
    ] == [(part.word, part.bytes) for part in parts]
    assert "free 3.00 GiB" in header_html([card], alive, "IEC")
    assert "3.00 of 8.00 GiB" in header_html([card], alive, "IEC")


def test_what_is_not_known_is_left_out_of_the_bar():
    card = reading("cuda:0", "accelerator", GIB, reserved=2 * GIB)
    assert ["allocated", "cached"] == [part.word for part in bar_parts(card, None, None)]
    note = Note("allocated", "not_started", "CUDA was not started")
    asleep = reading("cuda:0", "accelerator", None, notes=(note,))
    assert [] == bar_parts(asleep, None, None)
    assert "CUDA was not started" in header_html([asleep], None, "IEC")
    assert "? allocated" in header_html([asleep], None, "IEC")


def test_the_bar_of_the_cpu_is_a_part_of_the_process():
    host = reading("host", "host", 10 * MIB)
    parts = bar_parts(reading(allocated=4 * MIB), host, None)
    assert [("allocated", 4 * MIB), ("rest of the process", 6 * MIB)] == [
        (part.word, part.bytes) for part in parts
    ]


def test_an_accelerator_in_use_is_shown_first():
    idle = reading("cuda:0", "accelerator", 0)
    busy = reading("cuda:1", "accelerator", 5)
    assert "cuda:1" == main_device([reading(), idle, busy])
    assert "cuda:0" == main_device([reading(), idle])
    assert "cpu" == main_device([reading()])
