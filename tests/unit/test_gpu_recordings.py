"""What a recording of somebody's GPU has: each block and counter, and no folder of theirs."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from gpu_verification.packing import without_folders
from gpu_verification.recordings import NAMES, write_recording
from gpu_verification.trimming import MAX_EVENTS, MAX_FRAMES, ROOT, anonymous, trim_snapshot
from recordings import OWN
from simulated_cuda import block, frame, segment

from nbmem.devices.snapshot import blocks_in, sum_blocks

BASE = 0x7F00_0000_0000
NATIVE = frame("/pytorch/c10/Blas.cpp", 0, "at::native::addmm()")
OWN_LINE = frame("/home/me/secret/train.py", 7, "step")


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        ("/elsewhere/train.py", "/home/me/secret/train.py"),
        ("/elsewhere/train.py", "C:\\Users\\me\\train.py"),
        ("/elsewhere/123.py", "/tmp/ipykernel_7/123.py"),
        ("/site-packages/torch/nn/a.py", "/home/me/lib/python3.12/site-packages/torch/nn/a.py"),
        ("/site-packages/a.py", "C:\\Users\\me\\Lib\\site-packages\\a.py"),
        ("/lib/python3.12/runpy.py", "/home/me/miniconda/lib/python3.12/runpy.py"),
        ("/project/tests/gpu/test_counters.py", f"{ROOT}/tests/gpu/test_counters.py"),
        ("<string>", "<string>"),
        ("<ipython-input-3-0a>", "<ipython-input-3-0a>"),
        ("Blas.cpp", "/home/me/pytorch/aten/Blas.cpp"),
        ("libtorch.so", "C:\\me\\libtorch.so"),
        ("??", "??"),
    ],
)  # fmt: skip
def test_a_path_keeps_its_package_and_loses_its_owner(expected, path):
    assert expected == anonymous(path)


def test_a_trimmed_snapshot_has_the_same_sums_fewer_frames_and_the_newest_events():
    frames = [NATIVE] * 5 + [OWN_LINE] * 20
    part = segment(BASE, block(2048, 2000, frames=frames), block(512, 500, "active_pending_free"))
    events = [{"action": "alloc", "addr": n, "size": 1, "frames": frames} for n in range(100)]
    whole = {
        "segments": [part, segment(BASE + 4096, block(1024, 0, "inactive"), device=1)],
        "device_traces": [events, []],
        "allocator_settings": {"expandable_segments": False},
        "external_annotations": [],
        "something of a later torch": object(),
    }
    trimmed = json.loads(json.dumps(trim_snapshot(whole)))
    assert sum_blocks(blocks_in(whole)) == sum_blocks(blocks_in(trimmed))
    assert part["total_size"] == trimmed["segments"][0]["total_size"]
    first = trimmed["segments"][0]["blocks"][0]
    expected = ["Blas.cpp"] * 2 + ["/elsewhere/train.py"] * (MAX_FRAMES - 2)
    assert expected == [one["filename"] for one in first["frames"]]
    kept = [event["addr"] for event in trimmed["device_traces"][0]]
    assert list(range(100 - MAX_EVENTS, 100)) == kept
    assert 100 - MAX_EVENTS == trimmed["_trimmed"]["events_left_out"]
    assert {"expandable_segments": False} == trimmed["allocator_settings"]
    assert "me/secret" not in json.dumps(trimmed)
    assert 25 == len(part["blocks"][0]["frames"])  # what was trimmed is a copy


def test_a_snapshot_without_history_is_trimmed_too():
    bare = segment(BASE, block(512))
    del bare["frames"]
    for one in bare["blocks"]:
        del one["frames"]
    trimmed = trim_snapshot({"segments": [bare]})
    assert [bare] == trimmed["segments"]
    assert [] == trimmed["device_traces"]


def test_what_was_printed_names_no_folder_of_the_machine_either(monkeypatch):
    monkeypatch.setattr("pathlib.Path.home", lambda: Path("/home/me"))
    monkeypatch.setattr(sys, "prefix", "/home/me/envs/cuda")
    printed = (
        f"{ROOT}/tests/a.py:3: /home/me/envs/cuda/lib/x.py, /home/me/b.py, /tmp/pytest-of-me2/1"
    )
    expected = "/project/tests/a.py:3: /env/lib/x.py, ~/b.py, /tmp/pytest-of-me/1"
    assert expected == without_folders(printed)


def test_the_same_recording_is_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_recording({"scene": "x", "sizes": [1, 2]}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert {"scene": "x", "sizes": [1, 2]} == json.loads(
        gzip.decompress((tmp_path / "a").read_bytes())
    )


def test_each_scene_was_recorded_on_emulated_cards():
    assert sorted(NAMES) == OWN
