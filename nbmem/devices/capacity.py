"""How much memory the machine has for this process, and how much of it is taken."""

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


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What the bytes of `installed_memory()` are taken by, at one moment."""

    total: int
    limited: bool
    available: int
    """What a process can still get: psutil's `available`; under a limit, what it leaves."""


@dataclass(frozen=True, slots=True)
class _Limit:
    bytes: int
    current: Path
    """The file with what the group uses."""


@cache
def installed_memory(root: Path = _ROOT) -> Capacity:
    """Returns the installed memory, or the control group's limit where that is lower."""
    installed = int(psutil.virtual_memory().total)
    limit = _control_group_limit(root)
    if limit is not None and limit.bytes < installed:
        return Capacity(limit.bytes, limited=True)
    return Capacity(installed, limited=False)


def memory_use(root: Path = _ROOT) -> MemoryUse:
    """Returns how full the installed memory is, or the control group where its limit is lower.

    Raises:
        OSError: the control group does not tell what it uses.
    """
    system = psutil.virtual_memory()
    limit = _control_group_limit(root)
    if limit is None or limit.bytes >= system.total:
        return MemoryUse(int(system.total), limited=False, available=int(system.available))
    used = int(limit.current.read_text())
    return MemoryUse(limit.bytes, limited=True, available=limit.bytes - used)


def available_memory() -> int:
    """Returns what a process can still get of main memory: psutil's `available`.

    A container's limit does not count what drivers allocate, so it is not asked.
    """
    return int(psutil.virtual_memory().available)


def _control_group_limit(root: Path) -> _Limit | None:
    """Returns the lowest limit from this process's group up to the root; None without one."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            limits += _limits(root / "sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            files = "memory.limit_in_bytes", "memory.usage_in_bytes"
            limits += _limits(root / "sys/fs/cgroup/memory", path, *files)
    return min(limits, key=lambda limit: limit.bytes, default=None)


def _limits(base: Path, path: str, file: str, current: str) -> list[_Limit]:
    group = base / path.strip("/")
    inside = [parent for parent in group.parents if parent.is_relative_to(base)]
    limits = []
    for folder in (group, *inside):
        try:
            text = (folder / file).read_text().strip()
        except OSError:  # the root group has no such file; a container may not see its own path
            continue
        if text.isdecimal():
            limits.append(_Limit(int(text), folder / current))
    return limits
