"""Recordings of real GPUs that lie beside the repository and are no part of it."""

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
