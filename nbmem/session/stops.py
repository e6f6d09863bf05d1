"""Stop that comes while a cell begins or ends: how it reaches the cell although nbmem was at work.

IPython's events swallow what a callback raises, and ipykernel cancels only what still awaits. So

    at the opening   the cell's code is replaced by `raise KeyboardInterrupt`: none of it runs
    at the close     the result gets the error, and its traceback is shown: queued cells are aborted
"""

from __future__ import annotations

import ast
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def free_locks(*locks: Any) -> None:
    """Releases re-entrant locks that an interrupt at the end of a `with` left this thread's own."""
    for lock in locks:
        while lock._is_owned():
            lock.release()


_SWALLOWING = "ipykernel"
"""Its handler for cells that await marks the cell to be cancelled at its next `await`."""
_signal = import_module("_signal")
"""`signal` without its enumerations, which ask a handler of the user's for its hash."""
_TOLD = "the cell's own code had ended, nbmem's look at it was dropped"


class _Replacement:
    """An AST transformer that puts an interrupt in the place of a cell."""

    def visit(self, node: Any) -> Any:
        """Returns the module that raises."""
        raising = ast.parse("raise KeyboardInterrupt")
        return raising if isinstance(node, ast.Module) else node


class Stops:
    """Hands interrupts on to the cell that begins or ends."""

    def __init__(self) -> None:
        self._replacement = _Replacement()
        self._looking = False
        self._handler: Any = None

    def interrupt_next(self, shell: InteractiveShell | None) -> None:
        """Has the cell that begins raise an interrupt in the place of its first line."""
        if shell is not None and self._replacement not in shell.ast_transformers:
            shell.ast_transformers.append(self._replacement)

    def disarm(self, shell: InteractiveShell | None) -> None:
        """Ends `interrupt_next`."""
        if shell is not None and self._replacement in shell.ast_transformers:
            shell.ast_transformers.remove(self._replacement)

    def interrupt_ended(self, shell: InteractiveShell | None, result: Any) -> None:
        """Makes the cell that ended well one that was interrupted."""
        if shell is None or result is None or not result.success:
            return
        error = KeyboardInterrupt(_TOLD)
        error._render_traceback_ = lambda: [f"KeyboardInterrupt: {_TOLD}"]  # type: ignore[attr-defined]
        result.error_in_exec = error
        shell.last_execution_succeeded = False
        shell.showtraceback((KeyboardInterrupt, error, None))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within it Stop raises an interrupt also in a cell that awaits."""
        self._listen()
        try:
            yield
        finally:
            self.give_back()

    def _listen(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        handler = _signal.getsignal(signal.SIGINT)
        if type(handler) is FunctionType and handler.__module__.startswith(_SWALLOWING):
            self._handler, self._looking = handler, True
            _signal.signal(signal.SIGINT, self._heard)

    def _heard(self, number: int, frame: Any) -> None:
        if self._looking:
            raise KeyboardInterrupt
        self._handler(number, frame)

    def give_back(self) -> None:
        """Puts the handler back that was there before."""
        if self._handler is None or threading.current_thread() is not threading.main_thread():
            return
        self._looking = False
        if _signal.getsignal(signal.SIGINT) == self._heard:
            _signal.signal(signal.SIGINT, self._handler)
        self._handler = None
