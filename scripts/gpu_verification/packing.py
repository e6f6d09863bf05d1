"""One archive of a run, for whoever has a GPU to send."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from gpu_verification.cards import Platform
from gpu_verification.ledger import Judgement
from gpu_verification.results import Results
from gpu_verification.running import OUTPUT, RECORDINGS, ROOT


def pack(
    out: Path,
    scratch: Path,
    ledger: Path,
    platform: Platform,
    results: Results,
    judgements: list[Judgement],
    today: str,
) -> Path:
    """Returns the archive of a run; one of the same day and card is replaced.

    It has `result.json`, the ledger as it was written, what the tests printed without this
    machine's folders, and the recordings.
    """
    card = re.sub(r"[^A-Za-z0-9]+", "-", platform.card).strip("-")
    name = f"nbmem-gpu-{card}-torch-{platform.torch}-{today}"
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(
        without_folders(json.dumps(_result(platform, results, judgements, today), indent=1)),
        "utf-8",
    )
    shutil.copy(ledger, folder / "gpu-ledger.md")
    printed = scratch / OUTPUT
    if printed.exists():
        (folder / OUTPUT).write_text(without_folders(printed.read_text("utf-8")), "utf-8")
    if (scratch / RECORDINGS).exists():
        shutil.copytree(scratch / RECORDINGS, folder / RECORDINGS)
    archive = out / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=name, filter=_without_owner)
    return archive


def _result(
    platform: Platform, results: Results, judgements: list[Judgement], today: str
) -> dict[str, object]:
    return {
        "date": today,
        "commit": _commit(),
        "platform": asdict(platform),
        "rows": [
            {"what": one.row.what, "verdict": one.verdict, "reason": one.reason}
            for one in judgements
        ],
        "tests": {name: asdict(one) for name, one in results.outcomes.items()},
        "broken": results.broken,
    }


def _commit() -> str | None:
    """Returns the commit that ran, with `+` where files differ from it; None outside of git."""
    with suppress(OSError, subprocess.CalledProcessError):
        asked = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty=+"]
        return subprocess.check_output(asked, text=True, stderr=subprocess.DEVNULL).strip()
    return None


def without_folders(text: str) -> str:
    """Returns a text without the folders of this checkout, environment and user."""
    for folder, name in ((ROOT, "/project"), (Path(sys.prefix), "/env"), (Path.home(), "~")):
        if folder != Path("/"):
            text = text.replace(str(folder), name)
    return re.sub(r"pytest-of-[^/\\\s]+", "pytest-of-me", text)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
