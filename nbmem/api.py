"""The public functions: the same things as the magics, for scripts and tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from nbmem.loading import check_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbmem.history import History
    from nbmem.records import (
        DeviceReading,
        Holders,
        Leak,
        Ledger,
        ReclaimReport,
        StorageRecord,
    )
    from nbmem.session import Session
    from nbmem.session.blocks import Block


def measure(
    label: str | float | None = None, *, device: str | None = None, scan: bool = True
) -> Block:
    """Returns a context manager that measures the block; `.record` is its `CellRecord`.

    Blocks nest, and decorate functions. A `with` statement that runs many times, in a loop, makes
    one record: `steps` then tells how often it ran, the largest rise above a start, and what all
    runs left behind.

    Args:
        label: what to call the block in the history.
        device: `cuda:0`, `cpu`, …; None takes what `NbMem.device` says: the accelerators, or the
            cpu where there is none.
        scan: list what the block left alive, at the price of a pass over the heap at its start
            and end. Without it on the CPU, storages made before nbmem was told are not counted.

    Raises:
        TypeError: the label is neither text nor a number.
        UnknownDeviceError: this machine has no such device.

    >>> with nbmem.measure("forward") as m:  # doctest: +SKIP
    ...     loss = model(x).sum()
    >>> m.record.devices["cpu"].peak  # doctest: +SKIP
    1204224
    """
    session = _session()
    if device is not None:
        session.check_device(device)
    caller, text = sys._getframe(1), _label(label)
    return session.blocks.at(caller.f_code, caller.f_lineno, text, device, scan=scan)


def _label(label: object) -> str | None:
    """A label outlives the block, so it is never the user's object itself."""
    if label is None or type(label) is str:
        return label
    if issubclass(type(label), str):
        return str.__str__(label)
    if type(label) in (int, float, bool):
        return str(label)
    raise TypeError(
        f"a label is text or a number, not a {type(label).__name__}: write nbmem.measure('forward')"
    )


def read_devices() -> list[DeviceReading]:
    """Returns the counters of each device and of the host, as they are now.

    Nothing is started, synchronized or freed. `allocated` of an accelerator equals
    `torch.cuda.memory_allocated()`; without an accelerator `cpu` counts the bytes of torch's
    storages.
    """
    return _session().read_devices()


def list_storages() -> list[StorageRecord]:
    """Returns every live storage once, largest first, with the user's names for it."""
    return list(_session().take_inventory().storages)


def take_ledger(device: str | None = None) -> Ledger:
    """Returns the sums of each device that close, line by line: see docs/ledger.md.

    Nothing is started, synchronized or freed.

    Args:
        device: `cuda:0`, `cpu`, …; None takes the accelerators, or the cpu where there is none.

    Raises:
        UnknownDeviceError: this machine has no such device.
    """
    return _session().take_ledger(device)


def find_leaks() -> list[Leak]:
    """Returns what is alive beyond what the values that you can name need, largest first.

    Each leak has its bytes, why it is there (`kind`), what holds it (`holder`, `path`, `cuts`), the
    cell that made it, a sentence of reason, the code that frees it and what that costs. Those of
    fewer bytes than the setting `NbMem.leak_threshold` are left out. Nothing is collected,
    synchronized or freed.
    """
    return list(_session().find_leaks().leaks)


def find_holders(name: str) -> Holders:
    """Returns why storages are alive: every way that leads to each, shortest first.

    Args:
        name: one that `list_storages` tells, a variable or `Out[3]` (all storages that it leads
            to, but by graphs), or the beginning of names, as `model.layer3`.

    Raises:
        TypeError: the name is no text.
        NameNotFoundError: it leads to no live storage.
    """
    if not issubclass(type(name), str):
        raise TypeError(
            f"a name is text, not a {type(name).__name__}: write nbmem.find_holders('x')"
        )
    session = _session()
    from nbmem.session.leaks import find_keys

    keys, _ = find_keys(session, str.__str__(name))
    return session.find_holders(keys)


def reclaim_memory(
    targets: Leak | str | Sequence[Leak | str] | None = None,
    *,
    everything: bool = False,
    dry_run: bool = False,
) -> ReclaimReport:
    """Frees leaks and returns the proof: bytes before and after, what went, what holds the rest.

    Every value that you can name stays as it is: a list of losses keeps its numbers, a small view
    of a large storage gets one of its own, an error keeps its message. Each target is looked at
    again right before; one that changed is refused.

    Args:
        targets: a leak of `find_leaks`, the name of a variable, the text of a holder
            (`traceback of cell [7]`, `losses[*]`: one of `Leak.cuts`), or a list of these. None
            takes the leaks that cost you nothing: no `%debug`, no shown output.
        everything: with no targets, takes also those that cost something; `costs` says what.
        dry_run: frees nothing; returns the plan, with the bytes that it promises.

    Raises:
        TypeError: a target is something else.
        NameNotFoundError: a text is neither a variable nor what holds a leak.
    """
    session = _session()
    act = session.plan_reclaim if dry_run else session.reclaim
    return act(targets, everything=everything)


def get_history() -> History:
    """Returns the session's history of cell records."""
    return _session().history


def _session() -> Session:
    check_torch()
    from nbmem.session import current_session

    return current_session()
