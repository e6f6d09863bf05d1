"""The ledger of recorded allocators, of real GPUs and of emulated cards.

What is expected is summed from the recording by plain Python, or by hand from what a scene did.
"""

import itertools
import os

import pytest
import torch
from ledger_machine import MIB, Machine, closes, lines, sentences, sum_called
from recordings import OWN, needs_recordings, recording, snapshot, snapshot_names

from nbmem.devices.snapshot import blocks_in
from nbmem.devices.workspaces import workspace_sizes
from nbmem.ledger.unclaimed import WORKSPACE, kind_of
from nbmem.records.frames import innermost_own
from nbmem.session.endings import failure_of

CUBLAS, CUBLAS_HOPPER, CUBLASLT = 8_519_680, 32 * MIB, MIB
LIVE, FREE = "active_allocated", "inactive"
MAKES_WORKSPACE = ("getNewWorkspace", "getCUDABlasLtWorkspace", "getCurrentCUDABlas")


def blocks_of(segments):
    """Yields (segment, address, block) by plain Python, also of layouts without addresses."""
    for item in segments:
        address = item["address"]
        for block in item["blocks"]:
            yield item, address, block
            address += block["size"]


def of_card(recorded, card):
    return [item for item in recorded["segments"] if item["device"] == card]


def size_of(segments, *states):
    return sum(block["size"] for _, _, block in blocks_of(segments) if block["state"] in states)


def is_private(segment):
    return list(segment.get("segment_pool_id") or (0, 0)) != [0, 0]


def frames_of(block):
    """Returns the stack that allocated a block, innermost first, in the old layout and the new."""
    newest = (block.get("history") or [{}])[0]
    return block.get("frames") or newest.get("frames") or []


def likely(segment, block):
    """Returns the line of a live block without a tensor."""
    native = [frame["name"] for frame in frames_of(block) if "::" in frame["name"]]
    if any(word in name for name in native for word in MAKES_WORKSPACE):
        return "library workspace"
    if is_private(segment):
        return "CUDA graph"
    sizes = (CUBLAS, CUBLAS_HOPPER, CUBLASLT)
    return "library workspace" if block["requested_size"] in sizes else "not found"


@pytest.fixture(autouse=True)
def release(monkeypatch):
    """The last torch that keeps both workspaces, and no settings of the user's for them."""
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    for name in [name for name in os.environ if "CUBLAS" in name]:
        monkeypatch.delenv(name)
    for name in ("_cuda_getCublasWorkspaceSize", "_cuda_getCublasLtWorkspaceSize"):
        monkeypatch.delattr(torch._C, name, raising=False)


def machine_with(monkeypatch, recorded):
    cards = 1 + max(item["device"] for item in recorded["segments"])
    machine = Machine(monkeypatch, count=cards)
    for card in range(cards):
        machine.cuda.devices[card].hold(*of_card(recorded, card))
    return machine


KNOWN = [*snapshot_names(), *OWN]


def recorded_as(name):
    return recording(name)["snapshot"] if name in OWN else snapshot(name)


@pytest.mark.parametrize("name", KNOWN)
def test_each_sum_of_a_recorded_card_closes_whatever_part_of_it_has_tensors(name, monkeypatch):
    recorded = recorded_as(name)
    machine = machine_with(monkeypatch, recorded)
    kinds = itertools.cycle(("parameter", "gradient", None, "saved for backward"))
    expected = {}
    for segment, address, block in blocks_of(recorded["segments"]):
        if block["state"] != LIVE:
            continue
        told = expected.setdefault(segment["device"], {"rounding": 0})
        asked, kind = block["requested_size"], next(kinds)
        told["rounding"] += block["size"] - asked
        line = kind or likely(segment, block)
        told[line] = told.get(line, 0) + asked
        if kind:
            machine.find(asked, address, device=f"cuda:{segment['device']}", category=kind)
    for card, ledger in enumerate(machine.take().devices):
        segments = of_card(recorded, card)
        allocated, reserved = sum_called(ledger, "allocated"), sum_called(ledger, "reserved")
        assert sum(item["allocated_size"] for item in segments) == allocated.total.bytes
        assert sum(item["total_size"] for item in segments) == reserved.total.bytes
        assert expected.get(card, {"rounding": 0}) == lines(allocated)
        told = lines(reserved)
        assert size_of(segments, "active_pending_free", "active_awaiting_free") == told["waiting"]
        assert size_of(segments, FREE) == told["cached"]
        assert size_of(filter(is_private, segments), FREE) == told.get("private", 0)
        assert closes(allocated)
        assert closes(reserved)


