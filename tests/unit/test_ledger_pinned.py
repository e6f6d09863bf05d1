"""The sum of pinned host memory, and what torch says of it."""

from types import SimpleNamespace

import pytest
import torch

from nbmem.heap.pinned import pinned_block, pinned_total
from nbmem.ledger.pinned import pinned_ledger
from nbmem.reclaim import acts
from nbmem.records import Inventory, StorageRecord

ROOM = torch.empty(4096, dtype=torch.uint8)
"""Real memory in which the tests' storages lie: addresses within it can be told."""


class Ref:
    def __init__(self, serial, begin, end):
        self.serial = serial
        self._storage = SimpleNamespace(
            nbytes=lambda: end - begin, data_ptr=lambda: ROOM.data_ptr() + begin
        )

    def __call__(self):
        return self._storage


def sum_of(total, *storages):
    """The sum over storages given as (begin, end, pinned?)."""
    refs = [Ref(key, begin, end) for key, (begin, end, _) in enumerate(storages)]
    records = tuple(
        StorageRecord(
            key=key, bytes=end - begin, device="cpu", dtype="uint8", shape=(), category="user",
            names=(), created_by=None, created_in=None, views=1, visible=True, pinned=is_pinned,
        )
        for key, (begin, end, is_pinned) in enumerate(storages)
    )  # fmt: skip
    table = SimpleNamespace(live=lambda: refs)
    ledger = pinned_ledger(Inventory(records, 1.0), table, total)
    assert ("host", "host") == (ledger.device, ledger.kind)
    (told,) = ledger.sums
    assert 0 == told.remainder
    return told


def lines(told):
    return {line.code: line.bytes for line in told.lines}


def test_what_is_not_pinned_is_not_counted_and_shared_bytes_once():
    told = sum_of(4096, (0, 1000, True), (500, 1500, True), (2000, 2010, True), (3000, 4000, False))
    # 1,500 bytes in a block of 2,048 and 10 in one of 16.
    assert {"storages": 1510, "rounding": 554, "cached": 4096 - 2064} == lines(told)
    assert [2, None, None] == [line.count for line in told.lines]
    assert [False, False, True] == [line.derived for line in told.lines]
    (note,) = told.notes
    assert "`%gpumem reclaim --pinned`" in note.sentence


def test_memory_that_others_pinned_makes_the_rest_less_than_nothing_and_is_told():
    told = sum_of(512, (0, 512, True), (1024, 2048, True))
    assert {"storages": 1536, "rounding": 0, "cached": -1024} == lines(told)
    assert "other code pinned" in told.notes[0].sentence


@pytest.mark.parametrize(
    ("size", "block"), [(0, 0), (1, 1), (2, 2), (3, 4), (4096, 4096), (4097, 8192)]
)
def test_blocks_are_powers_of_two(size, block):
    assert block == pinned_block(size)


def test_torchs_counter_of_bytes_in_use_is_not_trusted(monkeypatch):
    told = {"allocated_bytes": {"current": 24_704}, "active_bytes": {"current": 41_088}}
    monkeypatch.setattr(torch._C, "_cuda_hostMemoryStats", lambda: told, raising=False)
    assert 24_704 == pinned_total()


@pytest.mark.parametrize("broken", [None, dict, lambda: 1 / 0])
def test_what_torch_does_not_count_is_unknown(broken, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_hostMemoryStats", broken, raising=False)
    assert pinned_total() is None


def test_the_call_that_this_torch_has_empties_the_cache(monkeypatch):
    called = []
    monkeypatch.delattr(torch._C, "_accelerator_emptyHostCache", raising=False)
    monkeypatch.delattr(torch._C, "_host_emptyCache", raising=False)
    assert not acts._empty_pinned_cache()
    monkeypatch.setattr(torch._C, "_host_emptyCache", lambda: called.append("old"), raising=False)
    assert acts._empty_pinned_cache()
    newer = lambda: called.append("new")  # noqa: E731
    monkeypatch.setattr(torch._C, "_accelerator_emptyHostCache", newer, raising=False)
    assert acts._empty_pinned_cache()
    assert ["old", "new"] == called
