"""Bytes to text: three digits, one unit a column, nothing that looks like zero but is not."""

import pytest

from nbmem.units import (
    column_unit,
    format_bytes,
    format_change,
    format_count,
    format_elapsed,
    format_seconds,
    format_share,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("?", None),
        ("0 B", 0),
        ("1 B", 1),
        ("1.00 KiB", 1024),
        ("9.99 KiB", 10230),
        ("10.0 KiB", 10 * KIB),
        ("100 KiB", 100 * KIB),
        ("1.00 MiB", MIB - 1),
        ("3.10 GiB", 3328599654),
        ("−5.00 MiB", -5 * MIB),
        ("1.00 PiB", 2**50),
        ("2048 PiB", 2**61),
    ],
)
def test_a_size_has_three_digits_and_one_unit(text, size):
    assert text == format_bytes(size)


def test_si_units_count_in_thousands():
    assert "1.02 kB" == format_bytes(1024, "SI")
    assert "1.07 GB" == format_bytes(GIB, "SI")


def test_a_change_has_its_sign():
    expected = ["+300 MiB", "−12.0 KiB", "±0 B", "?"]
    assert expected == [format_change(n) for n in (300 * MIB, -12 * KIB, 0, None)]


def test_a_column_takes_the_unit_of_its_largest():
    unit = column_unit([3 * GIB, 512 * MIB, None, 0, 5, -256 * MIB])
    texts = [unit.format(size) for size in (3 * GIB, 512 * MIB, None, 0, 5, -256 * MIB)]
    assert ("GiB", ["3.00", "0.50", "?", "0", "<0.01", "−0.25"]) == (unit.suffix, texts)


def test_a_column_of_small_sizes_beside_one_large_is_readable():
    unit = column_unit([2 * GIB, 4 * MIB, 3 * MIB, 2 * MIB])
    assert ["2,048 MiB", "4 MiB"] == [f"{unit.format(n)} {unit.suffix}" for n in (2 * GIB, 4 * MIB)]


def test_half_a_step_is_not_told_as_nothing():
    unit = column_unit([140 * 2**20, 2**19])
    assert ["140", "<1", "0"] == [unit.format(size) for size in (140 * 2**20, 2**19, 0)]


def test_a_column_of_changes_is_signed():
    unit = column_unit([300 * MIB, -12 * MIB])
    assert ["+300", "−12", "0"] == [unit.format(n, signed=True) for n in (300 * MIB, -12 * MIB, 0)]


def test_an_empty_column_counts_bytes():
    assert ("B", "0") == (column_unit([]).suffix, column_unit([None, 0]).format(0))


@pytest.mark.parametrize(
    ("text", "part"), [("39 %", 39), ("0.4 %", 0.4), ("under 0.1 %", 0.01), ("0.0 %", 0)]
)
def test_a_share_is_told_as_people_say_it(text, part):
    assert text == format_share(part, 100)


def test_a_count_agrees_with_its_noun():
    expected = ["1 storage", "10,000 steps", "2 copies"]
    assert expected == [
        format_count(1, "storage"),
        format_count(10_000, "step"),
        format_count(2, "copy", "copies"),
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("85 µs", 85e-6),
        ("12 ms", 0.012),
        ("1.0 s", 0.9999),
        ("4.2 s", 4.2),
        ("1 min 0 s", 59.96),
        ("3 min 5 s", 185),
        ("1 h 0 min", 3599.6),
        ("2 h 3 min", 7380),
    ],
)
def test_a_duration_is_told_as_people_say_it(text, seconds):
    assert text == format_seconds(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.3 s", 0.39),
        ("9.9 s", 9.99),
        ("10 s", 10.0),
        ("12 s", 12.9),
        ("59 s", 59.99),
        ("1 min 0 s", 60.7),
        ("3 min 5 s", 185.2),
        ("2 h 3 min", 7380),
    ],
)
def test_what_runs_still_is_told_by_the_time_that_has_passed(text, seconds):
    assert text == format_elapsed(seconds)
