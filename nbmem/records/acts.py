"""What an act freed."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.notes import Note


@dataclass(frozen=True, slots=True)
class ReclaimReport:
    """An act that frees, and its proof in bytes."""

    act: str
    """`del`, `gc.collect()`, `empty cache`, `empty pinned cache`, `reclaim`, `park` or `unpark`."""
    planned: tuple[str, ...]
    """What was to be dropped, in words."""
    dropped: tuple[str, ...]
    """What was dropped."""
    refused: tuple[str, ...]
    """What was not, one sentence each with the reason and the next step."""
    bytes_before: int | None
    bytes_after: int | None
    counts: str
    """What the bytes count: `allocated on cuda:0`, `torch storages on cpu`, …"""
    still_held: tuple[str, ...] = ()
    """Storages that outlived the act, one sentence each."""
    notes: tuple[Note, ...] = ()
    costs: tuple[str, ...] = ()
    """What the user loses with it, one sentence each: `%debug` for an error, `Out[7]`."""
    promised: int | None = None
    """Bytes that the plan says come back; None where it can't tell."""

    @property
    def freed(self) -> int | None:
        """Bytes that came back: `bytes_before` − `bytes_after`."""
        if self.bytes_before is None or self.bytes_after is None:
            return None
        return self.bytes_before - self.bytes_after
