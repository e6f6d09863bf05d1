"""Runs every benchmark and keeps the tables in benchmarks/README.md.

`python -m benchmarks inventory` measures only those with that word in their title, and leaves the
other tables as they are.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import date
from pathlib import Path

import torch

from benchmarks.bench_cells import card_cell_table, cell_table, memory_table
from benchmarks.bench_holders import holders_memory_table, holders_table
from benchmarks.bench_inventory import again_table, inventory_memory_table, inventory_table
from benchmarks.bench_scan import scan_table
from benchmarks.bench_tracking import tracking_table
from benchmarks.panel_cost import panel_cost_table
from benchmarks.panel_updates import updates_table
from benchmarks.side_by_side import Unmeasured

PAGE = Path(__file__).with_name("README.md")
START, END = "<!-- tables -->\n", "<!-- end of tables -->\n"

SECTIONS = (
    ("Finding what lives", scan_table),
    ("Following CPU storages", tracking_table),
    ("An inventory", inventory_table),
    ("An inventory asked for again", again_table),
    ("What an inventory takes", inventory_memory_table),
    ("Who holds 100 storages", holders_table),
    ("What the search for who holds them takes", holders_memory_table),
    ("A cell", cell_table),
    ("A trivial cell where a card is measured", card_cell_table),
    ("nbmem's own memory", memory_table),
    ("A training cell with the panel open", panel_cost_table),
    ("An update of the panel", updates_table),
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


def main(word: str = "") -> None:
    """Prints each table with the word in its title as it is done, then puts it into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    tables, _, after = rest.partition(END)
    told = dict(map(_title_and_rest, f"\n{tables}".split("\n## ")[1:]))
    for title, table in SECTIONS:
        if word.lower() in title.lower():
            print(f"## {title}", file=sys.stderr)
            try:
                told[title] = f"Measured {machine()}\n\n{table()}"
            except Unmeasured as why:
                print(f"not measured: {why}", file=sys.stderr)
                continue
            print(told[title], file=sys.stderr)
    sections = [f"## {title}\n\n{told[title]}\n" for title, _ in SECTIONS if title in told]
    PAGE.write_text(f"{before}{START}" + "\n".join(sections) + f"{END}{after}", "utf-8")


def _title_and_rest(section: str) -> tuple[str, str]:
    title, _, rest = section.partition("\n")
    return title, rest.strip()


if __name__ == "__main__":
    main(*sys.argv[1:2])
