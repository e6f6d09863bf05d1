"""What README.md and docs/leaks.md print about leaks is what nbmem says."""

import re
from pathlib import Path

import pytest
from leak_cases import CASES

from nbmem.leaks import explain_holder, explain_kind
from nbmem.records import LEAK_HOLDERS, LEAK_KINDS

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "leaks.md").read_text("utf-8").split())
README = (ROOT / "README.md").read_text("utf-8")


def rows_of(text, first):
    """Returns the rows of a table, by the code in their first column."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    return {code: rest for code, rest in rows if code in first}


README_ROWS = rows_of(README, LEAK_KINDS)
PAGE_ROWS = rows_of((ROOT / "docs" / "leaks.md").read_text("utf-8"), LEAK_HOLDERS)


def says(text, case):
    """Returns whether a text has the reason of a case, and each line of its remedy."""
    return case.world.leak().reason in text and all(
        line.strip() in text for line in case.world.leak().remedy.splitlines()
    )


@pytest.mark.parametrize("kind", LEAK_KINDS)
def test_the_readme_and_the_page_tell_a_leak_of_each_kind_as_nbmem_does(kind):
    of_kind = [case for case in CASES if case.kind == kind]
    assert any(says(README_ROWS[kind], case) for case in of_kind)
    section = PAGE.partition(f"### `{kind}`")[2].partition("###")[0]
    assert explain_kind(kind) in section
    told = [case for case in of_kind if says(section, case)]
    assert any(f"costs: {case.world.leak().cost or 'nothing'}" in section for case in told)


@pytest.mark.parametrize("holder", LEAK_HOLDERS)
def test_the_page_tells_a_leak_of_each_holder_as_nbmem_does(holder):
    row = PAGE_ROWS[holder]
    assert explain_holder(holder) in row
    told = [case for case in CASES if case.holder == holder and says(row, case)]
    assert any(row.endswith(f" | {case.world.leak().cost or 'nothing'}") for case in told)


def test_each_kind_and_holder_has_one_row_in_the_order_of_the_records():
    assert list(LEAK_KINDS) == list(README_ROWS)
    assert list(LEAK_HOLDERS) == list(PAGE_ROWS)
