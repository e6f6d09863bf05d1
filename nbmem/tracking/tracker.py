"""Tracking switched on and off, on one thread or several, and what it could not see."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

from nbmem.records import Note
from nbmem.tracking import wrapped
from nbmem.tracking.follower import (
    Follower,
    hide_from_dynamo,
    put_below_users_modes,
    remove_from_stack,
)
from nbmem.tracking.lines import AllocationLines

if TYPE_CHECKING:
    from nbmem.heap import StorageRef, StorageTable

_NUMBER = 16
"""Bytes of the largest number, a complex one. Autograd keeps the factor of `weight * 2` as a tensor
that C++ made: small storages out of sight are such numbers, and no reason to doubt a peak."""
_on: weakref.WeakSet[CpuTracker] = weakref.WeakSet()
_fork_hook_is_set = False


class CpuTracker:
    """Keeps a table exact, operation by operation, from `start` to `stop`.

    It is also a counter with one peak (`devices.PeakCounter`): of the bytes of torch's CPU
    storages that the table knows. Whoever starts it merges a heap scan into the table before.
    """

    device = "cpu"

    def __init__(self, table: StorageTable) -> None:
        self._table = table
        self.lines = AllocationLines(table)
        """Which line made what; silent until a place is followed."""
        self._followers: dict[int, Follower] = {}
        self._starts: list[tuple[object, int]] = []
        """Who started on which thread, and has not stopped."""
        self._on: set[int] = set()
        """Threads whose follower was put onto the stack."""
        self._notes: dict[str, Note] = {}
        self._compiled_before = 0

    def allocated(self) -> int:
        """Returns the bytes of the CPU storages that live."""
        return self._table.bytes_on("cpu")

    def peak(self) -> int:
        """Returns the largest `allocated()` since the last `reset_peak()`."""
        return self._table.peak_on("cpu")

    def glance(self) -> tuple[int, int]:
        """Returns (`allocated()`, `peak()`) for another thread, which must change nothing."""
        return self._table.glance("cpu")

    def reset_peak(self) -> None:
        """Makes the present bytes the peak."""
        self._table.reset_peak("cpu")

    @property
    def is_on(self) -> bool:
        """Whether a `start` waits for its `stop`, on any thread."""
        return bool(self._starts)

    def start(self, key: object = None) -> None:
        """Follows this thread's operations from now on; each call needs its own `stop`.

        Args:
            key: whose start it is. A second start with the same key goes on where an interrupt
                ended the first.
        """
        if not self._starts:
            self._begin()
        thread = threading.get_ident()
        if key is None or all(key is not known for known, _ in self._starts):
            self._starts.append((key, thread))
        if thread not in self._on:
            follower = self._followers.setdefault(thread, Follower(self._table, self.lines))
            follower.switch_on(self._table)
            while remove_from_stack(follower):
                pass  # left there by a `stop` on another thread
            self._on.add(thread)
            put_below_users_modes(follower)

    def stop(self, key: object = None) -> None:
        """Ends one `start`, that with the same key where there is one; a call too many is none."""
        self._forget_start(key)
        still = {thread for _, thread in self._starts}
        for thread in [thread for thread in self._on if thread not in still]:
            self._take_off(thread)
            self._on.discard(thread)
        if not self._starts:
            self._end()

    def _forget_start(self, key: object) -> None:
        thread = threading.get_ident()
        mine = [n for n, (known, _) in enumerate(self._starts) if known is key]
        here = [n for n in mine if self._starts[n][1] == thread]
        if mine:
            del self._starts[(here or mine)[-1]]

    def notes(self) -> list[Note]:
        """Returns what could not be seen since the last `start` from zero."""
        if self._starts:
            self._look_for_compiled()
        for follower in self._followers.values():
            if follower.failure is not None:
                self._add("broken", f"nbmem could not enter a storage ({follower.failure}).")
        return list(self._notes.values())

    def note_unseen(self, first_serial: int) -> list[Note]:
        """Returns a note where a heap scan has just found storages that tracking never saw.

        Args:
            first_serial: the table's `next_serial` before that scan.
        """
        count = sum(ref.bytes > _NUMBER for ref in self._found_since(first_serial))
        if count and "compiled" not in self._notes:
            storages = "1 storage was" if count == 1 else f"{count} storages were"
            self._add(
                "other_threads",
                f"{storages} made out of sight, by other threads or by C++: "
                "the peak is that of this thread.",
            )
        return self.notes()

    def unseen_numbers(self, first_serial: int) -> int:
        """Returns the bytes, among what such a scan found, of numbers that autograd keeps."""
        sizes = [ref.bytes for ref in self._found_since(first_serial)]
        return sum(size for size in sizes if size <= _NUMBER)

    def _found_since(self, first_serial: int) -> list[StorageRef]:
        live = self._table.live()
        return [ref for ref in live if ref.serial >= first_serial and ref.device == "cpu"]

    def _begin(self) -> None:
        self._notes.clear()
        for follower in self._followers.values():
            follower.failure = None
        self._compiled_before = wrapped.compiled_calls()
        _set_fork_hook()
        hide_from_dynamo()
        wrapped.listen(self._enter)
        _on.add(self)

    def _end(self) -> None:
        wrapped.forget(self._enter)
        _on.discard(self)
        self._look_for_compiled()

    def _enter(self, value: object) -> None:
        for follower in self._followers.values():
            follower.note_all(value)
            return

    def _take_off(self, thread: int) -> None:
        follower = self._followers[thread]
        if thread != threading.get_ident():
            follower.switch_off()  # nobody but that thread can take it from its stack
            return
        found = False
        while remove_from_stack(follower):
            found = True
        if not found:
            self._add(
                "mode_removed",
                "A dispatch mode was closed twice and took nbmem's away: the peak is partial.",
            )

    def _look_for_compiled(self) -> None:
        if wrapped.compiled_calls() > self._compiled_before:
            self._add(
                "compiled",
                "Code compiled by torch.compile ran: what it made is counted at the end, and "
                "what it held meanwhile is not in the peak.",
            )

    def _add(self, code: str, sentence: str) -> None:
        self._notes.setdefault(code, Note("peak", code, sentence))

    def _leave_child(self) -> None:
        """Switches tracking off in a forked process, which has its own copy of everything."""
        for follower in self._followers.values():
            follower.switch_off()
            remove_from_stack(follower)
        self._starts.clear()
        self._on.clear()
        wrapped.forget(self._enter)


def _set_fork_hook() -> None:
    global _fork_hook_is_set
    if not _fork_hook_is_set and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_leave_children)
        _fork_hook_is_set = True


def _leave_children() -> None:
    for tracker in list(_on):
        tracker._leave_child()
    _on.clear()
