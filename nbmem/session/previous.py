"""Two opt-ins that free by themselves: what a cell's former run left, and an out-of-memory error.

    about to run again ──> names it is sure to make anew ──> those that hold only what its earlier
                                                              runs made ──> let go of them

So `model = …` never holds two copies. A name is looked at when the cell begins: one that another
cell assigned meanwhile, or that holds anything made elsewhere, is left alone.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from nbmem.heap.storages import bare_torch
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.parts import parts_of
from nbmem.inventory.paths import Step
from nbmem.inventory.trail import STATE
from nbmem.inventory.walk import NameWalk
from nbmem.reclaim.names import drop_output, drop_variable
from nbmem.reclaim.tracebacks import release_error
from nbmem.records import Note
from nbmem.session import roots
from nbmem.session.cell_names import names_made_first, reads_outputs
from nbmem.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbmem.heap import StorageRef
    from nbmem.origins import CellRun
    from nbmem.session.core import Session

_BUDGET = 0.5
"""Seconds that the walk of one name may take; one that takes longer stays."""
_MOST_NAMES = 6


def free_previous(session: Session, code: str, run: CellRun, shown: int | None) -> list[Note]:
    """Lets go of what earlier runs of a cell left in its own variables and its own output.

    Args:
        session: whose cell it is.
        code: of the cell that is about to run, as Python.
        run: the run that begins.
        shown: execution count of the run before; None where it had none.

    Returns:
        What went and how many bytes came back; nothing where there was nothing to let go of.
    """
    shell = session.shell
    if shell is None or run.run < 2:
        return []
    own = _Own(session, run)
    names = roots.user_names(shell)
    made = [name for name in names_made_first(code, shell.user_ns) if name in names]
    doomed = [name for name in made if own.holds_all(names[name])]
    output = f"Out[{shown}]"
    showed = roots.output_cache(shell).get(output) if not reads_outputs(code) else None
    before = _bytes(session)
    dropped = list(doomed)
    if showed is not None and own.holds_all(showed):
        drop_output(shell, [showed])
        dropped.append(output)
    del names, showed
    for name in doomed:
        drop_variable(shell, name)
    if any(ref() is not None for ref in own.refs):  # optimizers and hooks make cycles
        gc.collect()
    return [_told(dropped, before - _bytes(session), session)] if dropped else []


def _bytes(session: Session) -> int:
    return sum(session.table.bytes_on(device) for device in session.table.devices())


def _told(dropped: list[str], freed: int, session: Session) -> Note:
    shown = dropped[:_MOST_NAMES]
    more = f" and {len(dropped) - len(shown):,} more" if len(dropped) > len(shown) else ""
    size = format_bytes(freed, session.units)
    sentence = f"Let go of what the run before had left in {', '.join(shown)}{more}: {size} back."
    return Note("before", "freed_previous", sentence)


class _Own:
    """Tells whether a value holds nothing but what earlier runs of one cell made."""

    def __init__(self, session: Session, run: CellRun) -> None:
        self._table = session.table
        self._origins = session.origins
        self._run = run
        self.refs: list[StorageRef] = []
        """Of all values that hold nothing else."""

    def holds_all(self, value: Any) -> bool:
        """Returns whether all storages in it are of the cell's earlier runs, and there are any.

        Gradients and what an optimizer keeps for parameters go along with those, whoever made them.
        """
        with bare_torch():
            trail = NameWalk(_BUDGET).run({"value": value}, {})
            try:
                if trail.notes or trail.graphs:
                    return False
                reach_gradients(trail)
                own = {
                    link.tensor
                    for link in trail.links
                    if link.step is not Step.GRADIENT and trail.within(link) != STATE
                }
                parts = [part for index in own for part in parts_of(trail.tensors[index])]
                refs = [self._table.find(part.storage) for part in parts]
            finally:
                trail.clear()
        known = [ref for ref in refs if ref is not None and self._is_earlier(ref.serial)]
        if not known or len(known) < len(refs):
            return False
        self.refs += known
        return True

    def _is_earlier(self, serial: int) -> bool:
        origin = self._origins.find(serial)
        made_in = None if origin is None else origin.run_of(self._run.cell)
        return made_in is not None and made_in < self._run.run


def release_oom(session: Session, error: BaseException) -> Note:
    """Empties the variables of the calls that ran out of memory; returns what came back."""
    before = _allocated(session)
    release_error(error)
    after = _allocated(session)
    freed = sum(max(size - after.get(device, size), 0) for device, size in before.items())
    size = f"{format_bytes(freed, session.units)} back, " if freed else ""
    sentence = (
        f"Let go of the variables of the calls that ran out of memory: {size}%debug shows none."
    )
    return Note("after", "released_oom", sentence)


def _allocated(session: Session) -> Mapping[str, int]:
    readings = session.read_devices()
    return {r.device: r.allocated for r in readings if r.kind != "host" and r.allocated is not None}
