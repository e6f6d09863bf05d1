"""Blocks of allocator snapshots, of every layout torch had, against the snapshot's own sums."""

import pytest
import torch
from ledger_machine import Machine, closes, sum_called
from recordings import needs_recordings, snapshot, snapshot_names
from simulated_cuda import block, frame, segment

from nbmem.devices.snapshot import BlockSums, blocks_in, devices_in, read_blocks, sum_blocks
from nbmem.ledger.blocks import join_blocks

BASE = 0x7F00_0000_0000


def told(segments):
    """Returns what segments say of themselves: total, allocated, active, requested."""
    names = ("total_size", "allocated_size", "active_size", "requested_size")
    return tuple(sum(item[name] for item in segments) for name in names)


def summed(blocks):
    sums = sum_blocks(blocks)
    return sums.reserved, sums.allocated, sums.active, sums.requested


# Layouts, made by hand.

TODAY = segment(
    BASE,
    block(2048, 2000),
    block(1024, 1000, "active_pending_free"),
    block(512, 500, "inactive"),  # torch keeps what the block was last asked for
    block(4096, 4096),
)
PRIVATE = segment(BASE + 2**20, block(8192, 8000), block(8192, 0, "inactive"), pool=(0, 3))
SECOND = segment(BASE, block(1024, 1), kind="small", expandable=True, device=1)


def test_live_waiting_and_free_blocks_add_up_to_what_the_segments_say():
    blocks = blocks_in({"segments": [TODAY, PRIVATE], "device_traces": [[]]})
    expected = BlockSums(
        reserved=7680 + 16384,
        allocated=2048 + 4096 + 8192,
        active=2048 + 1024 + 4096 + 8192,
        requested=2000 + 1000 + 4096 + 8000,
        private=16384,
    )
    assert expected == sum_blocks(blocks)
    assert told([TODAY, PRIVATE]) == summed(blocks)
    assert [False] * 4 + [True] * 2 == [item.private for item in blocks]


def test_segments_alone_are_a_snapshot_too():
    assert blocks_in({"segments": [TODAY]}) == blocks_in([TODAY]) == blocks_in((TODAY,))


def test_each_device_has_its_own_blocks():
    both = {"segments": [TODAY, SECOND]}
    assert (0, 1) == devices_in(both)
    assert told([TODAY]) == summed(blocks_in(both, 0))
    assert told([SECOND]) == summed(blocks_in(both, 1))
    assert told([TODAY, SECOND]) == summed(blocks_in(both))
    assert () == blocks_in(both, 2)


def test_segments_without_a_device_are_those_of_the_device_that_is_asked_for():
    bare = {key: value for key, value in TODAY.items() if key != "device"}
    assert told([TODAY]) == summed(blocks_in([bare], 3))
    assert (0,) == devices_in([bare])


def test_blocks_with_a_history_have_the_newest_entrys_stack_and_their_addresses_in_a_row():
    newest = {"addr": BASE, "real_size": 1000, "frames": [frame("a.py", 3, "step")]}
    older = {"addr": BASE, "real_size": 2000, "frames": [frame("b.py", 4, "init")]}
    old = {
        "device": 0,
        "address": BASE,
        "total_size": 4096,
        "stream": 0,
        "segment_type": "large",
        "blocks": [
            {"size": 1024, "state": "active_allocated", "history": [newest, older]},
            {"size": 512, "state": "active_pending_free", "history": [older | {"real_size": 500}]},
            {"size": 512, "state": "inactive", "history": [older]},
            {"size": 2048, "state": "inactive"},
        ],
    }
    first, waiting, freed, empty = blocks_in({"segments": [old]})
    assert (BASE, 1000, ("a.py:3 step",)) == (first.address, first.requested, first.stack)
    assert (BASE + 1024, "waiting", 500) == (waiting.address, waiting.state, waiting.requested)
    assert (BASE + 1536, None, ()) == (freed.address, freed.requested, freed.stack)
    assert (BASE + 2048, "free") == (empty.address, empty.state)
    assert BlockSums(4096, 1024, 1536, 1500, 0) == sum_blocks([first, waiting, freed, empty])


def test_what_was_asked_for_is_unknown_where_torch_does_not_keep_it():
    bare = segment(BASE, block(1024), block(512))
    del bare["blocks"][1]["requested_size"]
    assert (1536, 1536, 1536, None) == summed(blocks_in([bare]))


