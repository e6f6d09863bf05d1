"""What broke inside nbmem: kept as text, told in one line, never raised into a user's cell.

An interrupt is none of that: it is the user's. What it lands in is dropped, which is noted, and
whoever works for the user's cell hands the interrupt on (`pass_on`, `take_interrupt`).
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from nbmem.heap.surroundings import Surroundings
from nbmem.records import Note

INTERRUPTED = "interrupted"
"""Code of the note on what was dropped."""


def interrupted_note(doing: str) -> Note:
    """Returns the line on what an interrupt ended."""
    sentence = f"Interrupted before nbmem could {doing}: that was dropped."
    return Note(field=doing, code=INTERRUPTED, sentence=sentence)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure of nbmem's own."""

    doing: str
    """What nbmem was about to do: `list what the cell left`."""
    summary: str
    """`TypeName: message` of the exception."""
    traceback: str
    """As text: a kept exception would keep the frames and their tensors."""

    def note(self) -> Note:
        """Returns the line that the record carries."""
        return Note(
            field=self.doing,
            code="broken",
            sentence=f"nbmem could not {self.doing}: {self.summary} (`%gpumem errors` shows where)",
        )


class Troubles:
    """The last failures, newest last; at most 20."""

    def __init__(self) -> None:
        self._kept: deque[Trouble] = deque(maxlen=20)
        self._interrupted = False

    def all(self) -> tuple[Trouble, ...]:
        """Returns the failures kept, oldest first."""
        return tuple(self._kept)

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt waits to be handed on: nothing long is to be begun."""
        return self._interrupted and threading.current_thread() is threading.main_thread()

    def interrupt(self) -> None:
        """Notes that an interrupt is to be handed on."""
        self._interrupted = True

    def take_interrupt(self) -> bool:
        """Returns whether an interrupt waits to be handed on; it is the caller's from now on."""
        taken = self.interrupted
        if taken:
            self._interrupted = False
        return taken

    def pass_on(self) -> None:
        """Hands an interrupt on to whoever called nbmem.

        Raises:
            KeyboardInterrupt: one waits.
        """
        if self.take_interrupt():
            raise KeyboardInterrupt

    def caught(
        self, doing: str, notes: list[Note], *, but: type[Exception] | tuple[()] = ()
    ) -> Caught:
        """Runs a block of nbmem's own work; what it raises becomes a note.

        Exceptions of the type `but` pass: they are meant for the user. An interrupt waits to be
        handed on.
        """
        return Caught(self, doing, notes, but)

    def keep(self, doing: str, error: BaseException) -> Trouble:
        """Keeps a failure as text."""
        lines = "".join(traceback.format_exception(error))
        message = str(error).strip().splitlines()[:1]
        summary = ": ".join([type(error).__name__, *message])[:300]
        trouble = Trouble(doing, summary, lines)
        self._kept.append(trouble)
        return trouble


class Caught:
    """One block of nbmem's own work. A generator would break where an interrupt comes early."""

    __slots__ = ("_but", "_doing", "_notes", "_surroundings", "_troubles")

    def __init__(
        self,
        troubles: Troubles,
        doing: str,
        notes: list[Note],
        but: type[Exception] | tuple[()],
    ) -> None:
        self._troubles, self._doing, self._notes, self._but = troubles, doing, notes, but
        self._surroundings = Surroundings()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if kind is None or error is None or issubclass(kind, self._but):
            return False
        if issubclass(kind, KeyboardInterrupt):
            self._troubles.interrupt()
            self._surroundings.restore()
            self._notes.append(interrupted_note(self._doing))
            return True
        if issubclass(kind, Exception):
            self._notes.append(self._troubles.keep(self._doing, error).note())
            return True
        return False
