"""Storages over one memory: bytes are those of the addresses that live storages cover."""

import contextlib
import os
import sys
import weakref
from unittest import mock

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nbmem.heap import StorageTable, ranges, scan_heap


def _covered(storages):
    """Bytes covered by the union, byte by byte, and nothing of nbmem's."""
    bytes_covered = set()
    for storage in storages:
        bytes_covered.update(range(storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return len(bytes_covered)


def _storage(tensor):
    return tensor.untyped_storage()


SIZE = 60
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("array"), st.integers(0, SIZE - 1), st.integers(0, SIZE)),
        st.tuples(st.just("own"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("alias"), st.integers(0, 30), st.integers(0, 30)),
        st.tuples(st.just("slice"), st.integers(0, 30), st.integers(1, 30)),
        st.tuples(st.just("late"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("free"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("resize"), st.integers(0, 30), st.integers(0, 90)),
        st.tuples(st.just("share"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("window"), st.just(0), st.just(0)),
        st.tuples(st.just("close"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("list"), st.just(0), st.just(0)),
    ),
    max_size=50,
)


class _World:
    """Storages over an array and over each other, noted in any order, against a count by bytes."""

    def __init__(self):
        self.table = StorageTable()
        self.array = np.zeros(SIZE, dtype=np.uint8)
        self.held = []
        self.noted = []
        """Serials, with weak references: an alias keeps what it is made of."""
        self.unseen = []
        self.windows = []

    def note(self, storage):
        if storage.nbytes():
            self.held.append(storage)
            self.noted.append((self.table.note(storage).serial, weakref.ref(storage)))

    def alive(self, before=float("inf")):
        return [one for serial, ref in self.noted if serial < before and (one := ref()) is not None]

    def act(self, what, first, second):
        if what == "array":
            part = self.array[first : first + second]
            if len(part):
                self.note(_storage(torch.from_numpy(part)))
        elif what == "own":
            made = torch.empty(first, dtype=torch.uint8)
            if first % 2:
                self.note(_storage(made))
            else:
                self.unseen.append(_storage(made))
        elif what == "late":
            if self.unseen:
                self.note(self.unseen.pop())
        elif what == "window":
            self.windows.append((self.table.open_window(), _covered(self.alive())))
        elif what == "close":
            if self.windows:
                self.close(*self.windows.pop(first % len(self.windows)))
        elif what == "list":
            assert len(self.alive()) == len(self.table.list_all())
        elif self.held:
            self.act_on(what, first, second)

    def act_on(self, what, first, second):
        storage = self.held[first % len(self.held)]
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        if what == "alias":
            part = torch.from_dlpack(whole.detach()[second:])
            self.note(_storage(part))
        elif what == "slice":
            self.note(storage[: min(second, storage.nbytes())])
        elif what == "resize":
            if storage.resizable() and not storage.is_shared():
                storage.resize_(second)
                self.table.note(storage)
        elif what == "share":
            alone = all(s is storage or s.data_ptr() != storage.data_ptr() for s in self.alive())
            if alone and storage.resizable():
                storage.share_memory_()
                self.table.note(storage)
        elif what == "free":
            del whole, storage, self.held[first % len(self.held)]

    def close(self, window, before):
        window.close()
        self.check(window, before)

    def check(self, window, before):
        """The books of a window, with what is older taken as it is: nothing is made up."""
        first = window.first_serial
        older = _covered(self.alive(first))
        freed, resized = window.freed.get("cpu", 0), window.resized.get("cpu", 0)
        assert older == before - freed + resized

    def agree(self):
        assert _covered(self.alive()) == self.table.bytes_on("cpu")
        for window, before in self.windows:
            self.check(window, before)


@settings(max_examples=400, deadline=None)
@given(EVENTS, st.sampled_from([-1, 2, 16]))
def test_bytes_and_books_are_those_of_the_addresses_covered(events, few):
    world = _World()
    with mock.patch.object(ranges, "_FEW", few):  # sorted in one by one, or looked through
        for event in events:
            world.act(*event)
            world.agree()


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.sets(st.integers(0, 30)))
def test_what_comes_back_is_what_nothing_else_covers(events, chosen):
    world = _World()
    for event in events:
        world.act(*event)
    entries = world.table.live()
    dying = [entry for at, entry in enumerate(entries) if at in chosen]
    left = [entry() for at, entry in enumerate(entries) if at not in chosen]
    assert _covered(world.alive()) - _covered(left) == world.table.bytes_freed(dying)


def test_an_interrupt_in_the_middle_is_made_good_by_the_next_list():
    array = np.zeros(1000, dtype=np.uint8)
    for at in range(1, 120, 4):
        table, held = StorageTable(), [torch.zeros(10)]
        window = table.open_window()
        window.on_listing = lambda: None
        with contextlib.suppress(KeyboardInterrupt), _Interrupt(at):
            for begin in (0, 100, 50, 400):
                held.append(torch.from_numpy(array[begin : begin + 200]))
                table.note(_storage(held[-1]))
            del held[1]
            table.bytes_on("cpu")
        with scan_heap(table):
            pass
        table.list_all()
        listing = window.listing
        ours = [ref() for ref in table.live()]
        assert _covered(ours) == table.bytes_on("cpu") == listing.bytes["cpu"], at
        del ours


class _Interrupt:
    """Raises KeyboardInterrupt at the n-th line of the table's code that runs within it."""

    def __init__(self, at):
        self.left = at

    def __enter__(self):
        sys.settrace(self._enter)

    def __exit__(self, *_):
        sys.settrace(None)

    def _enter(self, frame, event, _):
        return self._line if f"{os.sep}heap{os.sep}" in frame.f_code.co_filename else None

    def _line(self, frame, event, _):
        if event == "line":
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self._line