@pytest.mark.parametrize("name", OWN)
def test_the_counters_of_a_recording_are_its_blocks_and_its_storages_lie_in_them(name, monkeypatch):
    told = recording(name)
    machine = Machine(monkeypatch, count=len(told["cards"]))
    for card, counters in enumerate(told["counters"]):
        machine.cuda.devices[card].hold(*of_card(told["snapshot"], card))
        for figure, value in counters.items():
            machine.cuda.devices[card].count(figure, value)
    for _, card, address, size in told["storages"]:
        machine.find(size, address, device=f"cuda:{card}")
    for card, ledger in enumerate(machine.take().devices):
        allocated, reserved = sum_called(ledger, "allocated"), sum_called(ledger, "reserved")
        counters = told["counters"][card]
        assert counters["allocated_bytes"] == allocated.total.bytes
        assert counters["reserved_bytes"] == reserved.total.bytes
        assert counters["inactive_split_bytes"] == lines(reserved)["fragmented"]
        waiting = counters["active_bytes"] - counters["allocated_bytes"]
        assert waiting == lines(reserved)["waiting"]
        mine = sum(size for _, on, _, size in told["storages"] if on == card)
        assert mine == lines(allocated).get("user", 0)
        assert 0 == allocated.remainder == reserved.remainder
        assert () == allocated.notes


# By hand, from what each scene does.


def ledger_of(scene, monkeypatch, card=0):
    told = recording(scene)
    machine = machine_with(monkeypatch, told["snapshot"])
    for _, on, address, size in told["storages"]:
        machine.find(size, address, device=f"cuda:{on}")
    return machine.gpu(card)


def test_a_training_step_leaves_weights_gradients_adams_state_and_two_workspaces(monkeypatch):
    ledger = ledger_of("training_step", monkeypatch)
    weights = 4 * (300 * 200 + 200 + 200 * 10 + 10)
    rounding = {  # of 512: weights, gradients and two states each, the batch, the loss
        4 * 300 * 200: 4 * 128, 4 * 200: 4 * 224, 4 * 2000: 4 * 192, 40: 4 * 472, 4: 508,
        4 * 64 * 300: 0,
    }  # fmt: skip
    assert {
        "user": 4 * weights + 4 * 64 * 300 + 4,
        "library workspace": CUBLAS + CUBLASLT,
        "rounding": sum(rounding.values()),
    } == lines(sum_called(ledger, "allocated"))
    made = [row.made_at for row in ledger.blocks]
    assert all("gpu_verification/recordings.py" in (line or "") for line in made)


def test_what_ran_out_of_memory_is_told_with_the_blocks_that_were_there(monkeypatch):
    told = recording("out_of_memory")
    oom = failure_of(torch.OutOfMemoryError, torch.OutOfMemoryError(told["text"])).oom
    free, total = told["free_and_total"][0]
    assert ("cuda:0", 2 * total, total) == (oom.device, oom.asked, oom.capacity)
    assert abs(free - oom.free) <= 0.01 * 2**30  # the text has two digits
    (event,) = [e for t in told["snapshot"]["device_traces"] for e in t if e["action"] == "oom"]
    assert (oom.asked, free) == (event["size"], event["device_free"])
    asked = 1 + 700 + 3 * MIB + 1 + 20 * MIB
    allocated = sum_called(ledger_of("out_of_memory", monkeypatch), "allocated")
    assert {"user": asked, "rounding": 511 + 324 + 511} == lines(allocated)
    assert abs(allocated.total.bytes - oom.allocated) <= 0.01 * MIB


def test_holes_between_blocks_are_fragments(monkeypatch):
    small = sum(512 * (1 + number % 5) for number in range(0, 60, 2))
    reserved = sum_called(ledger_of("fragments", monkeypatch), "reserved")
    taken = small + 3 * 3 * MIB
    assert (22 * MIB, taken) == (reserved.total.bytes, lines(reserved)["allocated"])
    assert 22 * MIB - taken == lines(reserved)["cached"] == lines(reserved)["fragmented"]


def test_a_gap_in_an_expandable_segment_is_cached_and_no_fragment(monkeypatch):
    ledger = ledger_of("expandable_segments", monkeypatch)
    reserved = sum_called(ledger, "reserved")
    assert {"user": 50 * MIB + 1, "rounding": 511} == lines(sum_called(ledger, "allocated"))
    assert (62 * MIB - 50 * MIB - 512, 0) == (
        lines(reserved)["cached"],
        lines(reserved)["fragmented"],
    )
    assert any("expandable segments" in said for said in sentences(reserved.notes))


def test_each_of_two_cards_has_its_own(monkeypatch):
    for card, size in ((0, 5 * MIB + 3), (1, 7 * MIB + 5)):
        allocated = sum_called(ledger_of("two_cards", monkeypatch, card), "allocated")
        assert {"user": size, "rounding": -size % 512} == lines(allocated)


def test_a_graphs_private_pool_keeps_what_it_computed_in_between(monkeypatch):
    ledger = ledger_of("graphs_pool", monkeypatch)
    assert 4 * MIB <= lines(sum_called(ledger, "reserved"))["private"] == 16 * MIB
    told = lines(sum_called(ledger, "allocated"))
    seeds = {"not found": 2 * 8}  # that of the generator and its offset, which C++ holds
    assert {"user": 8 * MIB, "rounding": 2 * 504} | seeds == told


