"""CONTRIBUTING.md maps every module, in the modules' own words."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_map_is_what_the_modules_say():
    lines = runpy.run_path(str(ROOT / "scripts" / "write_map.py"))["lines_of_map"]()
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert "\n".join(lines) in page, "run `python scripts/write_map.py`"
    assert all(job.strip() for job in (line.split("|")[2] for line in lines))
