"""scripts/verify-gpu: a row is verified only by tests that ran and passed, on what they ran on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_verification import cards, results
from gpu_verification.cards import Platform, is_emulated
from gpu_verification.ledger import Judgement, judge, read_rows, read_selection, write_page
from gpu_verification.results import Outcome, Results, read_results

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "gpu-ledger.md"
H200 = Platform(("NVIDIA H200",), "580.1", "2.11.0", "CUDA 13.0", emulated=False)
TWO_4090 = Platform(("RTX 4090", "RTX 4090"), None, "2.12.1", "CUDA 12.8", emulated=False)
EMULATED = Platform(("NVIDIA Emulated",) * 2, None, "2.12.1", "CUDA 13.0", emulated=True)
PAGE = """# GPU ledger

Text with | bars | and a `pytest tests/gpu/test_a.py`.

| what | verified by | simulated | emulated | a GPU |
|---|---|---|---|---|
| sums | `pytest tests/gpu/test_a.py -k "counts or sums"` | `x` | 2.11.0, 2026-11-01, so | unverified |
| cells | `pytest tests/gpu/test_a.py -k cells` | no | no | unverified |
| all of b | `pytest tests/gpu/test_b.py` | no | 2.11.0, 2026-11-01 | unverified |
| the quickstart | `make demo` with a CUDA build of torch | no | no | unverified |
| the panel | by hand: look at it | no | no | unverified |

