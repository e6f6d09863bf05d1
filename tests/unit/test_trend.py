"""What several runs of a cell add up to, told from plain records."""

from __future__ import annotations

import pytest
from samples import storage

from nbmem.origins import CellRun, Origin, Origins
from nbmem.session.reruns import Rerun, RunBook, growth_of, made_as


@pytest.mark.parametrize(
    ("kept", "growth"),
    [
        ([100, 100], 0),
        ([100, 350], 250),
        ([100, 200, 300, 400], 100),
        ([100, 100, 900, 100, 100], 0),  # one odd run
        ([100, 500, 100, 500, 100, 500], 0),  # to and fro
        ([100, 500, 500], 0),  # a step, once
        ([100, 100, 500], 0),
        ([100, 100, 100, 500, 500, 500], 0),
        ([100, 200, 300, 100, 200, 300], 0),  # garbage that goes every third run
        ([100, 150, 350, 400, 500, 600], 100),  # more or less
        ([900, 900, 900, 0, 10, 20, 30, 40, 50], 10),  # only the last six count
        ([300, 200, 100], 0),
        ([100, 200, 300, 0, 100, 200, 300, 400], 100),  # freed once, and it goes on
    ],
)
def test_growth_is_what_a_run_adds_whatever_one_odd_run_does(kept, growth):
    assert growth == growth_of(list(enumerate(kept, 1)))


def test_growth_counts_the_runs_that_listed_nothing():
    assert 50 == growth_of([(1, 100), (3, 200), (5, 300)])


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("model.12.weight", "tied"), "model.*.weight"),
        (("opt.state[model.0.weight]['exp_avg']",), "opt.state[*]['exp_avg']"),
        (("losses[3] → graph[17] MulBackward0.self",), "losses[*]"),
        ((), ""),
    ],
)
def test_a_copy_goes_by_the_pattern_of_its_first_name(names, pattern):
    assert pattern == made_as(storage(1, 8, "user", *names))


def told(origins, storages, *, run, devices=("cuda:0",), source=()):
    book = RunBook()
    for earlier in range(1, run):
        Rerun(CellRun(1, earlier), devices).tell(book)
    rerun = Rerun(CellRun(1, run), devices, source)
    rerun.take(storages, origins)
    return rerun.tell(book)


def made(key, run, *, cell=1, name="x", line=None):
    return (key,), Origin(run, run, name, line, (CellRun(cell, run),))


def origins_of(*entries):
    origins = Origins()
    for entry in entries:
        origins.enter(*entry)
    return origins


def test_holders_are_the_shortest_name_of_each_pattern_at_most_three():
    origins = origins_of(*(made(key, 1) for key in range(1, 8)))
    storages = [
        storage(1, 10, "user", "losses[10]", "_10"),
        storage(2, 10, "user", "losses[9]"),
        storage(3, 10, "user", "losses[8] → graph[1] MulBackward0.self"),
        storage(4, 10, "user", "kept['a']"),
        storage(5, 10, "user", "another.name"),
        storage(6, 10, "user"),
    ]
    (copies,) = told(origins, storages, run=2).by_name
    assert ("_10", "kept['a']", "losses[8]") == copies.held_by
    assert (0, 60, 0, 6) == (copies.newer, copies.older, copies.newer_count, copies.older_count)


def test_copies_of_two_devices_are_told_apart_and_others_left_out():
    origins = origins_of(made(1, 1), made(2, 1), made(3, 2), made(4, 1))
    storages = [
        storage(1, 10, "user", "a"),
        storage(2, 20, "user", "b", device="cuda:1"),
        storage(3, 40, "user", "c", device="cuda:1"),
        storage(4, 80, "user", "d", device="cpu"),
    ]
    trend = told(origins, storages, run=2, devices=("cuda:0", "cuda:1"))
    assert {"cuda:0": 10, "cuda:1": 20} == trend.older
    assert {"cuda:0": (0, 10), "cuda:1": (0, 60)} == trend.kept
    assert {"cuda:0": 10, "cuda:1": 60} == trend.growth_per_run
    assert [("cuda:1", 40, 20), ("cuda:0", 0, 10)] == [
        (c.device, c.newer, c.older) for c in trend.by_name
    ]


def test_of_many_names_the_largest_older_ones_are_told_first():
    origins = origins_of(*(made(key, 1 + key % 2, name=f"x{key}") for key in range(1, 101)))
    storages = [storage(key, key, "user", f"x{key}") for key in range(1, 101)]
    copies = told(origins, storages, run=2).by_name
    assert 24 == len(copies)
    assert [(100, 0), (98, 0), (96, 0)] == [(c.older, c.newer) for c in copies[:3]]


def test_lines_bring_the_text_that_stands_there_now():
    origins = origins_of(made(1, 1, line=2), made(2, 2, line=2), made(3, 1, line=9))
    storages = [storage(key, 10 * key, "user", "x") for key in (1, 2, 3)]
    copies = told(origins, storages, run=2, source=["%%gpumem", "  x = f(y)  "]).by_line
    # the cell had nine lines when it ran first
    assert [("9", 30, ""), ("2", 10, "x = f(y)")] == [(c.what, c.older, c.source) for c in copies]


def test_at_most_twenty_runs_are_kept():
    book = RunBook()
    for _ in range(30):
        now = book.begin("cell")
        points = book.enter(now, {"cpu": now.run})
    assert tuple(range(11, 31)) == tuple(size for _, size in points["cpu"])
    assert CellRun(2, 1) == book.begin("another")


def test_a_device_that_comes_later_had_nothing_before():
    book = RunBook()
    for sizes in ({"cuda:0": 8}, {"cuda:0": 8}, {"cuda:0": 8, "cpu": 100}):
        points = book.enter(book.begin("cell"), sizes)
    assert {"cuda:0": ((1, 8), (2, 8), (3, 8)), "cpu": ((1, 0), (2, 0), (3, 100))} == points