def test_a_tensor_in_a_memory_pool_is_a_tensor_and_the_rest_of_the_pool_its_own(monkeypatch):
    ledger = ledger_of("memory_pool", monkeypatch)
    told = lines(sum_called(ledger, "allocated"))
    assert {"user": 6 * MIB + 2 * MIB + 9, "rounding": -9 % 512} == told
    assert 14 * MIB == lines(sum_called(ledger, "reserved"))["private"]


def test_a_block_that_waits_for_a_stream_is_freed_and_not_yet_to_be_had(monkeypatch):
    ledger = ledger_of("waits_for_a_stream", monkeypatch)
    assert {"user": 2 * MIB, "rounding": 0} == lines(sum_called(ledger, "allocated"))
    reserved = lines(sum_called(ledger, "reserved"))
    assert (4 * MIB, 14 * MIB) == (reserved["waiting"], reserved["cached"])
    (row,) = ledger.blocks
    assert ("waits for a stream", 4 * MIB) == (row.state, row.bytes)


def test_the_words_of_a_program_are_in_the_recorded_events():
    events = recording("user_metadata")["snapshot"]["device_traces"][0]
    words = {e["addr"]: e["user_metadata"] for e in events if e["action"] == "alloc"}
    storages = {name: address for name, _, address, _ in recording("user_metadata")["storages"]}
    assert ["warm up", "step 1"] == [words[storages[name]] for name in ("first", "second")]


@pytest.mark.parametrize("name", OWN)
def test_recordings_name_no_folder_of_a_machine(name):
    told = recording(name)
    assert told["emulated"] == ("NVIDIA Emulated" in told["cards"])
    parts = [*told["snapshot"]["segments"], *itertools.chain(*told["snapshot"]["device_traces"])]
    parts += [block for _, _, block in blocks_of(told["snapshot"]["segments"])]
    files = {frame["filename"] for part in parts for frame in part.get("frames", ())}
    anonymous = ("/project/", "/site-packages/", "/lib/python", "/elsewhere/", "<")
    assert all(file.startswith(anonymous) or "/" not in file for file in files), files


# Workspaces and stacks of real GPUs.


@needs_recordings
@pytest.mark.parametrize("name", snapshot_names())
def test_the_line_of_a_real_stack_is_the_innermost_of_the_project(name):
    recorded = snapshot(name)
    read = blocks_in(recorded)
    raw = [block for _, _, block in blocks_of(recorded["segments"])]
    for block, told in zip(raw, read, strict=True):
        own = [f for f in frames_of(block) if f["filename"].startswith("/project/")]
        if own and block["state"] == LIVE:
            line = innermost_own(told.stack)
            assert f"{own[0]['filename']}:{own[0]['line']} {own[0]['name']}" == line


@needs_recordings
@pytest.mark.parametrize("name", snapshot_names())
def test_a_workspace_that_real_stacks_show_is_known_without_its_size(name):
    recorded = snapshot(name)
    raw = [block for _, _, block in blocks_of(recorded["segments"])]
    for block, told in zip(raw, blocks_in(recorded), strict=True):
        names = [frame["name"] for frame in frames_of(block)]
        if told.state == "live" and any("getNewWorkspace" in name for name in names):
            assert WORKSPACE == kind_of(told, frozenset())
            assert block["requested_size"] in (CUBLAS, CUBLAS_HOPPER)


@pytest.mark.parametrize(
    ("capabilities", "sizes"),
    [
        ([(7, 5)], {CUBLAS}),
        ([(8, 0), (8, 9)], {CUBLAS}),
        ([(9, 0)], {CUBLAS_HOPPER}),
        ([(9, 0), (8, 6)], {CUBLAS, CUBLAS_HOPPER}),
        ([(10, 0)], {CUBLAS, CUBLAS_HOPPER}),  # the releases of torch differ
        ([(12, 0)], {CUBLAS}),
    ],
)
def test_a_block_of_32_mib_is_a_workspace_on_hopper_only(capabilities, sizes, monkeypatch):
    def patch(owner, name, value):
        monkeypatch.setattr(owner, name, value, raising=False)

    patch(torch.cuda, "device_count", lambda: len(capabilities))
    patch(torch.cuda, "get_device_capability", lambda card: capabilities[card])
    assert sizes | {CUBLASLT} == workspace_sizes("cuda")


@needs_recordings
def test_weights_of_32_mib_on_an_older_card_are_no_workspaces():
    recorded = snapshot("oom_llm_history_format_torch2.0.json.gz")
    sizes = frozenset({CUBLAS, CUBLASLT})
    weights = [b for b in blocks_in(recorded) if b.requested == 32 * MIB and b.state == "live"]
    assert 116 == len(weights)
    assert all(kind_of(weight, sizes) != WORKSPACE for weight in weights)
