"""Recordings of allocators: those of real GPUs lie beside the repository and are no part of it.

Those of emulated cards are in `tests/data/recordings`; `python -m gpu_verification.recordings`
makes them again (tests/emulated_cuda/README.md).
"""

import gzip
import json
import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "fixtures"
FOLDER = Path(os.environ.get("NBMEM_FIXTURES", _BESIDE))
needs_recordings = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no folder {FOLDER}")


def messages(name="out_of_memory"):
    """Returns texts of out-of-memory errors, or none where the folder is missing."""
    path = FOLDER / "messages" / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def nvml_text(kind):
    """Returns what NVIDIA's driver said of a kind of machine, as somebody printed it."""
    (found,) = [each["text"] for each in messages("nvml") if each["kind"] == kind]
    return found


def snapshot_names():
    return sorted(path.name for path in (FOLDER / "snapshots").glob("*.json.gz"))


def snapshot(name):
    """Returns what `torch.cuda.memory._snapshot()` gave."""
    with gzip.open(FOLDER / "snapshots" / name) as file:
        return json.load(file)


_OWN = Path(__file__).parents[1] / "data" / "recordings"
OWN = sorted(path.name.removesuffix(".json.gz") for path in _OWN.glob("*.json.gz"))


def recording(scene):
    """Returns what `gpu_verification.recordings` wrote of one scene."""
    with gzip.open(_OWN / f"{scene}.json.gz") as file:
        return json.load(file)
