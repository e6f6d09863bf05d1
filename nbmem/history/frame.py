"""Records to a data frame: tidy, one row for each record and device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbmem.errors import MissingPackageError
from nbmem.records import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from nbmem.records import CellRecord, DeviceDelta

_ALIVE = {category: f"alive_{category.replace(' ', '_')}" for category in CATEGORIES}
"""Column of what is alive at the end, by category: `alive_optimizer_state`."""
_BYTES = (
    "before",
    "after",
    "delta",
    "peak",
    "created",
    "freed",
    "resized",
    "unattributed",
    "reserved_before",
    "reserved_after",
    "capacity",
    "older",
    "growth_per_run",
    *_ALIVE.values(),
)
_COUNTS = ("serial", "execution_count", "run", "steps", "parent")
_COLUMNS = (
    "serial",
    "execution_count",
    "cell_id",
    "label",
    "first_line",
    "run",
    "started_at",
    "seconds",
    "status",
    "error",
    "steps",
    "parent",
    "device",
    *_BYTES,
    "look_seconds",
)


def to_frame(records: Sequence[CellRecord]) -> pd.DataFrame:
    """Returns a data frame with a row for each record and device; sizes are bytes.

    Raises:
        MissingPackageError: pandas is not there.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingPackageError(
            "to_pandas() needs pandas; install it with: pip install pandas"
        ) from None
    frame = pd.DataFrame([row for record in records for row in _rows(record)], columns=_COLUMNS)
    frame["started_at"] = pd.to_datetime(frame["started_at"], unit="s", utc=True)
    for column in ("seconds", "look_seconds"):
        frame[column] = frame[column].astype("float64")
    return frame.astype(dict.fromkeys([*_BYTES, *_COUNTS], "Int64"))


def _rows(record: CellRecord) -> list[dict[str, Any]]:
    cell = {
        "serial": record.serial,
        "execution_count": record.execution_count,
        "cell_id": record.cell_id,
        "label": record.label,
        "first_line": record.first_line,
        "run": record.run,
        "started_at": record.started_at,
        "seconds": record.seconds,
        "status": record.status,
        "error": record.error,
        "steps": None if record.steps is None else record.steps.count,
        "parent": record.parent,
        "look_seconds": record.look_seconds,
    }
    if not record.devices:
        return [cell]
    return [cell | _device(record, name, delta) for name, delta in record.devices.items()]


def _device(record: CellRecord, name: str, delta: DeviceDelta) -> dict[str, Any]:
    # Where nothing was listed, what a cell created and freed is unknown, not 0.
    listed = delta.unattributed is not None
    created = sum(storage.bytes for storage in record.created if storage.device == name)
    return {
        "device": name,
        "before": delta.before,
        "after": delta.after,
        "delta": delta.delta,
        "peak": delta.peak,
        "created": created if listed else None,
        "freed": record.freed.get(name, 0) if listed else None,
        "resized": record.resized.get(name, 0) if listed else None,
        "unattributed": delta.unattributed,
        "reserved_before": delta.reserved_before,
        "reserved_after": delta.reserved_after,
        "capacity": delta.capacity,
        "older": None if record.trend is None else record.trend.older.get(name),
        "growth_per_run": None if record.trend is None else record.trend.growth_per_run.get(name),
        **_alive(record.alive.get(name)),
    }


def _alive(sizes: dict[str, int] | None) -> dict[str, int | None]:
    return {
        column: None if sizes is None else sizes.get(category, 0)
        for category, column in _ALIVE.items()
    }
