"""Measures things side by side: interleaved rounds, CPU time, medians with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


class Unmeasured(Exception):  # noqa: N818 - no error: the table on the page stays
    """This machine lacks what the table is about."""


@dataclass(frozen=True)
class Timing:
    """CPU seconds of one contestant, one number a round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    def milliseconds(self) -> str:
        """Median with the least and the most of all rounds."""
        low, high = min(self.seconds) * 1e3, max(self.seconds) * 1e3
        return f"{self.median * 1e3:.3g} [{low:.3g}–{high:.3g}]"

    def ratio_to(self, other: Timing) -> str:
        """Median of the rounds' own ratios: a machine that slows down slows both."""
        ratios = [mine / its for mine, its in zip(self.seconds, other.seconds, strict=True)]
        return f"{statistics.median(ratios):.2f}"


def interleave(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Returns the CPU time of each contestant; every round runs all of them, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            started = time.process_time()
            run()
            spent = time.process_time() - started
            if number:  # the first round warms up
                seconds[name].append(spent)
    return {name: Timing(tuple(found)) for name, found in seconds.items()}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table with its columns in line."""
    cells = [list(columns), *[list(row) for row in rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
