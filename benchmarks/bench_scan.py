"""What listing all live tensors costs, by the number of objects and of tensor types.

`python -m benchmarks.bench_scan [rounds]` prints one markdown table: CPU time of each way to find
the tensors, and its ratio to a bare `gc.get_objects()` and to `type(o) in set` of the same round.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import torch

from benchmarks.side_by_side import interleave, markdown
from nbmem.heap import StorageTable, scan_heap
from nbmem.heap.scan import find_instances, has_memory, tensor_types

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (100_000, 1_000_000, 3_000_000)
TYPES = (14, 40)
TENSORS = 1000
FLOOR = "gc.get_objects()"
BAR = "type(o) in set"


def scan_table(rounds: int = 9) -> str:
    """Returns a row per way of finding tensors, number of objects and of tensor types."""
    rows = []
    kept = [torch.empty(1) for _ in range(TENSORS)]
    more: list[type] = []
    gc.collect()
    gc.freeze()  # what the imports made is put aside, so that the number of objects is exact
    kept = [tensor.clone() for tensor in kept]
    try:
        for types in TYPES:
            more += [_new_type(number) for number in range(types - len(tensor_types()))]
            for size in SIZES:
                rows += _rows(size, types, rounds)
    finally:
        gc.unfreeze()
    del kept, more
    return markdown(["objects", "types", "way", "CPU ms", "× get_objects", "× type in set"], rows)


def _rows(size: int, types: int, rounds: int) -> list[list[str]]:
    objects = [[] for _ in range(size)]
    gc.disable()
    try:
        timings = interleave(_ways(), rounds)
    finally:
        gc.enable()
    assert len(objects) == size
    return [
        [
            f"{size:,}",
            str(types),
            way,
            timing.milliseconds(),
            timing.ratio_to(timings[FLOOR]),
            timing.ratio_to(timings[BAR]),
        ]
        for way, timing in timings.items()
    ]


def _ways() -> dict[str, Callable[[], object]]:
    from pytorch_memlab.mem_reporter import MemReporter

    kinds = tensor_types()
    wanted = set(kinds)
    table = StorageTable()
    reporter = MemReporter()

    def memlab() -> None:
        reporter.collect_tensor()
        reporter.tensor_name.clear()
        reporter.device_mapping.clear()

    def whole_scan() -> None:
        with scan_heap(table):
            pass

    return {
        FLOOR: gc.get_objects,
        "nbmem: find the tensors": lambda: find_instances(filter(has_memory, tensor_types())),
        f"nbmem: whole scan, {TENSORS} tensors": whole_scan,
        BAR: lambda: [item for item in gc.get_objects() if type(item) in wanted],
        "isinstance": lambda: [o for o in gc.get_objects() if isinstance(o, torch.Tensor)],
        "pytorch_memlab": memlab,
    }


def _new_type(number: int) -> type:
    return type(f"Tensor{number}", (torch.Tensor,), {})


def main() -> None:
    print(scan_table(int(sys.argv[1]) if len(sys.argv) > 1 else 9))


if __name__ == "__main__":
    main()
