"""Writes the map of modules in CONTRIBUTING.md from their docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- map -->\n", "<!-- end of map -->\n"


def lines_of_map() -> list[str]:
    """Returns a table row a module, rooms in the order of docs/architecture.md."""
    rows = ["| module | job |", "|---|---|"]
    for room in _rooms():
        folder = ROOT / "nbmem" / room
        if not folder.is_dir():
            rows.append(_row(room, folder.with_suffix(".py")))
            continue
        rows.append(_row(f"{room}/", folder / "__init__.py"))
        files = sorted(path for path in folder.glob("*.py") if path.stem != "__init__")
        rows += [_row(f"{room}/{path.stem}", path) for path in files]
    return rows


def _rooms() -> list[str]:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = re.findall(r"^\| (`[^|]+) \|[^|]+\| [^|]+ \|$", text, re.MULTILINE)
    return [room for cell in table for room in re.findall(r"`([a-z_]+)/?`", cell)]


def _row(name: str, path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return f"| `{name}` | {' '.join(told.partition(chr(10) * 2)[0].split())} |"


def main() -> None:
    """Puts the map between its marks."""
    page = ROOT / "CONTRIBUTING.md"
    before, _, rest = page.read_text("utf-8").partition(START)
    after = rest.partition(END)[2]
    page.write_text("".join([before, START, "\n".join(lines_of_map()), "\n", END, after]), "utf-8")


if __name__ == "__main__":
    main()
