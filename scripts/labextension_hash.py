"""Tells whether the built labextension belongs to its sources; `--record` notes that it does.

`labextension/assets.json` holds one SHA-256 over all that goes into a build, and one for each file
that came out. `make labextension` records them; a test reads them, which needs no node.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES, ASSETS = "labextension", "nbmem/labextension"
RECORD = f"{SOURCES}/assets.json"
PATTERNS = (
    ".yarnrc.yml",
    "package.json",
    "tsconfig.json",
    "webpack.config.js",
    "yarn.lock",
    "schema/**/*",
    "src/**/*",
    "style/**/*",
)
"""What a build reads; `src/__tests__` is none of it."""


def source_files(root: Path = ROOT) -> list[Path]:
    """Returns every file that goes into a build, sorted."""
    found = {path for pattern in PATTERNS for path in (root / SOURCES).glob(pattern)}
    return sorted(path for path in found if path.is_file() and "__tests__" not in path.parts)


def hash_sources(root: Path = ROOT) -> str:
    """Returns the SHA-256 of the sources: their names and what they hold, line ends aside."""
    total = hashlib.sha256()
    for path in source_files(root):
        text = path.read_bytes().replace(b"\r\n", b"\n")
        total.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode())
        total.update(text)
    return total.hexdigest()


def hash_assets(root: Path = ROOT) -> dict[str, str]:
    """Returns the SHA-256 of every built file, by its path among them."""
    folder = root / ASSETS
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def find_differences(root: Path = ROOT) -> list[str]:
    """Returns what does not belong together, a sentence each; nothing where all does."""
    recorded = json.loads((root / RECORD).read_text("utf-8"))
    was, now = recorded["assets"], hash_assets(root)
    differing = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    changed = recorded["sources"] != hash_sources(root)
    return ["the sources changed after the build"] * changed + [
        f"{name} is not what was built" for name in differing
    ]


def main() -> None:
    """Records, or tells what differs and ends with 1."""
    if "--record" in sys.argv[1:]:
        record = {"sources": hash_sources(), "assets": hash_assets()}
        (ROOT / RECORD).write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    elif differences := find_differences():
        sys.exit("run `make labextension`: " + "; ".join(differences))


if __name__ == "__main__":
    main()
