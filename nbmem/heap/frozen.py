"""Objects that `gc.freeze()` took out of the garbage collector's sight, and so out of a scan's."""

from __future__ import annotations

import gc

from nbmem.records import Note

CODE = "frozen"


def notes_on_frozen(field: str) -> tuple[Note, ...]:
    """Returns a note with the count of frozen objects; nothing where there are none.

    A frozen tensor that a name leads to is found, and one that was seen before it was frozen too.
    What is missing is garbage that nothing has shown before.

    Args:
        field: what the note is about.
    """
    count = gc.get_freeze_count()
    if not count:
        return ()
    sentence = (
        f"gc.freeze() took {count:,} objects out of sight: memory that only garbage among them "
        "keeps is missing here unless it was seen before; gc.unfreeze() shows it again."
    )
    return (Note(field, CODE, sentence),)
