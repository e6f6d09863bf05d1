"""What runs on the cards: a file of tests at a time, the quickstart, the recordings."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpu_verification.cards import Platform
from gpu_verification.ledger import QUICKSTART
from gpu_verification.results import Outcome, Results, Status, read_results

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK_NEEDS = ("nbclient", "nbformat", "ipykernel", "sklearn")
OUTPUT, RECORDINGS = "output.txt", "recordings"
_TIME_IS_UP = "time was up"


def prepare(scratch: Path) -> tuple[dict[str, str], Platform | None]:
    """Returns the environment of all that runs, and what it runs on: None, and why is printed.

    Emulated cards are two, compute, and share their use through a file, unless settings say
    otherwise.
    """
    environment = dict(os.environ)
    platform = _ask_platform(environment)
    if platform is not None and platform.emulated:
        settings = {
            "EMULATED_CUDA_DEVICES": "2",
            "EMULATED_CUDA_VALUES": "1",
            "EMULATED_CUDA_CARD": str(scratch / "card"),
        }
        environment = settings | environment
        if "EMULATED_CUDA_DEVICES" not in os.environ:  # more cards than were told
            platform = _ask_platform(environment)
    return environment, platform


def _ask_platform(environment: Mapping[str, str]) -> Platform | None:
    command = [sys.executable, "-m", "gpu_verification.cards"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        print((done.stderr.strip().splitlines() or ["torch can't be started."])[-1])
        return None
    told = json.loads(done.stdout.splitlines()[-1])
    return Platform(**(told | {"cards": tuple(told["cards"])}))


def run_path(
    path: str, words: Sequence[str], environment: dict[str, str], scratch: Path, seconds: float
) -> Results:
    """Returns the outcomes of a file of tests, or of the quickstart; what it prints is kept.

    Args:
        path: from the repository's root.
        words: of the tests that are wanted; none for all.
        environment: for the process.
        scratch: where the output goes.
        seconds: after which it is killed: what ended before counts.
    """
    if path == QUICKSTART:
        return Results({path: _run_quickstart(environment, scratch, seconds)})
    if seconds <= 0:
        return Results(broken={path: _TIME_IS_UP})
    report = scratch / "report.jsonl"
    report.unlink(missing_ok=True)
    chosen = ["-k", " or ".join(words)] if words else []
    # Without addopts: a plugin that the ini file speaks of may be missing here.
    command = [sys.executable, "-m", "pytest", "-p", "gpu_verification.results"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=-ra", path, *chosen]
    status = _run(command, environment | {"NBMEM_RESULTS": str(report)}, scratch, seconds)
    lines = report.read_text("utf-8").splitlines() if report.exists() else []
    results = read_results(lines)
    if status is None:
        results.outcomes = {
            name: one if one.status != "not run" else Outcome("not run", _TIME_IS_UP)
            for name, one in results.outcomes.items()
        }
    if not results.outcomes and path not in results.broken:
        ended = f"pytest ended with {status} before it had any test"
        results.broken[path] = _TIME_IS_UP if status is None else ended
    return results


def _run_quickstart(environment: Mapping[str, str], scratch: Path, seconds: float) -> Outcome:
    missing = [name for name in NOTEBOOK_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        return Outcome("not run", f"{', '.join(missing)} not installed")
    if seconds <= 0:
        return Outcome("not run", _TIME_IS_UP)
    begin = _length(scratch / OUTPUT)
    status = _run([sys.executable, QUICKSTART], environment, scratch, seconds)
    said = (scratch / OUTPUT).read_text("utf-8")[begin:]
    if status is None:
        return Outcome("not run", _TIME_IS_UP)
    if status:
        return Outcome("failed", (said.strip().splitlines() or ["nothing was printed"])[-1])
    on_card: Status = "passed" if "cuda:0" in said else "failed"
    return Outcome(on_card, "" if on_card == "passed" else "no report speaks of cuda:0")


def _length(path: Path) -> int:
    return len(path.read_text("utf-8")) if path.exists() else 0


def record(scratch: Path, environment: dict[str, str], seconds: float) -> dict[str, str]:
    """Makes the recordings; returns the scenes that are missing, with the reason."""
    folder = scratch / RECORDINGS
    folder.mkdir(exist_ok=True)
    if seconds <= 0:
        return {"all": _TIME_IS_UP}
    said = scratch / OUTPUT
    begin = _length(said)
    command = [sys.executable, "-m", "gpu_verification.recordings", str(folder)]
    if "EMULATED_CUDA_VALUES" in environment:  # they would be in the stacks
        environment = environment | {"EMULATED_CUDA_VALUES": "0"}
    status = _run(command, environment, scratch, seconds)
    if status == 0:
        return {}
    lines = said.read_text("utf-8")[begin:].strip().splitlines()
    told = [line.partition(" was not recorded: ") for line in lines]
    missing = {scene: reason for scene, _, reason in told if reason}
    return missing or {"the rest": _TIME_IS_UP if status is None else (lines or ["?"])[-1]}


def _run(
    command: Sequence[str], environment: Mapping[str, str], scratch: Path, seconds: float
) -> int | None:
    """Returns how a command of its own process group ended; None: it was killed for its time."""
    with open(scratch / OUTPUT, "a", encoding="utf-8") as output:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
