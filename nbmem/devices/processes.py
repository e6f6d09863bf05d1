"""Who else is on the card: nvidia-smi's process table."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import psutil

from nbmem.devices.namespaces import own_number
from nbmem.devices.protocols import CounterUnavailableError
from nbmem.records import ProcessMemory

_KINDS = "Compute", "Graphics", "MPSCompute"
"""nvidia-smi's types C, G and M+C."""
_NO_CARD_HAS = 2**50


def list_processes(api: Any, handle: Any) -> tuple[ProcessMemory, ...]:
    """Returns each process on the card or MIG instance once, largest first.

    Args:
        api: the module pynvml, started.
        handle: the card or instance in it.

    Raises:
        CounterUnavailableError: the driver lists no processes here.
    """
    sizes = _sizes(api, handle)
    own = own_number(sizes)
    here = own == os.getpid()
    rows = [
        ProcessMemory(pid, _name(api, pid, known=here), size, own=pid == own)
        for pid, size in sizes.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.bytes or 0), row.pid)))


def _sizes(api: Any, handle: Any) -> dict[int, int | None]:
    """Returns bytes by process; one that computes and draws is in two of the driver's lists."""
    sizes: dict[int, int | None] = {}
    refusals = []
    for kind in _KINDS:
        try:
            running = getattr(api, f"nvmlDeviceGet{kind}RunningProcesses")(handle)
        except Exception as error:  # each kind of card refuses some of them
            refusals.append(error)
            continue
        for process in running:
            pid, size = int(process.pid), _size(process.usedGpuMemory)
            known = sizes.get(pid)
            sizes[pid] = known if size is None else max(size, known or 0)
    if len(refusals) == len(_KINDS):
        raise CounterUnavailableError(
            f"The NVIDIA driver does not list the processes on this GPU: {refusals[0]}."
        )
    return sizes


def _size(told: Any) -> int | None:
    """Returns the bytes of a process; None where the driver has no figure.

    It writes that as 2**64 − 1 (Windows, WSL), which some releases of the package hand on.
    """
    return None if told is None or not 0 <= int(told) < _NO_CARD_HAS else int(told)


def _name(api: Any, pid: int, *, known: bool) -> str | None:
    """Returns the process's name: nvidia-smi's.

    Args:
        api: the module pynvml, started.
        pid: the process, in the driver's numbers.
        known: whether this system's numbers are the driver's. In a container they need not be.
    """
    with suppress(Exception):  # it ended, or belongs to somebody else
        name = api.nvmlSystemGetProcessName(pid)
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    if known:
        with suppress(psutil.Error):
            return str(psutil.Process(pid).name())
    return None
