"""How much memory the machine has for this process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes that this process can have at most."""

    bytes: int
    limited: bool
    """True where a control group (a container) allows less than what is installed."""


@cache
def installed_memory(root: Path = _ROOT) -> Capacity:
    """Returns the installed memory, or the control group's limit where that is lower."""
    installed = int(psutil.virtual_memory().total)
    limit = _control_group_limit(root)
    if limit is not None and limit < installed:
        return Capacity(limit, limited=True)
    return Capacity(installed, limited=False)


def _control_group_limit(root: Path) -> int | None:
    """Returns the lowest limit from this process's group up to the root; None without one."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _limits(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return min(limits, default=None)


def _limits(base: Path, path: str, file: str) -> list[int]:
    group = base / path.strip("/")
    inside = [parent for parent in group.parents if parent.is_relative_to(base)]
    texts = []
    for folder in (group, *inside):
        try:
            texts.append((folder / file).read_text().strip())
        except OSError:  # the root group has no such file; a container may not see its own path
            continue
    return [int(text) for text in texts if text.isdecimal()]
