"""A pytest plugin that writes what happened line by line, so that a crash loses no outcome.

`pytest -p gpu_verification.results`, with `NBMEM_RESULTS` naming the file: one JSON object a line.
`read_results` makes of it one outcome a test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["passed", "failed", "skipped", "not run"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test."""

    status: Status
    reason: str = ""
    """Why it was skipped, failed or did not run, in a line."""
    seconds: float = 0.0


@dataclass(slots=True)
class Results:
    """Every test that was collected, and what became of it."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By pytest's id: `tests/gpu/test_counters.py::test_a`."""
    broken: dict[str, str] = field(default_factory=dict)
    """Files that could not be collected, each with the reason."""


def read_results(lines: Iterable[str]) -> Results:
    """Returns the outcomes in a file of this plugin's; a line that was cut off ends it.

    A test has passed only if its setup, call and teardown are there and passed.
    """
    results = Results()
    phases: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            break
        if event["event"] == "collected":
            phases |= {name: {} for name in event["ids"]}
        elif event["event"] == "broken":
            results.broken[event["id"]] = event["reason"]
        else:
            phases.setdefault(event["id"], {})[event["when"]] = event
    results.outcomes = {name: _outcome(of) for name, of in phases.items()}
    return results


def _outcome(phases: dict[str, dict[str, Any]]) -> Outcome:
    seconds = sum(phase["seconds"] for phase in phases.values())
    for status in ("failed", "skipped"):
        reasons = [phase["reason"] for phase in phases.values() if phase["outcome"] == status]
        if reasons:
            return Outcome(status, reasons[0], seconds)
    if {"setup", "call", "teardown"} <= phases.keys():
        return Outcome("passed", "", seconds)
    return Outcome("not run", "the run ended before it did", seconds)


def _write(event: dict[str, Any]) -> None:
    with open(os.environ["NBMEM_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def pytest_collection_finish(session: Any) -> None:
    """Writes which tests there are."""
    _write({"event": "collected", "ids": [item.nodeid for item in session.items]})


def pytest_collectreport(report: Any) -> None:
    """Writes which file could not be read."""
    if report.failed:
        _write({"event": "broken", "id": report.nodeid, "reason": _last_line(report)})
    elif report.skipped:
        _write({"event": "broken", "id": report.nodeid, "reason": _skip_reason(report)})


def pytest_runtest_logreport(report: Any) -> None:
    """Writes the outcome of a test's setup, call or teardown."""
    reason = ""
    if report.skipped:
        reason = getattr(report, "wasxfail", None) or _skip_reason(report)
    elif report.failed:
        reason = _last_line(report)
    _write(
        {
            "event": "report",
            "id": report.nodeid,
            "when": report.when,
            "outcome": report.outcome,
            "reason": reason,
            "seconds": round(report.duration, 3),
        }
    )


def _skip_reason(report: Any) -> str:
    told = report.longrepr
    text = told[2] if isinstance(told, tuple) else str(told)
    return text.removeprefix("Skipped: ")


def _last_line(report: Any) -> str:
    """Returns the error in a line, without the traceback."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = lines[:1] if crash is not None else lines[-1:]
    return (chosen or ["no reason was told"])[0].removeprefix("E ").strip()
