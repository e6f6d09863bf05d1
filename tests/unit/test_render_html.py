"""What a notebook shows: the same as the text, safe, and whole when styles and scripts are gone."""

import re

import pytest
from pages import Page
from samples import FAILED, HOSTILE, ON_CPU, SAMPLES, TRAINED, UNKNOWN

from nbmem.records import CATEGORIES, Inventory
from nbmem.render import (
    cell_report_html,
    history_table_html,
    report_bundle,
    tensors_bundle,
)
from nbmem.render.palette import COLOURS, INKS, LETTERS, colour_of, letter_of


@pytest.mark.parametrize("name", SAMPLES)
def test_only_what_an_untrusted_notebook_keeps_is_used(name):
    page = Page(cell_report_html(SAMPLES[name]))
    allowed = {"div", "span", "b", "table", "tbody", "tr", "td", "details", "summary"}
    assert set() == set(page.tags) - allowed
    assert set() == {key for key, _ in page.attributes} - {
        "style",
        "title",
        "role",
        "aria-label",
        "aria-hidden",
    }


def test_hostile_names_stay_text():
    html = cell_report_html(HOSTILE)
    page = Page(html)
    assert "img" not in page.tags
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "<b> [16]" in page.text
    assert '"quoted" <note>' in page.text
    assert [] == re.findall(r"[\x00-\x1f\u202e\ud800]", html)
    html.encode("utf-8")


def test_a_name_of_ten_thousand_characters_keeps_its_end_and_is_bounded():
    html = cell_report_html(HOSTILE)
    assert len(html) < 10_000
    assert "nnn…nnn" in Page(html).text


def test_the_page_never_sets_the_colour_of_its_text_or_ground():
    plain = cell_report_html(UNKNOWN)
    assert [] == re.findall(r"(?<!-)color:#|background:#", plain)


def test_the_figures_of_the_text_are_in_the_page():
    page = Page(cell_report_html(TRAINED)).text
    for said in (
        "[7]",
        "train one epoch",
        "3.10 GiB",
        "39 % of 7.93 GiB",
        "512 MiB",
        "812 MiB",
        "+300 MiB stayed",
        "300 MiB in 16 storages made here",
        "224 MiB",
        "O optimizer state",
        "opt.state[*]['exp_avg']",
        "64.0 MiB made by earlier cells",
        "torch reserves 1.00 GiB → 4.00 GiB of the device",
    ):
        assert said in page


def test_a_screen_reader_gets_the_report_in_a_sentence():
    labels = [
        value for key, value in Page(cell_report_html(TRAINED)).attributes if key == "aria-label"
    ]
    figures = "peak 3.10 GiB, 39 % of 7.93 GiB, start 512 MiB, end 812 MiB, +300 MiB stayed"
    assert [f"Cell [7] train one epoch: ok, 4.2 s, cuda:0; cuda:0 {figures}", figures] == labels


def test_the_bar_is_start_then_what_stayed_then_the_peak():
    widths = re.findall(r"width:([\d.]+)%", cell_report_html(TRAINED))
    assert ["6.31", "3.69", "29.09"] == widths  # of 7.93 GiB: 512 MiB, 300 MiB, up to 3.10 GiB


def test_on_the_cpu_the_whole_bar_is_the_peak():
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", cell_report_html(ON_CPU))]
    assert 100 == pytest.approx(sum(widths), abs=0.02)


def test_an_error_is_told_with_its_message_as_a_title():
    html = cell_report_html(FAILED)
    assert "error · ValueError · run 3" in Page(html).text
    assert ("title", "ValueError: batch of 0\\nrows") in Page(html).attributes


def test_a_bundle_holds_both_and_is_the_same_each_time():
    bundle = report_bundle(TRAINED)
    assert ["text/plain", "text/html"] == list(bundle)
    assert bundle == report_bundle(TRAINED)


def test_tables_are_whole_and_escaped():
    inventory = Inventory(HOSTILE.created, 0.0)
    page = Page(tensors_bundle(inventory)["text/html"])
    assert "<img src=x onerror=alert(1)>" in page.text
    assert 4 == page.tags.count("tr")
    assert 1 + len(SAMPLES) == Page(history_table_html(list(SAMPLES.values()))).tags.count("tr")
    assert "No tensor is alive." == tensors_bundle(Inventory((), 0.0))["text/plain"]


def test_each_category_has_its_own_colour_and_letter():
    assert list(CATEGORIES) == list(COLOURS) == list(LETTERS) == list(INKS)
    assert ["P", "B", "G", "O", "S", "U", "?"] == [letter_of(kind) for kind in CATEGORIES]
    assert 7 == len({colour_of(kind) for kind in CATEGORIES})
    assert ("?", "#999999") == (letter_of("new word"), colour_of("new word"))


def _luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_letter_reads_on_its_colour(category):
    low, high = sorted((_luminance(COLOURS[category]), _luminance(INKS[category])))
    assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG AA
