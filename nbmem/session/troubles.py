"""What broke inside nbmem: kept as text, told in one line, never raised into a user's cell."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nbmem.records import Note


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

    def all(self) -> tuple[Trouble, ...]:
        """Returns the failures kept, oldest first."""
        return tuple(self._kept)

    @contextmanager
    def caught(
        self, doing: str, notes: list[Note], *, but: type[Exception] | tuple[()] = ()
    ) -> Iterator[None]:
        """Runs a block of nbmem's own work; what it raises becomes a note, Ctrl-C included.

        Exceptions of the type `but` pass: they are meant for the user.
        """
        try:
            yield
        except but:
            raise
        except (Exception, KeyboardInterrupt) as error:
            notes.append(self._keep(doing, error).note())

    def _keep(self, doing: str, error: BaseException) -> Trouble:
        lines = "".join(traceback.format_exception(error))
        message = str(error).strip().splitlines()[:1]
        summary = ": ".join([type(error).__name__, *message])[:300]
        trouble = Trouble(doing, summary, lines)
        self._kept.append(trouble)
        return trouble
