"""Which line of the running cell made each large storage, read off the stack as it is made."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from nbmem.heap import StorageTable

LARGE = 64 * 1024
"""Bytes from which on a storage is worth a walk up the stack."""
_MANY = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The code whose lines are told: that of a cell, or the one that has a `with` statement."""

    files: dict[str, int] = field(default_factory=dict)
    """The names under which a cell was compiled, and how many lines of the cell stand above."""
    code: CodeType | None = None
    """The code in which the `with` statement stands."""

    def line_of(self, frame: FrameType | None) -> int | None:
        """Returns the line at which this code is, for what happens in `frame`; None: not in it.

        Of a cell that is the outermost frame, so that what `train()` makes is the line of the cell
        that called it.
        """
        code, files = self.code, self.files
        line = None
        while frame is not None:
            runs = frame.f_code
            if runs is code:
                return frame.f_lineno
            above = files.get(runs.co_filename)
            if above is not None:
                line = None if frame.f_lineno is None else frame.f_lineno + above
                if runs.co_name == "<module>":
                    break
            frame = frame.f_back
        return line


class AllocationLines:
    """The lines of what was made since a place was followed; no frame is kept."""

    def __init__(self, table: StorageTable) -> None:
        self._table = table
        self._places: tuple[Place, ...] = ()
        self._lines: dict[int, int] = {}
        self._prune_at = _MANY

    def follow(self, place: Place) -> None:
        """Tells lines of `place` from now on."""
        self._places = (*self._places, place)

    def leave(self, place: Place) -> None:
        """Ends `follow`; with the last place all lines are forgotten."""
        self._places = tuple(other for other in self._places if other is not place)
        if not self._places:
            self._lines = {}

    def note(self, serial: int) -> None:
        """Notes the line at which the code that was followed last is now."""
        if not self._places:
            return
        line = self._places[-1].line_of(sys._getframe(1))
        if line is not None:
            self._lines[serial] = line
            if len(self._lines) > self._prune_at:
                self._prune()

    def find(self, serial: int) -> int | None:
        """Returns the line that made a storage; None where nobody saw."""
        return self._lines.get(serial)

    def _prune(self) -> None:
        lines = self._lines
        self._lines = {
            ref.serial: lines[ref.serial] for ref in self._table.live() if ref.serial in lines
        }
        self._prune_at = max(_MANY, 2 * len(self._lines))
