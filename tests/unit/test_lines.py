"""Which line made a storage, read off the stack while it is made."""

from __future__ import annotations

import sys
import threading
import weakref

import torch

from nbmem.heap import StorageTable
from nbmem.tracking import CpuTracker, Place

BIG = 16_384
"""Floats of a storage of 64 KiB, the smallest whose line is told."""


class Told:
    """`told = Told(place)`: runs code and tells the line of the storage that it returned."""

    def __init__(self, place):
        self.table = StorageTable()
        self.tracker = CpuTracker(self.table)
        self.place = place

    def __enter__(self):
        self.tracker.lines.follow(self.place)
        self.tracker.start()
        return self

    def __exit__(self, *_):
        self.tracker.stop()
        self.tracker.lines.leave(self.place)

    def line(self, tensor):
        return self.tracker.lines.find(self.table.find(tensor.untyped_storage()).serial)


def compiled(source, name="cell"):
    return compile(source, name, "exec")


def run(source, name="cell", **names):
    exec(compiled(source, name), names)
    return names


def test_the_outermost_frame_of_the_cell_is_told():
    with Told(Place({"cell": 0})) as told:
        names = run("def make():\n    return zeros(16384)\n\n\nx = make()", zeros=torch.zeros)
    # read after `leave`: nothing is left
    assert told.line(names["x"]) is None
    with Told(Place({"cell": 0})) as told:
        names = run("def make():\n    return zeros(16384)\n\n\nx = make()", zeros=torch.zeros)
        assert 5 == told.line(names["x"])


def test_lines_that_stand_above_are_counted():
    with Told(Place({"cell": 10})) as told:
        names = run("x = zeros(16384)", zeros=torch.zeros)
        assert 11 == told.line(names["x"])


def test_code_of_another_name_is_not_the_cell():
    with Told(Place({"cell": 0})) as told:
        names = run("x = zeros(16384)", name="other", zeros=torch.zeros)
        assert told.line(names["x"]) is None


def test_what_is_made_outside_a_followed_place_has_no_line():
    table = StorageTable()
    tracker = CpuTracker(table)
    tracker.start()
    names = run("x = zeros(16384)", zeros=torch.zeros)
    tracker.stop()
    assert tracker.lines.find(table.find(names["x"].untyped_storage()).serial) is None


def test_the_place_followed_last_tells_until_it_is_left():
    outer, inner = Place({"outer": 0}), Place({"inner": 100})
    with Told(outer) as told:
        told.tracker.lines.follow(inner)
        first = run("x = zeros(16384)", name="inner", zeros=torch.zeros)
        lost = run("x = zeros(16384)", name="outer", zeros=torch.zeros)
        told.tracker.lines.leave(inner)
        last = run("\nx = zeros(16384)", name="outer", zeros=torch.zeros)
        assert [101, None, 2] == [told.line(names["x"]) for names in (first, lost, last)]


def test_each_way_to_make_a_storage_is_seen(tmp_path):
    torch.save(torch.zeros(BIG), tmp_path / "t.pt")
    source = (
        "a = torch.zeros(16384)\n"
        "b = torch.UntypedStorage(65536)\n"
        "c, d = torch.zeros(2, 16384).sort()\n"
        "e = torch.load(path)\n"
        "f = torch.frombuffer(bytearray(65536), dtype=torch.uint8)\n"
        "g = torch.eye(256).to_sparse()\n"
        "h = torch.zeros(1).resize_(16384)\n"
        "i = torch.zeros(16384)[:4]\n"
        "j = torch.nn.Parameter(torch.zeros(16384))\n"
        "with torch.inference_mode():\n"
        "    k = torch.nn.functional.linear(torch.zeros(256, 16), torch.zeros(64, 16))\n"
    )
    with Told(Place({"cell": 0})) as told:
        names = run(source, torch=torch, path=tmp_path / "t.pt")
        lines = {name: told.line(names[name]) for name in "acdefhijk"}
        lines["b"] = told.tracker.lines.find(told.table.find(names["b"]).serial)
    # a resized storage was small when it was made; a sparse tensor's values are 1 KiB
    assert {
        "a": 1,
        "b": 2,
        "c": 3,
        "d": 3,
        "e": 4,
        "f": 5,
        "h": None,
        "i": 8,
        "j": 9,
        "k": 11,
    } == lines


def test_only_storages_of_64_kib_and_more_have_lines():
    with Told(Place({"cell": 0})) as told:
        names = run("x, y = zeros(16384), zeros(16383)", zeros=torch.zeros)
        assert [1, None] == [told.line(names[name]) for name in "xy"]


def test_a_storage_keeps_the_line_that_made_it_when_it_is_written_to():
    with Told(Place({"cell": 0})) as told:
        names = run(
            "x = zeros(16384)\nx.add_(1)\nx.relu_()\nsub(x, 1, out=x)\ny = x.view(-1)",
            zeros=torch.zeros,
            sub=torch.sub,
        )
        assert [1, 1] == [told.line(names[name]) for name in "xy"]


def test_gradients_have_the_line_that_calls_backward():
    weight = torch.ones(BIG, requires_grad=True)
    with Told(Place({"cell": 0})) as told:
        run("loss = (w * 2).sum()\n\nloss.backward()", w=weight)
        assert 3 == told.line(weight.grad)


def test_with_statement_is_told_by_its_own_code():
    def body():
        first = torch.zeros(BIG)
        return [first, *(torch.zeros(BIG) for _ in range(2))]

    start = body.__code__.co_firstlineno
    with Told(Place(code=body.__code__)) as told:
        made = body()
        assert [start + 1, start + 2, start + 2] == [told.line(tensor) for tensor in made]


def test_another_thread_has_its_own_stack():
    made = []
    with Told(Place({"cell": 0})) as told:

        def work():
            told.tracker.start()
            made.append(run("\n\nx = zeros(16384)", zeros=torch.zeros)["x"])
            made.append(torch.zeros(BIG))
            told.tracker.stop()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert [3, None] == [told.line(tensor) for tensor in made]


def test_lines_of_the_dead_are_forgotten_in_a_long_loop():
    with Told(Place({"cell": 0})) as told:
        names = run("kept = zeros(16384)\nfor _ in range(5000): zeros(16384)", zeros=torch.zeros)
        assert 1 == told.line(names["kept"])
        known = [s for s in range(told.table.next_serial) if told.tracker.lines.find(s)]
    assert len(known) < 5_000


def test_no_frame_is_kept():
    class Watched:
        pass

    def body():
        watched = Watched()
        gone.append(weakref.ref(watched))
        return torch.zeros(BIG)

    gone = []
    with Told(Place(code=body.__code__)) as told:
        made = body()
        assert gone[0]() is None
        assert told.line(made) is not None
    assert sys.exc_info() == (None, None, None)
