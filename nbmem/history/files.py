"""Histories on disk.

A saved history is one JSON object: `{"format": "nbmem history", "schema": 1, "records": […]}`.
An autosaved one has an object a line, each complete in itself, so that a process killed while it
writes spoils one line, and kernels that share a file can be told apart:
`{"format": "nbmem history", "schema": 1, "session": "…", "record": {…}}`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbmem.errors import HistoryFileError
from nbmem.records import SCHEMA, CellRecord, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "nbmem history"
_LINE_START = json.dumps({"format": FORMAT})[:-1]


def resolve(path: str | os.PathLike[str]) -> Path:
    """Returns `path` with `~` and symbolic links followed: what is replaced is their target."""
    return Path(os.path.realpath(os.path.expanduser(path)))


def write_history(path: Path, records: Sequence[CellRecord]) -> None:
    """Writes `records` in place of what `path` held; at every moment one of both is whole.

    Raises:
        HistoryFileError: it can't be written there; an older file is as it was.
    """
    lines = ",\n".join(json.dumps(to_json(record)) for record in records)
    text = f'{_LINE_START}, "schema": {SCHEMA}, "records": [\n{lines}\n]}}\n'
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(draft, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        why = error.strerror or error
        raise HistoryFileError(
            f"{path} can't be written ({why}); save to another path, for example "
            '"~/nbmem-history.json".'
        ) from error


def append_record(path: Path, session: str, record: CellRecord) -> None:
    """Adds one line to an autosaved history.

    It is flushed to the system, not to the disk: a process that is killed loses nothing, and no
    cell waits for a slow disk.

    Raises:
        OSError: it can't be written there.
    """
    entry = {"format": FORMAT, "schema": SCHEMA, "session": session, "record": to_json(record)}
    line = json.dumps(entry).encode("ascii") + b"\n"
    with open(path, "a+b", buffering=0) as file:
        if _ends_torn(file):
            line = b"\n" + line
        file.write(line)


def turn_over(path: Path, limit: int) -> None:
    """Renames an autosaved history of `limit` bytes or more to `NAME.1`, in place of an older one.

    Raises:
        OSError: it can't be renamed.
    """
    with suppress(FileNotFoundError):
        if path.stat().st_size >= limit:
            path.replace(path.with_name(f"{path.name}.1"))


def _ends_torn(file: Any) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) != b"\n")


def read_history(path: Path) -> tuple[list[list[CellRecord]], int]:
    """Returns the records of `path`, a list for each session, and how many lines were torn.

    Raises:
        HistoryFileError: it is missing, broken, newer, or no history.
    """
    text = _read_text(path)
    first = text.lstrip()[: len(_LINE_START)]
    if not first.startswith(_LINE_START) and not _is_object(text):
        raise HistoryFileError(
            f"{path} is not a history that nbmem saved; give the path that was passed to save()."
        )
    try:
        return _read_whole(path, json.loads(text)), 0
    except (json.JSONDecodeError, RecursionError):
        return _read_lines(path, text)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HistoryFileError(
            f"{path} is not there; list its folder, or save a history first with save()."
        ) from None
    except UnicodeDecodeError:
        raise HistoryFileError(
            f"{path} is not a history that nbmem saved: it is not text; give another path."
        ) from None
    except OSError as error:
        raise HistoryFileError(
            f"{path} can't be read ({error.strerror or error}); give another path."
        ) from error


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (json.JSONDecodeError, RecursionError):
        return False


def _read_whole(path: Path, data: dict[str, Any]) -> list[list[CellRecord]]:
    _check_head(path, data)
    if "record" in data:
        return [[_record(path, data["record"], "line 1")]]
    records = data.get("records")
    if not isinstance(records, list):
        raise _broken(path, "it has no list of records")
    return [[_record(path, item, f"record {n}") for n, item in enumerate(records, 1)]]


def _read_lines(path: Path, text: str) -> tuple[list[list[CellRecord]], int]:
    sessions: dict[str, dict[int, CellRecord]] = {}
    torn = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        data = _line(line)
        if data is None and not (line.startswith(_LINE_START) or _LINE_START.startswith(line)):
            raise _broken(path, f"line {number} is no record")
        if data is None:
            torn += 1
            continue
        _check_head(path, data)
        record = _record(path, data.get("record"), f"line {number}")
        sessions.setdefault(str(data.get("session")), {})[record.serial] = record
    if not sessions:
        raise _broken(path, "it ends in the middle")
    return [list(session.values()) for session in sessions.values()], torn


def _line(line: str) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _check_head(path: Path, data: dict[str, Any]) -> None:
    if data.get("format") != FORMAT:
        raise HistoryFileError(
            f"{path} is not a history that nbmem saved; give the path that was passed to save()."
        )
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise _broken(path, "its schema number is missing")
    if schema > SCHEMA:
        raise HistoryFileError(
            f"{path} was saved by a newer nbmem (schema {schema}, this one reads up to {SCHEMA}); "
            "upgrade with: pip install --upgrade nbmem"
        )


def _record(path: Path, data: Any, where: str) -> CellRecord:
    try:
        return from_json(CellRecord, data)
    except (ValueError, RecursionError) as error:
        raise _broken(path, f"{where}: {error}") from None


def _broken(path: Path, why: str) -> HistoryFileError:
    return HistoryFileError(
        f"{path} is broken ({why}) and nothing was loaded; load another copy of it."
    )
