"""The ledger as people see it: sums that can be added up by hand, and say whether they close."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages import Page
from samples import LEDGER, ON_CARD, ON_HOST, line

from nbmem.records import AllocatorBlock, DeviceLedger, Ledger, LedgerSum, Note, ProcessMemory
from nbmem.render import ledger_bundle, ledger_html, ledger_text
from nbmem.render.names import width_of

DATA = Path(__file__).parents[1] / "data"


def ledger(*lines, total, code="allocated", notes=()):
    return Ledger(
        (DeviceLedger("cuda:0", "accelerator", None, (LedgerSum(code, lines, total, notes),)),), 0.0
    )


@pytest.mark.parametrize("width", [40, 78, 120])
def test_a_ledger_reads_as_its_golden_text(width):
    golden = (DATA / f"ledger_{width}.txt").read_text(encoding="utf-8").removesuffix("\n")
    assert golden == ledger_text(LEDGER, width=width)


@pytest.mark.parametrize("width", [40, 55, 60, 78, 100, 120])
def test_no_line_of_a_ledger_is_wider_than_asked(width):
    lines = ledger_text(LEDGER, width=width).splitlines()
    assert [] == [each for each in lines if width_of(each) > width]


def exact_bytes(text):
    """Returns the last figure of each line that ends with a number of bytes."""
    found = (re.search(r"(\S.*?)\s{2,}(?:\S+\s+)*?(−?[\d,]+)$", row) for row in text.splitlines())
    return [
        (match[1], int(match[2].replace(",", "").replace("−", "-"))) for match in found if match
    ]


def test_the_bytes_that_are_shown_add_up_to_the_total_that_is_shown():
    for told in (*ON_CARD.sums, *ON_HOST.sums[:2]):
        device = DeviceLedger("cuda:0", "accelerator", None, (told,))
        *lines, (_, total) = exact_bytes(ledger_text(Ledger((device,), 0.0), width=60))
        assert total == told.total.bytes
        assert total == sum(size for label, size in lines if "of it" not in label)


def test_a_sum_without_a_derived_line_closes_to_the_byte():
    told = ledger(
        line("parameter", "parameters", 40), line("user", "yours", 2), total=line("t", "all", 42)
    )
    assert "closes to the byte" in ledger_text(told)
    assert "not explained" not in ledger_text(told)


def test_what_no_line_explains_is_a_line_of_its_own():
    told = ledger(line("parameter", "parameters", 40), total=line("t", "all", 2**20 + 40))
    text = ledger_text(told)
    assert "! not explained" in text
    assert "1,048,576" in text
    assert "does not close: 1.00 MiB not explained" in text


def test_lines_that_exceed_the_total_are_told_with_a_minus():
    told = ledger(line("parameter", "parameters", 45), total=line("t", "all", 42))
    text = ledger_text(told)
    assert ["!", "counted", "beyond", "the", "total", "−3", "−3"] == text.splitlines()[4].split()
    assert "does not close: 3 B counted beyond the total" in text


def test_a_sum_with_an_unknown_line_claims_nothing():
    note = Note("x", "y", "The driver does not tell.")
    told = ledger(
        line("a", "others", None), line("b", "mine", 40), total=line("t", "all", 42), notes=(note,)
    )
    lines = ledger_text(told).splitlines()
    assert ["others", "?", "?"] == lines[3].split()
    assert ["not closed: a figure is unknown", "The driver does not tell."] == [
        row.strip() for row in lines[-2:]
    ]


def test_the_derived_line_is_marked_and_the_mark_explained_once():
    text = ledger_text(LEDGER)
    assert 1 == text.count("≈ is what the other lines leave of the total")
    assert 3 == len(re.findall(r"^  ≈ ", text, re.MULTILINE))
    plain = ledger(line("a", "mine", 42), total=line("t", "all", 42))
    assert "≈" not in ledger_text(plain)


def test_a_part_stands_under_its_line_whatever_order_they_came_in():
    parts = (
        line("inner", "deeper", 1, part_of="fragmented"),
        line("fragmented", "fragmented", 2, part_of="cached"),
        line("allocated", "allocated", 5),
        line("cached", "cached", 10),
        line("lost", "whose line is missing", 1, part_of="nothing"),
    )
    told = ledger(*parts, total=line("t", "all", 15), code="reserved")
    rows = [row[4:] for row in ledger_text(told).splitlines()[3:8]]
    expected = [
        "allocated",
        "cached",
        "  of it fragmented",
        "    of it deeper",
        "  of it whose line is missing",
    ]
    assert expected == [re.sub(r"\s+\S+\s+\S+$", "", row) for row in rows]
    assert "closes to the byte" in ledger_text(told)


def test_lines_that_are_parts_of_each_other_do_not_hang_the_report():
    told = ledger(
        line("a", "first", 1, part_of="b"),
        line("b", "second", 1, part_of="a"),
        line("c", "itself", 1, part_of="c"),
        total=line("t", "all", 3),
    )
    text = ledger_text(told)
    assert "does not close: 3 B not explained" in text


def test_many_blocks_and_processes_are_cut_and_the_rest_summed():
    blocks = tuple(AllocatorBlock(2**20, None, 1, 0, "live", "large", "unknown") for _ in range(15))
    processes = tuple(ProcessMemory(n, None, 2**30) for n in range(14))
    device = DeviceLedger("cuda:0", "accelerator", None, (), blocks, processes)
    text = ledger_text(Ledger((device,), 0.0))
    assert "3 smaller blocks, 3.00 MiB, more." in text
    assert "2 more processes, 2.00 GiB." in text


def test_no_device_says_what_to_do_next():
    bundle = ledger_bundle(Ledger((), 0.0))
    assert "No device can be read: import torch, then run %gpumem ledger." == bundle["text/plain"]
    assert "No device can be read" in bundle["text/html"]


def test_si_units_reach_every_sum():
    text = ledger_text(LEDGER, units="SI")
    assert "iB" not in text
    assert "150.75  150,754,820,096" in text


# HTML.


def test_a_ledger_page_uses_only_what_an_untrusted_notebook_keeps():
    page = Page(ledger_html(LEDGER))
    allowed = {"div", "span", "b", "table", "tbody", "tr", "td", "th"}
    assert set() == set(page.tags) - allowed
    keys = {key for key, _ in page.attributes}
    assert set() == keys - {"style", "title", "role", "aria-label", "aria-hidden", "scope"}


def test_a_ledger_page_has_every_figure_of_the_text():
    page = Page(ledger_html(LEDGER)).text
    for _, size in exact_bytes(ledger_text(LEDGER, width=60)):
        assert f"{size:,}" in page
    for said in ("closes by the line ≈", "does not close: 2.00 KiB not explained", "MIG is off."):
        assert said in page


def test_each_sum_has_a_bar_of_its_lines_where_free_is_the_ground():
    widths = re.findall(r"width:([\d.]+)%;background", ledger_html(Ledger((ON_CARD,), 0.0)))
    # of 1,288,491,464: P B G O S U, workspaces, rounding
    allocated = ["7.93", "0.02", "7.93", "15.87", "66.08", "1.50", "0.66", "0.01"]
    reserved = ["80.38", "19.62"]  # of 1,603,066,312; what waits is 0
    total = ["1.06", "0.36", "2.14"]  # of 150,754,820,096, without what is free
    assert allocated + reserved + total == widths


def test_hostile_names_stay_text_in_a_ledger():
    evil = "<script>alert(1)</script>\x1b[31m\u202e\ud800"
    device = DeviceLedger(
        evil,
        "accelerator",
        evil,
        (
            LedgerSum(
                "x", (line(evil, evil, 1, equals=evil),), line("t", evil, 2), (Note("", "", evil),)
            ),
        ),
        (AllocatorBlock(1, 1, 1, 0, evil, evil, evil, (evil,)),),
        (ProcessMemory(1, evil, 1),),
        (Note("", "", evil),),
    )
    bundle = ledger_bundle(Ledger((device,), 0.0, (Note("", "", evil),)))
    assert "script" not in Page(bundle["text/html"]).tags
    for text in bundle.values():
        assert [] == re.findall(r"[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
        text.encode("utf-8")


def test_a_ledger_of_the_same_records_is_the_same():
    assert ledger_bundle(LEDGER) == ledger_bundle(replace(LEDGER))
