"""Each record to a file as it comes, so that the history outlives a kernel that is killed."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

from nbmem.history.files import append_record, resolve, turn_over
from nbmem.records import Note

if TYPE_CHECKING:
    from nbmem.records import CellRecord


LARGEST = 64 * 1024**2
"""Bytes at which an autosaved file is put aside as `NAME.1` and a new one begins."""


class Autosave:
    """Writes records to one file; what fails becomes a note, never an exception.

    A block that runs many times is one record that is put again and again. It is written when its
    count of runs reaches a power of two and before any new record, so that ten thousand runs make
    fifteen lines, and a killed kernel loses at most half of the count.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = resolve(path)
        self.note: Note | None = self._foresee()
        self._session: str | None = None
        self._waiting: dict[int, CellRecord] = {}
        atexit.register(self.flush)

    def put(self, record: CellRecord, *, again: bool) -> None:
        """Writes `record`; one that was put before (`again`) may wait."""
        if again and not _is_due(record):
            self._waiting[record.serial] = record
            return
        self._waiting.pop(record.serial, None)
        if not again:
            self.flush()
        self._write(record)

    def flush(self) -> None:
        """Writes what waits."""
        while self._waiting:
            serial = next(iter(self._waiting))
            self._write(self._waiting.pop(serial))

    def close(self) -> None:
        """Writes what waits and ends."""
        self.flush()
        atexit.unregister(self.flush)

    def _write(self, record: CellRecord) -> None:
        if self._session is None:
            self._session = f"{os.getpid()}@{record.started_at}"
        try:
            turn_over(self.path, LARGEST)
            append_record(self.path, self._session, record)
        except OSError as error:
            self.note = self._failed(error.strerror or str(error))
        else:
            self.note = None

    def _foresee(self) -> Note | None:
        """Returns why the path can't be written, as far as can be told before the first record."""
        path = self.path
        if path.is_dir():
            return self._failed("it is a folder")
        if not path.parent.is_dir():
            return self._failed(f"there is no folder {path.parent}")
        place = path if path.exists() else path.parent
        return None if os.access(place, os.W_OK) else self._failed("no permission to write")

    def _failed(self, reason: str) -> Note:
        return Note(
            field="autosave",
            code="not_written",
            sentence=f"The history is not autosaved: {self.path} can't be written "
            f"({reason}); set %config NbMem.autosave to another path.",
        )


def _is_due(record: CellRecord) -> bool:
    if record.steps is None:
        return True
    count = record.steps.count
    return count & (count - 1) == 0
