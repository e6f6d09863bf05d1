"""scripts/verify-gpu on emulated cards: what it writes, and what it can't be made to claim."""

import gzip
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
RELEASE = torch.__version__.partition("+")[0]
PAGE = """| what | verified by | simulated | emulated | a GPU |
|---|---|---|---|---|
| rounding | `pytest tests/gpu/test_counters.py -k rounded_to_512` | no | no | unverified |
| cuDNN | `pytest tests/gpu/test_gpu_park.py -k cudnns_flat` | no | no | unverified |
| nothing | `pytest tests/gpu/test_counters.py -k no_such_test` | no | no | unverified |
| the eye | by hand: look | no | no | unverified |
"""


def cells(page):
    rows = [line.split(" | ") for line in page.splitlines()[2:]]
    return [row[3] for row in rows], [row[4].removesuffix(" |") for row in rows]


@pytest.mark.timeout(600)
def test_emulated_cards_under_the_name_of_a_gpu_are_no_gpu_and_only_what_passed_is_verified(
    tmp_path,
):
    ledger, out = tmp_path / "ledger.md", tmp_path / "out"
    ledger.write_text(PAGE)
    command = [ROOT / "scripts" / "verify-gpu", "--ledger", ledger, "--out", out]
    environment = os.environ | {"EMULATED_CUDA_NAME": "NVIDIA H200", "PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=560)
    assert 0 == done.returncode, done.stdout + done.stderr
    emulated, gpu = cells(ledger.read_text())
    assert ["unverified"] * 4 == gpu
    assert emulated[0].startswith(f"{RELEASE}, 20")
    assert "not run" not in emulated[0]
    assert emulated[1].startswith(f"not run {RELEASE}, 20")
    assert emulated[1].endswith(": cuDNN is off, as on emulated cards")
    assert emulated[2].endswith(": no such test was found")
    assert "no" == emulated[3]
    (archive,) = out.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        files = {Path(member.name).name: member for member in tar.getmembers()}
        told = json.load(tar.extractfile(files["result.json"]))
        written = tar.extractfile(files["gpu-ledger.md"]).read().decode()
        step = json.loads(gzip.decompress(tar.extractfile(files["two_cards.json.gz"]).read()))
    assert ledger.read_text() == written
    assert told["platform"]["emulated"]
    assert {"passed": 5, "skipped": 1} == {
        status: sum(one["status"] == status for one in told["tests"].values())
        for status in ("passed", "skipped")
    }
    assert ["here", "there"] == [name for name, *_ in step["storages"]]
    assert [5 * 2**20 + 512, 7 * 2**20 + 512] == [
        counters["allocated_bytes"] for counters in step["counters"]
    ]
