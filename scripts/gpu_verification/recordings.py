"""Small recordings of the allocator: its snapshot, its counters, and what lies where.

    python -m gpu_verification.recordings FOLDER [SCENE …]

Each scene runs in a process of its own and becomes `FOLDER/SCENE.json.gz`. The storages in it are
the scene's own list: tests hold nbmem's figures against it.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from gpu_verification.cards import read_platform
from gpu_verification.trimming import trim_snapshot

MIB = 2**20
COUNTERS = (
    "allocated_bytes",
    "requested_bytes",
    "active_bytes",
    "reserved_bytes",
    "inactive_split_bytes",
)
Kept = dict[str, Any]
"""Tensors by name; what is none of them is kept alive and not listed."""
TEXT = "text of the error"


class NotHereError(Exception):
    """The scene needs what this machine or this torch has not."""


def _follow() -> None:
    import torch

    torch.cuda.memory._record_memory_history(stacks="python", max_entries=2000)


def training_step() -> Kept:
    """Two steps of Adam, with the allocator's history on: a matrix product makes a workspace."""
    import torch

    _follow()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 300, device="cuda")
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    kept = {"x": x, "loss": loss}
    for name, weight in model.named_parameters():
        kept |= {name: weight, f"{name}.grad": weight.grad}
        state = optimizer.state[weight]
        kept |= {f"{name}.{key}": state[key] for key in ("exp_avg", "exp_avg_sq")}
    return kept | {"model": model, "optimizer": optimizer}


def out_of_memory() -> Kept:
    """A request for more than the card has, among blocks of 1 byte to 20 MiB."""
    import torch

    _follow()
    sizes = (1, 700, 3 * MIB + 1, 20 * MIB)
    kept: Kept = {f"kept_{size}": _bytes(size) for size in sizes}
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        _bytes(2 * total)
    except torch.OutOfMemoryError as error:
        kept[TEXT] = str(error)
    return kept


def fragments() -> Kept:
    """Every second of many blocks freed."""
    blocks = [_bytes(512 * (1 + number % 5)) for number in range(60)]
    large = [_bytes(3 * MIB) for _ in range(6)]
    return {f"block_{n}": block for n, block in enumerate((blocks + large)[::2])}


def expandable_segments() -> Kept:
    """Segments that grow, with a gap."""
    import torch

    older = torch.cuda.memory._set_allocator_settings  # for CUDA alone
    getattr(torch._C, "_accelerator_setAllocatorSettings", older)("expandable_segments:True")
    first, gap, last = _bytes(1), _bytes(3 * MIB), _bytes(50 * MIB)
    del gap
    return {"first": first, "last": last}


def two_cards() -> Kept:
    """Blocks on two cards."""
    import torch

    if torch.cuda.device_count() < 2:
        raise NotHereError("this machine has one GPU")
    return {"here": _bytes(5 * MIB + 3), "there": _bytes(7 * MIB + 5, "cuda:1")}


def graphs_pool() -> Kept:
    """A captured CUDA graph, whose private pool keeps what it computed."""
    import torch

    x = torch.zeros(MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x + 1) * 2
    return {"x": x, "y": y, "graph": graph}


def memory_pool() -> Kept:
    """A tensor in a `torch.cuda.MemPool`, and one beside it."""
    import torch

    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = _bytes(6 * MIB)
    return {"inside": inside, "beside": _bytes(2 * MIB + 9), "pool": pool}


def user_metadata() -> Kept:
    """Blocks that the program gave a word each."""
    import torch

    _follow()
    tell = getattr(torch.cuda.memory, "_set_memory_metadata", None)
    if tell is None:
        raise NotHereError("this torch has no _set_memory_metadata")
    tell("warm up")
    first = _bytes(4 * MIB)
    tell("step 1")
    return {"first": first, "second": _bytes(1000)}


def waits_for_a_stream() -> Kept:
    """A freed block that a busy stream may still use."""
    import torch

    side, kept, lent = torch.cuda.Stream(), _bytes(2 * MIB), _bytes(4 * MIB)
    with torch.cuda.stream(side):
        torch.cuda._sleep(4_000_000_000)
    lent.record_stream(side)
    del lent
    return {"kept": kept, "side": side}


def _bytes(size: int, device: str = "cuda:0") -> Any:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=device)


SCENES: tuple[Callable[[], Kept], ...] = (
    training_step,
    out_of_memory,
    fragments,
    expandable_segments,
    two_cards,
    graphs_pool,
    memory_pool,
    user_metadata,
    waits_for_a_stream,
)
NAMES = tuple(scene.__name__ for scene in SCENES)


def record(scene: str) -> dict[str, Any]:
    """Returns what the allocator says after a scene, and the scene's own list of storages."""
    import torch

    if not torch.cuda.is_available():
        raise NotHereError("torch sees no GPU here")
    kept = SCENES[NAMES.index(scene)]()
    snapshot = torch.cuda.memory._snapshot()
    cards = range(torch.cuda.device_count())
    stats = [torch.cuda.memory_stats(card) for card in cards]
    return {
        "scene": scene,
        "date": date.today().isoformat(),
        **asdict(read_platform()),
        "capabilities": [torch.cuda.get_device_capability(card) for card in cards],
        "counters": [{name: of.get(f"{name}.all.current") for name in COUNTERS} for of in stats],
        "free_and_total": [torch.cuda.mem_get_info(card) for card in cards],
        "storages": [list(one) for one in _storages(kept)],
        "text": kept.get(TEXT),
        "snapshot": trim_snapshot(snapshot),
    }


def _storages(kept: Kept) -> Iterable[tuple[str, int, int, int]]:
    """Yields name, number of the card, address and bytes of each tensor."""
    import torch

    for name, thing in kept.items():
        if isinstance(thing, torch.Tensor) and thing.is_cuda:
            storage = thing.untyped_storage()
            yield name, thing.device.index, storage.data_ptr(), storage.nbytes()


def write_recording(recording: dict[str, Any], path: Path) -> None:
    """Writes a recording; the same one always makes the same bytes."""
    text = json.dumps(recording, separators=(",", ":")) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def record_all(folder: Path, scenes: Iterable[str] = NAMES, limit: float = 60) -> dict[str, str]:
    """Records each scene in a forked process; returns what could not be, with the reason.

    This process imports torch, and must not start CUDA: a forked child could not start it then.
    """
    import torch  # noqa: F401 - once, for all children

    folder.mkdir(parents=True, exist_ok=True)
    fork = multiprocessing.get_context("fork")
    missing = {}
    for scene in scenes:
        path, said = folder / f"{scene}.json.gz", fork.SimpleQueue()
        path.unlink(missing_ok=True)
        child = fork.Process(target=_record_here, args=(scene, path, said))
        child.start()
        child.join(limit)
        if child.is_alive():
            child.kill()
            child.join()
            missing[scene] = f"it took more than {limit:.0f} s"
        elif not path.exists():
            missing[scene] = said.get() if not said.empty() else f"it ended by {child.exitcode}"
    return missing


def _record_here(scene: str, path: Path, said: Any) -> None:
    try:
        write_recording(record(scene), path)
    except Exception as error:  # what a scene needs may be missing in any way
        said.put(f"{type(error).__name__}: {error}".splitlines()[0])


def main() -> int:
    """Records what the command line names: a folder, and scenes."""
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(NAMES):
        print(f"{__doc__}\nScenes: {', '.join(NAMES)}")
        return 2
    missing = record_all(Path(sys.argv[1]), sys.argv[2:] or NAMES)
    for scene, reason in missing.items():
        print(f"{scene} was not recorded: {reason}")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
