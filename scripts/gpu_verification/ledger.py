"""The rows of docs/gpu-ledger.md: which tests each names, and what a run makes of its cell.

    | what | verified by | simulated | emulated | a GPU |

A cell has one entry a card (the column `a GPU`) or a release of torch (`emulated`), `; ` between:

    2026-11-22, NVIDIA H200, driver 580.1, torch 2.11.0, CUDA 13.0
    FAILED 2026-11-22, NVIDIA H200, …: test_a: AssertionError
    partly 2026-11-22, NVIDIA H200, …: 2 of 3; this machine has one GPU
    not run 2026-11-22, NVIDIA H200, …: this machine has one GPU

What ran decides, and a failure is always written. What did not run takes nothing away: a pass of
the same card stays. On emulated cards only the column `emulated` is written, where a release that
passed keeps its first date.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpu_verification.cards import Platform
    from gpu_verification.results import Outcome, Results

QUICKSTART = "examples/run_quickstart.py"
"""Its id in the results: it is no test."""
_EMULATED, _GPU = 3, 4
"""Places of the two columns in a row."""
_NONE_YET = " **Nothing has run on a GPU yet.**"
_NOTHING_YET = ("no", "unverified", "")
_CELL = re.compile(r"(?<!\\)\|")
_COMMAND = re.compile(r"`(pytest|make) ([^`]+)`")
_KINDS = "FAILED |partly |not run "
_ENTRY = {
    _GPU: re.compile(rf"(?P<kind>{_KINDS}|)(?P<date>\d{{4}}-\d\d-\d\d), (?P<key>.+?), driver .*"),
    _EMULATED: re.compile(
        rf"(?P<kind>{_KINDS}|)(?P<key>\d[\w.]*), (?P<date>\d{{4}}-\d\d-\d\d)(?P<remark>.*)"
    ),
}
_LONGEST = 160

Verdict = Literal["passed", "failed", "partly", "not run", "by hand"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tests that a row names: those of a file whose name has one of the words."""

    path: str
    words: tuple[str, ...] = ()
    """Empty: all of the file."""

    def has(self, test: str) -> bool:
        """Returns whether `test`, pytest's id, is one of them."""
        path, _, name = test.partition("::")
        name = name.lower()
        return path == self.path and (
            not self.words or any(word.lower() in name for word in self.words)
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the ledger."""

    number: int
    """Of its line in the page, from 0."""
    what: str
    verified_by: str
    selection: Selection | None
    """None if it is verified by hand."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a run says of one row."""

    row: Row
    verdict: Verdict
    reason: str = ""


def read_rows(page: str) -> list[Row]:
    """Returns the rows of the ledger's table.

    Raises:
        ValueError: a row names tests in a way that can't be read.
    """
    rows = []
    for number, line in enumerate(page.splitlines()):
        cells = [cell.strip() for cell in _CELL.split(line)]
        if len(cells) == 7 and cells[1] != "what" and not cells[1].startswith("---"):
            rows.append(Row(number, cells[1], cells[2], read_selection(cells[2])))
    return rows


def read_selection(verified_by: str) -> Selection | None:
    """Returns the tests that a cell `verified by` names; None if it says `by hand`.

    Raises:
        ValueError: it is neither, or its `-k` is not words with `or` between.
    """
    if verified_by.startswith("by hand: "):
        return None
    command = _COMMAND.match(verified_by)
    words = shlex.split(command[2]) if command else []
    if command and command[1] == "make" and words == ["demo"]:
        return Selection(QUICKSTART)
    if command and command[1] == "pytest" and len(words) == 1:
        return Selection(words[0])
    if command and command[1] == "pytest" and len(words) == 3 and words[1] == "-k":
        alternatives = words[2].split(" or ")
        if all(re.fullmatch(r"\w+", word) for word in alternatives):
            return Selection(words[0], tuple(alternatives))
    raise ValueError(
        f'{verified_by!r} can\'t be read: write `pytest FILE -k "word or word"`, `make demo`, or '
        "by hand: …"
    )


def judge(row: Row, results: Results) -> Judgement:
    """Returns what a run says of one row: passed only if each of its tests ran and passed."""
    if row.selection is None:
        return Judgement(row, "by hand")
    found = {name: one for name, one in results.outcomes.items() if row.selection.has(name)}
    failed = [name for name, one in found.items() if one.status == "failed"]
    if failed:
        reason = f"{_short(failed[0])}: {found[failed[0]].reason}"
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return Judgement(row, "failed", reason + more)
    passed = [name for name, one in found.items() if one.status == "passed"]
    if found and len(passed) == len(found):
        return Judgement(row, "passed")
    reason = _why_not(row.selection, found, results)
    if passed:
        return Judgement(row, "partly", f"{len(passed)} of {len(found)}; {reason}")
    return Judgement(row, "not run", reason)


def _why_not(selection: Selection, found: Mapping[str, Outcome], results: Results) -> str:
    reasons = dict.fromkeys(one.reason for one in found.values() if one.status != "passed")
    told = [reason for reason in reasons if reason]
    if selection.path in results.broken:
        told.insert(0, results.broken[selection.path])
    return ", ".join(told) or "no such test was found"


def _short(test: str) -> str:
    return test.rpartition("::")[2]


def write_page(page: str, judgements: list[Judgement], platform: Platform, date: str) -> str:
    """Returns the page with the cells of one column as a run on `platform` makes them.

    All else stays as it is, to the byte, but for the sentence that nothing has run on a GPU.
    """
    column = _EMULATED if platform.emulated else _GPU
    lines = page.splitlines(keepends=True)
    for one in judgements:
        if one.verdict != "by hand":
            lines[one.row.number] = _with_cell(lines[one.row.number], column, one, platform, date)
    written = "".join(lines)
    ran = any(one.verdict in {"passed", "failed", "partly"} for one in judgements)
    return written.replace(_NONE_YET, "") if ran and column == _GPU else written


def _with_cell(line: str, column: int, one: Judgement, platform: Platform, date: str) -> str:
    bars = [bar.start() for bar in _CELL.finditer(line)]
    start, end = bars[column] + 1, bars[column + 1]
    cell = line[start:end].strip()
    return f"{line[:start]} {new_cell(cell, column, one, platform, date)} {line[end:]}"


def new_cell(cell: str, column: int, one: Judgement, platform: Platform, date: str) -> str:
    """Returns a row's cell with the entry of this platform in it."""
    entries = [entry for entry in cell.split("; ") if entry not in _NOTHING_YET]
    key = _plain(platform.torch if column == _EMULATED else platform.card)
    matches = [_ENTRY[column].fullmatch(entry) for entry in entries]
    remark = _remark(matches) if column == _EMULATED else ""
    written = _entry(column, one, platform, date, remark if one.verdict == "passed" else "")
    for number, match in enumerate(matches):
        if match and match["key"] == key:
            if not _stays(match["kind"].strip(), column, one.verdict):
                entries[number] = written
            return "; ".join(entries)
    return "; ".join([*entries, written])


def _remark(matches: list[re.Match[str] | None]) -> str:
    """Returns what stands after the date of a pass: on another release the same holds."""
    passes = (match["remark"] for match in matches if match and not match["kind"])
    return next((remark for remark in passes if remark), "")


def _stays(kind: str, column: int, verdict: Verdict) -> bool:
    """Returns whether an entry of the same card or release is worth more than the new one."""
    if verdict == "failed":
        return False
    if verdict == "passed":
        return kind == "" and column == _EMULATED  # the day it was first seen
    worth = {"not run": 0, "partly": 1, "FAILED": 2, "": 3}
    return worth[kind] > worth[verdict]


def _entry(column: int, one: Judgement, platform: Platform, date: str, remark: str) -> str:
    kind = {"passed": "", "failed": "FAILED "}.get(one.verdict, f"{one.verdict} ")
    if column == _EMULATED:
        head = f"{kind}{_plain(platform.torch)}, {date}{remark}"
    else:
        driver = platform.driver or "unknown"
        head = f"{kind}{date}, {_plain(platform.card)}, driver {_plain(driver)}, "
        head += f"torch {_plain(platform.torch)}, {_plain(platform.runtime)}"
    return f"{head}: {_plain(one.reason)}" if one.reason else head


def _plain(text: str) -> str:
    """Returns a text that can't break the table: one line, no bars, no `; `."""
    plain = " ".join(text.replace("|", "/").replace(";", ",").replace("`", "'").split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
