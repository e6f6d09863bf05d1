"""Cells that ran again: copies of earlier runs, and what grows from run to run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import median_low
from typing import TYPE_CHECKING

from nbmem.leaks import remedies, words
from nbmem.leaks.findings import Finding, largest_of, name_of, path_of, root_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nbmem.leaks.moment import CellRuns, Moment
    from nbmem.records import Holders

_OF_MODELS = frozenset({"parameter", "buffer"})
_TELLING = 3
"""Runs that make a growth: two may be a start."""
_LAST = 6


def is_old_copy(keys: Sequence[int], kind: str, moment: Moment) -> bool:
    """Returns whether storages are what an older run made, and a newer run has made anew.

    Where parameters and buffers are among them, these tell: gradients and optimizer state of the
    old model go with it. A shown tensor is IPython's copy in the first place, not the cell's.
    """
    of_models = [key for key in keys if moment.records[key].category in _OF_MODELS]
    if not of_models and kind == "stale_output":
        return False
    return all(_copy_of(key, moment) in moment.made_anew for key in of_models or keys)


def _copy_of(key: int, moment: Moment) -> tuple[int, str] | None:
    """Returns (cell, name) of what an older run made; None where no older run did."""
    origin = moment.origin_of(key)
    for run in origin.runs if origin is not None and origin.made_as else ():
        known = moment.runs.get(run.cell)
        if known is not None and run.run < known.latest and origin is not None:
            return run.cell, origin.made_as
    return None


def with_growth(findings: Sequence[Finding], moment: Moment) -> list[Finding]:
    """Returns the findings, with the bytes a run of those that a growing cell adds to.

    What several runs of one cell left with one kind of holder counts together: five entries of the
    output cache are one growth.
    """
    cells = _growing_cells(moment)
    alike: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    places = [(f.kind, f.holder, _cell_of(f.keys, cells, moment)) for f in findings]
    for place, finding in zip(places, findings, strict=True):
        alike[place] += finding.keys
    growths = {
        place: None if place[2] is None else _growth(place[2], keys, moment)
        for place, keys in alike.items()
    }
    return [
        replace(finding, growth=finding.growth or growths[place])
        for place, finding in zip(places, findings, strict=True)
    ]


def _cell_of(keys: Sequence[int], cells: Sequence[int], moment: Moment) -> int | None:
    """Returns the growing cell of which runs made all of the storages."""
    for cell in cells:
        if all(moment.run_of(key, cell) is not None for key in keys):
            return cell if _grows(moment.runs[cell], keys, moment) else None
    return None


def _growth(cell: int, keys: Sequence[int], moment: Moment) -> int | None:
    made = {key: run for key in keys if (run := moment.run_of(key, cell)) is not None}
    return _per_run(made, moment) if len(set(made.values())) > 1 else None


def _grows(known: CellRuns, keys: Iterable[int], moment: Moment) -> bool:
    devices = {moment.records[key].device for key in keys}
    return any(known.growth.get(device, 0) > 0 for device in devices)


def _per_run(made: dict[int, int], moment: Moment) -> int:
    """Returns the bytes of a usual run, of the last few."""
    sums: dict[int, int] = defaultdict(int)
    for key, run in made.items():
        sums[run] += moment.records[key].bytes
    return median_low([sums[run] for run in sorted(sums)[-_LAST:]])


@dataclass(frozen=True, slots=True)
class _Growth:
    """What runs of one cell left in one variable."""

    name: str
    container: str
    """In which all of it stands; empty where none is written."""
    keys: tuple[int, ...]
    """Of the part that older runs made."""
    made: dict[int, int]
    """Storage to the run that made it, the newest run's included."""


def find_growing(holders: Holders, moment: Moment) -> Iterator[Finding]:
    """Yields what named values gather from run to run: the part that older runs made."""
    others = {held.key for held in holders.held if not held.wanted} | set(holders.bounded)
    growths = [
        growth
        for cell in _growing_cells(moment)
        for growth in _growths_in(moment.runs[cell], others, moment)
    ]
    lines = _lines_of(growths, moment)
    for growth in growths:
        yield _growing(growth, lines.get(growth.container, ""), moment)


def _lines_of(growths: Sequence[_Growth], moment: Moment) -> dict[str, str]:
    """Returns the code for each container, once for all that is to go from it: items move up."""
    together: dict[str, list[_Growth]] = defaultdict(list)
    for growth in growths:
        if growth.container:
            together[growth.container].append(growth)
    lines = {}
    for container, all_in in together.items():
        older = {key for growth in all_in for key in growth.keys}
        newest = {key for growth in all_in for key in growth.made} - older
        gone, kept = ([name_of(moment, key) for key in keys] for keys in (older, newest))
        lines[container] = remedies.take_out(container, gone, kept)
    return lines


def _growing_cells(moment: Moment) -> list[int]:
    """Returns the cells that ran often enough and grew on some device, by their numbers."""
    return [
        cell
        for cell, known in sorted(moment.runs.items())
        if known.latest >= _TELLING and any(size > 0 for size in known.growth.values())
    ]


def _growths_in(known: CellRuns, others: set[int], moment: Moment) -> Iterator[_Growth]:
    variables: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for key in moment.free(moment.records):
        record = moment.records[key]
        if key in others or not record.names or known.growth.get(record.device, 0) <= 0:
            continue
        if (run := moment.run_of(key, known.cell)) is not None:
            variables[root_of(record.names[0]), record.device][key] = run
    for (name, _), made in sorted(variables.items()):
        older = [key for key, run in made.items() if run < known.latest]
        if len(set(made.values())) >= _TELLING and older:
            container = _container_of([name_of(moment, key) for key in made])
            yield _Growth(name, container, moment.take(older), made)


def _growing(growth: _Growth, line: str, moment: Moment) -> Finding:
    keys, container = growth.keys, growth.container
    place = container or growth.name
    return Finding(
        kind="growing",
        holder="container",
        keys=keys,
        path=path_of(name_of(moment, largest_of(moment, keys))),
        cuts=(place,),
        reason=words.say_growing(place),
        remedy=line or (f"{container}.clear()" if container else ""),
        cost=(
            f"what earlier runs put into {place}" if line or not container else f"all of {place}"
        ),
        growth=_per_run(growth.made, moment),
        reclaimable=False,
    )


def _container_of(names: Sequence[str]) -> str:
    """Returns the innermost container that all names lead through; empty where none is written.

    >>> _container_of(["buffer.items[0]", "buffer.items[1]"])
    'buffer.items'
    """
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    text = "".join(letters[0] for letters in same).rpartition("[")[0]
    return text if remedies.is_expression(text) else ""
