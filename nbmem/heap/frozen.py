"""Objects that `gc.freeze()` took out of the garbage collector's sight, and so out of a scan's."""

from __future__ import annotations

import gc

from nbmem.records import Note

CODE = "frozen"
_OF_PYTHON = 4096
"""More than Python 3.12 keeps there of its own types (375 on 3.12.1), which no scan misses; less
than `gc.freeze()` takes, which is all that is tracked: 16,000 objects before an import."""


def count_frozen() -> int:
    """Returns how many objects `gc.freeze()` took out of sight; 0 for Python's own types."""
    count = gc.get_freeze_count()
    return count if count > _OF_PYTHON else 0


def notes_on_frozen(field: str) -> tuple[Note, ...]:
    """Returns a note with the count of frozen objects; nothing where there are none.

    A frozen tensor that a name leads to is found, and one that was seen before it was frozen too.
    What is missing is garbage that nothing has shown before.

    Args:
        field: what the note is about.
    """
    count = count_frozen()
    if not count:
        return ()
    sentence = (
        f"gc.freeze() took {count:,} objects out of sight: memory that only garbage among them "
        "keeps is missing here unless it was seen before; gc.unfreeze() shows it again."
    )
    return (Note(field, CODE, sentence),)
