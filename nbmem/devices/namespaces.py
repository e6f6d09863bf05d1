"""Which of the driver's process numbers is this process: a container counts from 1 anew.

Older drivers list every process under the machine's numbers. Newer ones list those of the asking
container, under its own numbers.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Collection

_PROC = Path("/proc/self")
_OF_THE_MACHINE = 0xEFFFFFFC
"""The inode that Linux gives the process namespace of the machine itself."""
_MOST_PROCESSES = 2**22
"""Linux numbers no process higher."""


def own_number(listed: Collection[int], folder: Path = _PROC) -> int | None:
    """Returns which of the numbers that the driver lists is this process; None where it is none.

    Inside a container this process's number counts only if each listed number is a process of the
    container: otherwise the numbers are the machine's, and the same number is somebody else.

    Args:
        listed: the driver's numbers of the processes on a card.
        folder: what Linux tells of this process.
    """
    outer = [number for number in _outer_numbers(folder) if number in listed]
    if outer:
        return outer[0]
    own = os.getpid()
    if own not in listed or (in_container(folder) and any(map(_is_foreign, listed))):
        return None
    return own


def in_container(folder: Path = _PROC) -> bool:
    """Returns whether processes are numbered apart from the machine's; False where unknown."""
    try:
        return (folder / "ns/pid").stat().st_ino != _OF_THE_MACHINE
    except OSError:
        return False


def _outer_numbers(folder: Path) -> list[int]:
    """Returns this process's numbers outside its namespace, as far as `NSpid` shows them.

    It shows them where /proc is the outside's, as after `unshare --pid`.
    """
    with suppress(OSError, ValueError):
        for line in (folder / "status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(number) for number in line.split()[1:-1]]
    return []


def _is_foreign(number: int) -> bool:
    """Returns whether no process of this namespace has the number."""
    return 0 < number <= _MOST_PROCESSES and not psutil.pid_exists(number)
