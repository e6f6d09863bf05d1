"""The history: a bounded list of cell records, newest last."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from nbmem.errors import NameNotFoundError
from nbmem.history.autosave import Autosave
from nbmem.history.compare import compare_records
from nbmem.history.files import read_history, resolve, write_history
from nbmem.history.frame import to_frame
from nbmem.history.trim import trim
from nbmem.records import Note

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from nbmem.records import CellComparison, CellRecord


class History:
    """Cell records in the order of their serials; the oldest go when there are too many.

    Records of this session have serials from 1 up; those that `load` brought come before them
    with serials below 0, the newest of them -1 after the first load. Kept records are small: see
    `nbmem.history.trim`. It may be read from any thread.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._records: dict[int, CellRecord] = {}
        self.lock = threading.RLock()
        """Held while records are read or changed."""
        self._autosave: Autosave | None = None
        self._load_notes: tuple[Note, ...] = ()

    # Reading.

    def records(self) -> tuple[CellRecord, ...]:
        """Returns all records in the order in which they began; a block comes after its cell."""
        with self.lock:
            return tuple(sorted(self._records.values(), key=_serial))

    def last(self) -> CellRecord | None:
        """Returns the record that ended last; None where there is none."""
        with self.lock:
            return next(reversed(self._records.values()), None)

    def get(self, serial: int) -> CellRecord | None:
        """Returns the record with this serial; None where it is gone or was never there."""
        with self.lock:
            return self._records.get(serial)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[CellRecord]:
        return iter(self.records())

    def __repr__(self) -> str:
        return f"<History: {len(self)} of at most {self._limit} records>"

    @property
    def next_serial(self) -> int:
        """A serial above all that are kept."""
        with self.lock:
            return max(0, *self._records) + 1 if self._records else 1

    @property
    def limit(self) -> int:
        """Records that are kept."""
        return self._limit

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is wrong with the autosave at present, and what the last `load` left out."""
        saving = self._autosave.note if self._autosave is not None else None
        return self._load_notes if saving is None else (saving, *self._load_notes)

    # Writing: only the session does.

    def put(self, record: CellRecord) -> None:
        """Adds `record`, in place of an earlier state with the same serial if there is one."""
        small = trim(record)
        with self.lock:
            again = record.serial in self._records
            self._records[record.serial] = small
            self._drop_oldest()
        if self._autosave is not None:
            self._autosave.put(small, again=again)

    append = put
    replace = put

    def set_limit(self, limit: int) -> None:
        """Keeps at most `limit` records from now on."""
        with self.lock:
            self._limit = limit
            self._drop_oldest()

    def autosave_to(self, path: str | os.PathLike[str] | None) -> None:
        """Writes each later record to `path` as it comes; None ends it.

        Records are added to what the file holds; `load` reads it. What can't be written becomes
        one of `notes`.
        """
        if self._autosave is not None:
            self._autosave.close()
        self._autosave = None if path is None else Autosave(path)

    def _drop_oldest(self) -> None:
        while len(self._records) > self._limit:
            del self._records[next(iter(self._records))]

    # Files and tables.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all records to `path` as JSON, in place of what it held.

        Raises:
            HistoryFileError: it can't be written there; an older file is as it was.
        """
        write_history(resolve(path), self.records())

    def load(self, path: str | os.PathLike[str]) -> int:
        """Returns how many records it added from a saved or autosaved file.

        They come before all others and get serials below 0; those that are here already are left
        out, and so are the oldest where there is no room within the limit.

        Raises:
            HistoryFileError: it is missing, broken, newer or no history; nothing changed.
        """
        sessions, torn = read_history(resolve(path))
        with self.lock:
            added = self._add_past(sessions)
        self._load_notes = (_torn(torn),) if torn else ()
        return added

    def _add_past(self, sessions: list[list[CellRecord]]) -> int:
        present = {_identity(record) for record in self._records.values()}
        top = min([0, *self._records]) - 1
        past: list[CellRecord] = []
        for session in sorted(sessions, key=_start, reverse=True):
            new = [record for record in session if _identity(record) not in present]
            present.update(map(_identity, new))
            past[:0] = moved = _moved(new, top)
            top = min((record.serial for record in moved), default=top + 1) - 1
        room = max(self._limit - len(self._records), 0)
        kept = past[len(past) - min(room, len(past)) :]
        self._records = {r.serial: r for r in [*map(trim, kept), *self._records.values()]}
        return len(kept)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a data frame with a row for each record and device; sizes are bytes.

        Raises:
            MissingPackageError: pandas is not there.
        """
        return to_frame(self.records())

    def compare(self, first: CellRecord | int, second: CellRecord | int) -> CellComparison:
        """Returns what changed between two records; each is given itself or by its serial.

        Raises:
            NameNotFoundError: there is no record with this serial.
        """
        return compare_records(self._find(first), self._find(second))

    def _find(self, wanted: CellRecord | int) -> CellRecord:
        if not isinstance(wanted, int):
            return wanted
        record = self.get(wanted)
        if record is None:
            raise NameNotFoundError(
                f"No record has the serial {wanted}: records() lists those that are kept."
            )
        return record


def _serial(record: CellRecord) -> int:
    return record.serial


def _identity(record: CellRecord) -> tuple[float, int | None, str, str | None]:
    # Serials change when a history is loaded, and the seconds of a block as it runs again.
    return record.started_at, record.execution_count, record.first_line, record.label


def _start(session: list[CellRecord]) -> float:
    return min((record.started_at for record in session), default=0.0)


def _moved(records: Iterable[CellRecord], top: int) -> list[CellRecord]:
    """Returns `records` in order, the newest with serial `top` and the others as far below it."""
    ordered = sorted(records, key=lambda record: record.serial)
    if not ordered:
        return []
    shift = top - ordered[-1].serial
    return [_shifted(record, shift) for record in ordered]


def _shifted(record: CellRecord, shift: int) -> CellRecord:
    created = tuple(
        replace(s, created_in=None if s.created_in is None else s.created_in + shift)
        for s in record.created
    )
    parent = None if record.parent is None else record.parent + shift
    return replace(record, serial=record.serial + shift, parent=parent, created=created)


def _torn(lines: int) -> Note:
    what = "One line was" if lines == 1 else f"{lines} lines were"
    return Note("load", "torn", f"{what} cut off where the process was killed, and left out.")
