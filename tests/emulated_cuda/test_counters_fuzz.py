"""Scopes and the user's own resets in any order, on two cards: every peak against raw counters.

Blocks come and go one at a time, so the most that a counter showed after any of them is its peak.
"""

import ctypes
import gc

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbmem.devices import Devices
from nbmem.heap import StorageTable
from nbmem.scopes import Scopes
from nbmem.tracking import CpuTracker

KINDS = ("allocated", "reserved")
CARDS = range(2)
RESETS = (torch.cuda.reset_peak_memory_stats, torch.accelerator.reset_peak_memory_stats)
ALLOCATED = (torch.cuda.max_memory_allocated, torch.accelerator.max_memory_allocated)
RESERVED = (torch.cuda.max_memory_reserved, torch.accelerator.max_memory_reserved)

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 1), st.integers(1, 40 << 20)),
        st.tuples(st.just("take"), st.integers(0, 1), st.integers(1, 4000)),
        st.tuples(st.just("free"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("open"), st.just(0), st.just(0)),
        st.tuples(st.just("close"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("reset"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("empty"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


def raw(card):
    """What torch's allocator counts now; nobody resets these figures."""
    stats = torch._C._cuda_memoryStats(card)
    return {kind: stats[f"{kind}_bytes"]["all"]["current"] for kind in KINDS}


class Tops:
    """The largest figures since it began."""

    def __init__(self):
        self.first = [raw(card) for card in CARDS]
        self.tops = [raw(card) for card in CARDS]

    def look(self):
        for card, top in zip(CARDS, self.tops, strict=True):
            for kind, figure in raw(card).items():
                top[kind] = max(top[kind], figure)


class World:
    def __init__(self, scopes):
        self.scopes = scopes
        self.blocks, self.open, self.checks = [], [], 0
        self.user = [Tops() for _ in CARDS]

    def act(self, what, first, second):
        if what == "take":
            self.blocks.append(torch.empty(second, dtype=torch.uint8, device=f"cuda:{first}"))
        elif what == "free" and self.blocks:
            del self.blocks[first % len(self.blocks)]
        elif what == "empty":
            torch.cuda.empty_cache()
        elif what == "reset":
            RESETS[second](first)
            self.user[first] = Tops()
        elif what == "open":
            self.open.append((self.scopes.open(scan=False), Tops()))
        elif what == "close" and self.open:
            self.close(*self.open.pop(first % len(self.open)))
        for tops in (*self.user, *(tops for _, tops in self.open)):
            tops.look()
        self.check_users()

    def close(self, scope, tops):
        deltas = scope.close().deltas
        for card in CARDS:
            told, now = deltas[f"cuda:{card}"], raw(card)
            assert tops.first[card]["allocated"] == told.before
            assert now["allocated"] == told.after
            assert tops.tops[card]["allocated"] == told.peak
            assert tops.first[card]["reserved"] == told.reserved_before
            assert now["reserved"] == told.reserved_after
            self.checks += 5

    def check_users(self):
        for card in CARDS:
            for read in ALLOCATED:
                assert self.user[card].tops[card]["allocated"] == read(card)
            for read in RESERVED:
                assert self.user[card].tops[card]["reserved"] == read(card)
            self.checks += 4


@pytest.fixture(scope="module")
def cards():
    if torch.cuda.device_count() < 2:
        emulated = hasattr(ctypes.CDLL(None), "emulated_cuda_calls")
        assert not emulated, "run it with EMULATED_CUDA_DEVICES=2, as make test-cuda"
        pytest.skip("this machine has one GPU")
    for card in CARDS:
        torch.zeros(1, device=f"cuda:{card}")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(EVENTS)
def test_every_peak_is_right_whatever_else_is_open_or_reset(cards, events):
    gc.collect()
    torch.cuda.empty_cache()
    for card in CARDS:
        torch.cuda.reset_peak_memory_stats(card)
    table = StorageTable()
    tracker = CpuTracker(table)
    scopes = Scopes(table, tracker, Devices(tracker))
    scopes.devices.install()
    world = World(scopes)
    try:
        for event in events:
            world.act(*event)
        while world.open:
            world.close(*world.open.pop())
    finally:
        scopes.close_all()
        scopes.devices.uninstall()
    assert world.checks >= 8 * len(events)
