"""Runs what docs/gpu-ledger.md lists on this machine's cards, and writes its rows."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from datetime import date
from pathlib import Path
from time import monotonic

from gpu_verification.cards import Platform
from gpu_verification.ledger import Judgement, Row, judge, read_rows, write_page
from gpu_verification.packing import pack
from gpu_verification.results import Results
from gpu_verification.running import ROOT, prepare, record, run_path

NEEDS = ("torch", "pytest", "IPython", "psutil")
_SAYS_NONE = "No real GPU has"
FOR_RECORDINGS = 60.0
"""Seconds kept for what comes after the tests."""


def main() -> int:
    """Returns 0 if all that ran has passed, 1 if anything failed, 2 if nothing could run."""
    asked, began = _arguments(), monotonic()
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"{sys.executable} lacks {', '.join(missing)}: in an environment with a CUDA build of "
            "torch, pip install -e '.[test-cuda,nvml,examples]', and name its python by PYTHON."
        )
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        environment, platform = prepare(Path(scratch))
        if platform is None:
            return 2
        return _verify(asked, Path(scratch), environment, platform, began)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/verify-gpu", description=__doc__)
    out, ledger = ROOT / "gpu-verification", ROOT / "docs" / "gpu-ledger.md"
    parser.add_argument("--out", type=Path, default=out, help="folder of the archive to send")
    parser.add_argument("--ledger", type=Path, default=ledger, help="the page to run and write")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows that have this text")
    parser.add_argument("--minutes", type=float, default=10, help="what is not done then is left")
    parser.add_argument("--no-recordings", action="store_true", help="tests only")
    return parser.parse_args()


def _verify(
    asked: argparse.Namespace,
    scratch: Path,
    environment: dict[str, str],
    platform: Platform,
    began: float,
) -> int:
    end = began + 60 * asked.minutes
    page = asked.ledger.read_bytes().decode()  # as its lines end
    rows = [row for row in read_rows(page) if asked.only in row.what]
    print(f"{_where(platform)}, torch {platform.torch}, {platform.runtime}", flush=True)
    results = _run_rows(rows, environment, scratch, end - FOR_RECORDINGS)
    missing = {} if asked.no_recordings else record(scratch, environment, end - monotonic())
    judgements = [judge(row, results) for row in rows]
    today = date.today().isoformat()
    asked.ledger.write_bytes(write_page(page, judgements, platform, today).encode())
    _summarize(judgements, missing)
    archive = pack(asked.out, scratch, asked.ledger, platform, results, judgements, today)
    minutes = (monotonic() - began) / 60
    column = "emulated" if platform.emulated else "a GPU"
    print(f"\n{minutes:.1f} minutes. {asked.ledger}: column '{column}' is written.")
    print(f"To send: {archive}")
    if not platform.emulated and _SAYS_NONE in (ROOT / "README.md").read_text("utf-8"):
        print(f"README.md still says {_SAYS_NONE!r}: change it, too.")
    if any(one.verdict == "failed" for one in judgements):
        return 1
    return 0 if any(one.verdict in {"passed", "partly"} for one in judgements) else 2


def _where(platform: Platform) -> str:
    return f"{platform.card} (EMULATED, no GPU)" if platform.emulated else platform.card


def _run_rows(rows: list[Row], environment: dict[str, str], scratch: Path, end: float) -> Results:
    results, began = Results(), monotonic()
    selections = [row.selection for row in rows if row.selection]
    for path in dict.fromkeys(selection.path for selection in selections):
        of_path = [selection.words for selection in selections if selection.path == path]
        words = sorted({word for words in of_path for word in words}) if all(of_path) else []
        print(f"  {path} …", end=" ", flush=True)
        one = run_path(path, words, environment, scratch, end - monotonic())
        results.outcomes |= one.outcomes
        results.broken |= one.broken
        statuses = [outcome.status for outcome in one.outcomes.values()]
        counted = [f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses)]
        told = ", ".join([*counted, *one.broken.values()]) or "nothing ran"
        print(f"{told} ({monotonic() - began:.0f} s)", flush=True)
    return results


def _summarize(judgements: list[Judgement], missing: dict[str, str]) -> None:
    print()
    for verdict in ("passed", "failed", "partly", "not run", "by hand"):
        those = [one for one in judgements if one.verdict == verdict]
        print(f"{len(those):3} rows {verdict}")
        for one in those if verdict != "passed" else ():
            print(f"      {one.row.what}: {one.reason or one.row.verified_by}")
    for scene, reason in missing.items():
        print(f"not recorded: {scene}: {reason}")


if __name__ == "__main__":
    raise SystemExit(main())
