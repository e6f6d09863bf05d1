"""Rows on their way to a page: all of them once, afterwards only those that the page lacks.

Every message has a number, and the number of the message that it builds upon; a page that missed
that one asks for everything. `rows.js` is the other end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.panel.jumps import CellPlace

    Lists = Mapping[str, Sequence[Any]]

PLACES = "places"
"""Name of the list of `CellPlace`s; a message has each cell's id once."""
FRESH = -1


class RowStream:
    """Makes the messages about one list of rows."""

    def __init__(self) -> None:
        self._number = 0
        self._keys: Sequence[int] = ()
        self._head: dict[str, Any] = {}
        self._lists: Lists = {}

    def follow(self, keys: Sequence[int], head: dict[str, Any], lists: Lists) -> bytes:
        """Returns the message that leads from what was followed before to this.

        Args:
            keys: one a row; where two are the same, all rows are sent.
            head: what is sent as it is.
            lists: by name, each with an entry a row.
        """
        before, after = self._rows(), _rows(keys, lists)
        comparable = self._lists.keys() == lists.keys() and len(after) == len(keys)
        runs = shared_runs(before, after) if comparable else [[FRESH, len(keys)]]
        base = self._number if any(first != FRESH for first, _count in runs) else 0
        self._keys, self._head, self._lists = keys, head, lists
        self._number += 1
        return self._message(base, runs)

    def whole(self) -> bytes:
        """Returns the message that has everything."""
        return self._message(0, [[FRESH, len(self._keys)]])

    def _rows(self) -> dict[int, tuple[Any, ...]]:
        return _rows(self._keys, self._lists)

    def _message(self, base: int, runs: list[list[int]]) -> bytes:
        fresh = _fresh_positions(runs)
        lists = {
            name: [values[at] for at in fresh]
            for name, values in {**self._lists, "keys": self._keys}.items()
        }
        ids = _shorten_places(lists)
        told = {"number": self._number, "base": base, "head": self._head}
        told |= {"runs": runs, "lists": lists, "ids": ids}
        text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        return text.encode(errors="replace")


def _rows(keys: Sequence[int], lists: Lists) -> dict[int, tuple[Any, ...]]:
    """Returns each row's values by its key, in order."""
    values = zip(*lists.values(), strict=True) if lists else iter([()] * len(keys))
    return dict(zip(keys, values, strict=True))


def shared_runs(
    before: Mapping[int, tuple[Any, ...]], after: Mapping[int, tuple[Any, ...]]
) -> list[list[int]]:
    """Returns how `after` is put together: `[position in before or FRESH, number of rows]`."""
    positions = {key: at for at, key in enumerate(before)}
    runs: list[list[int]] = []
    for key, row in after.items():
        at = positions[key] if before.get(key) == row else FRESH
        last = runs[-1] if runs else None
        if last and (at == last[0] == FRESH or (last[0] != FRESH and at == last[0] + last[1])):
            last[1] += 1
        else:
            runs.append([at, 1])
    return runs


def _fresh_positions(runs: list[list[int]]) -> list[int]:
    positions: list[int] = []
    at = 0
    for first, count in runs:
        if first == FRESH:
            positions += range(at, at + count)
        at += count
    return positions


def _shorten_places(lists: dict[str, list[Any]]) -> list[str]:
    """Puts `[index of its id or -1, number, serial]` for each place; returns the ids."""
    places: list[CellPlace | None] | None = lists.get(PLACES)
    if places is None:
        return []
    ids: dict[str, int] = {}
    lists[PLACES] = [
        place and [_index(place.cell_id, ids), place.number, place.serial] for place in places
    ]
    return list(ids)


def _index(cell_id: str | None, ids: dict[str, int]) -> int:
    return -1 if cell_id is None else ids.setdefault(cell_id, len(ids))
