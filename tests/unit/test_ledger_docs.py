"""What docs/ledger.md prints adds up, and names the lines that there are."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text("utf-8")
EXAMPLES = [
    sum_
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for sum_ in block.strip().split("\n\n")
]


@pytest.mark.parametrize("printed", EXAMPLES, ids=lambda printed: printed.splitlines()[0][:30])
def test_the_lines_of_each_example_add_up_to_its_total(printed):
    lines, total = printed.split("──────────────────────")
    figures = [
        int(figure.replace(",", ""))
        for line in lines.splitlines()[1:]
        if "of it" not in line
        for figure in re.findall(r"([\d,]+)$", line)
    ]
    (whole,) = [int(f.replace(",", "")) for f in re.findall(r"([\d,]{4,})$", total, re.MULTILINE)]
    assert 2 <= len(figures)
    assert sum(figures) == whole


def test_both_a_cpu_and_a_gpu_are_worked_through():
    assert 6 == len(EXAMPLES)
