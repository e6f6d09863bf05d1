"""What it costs to ask who holds 100 storages, by the number and kind of other objects.

`python -m benchmarks.bench_holders [rounds]` prints two tables: CPU time of the search upwards, and
its ratio to a bare `gc.get_objects()` of the same round; and the memory that one search takes.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.side_by_side import Timing, interleave, markdown
from nbmem.holders.search import search_holders

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (100_000, 1_000_000, 3_000_000)
FLOOR = "gc.get_objects()"
LEVELS = 10
PEAK = "peak"
COLUMNS = ["other objects", "way", "CPU ms", "× get_objects", "least – most"]


class Thing:
    """An object of a user's class."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.parts: Any = [number]


class Cell:
    """A link of a chain."""

    def __init__(self, value: Any, before: Any) -> None:
        self.value = value
        self.before = before


class Net(torch.nn.Module):
    """A model in a model in a model."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.bias = torch.nn.Parameter(torch.zeros(2))
        self.itself = self
        if depth:
            self.inner = torch.nn.Sequential(Net(depth - 1))


def holders_table(rounds: int = 9) -> str:
    """Returns a row per way of asking, and per number and kind of the other objects."""
    rows = []
    for size in SIZES:
        for kind, make in OTHERS.items():
            rows += _rows(f"{size:,} {kind}", make(size), rounds)
    return markdown(COLUMNS, rows)


def holders_memory_table() -> str:
    """Returns the most memory that one search takes, each in a process of its own."""
    rows = []
    for size in SIZES:
        for kind in OTHERS:
            command = [sys.executable, "-m", "benchmarks.bench_holders", PEAK, kind, str(size)]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            peak = int(told)
            rows.append([f"{size:,} {kind}", f"{peak / 2**20:.0f} MiB", f"{peak / size:.0f}"])
    return markdown(["other objects", "peak of one search", "B an object"], rows)


class Scene:
    """A hundred tensors and what holds them: objects, closures, a library, garbage, a chain."""

    def __init__(self) -> None:
        self.targets: list[torch.Tensor] = []
        self.library = sys.modules["some_library"] = types.ModuleType("some_library")
        cache = {number: {"value": self._tensor()} for number in range(20)}
        vars(self.library)["cache"] = cache
        self.objects = [self._object() for _ in range(20)]
        self.functions = [_closure(self._tensor()) for _ in range(20)]
        self.targets += Net(9).parameters()
        self.chain: Cell | None = None
        for number in range(200):
            self.chain = Cell(None if number % 10 else self._tensor(), self.chain)

    def _tensor(self) -> torch.Tensor:
        self.targets.append(torch.zeros(1))
        return self.targets[-1]

    def _object(self) -> Thing:
        thing = Thing(0)
        thing.parts = {"acts": [[self._tensor()]]}
        return thing

    def search(self) -> None:
        """Searches all that holds the tensors."""
        found = search_holders(self.targets)
        missing = set(range(len(self.targets))) - {edge.held for edge in found.edges}
        assert not missing
        assert len(found.unreachable) > 20
        found.clear()

    def climb(self) -> None:
        """Asks `gc.get_referrers` for some levels, as most tools do."""
        known = {id(self.targets), *map(id, self.targets)}
        level: list[Any] = self.targets
        for _ in range(LEVELS):
            known.add(id(level))
            level = [one for one in gc.get_referrers(*level) if not _ends(one, known)]
            known.update(map(id, level))


def _ends(holder: Any, known: set[int]) -> bool:
    kinds = (types.ModuleType, types.FrameType, type)
    return id(holder) in known or issubclass(type(holder), kinds) or holder is globals()


def _closure(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: tensor


def _small_lists(size: int) -> list[Any]:
    return [[number] for number in range(size)]


def _all_kinds(size: int) -> list[Any]:
    half = [{"key": number, "value": (number, [number])} for number in range(size // 6)]
    return [*half, *map(Thing, range(size // 4))]


OTHERS = {"lists of a number": _small_lists, "dicts, tuples, lists, instances": _all_kinds}


def _rows(others: str, kept: list[Any], rounds: int) -> list[list[str]]:
    gc.collect()
    gc.disable()
    scene = Scene()
    ways: dict[str, Callable[[], object]] = {
        FLOOR: gc.get_objects,
        "nbmem: all holders, any depth": scene.search,
        "gc.get_referrers, one level": lambda: gc.get_referrers(*scene.targets),
        f"gc.get_referrers, {LEVELS} levels": scene.climb,
    }
    try:
        timings = interleave(ways, rounds)
    finally:
        gc.enable()
    assert len(kept) > 0
    return [
        [
            others,
            way,
            timing.milliseconds(),
            timing.ratio_to(timings[FLOOR]),
            _spread(timing, timings[FLOOR]),
        ]
        for way, timing in timings.items()
    ]


def _spread(mine: Timing, floor: Timing) -> str:
    ratios = [one / bare for one, bare in zip(mine.seconds, floor.seconds, strict=True)]
    return f"{min(ratios):.1f} – {max(ratios):.1f}"


def _peak(kind: str, size: int) -> int:
    """Returns by how many bytes the process's resident memory rises during a search."""
    others = OTHERS[kind](size)
    gc.disable()  # a part of the scene is garbage
    scene = Scene()
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    before = _read_status("VmRSS")
    scene.search()
    assert len(others) > 0
    return _read_status("VmHWM") - before


def _read_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    line = next(line for line in lines if line.startswith(name))
    return int(line.split()[1]) * 1024


def main(*arguments: str) -> None:
    if arguments[:1] == (PEAK,):
        print(_peak(arguments[1], int(arguments[2])))
        return
    print(holders_table(int(arguments[0]) if arguments else 9))
    print()
    print(holders_memory_table())


if __name__ == "__main__":
    main(*sys.argv[1:])
