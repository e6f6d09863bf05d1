"""What following CPU storages costs: training steps under each tracker, side by side.

`python -m benchmarks.bench_tracking [rounds]` prints one markdown table: CPU time of a step under
each tracker, and its ratio to the plain run of the same round.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.side_by_side import Timing, markdown
from nbmem.heap import StorageTable, scan_heap
from nbmem.tracking import CpuTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[], None]
    Tracker = Callable[[nn.Module], contextlib.AbstractContextManager[Any]]


class DoNothing(TorchDispatchMode):
    """The cheapest dispatch mode that torch's documentation shows: the floor of this method."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def plain(model: nn.Module) -> Iterator[None]:
    del model
    yield


@contextlib.contextmanager
def do_nothing(model: nn.Module) -> Iterator[None]:
    del model
    with DoNothing():
        yield


@contextlib.contextmanager
def nbmem_tracker(model: nn.Module) -> Iterator[None]:
    """Without the heap scan that a scope makes before: `bench_scan` measures that."""
    del model
    table = StorageTable()
    with scan_heap(table):
        pass
    tracker = CpuTracker(table)
    tracker.start()
    try:
        yield
    finally:
        tracker.stop()


@contextlib.contextmanager
def mem_tracker(model: nn.Module) -> Iterator[None]:
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    tracker.track_external(model)
    with tracker:
        MODEL_TRACKERS[model] = tracker
        yield
    del MODEL_TRACKERS[model]


@contextlib.contextmanager
def torch_profiler(model: nn.Module) -> Iterator[None]:
    del model
    with torch.profiler.profile(
        profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]
    ):
        yield


MODEL_TRACKERS: dict[nn.Module, Any] = {}
TRACKERS: dict[str, Tracker] = {
    "plain": plain,
    "mode that does nothing": do_nothing,
    "nbmem": nbmem_tracker,
    "MemTracker": mem_tracker,
    "torch.profiler": torch_profiler,
}


def conv_net() -> tuple[nn.Module, Step, int]:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128 * 8 * 8, 10),
    )  # fmt: skip
    data, target = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    return model, _step(model, data, target), 4


def transformer() -> tuple[nn.Module, Step, int]:
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
        nn.Linear(128, 1000), nn.Flatten(0, 1),
    )  # fmt: skip
    data, target = torch.randint(1000, (8, 64)), torch.randint(1000, (8 * 64,))
    return model, _step(model, data, target), 3


def tiny_mlp() -> tuple[nn.Module, Step, int]:
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    data, target = torch.randn(32, 64), torch.randint(10, (32,))
    return model, _step(model, data, target), 60


MODELS = {"conv net": conv_net, "transformer": transformer, "MLP of tiny ops": tiny_mlp}


def _step(model: nn.Module, data: torch.Tensor, target: torch.Tensor) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()
        tracker = MODEL_TRACKERS.get(model)
        if tracker is not None:
            tracker.reset_mod_stats()

    return step


def measure(tracker: Tracker, model: nn.Module, step: Step, count: int) -> float:
    """Returns the CPU seconds of `count` steps; entering and leaving the tracker not counted."""
    with tracker(model):
        step()
        begin = time.process_time()
        for _ in range(count):
            step()
        return time.process_time() - begin


def tracking_table(rounds: int = 9) -> str:
    """Returns a row per model and tracker; every round runs each tracker once, in turn."""
    torch.set_num_threads(1)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    rows = []
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model, step, count = make()
        for _ in range(3):
            step()
        timings = _time_trackers(model, step, count, rounds)
        for tracker, timing in timings.items():
            nothing = timing.ratio_to(timings["mode that does nothing"])
            rows.append(
                [name, tracker, timing.milliseconds(), timing.ratio_to(timings["plain"]), nothing]
            )
    return markdown(["model", "tracker", "CPU ms a step", "× plain", "× idle mode"], rows)


def _time_trackers(model: nn.Module, step: Step, count: int, rounds: int) -> dict[str, Timing]:
    seconds: dict[str, list[float]] = {tracker: [] for tracker in TRACKERS}
    for _ in range(rounds):
        for tracker, context in TRACKERS.items():
            gc.collect()
            seconds[tracker].append(measure(context, model, step, count) / count)
    return {tracker: Timing(tuple(found)) for tracker, found in seconds.items()}


def main() -> None:
    print(tracking_table(int(sys.argv[1]) if len(sys.argv) > 1 else 9))


if __name__ == "__main__":
    main()