def test_a_pool_that_is_none_or_a_list_as_in_json_is_read():
    for pool, private in ((None, False), ([0, 0], False), ([0, 1], True), ([2, 0], True)):
        (only,) = blocks_in([segment(BASE, block(512), pool=pool)])
        assert private is only.private


def test_a_frame_of_windows_keeps_its_path():
    path = "C:\\Users\\me\\train.py"
    (only,) = blocks_in([segment(BASE, block(512, frames=[frame(path, 7, "<module>")]))])
    assert (f"{path}:7 <module>",) == only.stack


def test_a_state_of_a_later_torch_is_named_not_guessed():
    with pytest.raises(ValueError, match="'lent', which nbmem does not know"):
        blocks_in([segment(BASE, block(512, state="lent"))])


@pytest.mark.parametrize(
    ("part", "key"),
    [("segment", "address"), ("segment", "blocks"), ("block", "size"), ("block", "state")],
)
def test_a_layout_that_lacks_what_is_needed_is_told_by_what_it_lacks(part, key):
    broken = segment(BASE, block(512))
    del (broken if part == "segment" else broken["blocks"][0])[key]
    with pytest.raises(ValueError, match=f"without '{key}', which nbmem needs"):
        blocks_in([broken])


def test_a_frame_that_lacks_a_part_costs_no_block():
    frames = [{"name": "step"}, {"filename": "a.py"}, {"filename": None, "line": None, "name": ""}]
    (only,) = blocks_in([segment(BASE, block(512, frames=frames))])
    assert ("??:0 step", "a.py:0 ??", "??:0 ??") == only.stack


@pytest.mark.parametrize("change", [{"state": "lent"}, {"state": None}, {"size": None}])
def test_blocks_of_a_later_torch_leave_the_counters_and_a_reason(monkeypatch, change):
    machine = Machine(monkeypatch)
    machine.cuda.devices[0].hold(TODAY)
    machine.cuda.devices[0].segments[0]["blocks"][0] |= change
    ledger = machine.gpu()
    allocated, reserved = (sum_called(ledger, code) for code in ("allocated", "reserved"))
    assert (2048 + 4096, 7680) == (allocated.total.bytes, reserved.total.bytes)
    assert closes(allocated)
    assert closes(reserved)
    assert () == ledger.blocks
    assert [True] == ["Reading blocks of cuda:0 failed" in said for said in of_blocks(ledger)]


def of_blocks(ledger):
    notes = sum_called(ledger, "allocated").notes
    return [note.sentence for note in notes if note.field == "blocks"]


def test_nothing_adds_up_to_nothing():
    assert BlockSums(0, 0, 0, 0, 0) == sum_blocks(blocks_in({"segments": []}))


# Recordings of real GPUs.


@needs_recordings
@pytest.mark.parametrize("name", snapshot_names())
def test_a_real_snapshot_closes_to_the_byte_on_every_device(name, monkeypatch):
    real = snapshot(name)
    monkeypatch.setattr(torch._C, "_cuda_memorySnapshot", lambda asked: real, raising=False)
    devices = {item["device"] for item in real["segments"]}
    assert devices == set(devices_in(real))
    for index in devices:
        segments = [item for item in real["segments"] if item["device"] == index]
        blocks = read_blocks("cuda", index)
        assert told(segments) == summed(blocks)
        assert blocks == blocks_in(real, index) == blocks_in(segments)
        join = join_blocks(blocks, ())
        asked = sum(part.bytes for part in join.unclaimed)
        total, allocated, active, requested = told(segments)
        assert (total, allocated) == (join.live + join.held + join.free, join.live)
        assert (active, requested) == (join.live + join.held, asked)  # in these, nothing waits
        assert allocated == asked + join.rounding


@needs_recordings
@pytest.mark.parametrize("name", snapshot_names())
def test_each_segment_of_a_real_snapshot_closes_and_its_blocks_lie_in_a_row(name):
    for item in snapshot(name)["segments"]:
        blocks = blocks_in([item])
        assert told([item]) == summed(blocks)
        ends = [item["address"], *(each.address + each.size for each in blocks)]
        assert ends[:-1] == [each.address for each in blocks]
        assert item["address"] + item["total_size"] == ends[-1]


@needs_recordings
def test_real_stacks_are_read_in_the_old_layout_and_the_new():
    for name in ("oom_llm_history_format_torch2.0", "oom_expandable_3gpu_torch2.8"):
        blocks = blocks_in(snapshot(f"{name}.json.gz"))
        live = [item for item in blocks if item.state == "live"]
        assert all(item.stack for item in live)
        assert ":" in live[0].stack[0]