The end.
"""  # noqa: E501


def outcomes(**by_name):
    """`a_counts=passed`: the test `tests/gpu/test_a.py::test_counts` passed."""
    return Results(
        {
            f"tests/gpu/test_{name[0]}.py::test_{name[2:]}": Outcome(*told)
            if isinstance(told, tuple)
            else Outcome(told)
            for name, told in by_name.items()
        }
    )


def written(found, platform=H200, date="2026-11-22", page=PAGE):
    judged = [judge(row, found) for row in read_rows(page)]
    return write_page(page, judged, platform, date)


def cell(page, what, column):
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {what} |")]
    return line.split("|")[column].strip()


def gpu(page, what):
    return cell(page, what, 5)


def emulated(page, what):
    return cell(page, what, 4)


PASSED_ON_H200 = "2026-11-22, NVIDIA H200, driver 580.1, torch 2.11.0, CUDA 13.0"


def test_a_row_is_verified_by_all_its_tests_with_date_card_driver_torch_and_cuda():
    page = written(outcomes(a_counts="passed", a_sums_too="passed", a_cells="passed"))
    assert PASSED_ON_H200 == gpu(page, "sums") == gpu(page, "cells")


def test_a_test_that_failed_is_told_with_its_reason_whatever_else_passed():
    found = outcomes(a_counts="passed", a_sums=("failed", "AssertionError: assert 3 == 4"))
    told = gpu(written(found), "sums")
    assert f"FAILED {PASSED_ON_H200}: test_sums: AssertionError: assert 3 == 4" == told


def test_a_row_whose_tests_were_skipped_says_why_and_is_not_verified():
    found = outcomes(a_counts=("skipped", "this machine has one GPU"), a_sums="passed")
    page = written(found)
    assert f"partly {PASSED_ON_H200}: 1 of 2, this machine has one GPU" == gpu(page, "sums")
    found = outcomes(a_cells=("skipped", "no nvidia-smi"))
    assert f"not run {PASSED_ON_H200}: no nvidia-smi" == gpu(written(found), "cells")


def test_a_row_whose_tests_do_not_exist_or_broke_is_not_verified():
    assert gpu(written(Results()), "cells").endswith(": no such test was found")
    broken = Results(broken={"tests/gpu/test_b.py": "ModuleNotFoundError: hypothesis"})
    assert gpu(written(broken), "all of b").endswith(": ModuleNotFoundError: hypothesis")
    told = gpu(written(outcomes(b_x="passed", b_y=("not run", "time was up"))), "all of b")
    assert told.startswith("partly ")
    assert told.endswith(": 1 of 2, time was up")


def test_rows_by_hand_and_all_else_stay_as_they_are_to_the_byte():
    page = written(outcomes(a_counts="passed"))
    before, after = PAGE.splitlines(keepends=True), page.splitlines(keepends=True)
    changed = [number for number, line in enumerate(before) if line != after[number]]
    assert [6, 7, 8, 9] == changed  # the rows by test; those without an outcome say `not run`
    assert "unverified" == gpu(page, "the panel")
    for number in changed:
        assert before[number].rpartition("| unverified")[0] == after[number][: -len(
            after[number].rpartition(" | ")[2]) - 3] + " "  # fmt: skip


def test_no_carriage_return_or_missing_last_newline_is_mended():
    page = PAGE.replace("\n", "\r\n").rstrip()
    after = write_page(page, [], H200, "2026-11-22")
    assert page == after


def test_emulated_cards_never_write_the_column_of_gpus_nor_gpus_that_of_emulated_cards():
    found = outcomes(a_counts="passed", a_sums="failed", a_cells="passed", b_x="passed")
    on_emulated = written(found, EMULATED)
    assert PAGE.count("| unverified |") == on_emulated.count("| unverified |")
    on_gpu = written(found, H200)
    for row in read_rows(PAGE):
        assert emulated(PAGE, row.what) == emulated(on_gpu, row.what)


def test_the_emulated_column_keeps_the_first_day_of_each_release_and_what_is_said_beside():
    found = outcomes(a_counts="passed", a_cells="passed", b_x="passed")
    found.outcomes["examples/run_quickstart.py"] = Outcome("passed")
    page = written(found, EMULATED)
    assert "2.11.0, 2026-11-01, so; 2.12.1, 2026-11-22, so" == emulated(page, "sums")
    assert "2.12.1, 2026-11-22" == emulated(page, "cells")
    assert "2.11.0, 2026-11-01; 2.12.1, 2026-11-22" == emulated(page, "all of b")
    assert page == written(found, EMULATED, "2026-12-31", page)


def test_writing_twice_is_writing_once():
    found = outcomes(a_counts="passed", a_cells=("skipped", "why"), b_x=("failed", "so"))
    for platform in (H200, TWO_4090, EMULATED):
        once = written(found, platform)
        assert once == written(found, platform, page=once)


def test_a_second_card_is_told_beside_the_first_and_a_later_run_in_its_place():
    found = outcomes(a_cells="passed")
    page = written(found, TWO_4090, page=written(found))
    other = "2026-11-22, 2 × RTX 4090, driver unknown, torch 2.12.1, CUDA 12.8"
    assert f"{PASSED_ON_H200}; {other}" == gpu(page, "cells")
    later = written(found, H200, "2026-12-01", page)
    assert f"{PASSED_ON_H200.replace('11-22', '12-01')}; {other}" == gpu(later, "cells")


@pytest.mark.parametrize("platform", [H200, EMULATED])
def test_what_did_not_run_takes_no_pass_away_and_a_failure_always_does(platform):
    read = emulated if platform.emulated else gpu
    passed = written(outcomes(a_cells="passed"), platform)
    skipped = written(outcomes(a_cells=("skipped", "why")), platform, page=passed)
    assert read(passed, "cells") == read(skipped, "cells")
    failed = written(outcomes(a_cells=("failed", "why")), platform, "2026-12-01", passed)
    assert read(failed, "cells").startswith("FAILED ")
    assert "2026-12-01" in read(failed, "cells")
    still = written(outcomes(a_cells=("skipped", "why")), platform, page=failed)
    assert read(failed, "cells") == read(still, "cells")
    again = written(outcomes(a_cells="passed"), platform, page=failed)
    assert read(passed, "cells") == read(again, "cells")


def test_a_reason_or_a_name_can_not_break_the_table():
    hostile = Platform(("A|B; `C`\nD",), "1;2", "2.11.0", "CUDA 13.0", emulated=False)
    found = outcomes(a_cells=("failed", "assert 'a | b; c'\nsecond line" + "x" * 500))
    page = written(found, hostile)
    assert len(PAGE.splitlines()) == len(page.splitlines())
    assert [row.what for row in read_rows(PAGE)] == [row.what for row in read_rows(page)]
    assert page == written(found, hostile, page=page)


def test_the_page_says_that_nothing_ran_on_a_gpu_until_something_did():
    said = " **Nothing has run on a GPU yet.**"
    assert 1 == LEDGER.read_text("utf-8").count(said)
    page = PAGE.replace("The end.", f"A GPU.{said}")
    found = outcomes(a_cells="failed")
    assert said in written(outcomes(a_cells="skipped"), H200, page=page)
    assert said in written(found, EMULATED, page=page)
    assert written(found, H200, page=page).endswith("A GPU.\n")


def test_the_quickstart_is_a_row_too():
    found = Results({"examples/run_quickstart.py": Outcome("passed")})
    assert PASSED_ON_H200 == gpu(written(found), "the quickstart")


# What a row says.


@pytest.mark.parametrize(
    "told",
    [
        "",
        "somebody looked",
        "`pytest tests/gpu/test_a.py -k 'not x'`",
        "`pytest tests/gpu/test_a.py -k 'a and b'`",
        "`pytest -m gpu tests/gpu -v`",
        "`make test`",
    ],
)
def test_a_row_that_names_no_tests_that_can_be_found_is_refused(told):
    with pytest.raises(ValueError, match="can't be read"):
        read_selection(told)


def test_words_are_looked_for_in_the_tests_name_not_in_its_files():
    selection = read_selection("`pytest tests/gpu/test_gpu_park.py -k 'gpu or Adam'`, then look")
    assert selection.has("tests/gpu/test_gpu_park.py::test_on_adam[x]")
    assert not selection.has("tests/gpu/test_gpu_park.py::test_other")
    assert not selection.has("tests/gpu/test_gpu_parked.py::test_on_adam")


@pytest.mark.parametrize("row", read_rows(LEDGER.read_text("utf-8")), ids=lambda row: row.what[:40])
def test_each_row_of_the_ledger_names_tests_that_there_are_or_says_by_hand(row):
    if row.selection is None:
        return
    text = (ROOT / row.selection.path).read_text("utf-8")
    names = re.findall(r"^def (test_\w+)", text, re.MULTILINE)
    for word in row.selection.words:
        assert any(word.lower() in name.lower() for name in names), word
        assert word not in row.selection.path


def test_every_test_of_tests_gpu_is_named_by_a_row():
    rows = [row.selection for row in read_rows(LEDGER.read_text("utf-8")) if row.selection]
    for path in sorted((ROOT / "tests" / "gpu").glob("test_*.py")):
        file = path.relative_to(ROOT).as_posix()
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE):
            assert any(row.has(f"{file}::{name}") for row in rows), name


def test_the_ledger_has_no_row_that_is_neither_by_test_nor_by_hand():
    page = LEDGER.read_text("utf-8")
    table = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(read_rows(page)) == len(table) - 1
    assert page == write_page(page, [judge_nothing(row) for row in read_rows(page)], H200, "-")


def judge_nothing(row):
    return Judgement(row, "by hand")


# What ran.


def event(name, when, outcome="passed", reason=""):
    report = {"id": name, "when": when, "outcome": outcome, "reason": reason, "seconds": 1.0}
    return json.dumps({"event": "report"} | report)


PHASES = ("setup", "call", "teardown")


def phases(name, *outcomes_):
    return [event(name, when, one) for when, one in zip(PHASES, outcomes_, strict=False)]


def test_only_a_test_that_passed_to_its_end_has_passed():
    lines = [
        json.dumps({"event": "collected", "ids": list("abcdef")}),
        *phases("a", "passed", "passed", "passed"),
        *phases("b", "passed", "passed", "failed"),
        *phases("c", "passed", "passed"),  # a crash in teardown
        *phases("d", "passed"),
        *phases("e", "skipped"),
        '{"event": "report", "id": "f", "when": "ca',
        *phases("f", "passed", "passed", "passed"),
    ]
    told = {name: one.status for name, one in read_results(lines).outcomes.items()}
    expected = ["passed", "failed", "not run", "not run", "skipped", "not run"]
    assert dict(zip("abcdef", expected, strict=True)) == told


SUITE = """
import os, pytest
def test_passes(): pass
def test_fails(): assert 3 == 4
def test_skips(): pytest.skip("this machine has one GPU")
@pytest.mark.skipif(True, reason="no card | here")
def test_is_skipped(): pass
@pytest.mark.xfail(strict=True)
def test_is_expected_to_fail(): assert False
@pytest.fixture
def broken(): raise OSError("no such device")
def test_has_a_broken_fixture(broken): pass
@pytest.fixture
def breaks_later():
    yield
    raise OSError("left behind")
