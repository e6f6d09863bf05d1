"""What naming everything that lives costs beyond finding it, and what that takes of memory.

`python -m benchmarks.bench_inventory [rounds]` prints the three tables. A first inventory has a
table of storages that is new to it, as the scan beside it has; asked again, it has the same one.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.models import gpt2_small, resnet152
from benchmarks.side_by_side import Timing, interleave, markdown
from nbmem.heap import StorageTable, scan_heap
from nbmem.heap.scan import find_instances, has_memory, tensor_types
from nbmem.inventory import take_inventory
from nbmem.records import StorageRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Names = dict[str, Any]

OTHER_OBJECTS = 1_000_000
MANY = 100_000
ROUNDS = 7


def a_list() -> Names:
    """Returns a namespace of one list of many tensors."""
    return {"kept": [torch.empty(2, 3) for _ in range(MANY)]}


def many_dicts() -> Names:
    """Returns a namespace of many tensors in dicts, twenty in each."""
    return {
        "kept": [
            {f"feature {number}": torch.empty(2, 3) for number in range(20)}
            for _ in range(MANY // 20)
        ]
    }


MODELS: dict[str, Callable[[], Names]] = {
    "ResNet152 + Adam, after forward": resnet152,
    "GPT-2 small + Adam, after forward": gpt2_small,
}
TENSORS: dict[str, Callable[[], Names]] = {
    "100,000 tensors in a list": a_list,
    "100,000 tensors in dicts of 20": many_dicts,
}
SCENES = MODELS | TENSORS


def take(table: StorageTable, names: Names) -> Any:
    """Returns the inventory of these names, given all the time that it wants."""
    return take_inventory(table, names, budget=60, now=0.0)


def scan(table: StorageTable, names: Names) -> None:
    """Finds what lives, graphs included, as an inventory does first."""
    first = [value for value in names.values() if isinstance(value, torch.Tensor)]
    with scan_heap(table, first=first):
        pass


def find() -> list[Any]:
    """Finds the tensors that Python knows; walks no graph."""
    return find_instances(filter(has_memory, tensor_types()))


def write_bare(table: StorageTable) -> list[StorageRecord]:
    """Returns records with what a tensor and its storage say of themselves, and nothing else."""
    records = []
    with scan_heap(table) as found:
        for tensor in found.tensors:
            ref = table.note(tensor.untyped_storage())
            if ref is None:
                continue
            dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
            records.append(
                StorageRecord(
                    ref.serial, ref.bytes, ref.device, dtype, shape,
                    "unknown", (), None, None, 1, True,
                )
            )  # fmt: skip
    return records


def _set_up(make: Callable[[], Names], others: int) -> tuple[Names, list[Any]]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    names = make()
    objects: list[Any] = [[] for _ in range(others)]
    gc.collect()
    return names, objects


def _more(timing: Timing, base: Timing) -> str:
    """Median of the rounds' own differences, with the least and the most."""
    pairs = zip(timing.seconds, base.seconds, strict=True)
    rounds = [(mine - its) * 1e3 for mine, its in pairs]
    return f"{statistics.median(rounds):+.1f} [{min(rounds):+.1f} – {max(rounds):+.1f}]"


def inventory_table(rounds: int = ROUNDS) -> str:
    """Returns a row for each model in a kernel of a million other objects, and for many tensors."""
    rows = []
    for scene, make in SCENES.items():
        names, objects = _set_up(make, OTHER_OBJECTS if scene in MODELS else 0)
        ways = {
            "find the tensors": find,
            "scan": lambda names=names: scan(StorageTable(), names),
            "bare records": lambda: write_bare(StorageTable()),
            "inventory": lambda names=names: take(StorageTable(), names),
        }
        gc.disable()
        try:
            timings = interleave(ways, rounds)
        finally:
            gc.enable()
        rows += [
            [
                scene,
                way,
                timing.milliseconds(),
                _more(timing, timings["find the tensors"]),
                _more(timing, timings["scan"]),
                timing.ratio_to(timings["bare records"]),
            ]
            for way, timing in timings.items()
        ]
        del names, objects, ways
    columns = ["kernel", "way", "CPU ms", "ms over finding", "ms over the scan", "× bare records"]
    return markdown(columns, rows)


@dataclass(frozen=True)
class _Round:
    """CPU seconds of one round."""

    scan: float
    first: float
    scan_again: float
    again: float

    @property
    def rest_of_first(self) -> float:
        return self.first - self.scan

    @property
    def rest_of_again(self) -> float:
        return self.again - self.scan_again


def again_table(rounds: int = ROUNDS) -> str:
    """Returns, for each scene, what an inventory costs that is asked for again, nothing changed."""
    rows = []
    for scene, make in SCENES.items():
        names, objects = _set_up(make, OTHER_OBJECTS if scene in MODELS else 0)
        gc.disable()
        try:
            spent = list(_ask_again(names, rounds + 1))[1:]
        finally:
            gc.enable()
        first = Timing(tuple(one.rest_of_first for one in spent))
        again = Timing(tuple(one.rest_of_again for one in spent))
        rows.append([scene, first.milliseconds(), again.milliseconds(), again.ratio_to(first)])
        del names, objects
    columns = ["kernel", "first: ms over the scan", "again: ms over the scan", "again / first"]
    return markdown(columns, rows)


def _ask_again(names: Names, rounds: int) -> Iterator[_Round]:
    for _ in range(rounds):
        table = StorageTable()
        found, _ = _timed(scan, StorageTable(), names)
        first, held = _timed(take, table, names)  # the last one is reused while somebody has it
        found_again, _ = _timed(scan, table, names)
        again, held = _timed(take, table, names)
        del held
        yield _Round(found, first, found_again, again)


def _timed(run: Callable[..., Any], *arguments: object) -> tuple[float, Any]:
    started = time.process_time()
    result = run(*arguments)
    return time.process_time() - started, result


def inventory_memory_table() -> str:
    """Returns what Python allocates while an inventory is taken, and what stays, per storage."""
    rows = []
    for scene, make in SCENES.items():
        names, objects = _set_up(make, 0)
        table = StorageTable()
        count = len(take(table, names).storages)  # afterwards what torch keeps of looks is there
        rows.append([scene, f"{count:,}", *(f"{size / count:,.0f}" for size in _traced(names))])
        del names, objects
    columns = [
        "kernel",
        "storages",
        "peak, B a storage",
        "the result, B a storage",
        "kept afterwards, B a storage",
        "kept after the second, B a storage",
    ]
    return markdown(columns, rows)


def _traced(names: Names) -> list[int]:
    """Returns bytes: at the peak of a first inventory, held by it, left by it and by the second."""
    table = StorageTable()
    scan(table, names)  # the table outlives inventories: it is no part of them
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        inventory = take(table, names)
        held, peak = tracemalloc.get_traced_memory()
        del inventory
        left = _traced_now()
        take(table, names)
        return [peak - before, held - before, left - before, _traced_now() - before]
    finally:
        tracemalloc.stop()


def _traced_now() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(inventory_table(rounds), again_table(rounds), inventory_memory_table(), sep="\n\n")


if __name__ == "__main__":
    main()
