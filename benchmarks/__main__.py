"""Runs every benchmark and keeps the tables in benchmarks/README.md."""

from __future__ import annotations

import os
import platform
import sys
from datetime import date
from pathlib import Path

import torch

from benchmarks.bench_cells import cell_table, memory_table
from benchmarks.bench_scan import scan_table
from benchmarks.bench_tracking import tracking_table

PAGE = Path(__file__).with_name("README.md")
START, END = "<!-- tables -->\n", "<!-- end of tables -->\n"

SECTIONS = (
    ("Finding what lives", scan_table),
    ("Following CPU storages", tracking_table),
    ("A cell", cell_table),
    ("nbmem's own memory", memory_table),
)


def machine() -> str:
    """Returns what the tables were measured on."""
    cpu = next((line for line in _cpu_lines() if line.startswith("model name")), "")
    name = cpu.partition(":")[2].strip() or platform.processor() or platform.machine()
    return (
        f"{date.today():%Y-%m-%d}, {name}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, torch {torch.__version__}."
    )


def _cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return []


def main() -> None:
    """Prints each table as it is done, then puts all into the page."""
    parts = [f"Measured {machine()}"]
    for title, table in SECTIONS:
        print(f"## {title}", file=sys.stderr)
        parts += [f"## {title}", table()]
        print(parts[-1], file=sys.stderr)
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    after = rest.partition(END)[2]
    page = f"{before}{START}" + "\n\n".join(parts) + f"\n{END}{after}"
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
