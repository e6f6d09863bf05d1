"""What torch can get, where it is told: the report, the panel's head, the sidebar, the ledger."""

import pytest
from panel_session import cell, reading
from samples import cell as sample
from samples import delta

from nbmem.frontend import messages
from nbmem.frontend.marks import mark_of
from nbmem.panel.header import bar_parts, header_html
from nbmem.records import DeviceCapacity, DeviceLedger, Note
from nbmem.render import cell_report_html, cell_report_text, status_text
from nbmem.render.capacity_words import capacity_words
from nbmem.render.ledger_words import tell_device

MIB, GIB = 2**20, 2**30
TOTAL = 8 * GIB + 512 * MIB
PARTS = DeviceCapacity(5 * GIB, TOTAL, 512 * MIB, GIB, limit=5 * GIB, beyond_limit=2 * GIB)
SUM = (
    "torch can get 5.00 GiB: the card's 8.50 GiB − 512 MiB kept by the driver − 1.00 GiB of others "
    "(own context and libraries, other processes) − 2.00 GiB beyond torch's limit"
)
DOUBT = Note("capacity", "lends_main_memory", "The driver lends <main> memory.")


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (PARTS, SUM),
        (
            DeviceCapacity(7 * GIB, 8 * GIB, None, GIB),
            "torch can get 7.00 GiB: the card's 8.00 GiB − 1.00 GiB of others "
            "(own context and libraries, other processes)",
        ),
        (
            DeviceCapacity(8 * GIB, 8 * GIB),
            "torch can get 8.00 GiB: the card's 8.00 GiB; what others hold of it is not known",
        ),
        (
            DeviceCapacity(4 * GIB, 5 * GIB, GIB, 0, instance=True),
            "torch can get 4.00 GiB: the MIG instance's 5.00 GiB − 1.00 GiB kept by the driver",
        ),
        (
            DeviceCapacity(101 * GIB, 120 * GIB, None, 19 * GIB, unified=True),
            "torch can get 101 GiB: main memory's 120 GiB − 19.0 GiB of all else "
            "(own memory, other processes, the system)",
        ),
        (DeviceCapacity(GIB, unified=True), "torch can get 1.00 GiB"),
    ],
)
def test_the_sum_names_each_part(parts, expected):
    assert expected == capacity_words(parts, "IEC")


def cell_near(peak, status="ok"):
    gpu = delta(before=0, after=peak, peak=peak, capacity=PARTS.bytes, parts=PARTS)
    return sample(7, gpu, status=status)


def test_a_cell_near_what_can_be_had_tells_the_parts():
    text = words(cell_report_text(cell_near(4 * GIB)))
    assert "80 % of 5.00 GiB torch can get" in text
    assert SUM in text
    assert SUM in cell_report_html(cell_near(4 * GIB)).replace("&#x27;", "'")


def test_a_small_cell_says_what_it_is_a_share_of_and_no_more():
    text = words(cell_report_text(cell_near(GIB)))
    assert "20 % of 5.00 GiB torch can get" in text
    assert "the card's" not in text


def test_a_quiet_cell_beside_a_large_model_stays_one_sentence():
    gpu = delta(before=4 * GIB, after=4 * GIB, peak=4 * GIB, capacity=PARTS.bytes, parts=PARTS)
    text = cell_report_text(sample(7, gpu))
    assert "nothing stayed · 4.00 GiB before, after and at the peak" in text
    assert "torch can get" not in text


def test_a_cell_that_ran_out_of_memory_always_tells_the_parts():
    assert SUM in words(cell_report_text(cell_near(GIB, "oom")))


def card(**more):
    figures = {"reserved": 4 * GIB, "driver_used": 5 * GIB, "capacity": 5 * GIB, "parts": PARTS}
    return reading("cuda:0", "accelerator", 3 * GIB, **figures | more)


def test_the_panels_bar_is_the_whole_card_and_its_parts_add_up():
    parts = [(part.word, part.bytes) for part in bar_parts(card(), None, None)]
    assert [
        ("allocated", 3 * GIB),
        ("cached", GIB),
        ("others", GIB),
        ("kept by the driver", 512 * MIB),
        ("beyond torch's limit", 2 * GIB),
    ] == parts
    assert TOTAL == sum(size for _, size in parts) + GIB  # which is free for torch
    html = header_html([card()], None, "IEC")
    assert "3.00 of 5.00 GiB" in html
    assert "free for torch 1.00 GiB" in html
    assert f'title="{SUM.replace(chr(39), "&#x27;")}"' in html


def test_the_panels_bar_is_full_at_out_of_memory():
    full = DeviceCapacity(7 * GIB, TOTAL, 512 * MIB, GIB)
    reached = card(reserved=7 * GIB, driver_used=8 * GIB, capacity=7 * GIB, parts=full)
    assert TOTAL == sum(part.bytes for part in bar_parts(reached, None, None))
    assert "free for torch 0 B" in header_html([reached], None, "IEC")


def test_more_than_the_limit_reserved_still_adds_up():
    parts = DeviceCapacity(2 * GIB, 8 * GIB, None, GIB, limit=2 * GIB, beyond_limit=5 * GIB)
    told = bar_parts(card(capacity=2 * GIB, parts=parts), None, None)  # 4 GiB are reserved
    assert 8 * GIB == sum(part.bytes for part in told)


def test_the_panel_says_which_figures_are_not_to_be_trusted():
    doubted = DeviceCapacity(5 * GIB, 6 * GIB, None, GIB, notes=(DOUBT,))
    assert "lends &lt;main&gt; memory" in header_html([card(parts=doubted)], None, "IEC")


def test_memory_now_lists_the_parts_and_their_total():
    text = words(status_text([card(notes=())]))
    assert "5.00 GiB torch can get, 80 % reserved" in text
    assert "512 MiB kept by the driver" in text
    assert "2.00 GiB beyond torch's limit" in text
    assert "8.50 GiB the card's total" in text


def test_the_sidebars_tip_tells_the_parts_and_its_share_is_of_what_can_be_had():
    told = messages.state(card(), "IEC", costliest=None, is_empty=False, copy="", taken_at=1.0)
    assert ("3.00 of 5.00 GiB", 0.6) == (told["status"], told["share"])
    assert f"cuda:0: 3.00 GiB allocated of 5.00 GiB; {SUM}" == told["tip"]


def test_a_badge_says_what_its_share_is_of():
    told = cell(5, 0, GIB, 4 * GIB, device="cuda:0", capacity=5 * GIB, execution_count=7)
    gpu = told.devices["cuda:0"]
    assert "80 % of cuda:0" in mark_of(told, "IEC")["tip"]  # as an older nbmem saved it
    told.devices["cuda:0"] = delta(
        before=gpu.before, after=gpu.after, peak=gpu.peak, capacity=5 * GIB, parts=PARTS
    )
    assert "80 % of what torch can get on cuda:0" in mark_of(told, "IEC")["tip"]


def test_the_ledger_says_what_can_be_had_and_what_is_not_to_be_trusted():
    doubted = DeviceCapacity(5 * GIB, 6 * GIB, None, GIB, notes=(DOUBT,))
    ledger = DeviceLedger("cuda:0", "accelerator", None, (), capacity=doubted)
    assert (
        "Torch can get 5.00 GiB: the card's 6.00 GiB − 1.00 GiB of others (own context and "
        "libraries, other processes).",
        "The driver lends <main> memory.",
    ) == tell_device(ledger, "IEC").notes
