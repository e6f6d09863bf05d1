"""`%gpumem` and `%%gpumem`: parse, call, display."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.display import display

from nbmem import render
from nbmem.errors import NbmemError
from nbmem.magics.leaks import HOLDERS, LEAKS, RECLAIM, reclaim, show_holders, show_leaks
from nbmem.magics.options import (
    LineParser,
    ledger_parser,
    plain_parser,
    tensors_parser,
    tensors_request,
)
from nbmem.magics.parking import PARK, UNPARK, park, unpark
from nbmem.records import Note
from nbmem.session import Session, current_session
from nbmem.session.request import gpumem_cell, parse_request

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

Command = Callable[[Session, Namespace], None]


def gpumem(line: str) -> None:
    """Shows and steers nbmem.

    Put `%%gpumem` on the first line of a cell to measure it; see `%%gpumem?`.

    ======================== ===================================================
    `%gpumem`                what each device holds now
    `%gpumem on`             record every cell from now on, without printing
    `%gpumem off`            record only cells with `%%gpumem`
    `%gpumem history`        the table of recorded cells
    `%gpumem tensors`        live storages with your names for them: filtered,
                             sorted, by category, module, cell, dtype or device
    `%gpumem ledger`         the sums of each device that close
    `%gpumem leaks`          what is alive beyond need: why, where, what frees it
    `%gpumem holders NAME`   every way by which something is kept alive
    `%gpumem reclaim`        frees leaks that cost nothing, and says what came back
    `%gpumem park NAME`      moves a model's memory to main memory; `unpark` back
    `%gpumem panel`          chart, tables and buttons, below this cell
    `%gpumem errors`         what broke inside nbmem, with tracebacks
    ======================== ===================================================

    Examples::

        %gpumem tensors 50
        %gpumem tensors conv1 category=gradient size>1MiB
        %gpumem tensors --by module
        %gpumem tensors --where
        %gpumem ledger cuda:0
        %gpumem reclaim 1 3

    Each explains its options after `--help`. The records are in `nbmem.get_history()`; settings
    in `%config NbMem`.
    """
    name, rest = (*line.split(None, 1), "", "")[:2]
    if name in _HELP:
        print(inspect.cleandoc(gpumem.__doc__ or ""))
        return
    command, parser = _find(name)
    session, notes = current_session(), list[Note]()
    with session.troubles.caught(f"run %gpumem {name}".rstrip(), notes, but=UsageError):
        options = parser.read(rest)
        if options is None:
            print(parser.help_text())
        else:
            command(session, options)
    session.troubles.pass_on()
    for note in notes:
        print(note.sentence)


def _find(name: str) -> tuple[Command, LineParser]:
    """Returns the subcommand of this name, and what reads its options."""
    if name not in _COMMANDS:
        accepted = ", ".join(key for key in _COMMANDS if key)
        raise UsageError(f"%gpumem: no {name!r}, only {accepted}; for example: %gpumem panel")
    return _COMMANDS[name]


def run_cell_directly(line: str, cell: str) -> None:
    """Runs a cell for a program that calls `run_cell_magic("gpumem", …)` itself.

    IPython calls it too for a `%%gpumem` line that can't be read: then it raises.
    """
    parse_request(line, current_session().check_device)
    get_ipython().run_cell(f"%%gpumem {line}\n{cell}").raise_error()


run_cell_directly.__doc__ = gpumem_cell.__doc__


def _status(session: Session, _: Namespace) -> None:
    readings = session.read_devices()
    _show(render.status_bundle(readings, units=session.units, width=session.width))
    for trouble in session.troubles.all()[-1:]:
        print(f"The last thing that broke inside nbmem: {trouble.note().sentence}")


def _on(session: Session, _: Namespace) -> None:
    session.recording = True
    print("nbmem records every cell from now on; %gpumem history lists them.")


def _off(session: Session, _: Namespace) -> None:
    session.recording = False
    print("nbmem records only cells that begin with %%gpumem.")


def _history(session: Session, _: Namespace) -> None:
    records = session.history.records()
    _show(render.history_bundle(records, units=session.units, width=session.width))
    for note in session.history.notes:
        print(note.sentence)


def _tensors(session: Session, options: Namespace) -> None:
    asked = tensors_request(options, _TENSORS)
    bundle = render.tensors_bundle(
        session.take_inventory(),
        by=asked.by,
        text=asked.text,
        sort=asked.sort,
        rows=asked.rows,
        where=asked.where,
        units=session.units,
        width=session.width,
    )
    _show(bundle)


def _ledger(session: Session, options: Namespace) -> None:
    try:
        ledger = session.take_ledger(options.device)
    except NbmemError as error:
        _LEDGER.error(str(error))
    if options.device == "host":
        print("Host memory is part of cpu's ledger:")
    _show(render.ledger_bundle(ledger, units=session.units, width=session.width))


def _panel(session: Session, options: Namespace) -> None:
    if not _has_front_end(session):
        print("The panel needs a notebook, as in JupyterLab. In a terminal the same in text:\n")
        _history(session, options)
        return _tensors(session, _TENSORS.parse_args([]))
    from nbmem.panel import Panel, kind_for

    display(Panel(session, kind=kind_for(session.settings.panel)))
    return None


def _errors(session: Session, _: Namespace) -> None:
    kept = session.troubles.all()
    print("\n".join(t.traceback for t in kept) if kept else "Nothing broke inside nbmem.")


def _has_front_end(session: Session) -> bool:
    """Returns whether the shell belongs to a kernel, which a notebook speaks to."""
    return getattr(session.shell, "kernel", None) is not None


_TENSORS, _LEDGER = tensors_parser(), ledger_parser()
_HELP = ("-h", "--help", "help")
_COMMANDS: dict[str, tuple[Command, LineParser]] = {
    "": (_status, plain_parser("", "Shows what each device holds now.")),
    "on": (_on, plain_parser("on", "Records every cell from now on, without printing.")),
    "off": (_off, plain_parser("off", "Records only cells that begin with %%gpumem.")),
    "history": (_history, plain_parser("history", "Shows the table of recorded cells.")),
    "tensors": (_tensors, _TENSORS),
    "ledger": (_ledger, _LEDGER),
    "leaks": (show_leaks, LEAKS),
    "holders": (show_holders, HOLDERS),
    "reclaim": (reclaim, RECLAIM),
    "park": (park, PARK),
    "unpark": (unpark, UNPARK),
    "panel": (_panel, plain_parser("panel", "Shows chart, tables and buttons, below this cell.")),
    "errors": (_errors, plain_parser("errors", "Shows what broke inside nbmem.")),
}


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