def test_leaves_something(breaks_later): pass
def test_ends_the_process(): os._exit(3)
def test_comes_too_late(): pass
"""


@pytest.fixture
def run(tmp_path):
    def run_pytest(text):
        (tmp_path / "test_s.py").write_text(text)
        report = tmp_path / "report"
        plugin = ["-p", results.__name__, "-p", "no:cacheprovider", "-c", "none.ini"]
        (tmp_path / "none.ini").write_text("[pytest]\n")
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugin, "test_s.py"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT / "scripts"), "NBMEM_RESULTS": str(report), "PATH": ""},
            capture_output=True,
            timeout=120,
        )
        return read_results(report.read_text().splitlines())

    return run_pytest


def test_what_pytest_really_says_is_read_up_to_a_crash(run):
    found = run(SUITE).outcomes
    told = {name.partition("test_s.py::test_")[2]: one for name, one in found.items()}
    assert {
        "passes": "passed",
        "fails": "failed",
        "skips": "skipped",
        "is_skipped": "skipped",
        "is_expected_to_fail": "skipped",
        "has_a_broken_fixture": "failed",
        "leaves_something": "failed",
        "ends_the_process": "not run",
        "comes_too_late": "not run",
    } == {name: one.status for name, one in told.items()}
    assert "this machine has one GPU" == told["skips"].reason
    assert "no card | here" == told["is_skipped"].reason
    assert "assert 3 == 4" in told["fails"].reason
    assert "OSError: no such device" == told["has_a_broken_fixture"].reason


def test_a_file_that_can_not_be_imported_is_told(run):
    found = run("import a_package_that_nobody_has")
    assert {} == found.outcomes
    (reason,) = found.broken.values()
    assert "a_package_that_nobody_has" in reason


# What it ran on.


def test_emulated_cards_are_known_by_their_library_or_their_name(monkeypatch):
    loaded = []
    monkeypatch.setattr(cards, "_library_is_loaded", lambda: bool(loaded))
    for name in [name for name in os.environ if name.startswith("EMULATED_CUDA_")]:
        monkeypatch.delenv(name)
    assert not is_emulated(("NVIDIA H200",))
    assert is_emulated(("NVIDIA H200", "NVIDIA Emulated"))
    monkeypatch.setenv("EMULATED_CUDA_NAME", "NVIDIA H200")
    with pytest.raises(RuntimeError, match="EMULATED_CUDA_NAME is set, but these cards are not"):
        is_emulated(("NVIDIA H200",))
    loaded.append("libemulatedcuda.so")
    assert is_emulated(("NVIDIA H200",))


def test_a_machine_without_a_card_is_told_what_to_do(tmp_path):
    ledger = tmp_path / "ledger.md"
    ledger.write_text(PAGE)
    command = [ROOT / "scripts" / "verify-gpu", "--ledger", ledger, "--out", tmp_path / "out"]
    environment = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert 2 == done.returncode
    assert "sees no GPU here: set PYTHON to an interpreter with a CUDA build" in done.stdout
    assert PAGE == ledger.read_text()
    assert not (tmp_path / "out").exists()
