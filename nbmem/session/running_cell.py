"""A cell between its events: what is known of it while it runs, and how far its end has come."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbmem.records import CellRecord, Note
    from nbmem.session.endings import Ending
    from nbmem.session.recorder import OpenRecord
    from nbmem.session.request import CellRequest

_FIRST_LINE_LIMIT = 200


@dataclass(slots=True, eq=False)
class RunningCell:
    """One `pre_run_cell` that has not seen its `post_run_cell`; unrecorded ones count too."""

    info: Any
    number: int | None = None
    """The n of its `[n]`; None where it is not stored."""
    request: CellRequest | None = None
    opened: OpenRecord | None = None
    started: float = field(default_factory=time.perf_counter)
    begun: bool = False
    """Its beginning came to its end: nothing of it was swallowed by IPython's events."""
    confirmed: bool = False
    """That was looked at, and not interrupted either."""

    @property
    def cell_id(self) -> str | None:
        """The front end's id of the cell; None where it sends none."""
        found: str | None = getattr(self.info, "cell_id", None)
        return found

    @property
    def title(self) -> str:
        """The label the user gave, else the first line of the cell."""
        label = None if self.request is None else self.request.label
        return label or first_line(self.info.raw_cell)


@dataclass(slots=True, eq=False)
class EndingCell:
    """One `post_run_cell`, as far as it came before an interrupt."""

    result: Any
    cell: RunningCell | None = None
    found: bool = False
    released: bool = False
    how: Ending | None = None
    record: CellRecord | None = None
    kept: bool = False
    told: bool = False
    over: bool = False
    notes: list[Note] = field(default_factory=list)


def only_asks(raw_cell: str) -> bool:
    """Returns whether a cell does nothing but look through nbmem, which makes nothing older."""
    lines = [line.strip() for line in raw_cell.splitlines() if line.strip()]
    return all(line.startswith(("%gpumem", "%config NbMem", "#")) for line in lines)


def identity(info: Any) -> str:
    """Returns what tells a cell from others, the same each time it runs."""
    cell_id: str | None = getattr(info, "cell_id", None)
    return cell_id or hashlib.sha256(info.raw_cell.encode("utf-8", "replace")).hexdigest()


def same_cell(started: Any, ended: Any) -> bool:
    """Returns whether two of IPython's `info` objects are about one run of a cell."""
    # IPython hands over another object when the runner itself raised; the text is then all there is
    return started is ended or started.raw_cell == ended.raw_cell


def first_line(raw_cell: str) -> str:
    """Returns the first line of code of a cell, cut where it is very long."""
    lines = [line.strip() for line in raw_cell.splitlines() if line.strip()]
    code = [line for line in lines if not line.startswith("%%")]
    return (code or lines or [""])[0][:_FIRST_LINE_LIMIT]
