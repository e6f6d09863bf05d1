"""`%gpumem` and `%%gpumem`: parse, call, display."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.display import display

from nbmem import render
from nbmem.records import Note
from nbmem.session import Session, current_session
from nbmem.session.request import gpumem_cell, parse_request

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_ROWS = 20


def gpumem(line: str) -> None:
    """Shows and steers nbmem.

    Put `%%gpumem` on the first line of a cell to measure it; see `%%gpumem?`.

    ====================== =====================================================
    `%gpumem`              what each device holds now
    `%gpumem on`           record every cell from now on, without printing
    `%gpumem off`          record only cells with `%%gpumem`
    `%gpumem history`      the table of recorded cells
    `%gpumem tensors [N]`  the N largest live storages with your names for them
    `%gpumem panel`        chart, tables and buttons, below this cell
    `%gpumem errors`       what broke inside nbmem, with tracebacks
    ====================== =====================================================

    The records are in `nbmem.get_history()`; settings in `%config NbMem`.
    """
    name, _, rest = line.strip().partition(" ")
    command = _COMMANDS.get(name)
    if command is None:
        accepted = ", ".join(key for key in _COMMANDS if key)
        raise UsageError(f"%gpumem: no {name!r}, only {accepted}; for example: %gpumem panel")
    session, notes = current_session(), list[Note]()
    with session.troubles.caught(f"run %gpumem {name}".rstrip(), notes, but=UsageError):
        command(session, rest.strip())
    for note in notes:
        print(note.sentence)


def run_cell_directly(line: str, cell: str) -> None:
    """Runs a cell for a program that calls `run_cell_magic("gpumem", …)` itself.

    IPython calls it too for a `%%gpumem` line that can't be read: then it raises.
    """
    parse_request(line, current_session().check_device)
    get_ipython().run_cell(f"%%gpumem {line}\n{cell}").raise_error()


run_cell_directly.__doc__ = gpumem_cell.__doc__


def _status(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem")
    readings = session.read_devices()
    _show(render.status_bundle(readings, units=session.units, width=session.width))


def _on(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem on")
    session.recording = True
    print("nbmem records every cell from now on; %gpumem history lists them.")


def _off(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem off")
    session.recording = False
    print("nbmem records only cells that begin with %%gpumem.")


def _history(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem history")
    records = session.history.records()
    _show(render.history_bundle(records, units=session.units, width=session.width))
    for note in session.history.notes:
        print(note.sentence)


def _tensors(session: Session, rest: str) -> None:
    rows = _number(rest, "%gpumem tensors 50") if rest else _ROWS
    inventory = session.take_inventory()
    width = session.width
    _show(render.storages_bundle(inventory, units=session.units, rows=rows, width=width))


def _panel(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem panel")
    if not _has_front_end(session):
        print("The panel needs a notebook, as in JupyterLab. In a terminal the same in text:\n")
        _history(session, "")
        return _tensors(session, "")
    from nbmem.panel import Panel

    display(Panel(session))
    return None


def _errors(session: Session, rest: str) -> None:
    _refuse(rest, "%gpumem errors")
    kept = session.troubles.all()
    print("\n".join(t.traceback for t in kept) if kept else "Nothing broke inside nbmem.")


def _has_front_end(session: Session) -> bool:
    """Returns whether the shell belongs to a kernel, which a notebook speaks to."""
    return getattr(session.shell, "kernel", None) is not None


_COMMANDS: dict[str, Callable[[Session, str], None]] = {
    "": _status,
    "on": _on,
    "off": _off,
    "history": _history,
    "tensors": _tensors,
    "panel": _panel,
    "errors": _errors,
}


def _refuse(rest: str, example: str) -> None:
    if rest:
        raise UsageError(f"%gpumem: {rest!r} is more than it takes; for example: {example}")


def _number(text: str, example: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"%gpumem: {text!r} is no number of rows; for example: {example}")
    return int(text)


def _show(bundle: dict[str, str]) -> None:
    display(bundle, raw=True)


_replaced: dict[str, Any] = {}


def register(shell: InteractiveShell) -> None:
    """Registers the magics; what they replace comes back at `unregister`."""
    for kind, function in (("line", gpumem), ("cell", run_cell_directly)):
        known = shell.magics_manager.magics[kind]
        if known.get("gpumem") is not function:
            _replaced[kind] = known.get("gpumem")
        shell.register_magic_function(function, kind, "gpumem")


def unregister(shell: InteractiveShell) -> None:
    """Takes the magics out of the shell."""
    for kind in ("line", "cell"):
        before = _replaced.pop(kind, None)
        shell.magics_manager.magics[kind].pop("gpumem", None)
        if before is not None:
            shell.register_magic_function(before, kind, "gpumem")
