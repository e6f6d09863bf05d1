"""What a terminal shows: whole texts, compared with those in tests/data that people have read."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from samples import (
    GIB,
    HOSTILE,
    KIB,
    MIB,
    ON_CPU,
    SAMPLES,
    TRAINED,
    cell,
    delta,
    storage,
)

from nbmem.records import DeviceReading, Inventory, Note, ReclaimReport
from nbmem.render import (
    cell_report_text,
    history_table_text,
    reclaim_text,
    status_text,
    tensors_bundle,
)
from nbmem.render.names import clean, pattern_of, shorten_middle, width_of

DATA = Path(__file__).parents[1] / "data"


def golden(name):
    return (DATA / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_report_reads_as_its_golden_text(name):
    assert golden(f"report_{name}") == cell_report_text(SAMPLES[name])


@pytest.mark.parametrize("width", [40, 120])
@pytest.mark.parametrize("name", ["trained", "on_cpu"])
def test_a_report_fits_narrow_and_wide_terminals(name, width):
    assert golden(f"report_{name}_{width}") == cell_report_text(SAMPLES[name], width=width)


@pytest.mark.parametrize("width", [30, 40, 60, 78, 100, 160])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_is_wider_than_asked(name, width):
    lines = cell_report_text(SAMPLES[name], width=width).split("\n")
    assert [] == [line for line in lines if width_of(line) > width]


def test_si_units_are_used_throughout():
    text = cell_report_text(TRAINED, units="SI")
    assert "3.33 GB" in text
    assert "iB" not in text


def test_notes_are_grey_only_when_asked():
    plain, grey = (cell_report_text(HOSTILE, color=color) for color in (False, True))
    assert "\x1b" not in plain
    assert '\x1b[90m  A "quoted" <note>\\nof two lines.\x1b[0m' == grey.split("\n")[-1]


@pytest.mark.parametrize("name", ["model.embeddings.weight", "x", "nbmem_out", "été", "Out[3]"])
def test_a_note_that_begins_with_a_name_leaves_the_name_as_it_is(name):
    record = cell(1, delta(), notes=(Note("storages", "shared_memory", f"{name} and b share"),))
    assert f"{name} and b share." == cell_report_text(record).splitlines()[-1].strip()


def test_what_is_gone_is_told_by_the_user_s_own_names():
    report = ReclaimReport(
        "reclaim", ("del the",), ("del the",), (), 8, 0, "torch storages on cpu", costs=("the",)
    )
    assert "the is gone." in reclaim_text(report)
    told = replace(report, costs=("what backward() needs",))
    assert "What backward() needs is gone." in reclaim_text(told)


def test_more_names_than_rows_are_summed_and_nothing_is_lost():
    created = [storage(n, (20 - n) * MIB, "user", f"x{n}") for n in range(9)]
    record = cell(1, delta(after=144 * MIB, peak=144 * MIB), created=created)
    lines = cell_report_text(record, rows=4).split("\n")[-4:]
    expected = [
        "20.0 MiB  user  x0  float32 [16]",
        "19.0 MiB  user  x1  float32 [16]",
        "18.0 MiB  user  x2  float32 [16]",
        "87.0 MiB  user  x3, x4, x5, x6, x7, x8",
    ]
    assert [line.split() for line in expected] == [line.split() for line in lines]


def test_a_device_that_was_not_touched_is_left_out_beside_one_that_was():
    record = cell(
        1,
        delta(after=MIB, peak=MIB, before=0),
        delta("cuda:1"),
        created=[storage(1, MIB, "user", "x")],
    )
    assert "cuda:1" not in cell_report_text(record)


def test_a_cell_run_again_says_that_what_it_made_replaced_as_much():
    record = cell(
        1,
        delta(before=MIB, after=MIB, peak=2 * MIB),
        created=[storage(1, MIB, "user", "x")],
        freed={"cuda:0": MIB},
    )
    text = cell_report_text(record)
    assert "end 1.00 MiB   ±0 B" in text
    assert "nothing stayed" not in text


@pytest.mark.parametrize("status", ["error", "oom", "interrupted"])
def test_a_failed_cell_says_what_its_traceback_keeps(status):
    kept = [storage(n, 2 * MIB, "unknown") for n in (1, 2)]
    moved = delta(after=4 * MIB, peak=4 * MIB)
    said = "4.00 MiB unknown: as a rule local variables that the error's traceback keeps"
    assert said in cell_report_text(cell(1, moved, created=kept, status=status), width=120)
    assert said not in cell_report_text(cell(1, moved, created=kept), width=120)


def test_two_devices_have_a_block_each():
    record = cell(
        1,
        delta(after=MIB, peak=MIB),
        delta("cuda:1", after=2 * MIB, peak=2 * MIB),
        created=[storage(1, MIB, "user", "x"), storage(2, 2 * MIB, "user", "y", device="cuda:1")],
    )
    lines = cell_report_text(record).split("\n")
    assert ["  cuda:0", "  cuda:1"] == [line for line in lines if line.startswith("  cuda")]


def test_the_history_is_a_table_with_one_unit_a_column():
    assert golden("history") == history_table_text(list(SAMPLES.values()))


def test_an_empty_history_says_what_to_do_next():
    expected = "No cell is recorded yet: put %%gpumem on a cell's first line, or run %gpumem"
    assert expected == history_table_text([]).split("\n")[0]


def test_the_largest_tensors_are_listed_and_the_rest_counted():
    notes = (Note("names", "budget", "Names are incomplete: budget."),)
    inventory = Inventory((*TRAINED.created, *HOSTILE.created), 0.0, notes)
    assert golden("storages") == tensors_bundle(inventory, rows=5)["text/plain"]


def test_a_state_with_an_unknown_figure_shows_a_question_mark_and_why():
    unknown = Note("driver_used", "no_nvml", "What other processes use is unknown: no NVML.")
    readings = [
        DeviceReading(
            "cuda:0",
            "accelerator",
            "H200",
            812 * MIB,
            3 * GIB,
            810 * MIB,
            812 * MIB,
            4 * GIB,
            None,
            140 * GIB,
            (unknown,),
        ),
        DeviceReading("host", "host", None, GIB, None, None, None, None, None, 62 * GIB),
    ]
    assert golden("status") == status_text(readings)


def report(before, after, **more):
    return ReclaimReport("del", ("x",), ("x",), (), before, after, "torch storages on cpu", **more)


def test_an_act_says_what_came_back_and_what_still_holds_the_rest():
    done = report(2972 * MIB, 1805 * MIB, still_held=("model is also held by Out[3].",))
    expected = (
        "Freed 1.14 GiB (2.90 → 1.76 GiB, torch storages on cpu).\n  model is also held by Out[3]."
    )
    assert expected == reclaim_text(done)


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("Nothing came back: 1.00 KiB as before, torch storages on cpu.", KIB, KIB),
        (
            "Nothing came back: 1.00 → 2.00 KiB, torch storages on cpu, made meanwhile.",
            KIB,
            2 * KIB,
        ),
        ("del is done; how much came back is unknown (torch storages on cpu).", None, KIB),
    ],
)
def test_an_act_that_freed_nothing_says_so(text, before, after):
    assert text == reclaim_text(report(before, after))


def test_same_record_same_text():
    assert cell_report_text(ON_CPU) == cell_report_text(replace(ON_CPU))


@pytest.mark.parametrize(
    ("short", "width"),
    [("model.encoder.weight", 20), ("model.…r.weight", 15), ("…", 1), ("m…t", 3), ("", 0)],
)
def test_a_long_name_loses_its_middle_never_its_end(short, width):
    assert short == shorten_middle("model.encoder.weight", width)


def test_wide_letters_take_two_columns_and_marks_none():
    assert (4, 1, 7) == (
        width_of("特徴"),
        width_of("e\u0301"),
        width_of(shorten_middle("特徴量特徴量", 8)),
    )


def test_nothing_in_a_name_moves_the_cursor():
    assert "a\\x1b[2Jb\\nc\\u202ed\\ud800 e" == clean("a\x1b[2Jb\nc\u202ed\ud800\u3000e")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("opt.state[*]['exp_avg']", "opt.state[model.0.weight]['exp_avg']"),
        ("model.*.weight.grad", "model.12.weight.grad"),
        ("batches[*]['x']", "batches[3]['x']"),
        ("conv1.weight", "conv1.weight"),
        ("d['a.0.b']", "d['a.0.b']"),
    ],
)
def test_names_of_one_loop_have_one_pattern(pattern, name):
    assert pattern == pattern_of(name)


def test_what_one_graph_saved_is_one_name():
    saved = tuple(
        storage(n, KIB, "saved for backward", f"losses[{n}] → graph[{n + 3}] MulBackward0.self")
        for n in range(6)
    )
    text = cell_report_text(cell(7, delta(after=6 * KIB, peak=6 * KIB), created=saved))
    assert "saved  losses[*] → graph  6 storages" in text


def test_status_of_a_cpu_leaves_out_what_a_cpu_has_not():
    nothing = dict.fromkeys(("requested", "active", "reserved", "driver_used", "peak_allocated"))
    notes = tuple(Note(field, "not_counted", f"about {field}") for field in nothing)
    reading = DeviceReading(
        "cpu", "cpu", None, allocated=1024, capacity=2048, notes=notes, **nothing
    )
    told = status_text([reading])
    assert "1.00 KiB  in torch's CPU storages" in told
    assert "?" not in told
    assert "about" not in told


def test_blocks_stand_under_their_cell_in_the_history():
    told = history_table_text(
        [
            cell(1, delta(), label="epoch"),
            cell(2, delta(), label="forward", parent=1),
            cell(3, delta(), label="attention", parent=2),
            cell(4, delta(), label="lost parent", parent=99),
        ]
    )
    shown = [line for line in told.splitlines() if "]" in line]
    assert ["epoch", "↳ forward", "  ↳ attention", "lost parent"] == [
        re.match(r".*\]  ((?:  )?\S+(?: \S+)*)", line)[1] for line in shown
    ]


@pytest.mark.parametrize("width", [40, 60, 78, 120])
def test_tables_fit_the_terminal(width):
    records = [
        cell(n, delta(after=n * GIB, peak=(n + 1) * GIB), label=f"a label that is long, number {n}")
        for n in (1, 2)
    ]
    alive = Inventory(
        (storage(1, GIB, "user", "batches['a long name']", shape=(1024, 1024, 256)),), 0.0
    )
    listed = tensors_bundle(alive, width=width)["text/plain"]
    texts = history_table_text(records, width=width), listed
    for text in texts:
        assert [] == [line for line in text.splitlines() if width_of(line) > width]
    assert "a l" in texts[0]
    assert "name']" in texts[1]
