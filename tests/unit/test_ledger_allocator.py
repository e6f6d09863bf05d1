"""The sums of an accelerator's allocator: what is allocated and for what, what is reserved."""

import pytest
import torch
from ledger_machine import KIB, MIB, Machine, closes, lines, sentences, sum_called
from simulated_cuda import block, frame, segment

BASE = 0x7F00_0000_0000
CUBLAS = 8_519_680  # 2 x 4096 KiB + 8 x 16 KiB, torch's default before Hopper
WORKSPACE_SETTINGS = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
    "TORCH_CUBLAS_WORKSPACE_CACHE",
)


@pytest.fixture
def machine(monkeypatch):
    for name in WORKSPACE_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for told in ("_cuda_getCublasWorkspaceSize", "_cuda_getCublasLtWorkspaceSize"):
        monkeypatch.delattr(torch._C, told, raising=False)  # a CUDA build reads its settings once
    monkeypatch.setattr(torch, "__version__", "2.12.1")  # the last that keeps both workspaces
    return Machine(monkeypatch)


def hold(machine, *segments, device=0):
    machine.cuda.devices[device].hold(*segments)


def training_step(machine):
    """A parameter, its gradient, Adam's state, a saved tensor, a workspace, rounding, a cache."""
    small = segment(
        BASE,
        block(1024, 1000),
        block(1024, 1000),
        block(512, 4),
        block(2 * MIB - 2560, 0, "inactive"),
        kind="small",
    )
    large = segment(
        BASE + 4 * MIB,
        block(3 * MIB),
        block(5 * MIB, 5 * MIB - 100),
        block(1 * MIB, state="active_pending_free"),
        block(11 * MIB, 0, "inactive"),
    )
    workspace = segment(BASE + 32 * MIB, block(CUBLAS), block(20 * MIB - CUBLAS, 0, "inactive"))
    hold(machine, small, large, workspace)
    machine.find(1000, BASE, category="parameter")
    machine.find(1000, BASE + 1024, category="gradient")
    machine.find(4, BASE + 2048, category="optimizer state")
    machine.find(3 * MIB, BASE + 4 * MIB, category="saved for backward")
    machine.find(5 * MIB - 100, BASE + 7 * MIB)


def test_every_allocated_byte_is_a_storage_a_workspace_or_rounding(machine):
    training_step(machine)
    allocated = sum_called(machine.gpu(), "allocated")
    assert {
        "parameter": 1000,
        "gradient": 1000,
        "optimizer state": 4,
        "saved for backward": 3 * MIB,
        "user": 5 * MIB - 100,
        "library workspace": CUBLAS,
        "rounding": 24 + 24 + 508 + 100,
    } == lines(allocated)
    assert 2560 + 8 * MIB + CUBLAS == allocated.total.bytes == torch.cuda.memory_allocated(0)
    assert 0 == allocated.remainder
    assert closes(allocated)
    assert not any(line.derived for line in allocated.lines)
    assert () == allocated.notes


def test_what_is_reserved_is_allocated_or_waits_or_is_cached(machine):
    training_step(machine)
    reserved = sum_called(machine.gpu(), "reserved")
    cached = (2 * MIB - 2560) + 11 * MIB + (20 * MIB - CUBLAS)
    assert {
        "allocated": 2560 + 8 * MIB + CUBLAS,
        "waiting": MIB,
        "cached": cached,
        "fragmented": cached,
    } == lines(reserved)
    assert 42 * MIB == reserved.total.bytes == torch.cuda.memory_reserved(0)
    assert (0, True) == (reserved.remainder, closes(reserved))
    assert "cached" == reserved.lines[3].part_of


def test_each_line_names_the_call_with_the_index_of_the_device(monkeypatch):
    machine = Machine(monkeypatch, count=2)
    hold(machine, segment(BASE, block(1024, 1000), device=1), device=1)
    machine.find(1000, BASE, device="cuda:1")
    allocated, reserved = machine.gpu(1).sums
    stats = "torch.cuda.memory_stats(1)"
    assert "torch.cuda.memory_allocated(1)" == allocated.total.equals
    assert "torch.cuda.memory_reserved(1)" == reserved.total.equals
    assert [
        "torch.cuda.memory_allocated(1)",
        f"{stats}: active_bytes − allocated_bytes",
        f"{stats}: reserved_bytes − active_bytes",
        f"{stats}: inactive_split_bytes",
    ] == [line.equals for line in reserved.lines]
    told = {line.code: line.equals for line in allocated.lines}
    assert f"{stats}: active_bytes − requested_bytes, of live blocks" == told["rounding"]
    assert "sum of tensor.untyped_storage().nbytes()" == told["user"]


def test_each_gpu_has_its_own_sums(monkeypatch):
    machine = Machine(monkeypatch, count=2)
    hold(machine, segment(BASE, block(1024), device=0), device=0)
    hold(machine, segment(BASE, block(2048), device=1), device=1)  # its own address space
    machine.find(1024, BASE, device="cuda:0")
    machine.find(2048, BASE, device="cuda:1", category="parameter")
    first, second = machine.take().devices
    assert ["cuda:0", "cuda:1"] == [first.device, second.device]
    assert {"user": 1024, "rounding": 0} == lines(sum_called(first, "allocated"))
    assert {"parameter": 2048, "rounding": 0} == lines(sum_called(second, "allocated"))


def test_categories_stand_in_the_order_of_counting_with_how_many_storages(machine):
    hold(machine, segment(BASE, *[block(512) for _ in range(5)]))
    for number, category in enumerate(["user", "buffer", "user", "parameter", "unknown"]):
        machine.find(512, BASE + 512 * number, category=category)
    shown = sum_called(machine.gpu(), "allocated").lines
    assert [
        ("parameters", 1),
        ("buffers", 1),
        ("your tensors", 2),
        ("storages of unknown use", 1),
        ("rounding to whole blocks", None),
    ] == [(line.label, line.count) for line in shown]


def test_a_storage_that_the_inventory_missed_is_of_unknown_use(machine):
    hold(machine, segment(BASE, block(512), block(1024), block(2048)))
    machine.find(512, BASE, category="parameter")
    machine.find(1024, BASE + 512, listed=False)
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"parameter": 512, "unknown": 1024, "not found": 2048, "rounding": 0} == lines(allocated)
    assert 4 == len(allocated.lines)


def test_a_storage_that_died_since_the_inventory_is_in_no_line(machine):
    hold(machine, segment(BASE, block(512), block(1024, state="inactive")))
    machine.find(512, BASE)
    machine.find(1024, BASE + 512).alive = False
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"user": 512, "rounding": 0} == lines(allocated)
    assert closes(allocated)


def test_blocks_that_wait_for_a_stream_do_not_spoil_the_rounding(machine):
    """torch counts as requested what was asked for in blocks that wait, too."""
    hold(machine, segment(BASE, block(1024, 600), block(4096, 3600, "active_awaiting_free")))
    machine.find(600, BASE)
    stats = torch.cuda.memory_stats(0)
    assert -3176 == (
        stats["allocated_bytes.all.current"] - stats["requested_bytes.all.current"]
    )  # allocated - requested would be no rounding at all
    ledger = machine.gpu()
    assert {"user": 600, "rounding": 424} == lines(sum_called(ledger, "allocated"))
    assert 4096 == lines(sum_called(ledger, "reserved"))["waiting"]
    assert ["waits for a stream"] == [row.state for row in ledger.blocks]
    assert ["freed tensor"] == [row.kind for row in ledger.blocks]


def test_before_cuda_starts_the_sums_are_nothing_and_nothing_is_started(monkeypatch):
    machine = Machine(monkeypatch, started=False)
    ledger = machine.gpu()
    allocated, reserved = ledger.sums
    assert ((), 0) == (allocated.lines[:-1], allocated.total.bytes)
    assert (0, 0) == (reserved.total.bytes, reserved.remainder)
    assert "cuda:0 has not been used yet, so torch holds nothing on it." in sentences(ledger.notes)
    assert (0, []) == (machine.cuda.early_calls, machine.cuda.snapshots)


def test_reading_leaves_out_the_events_of_the_allocators_history(machine):
    hold(machine, segment(BASE, block(512)))
    machine.gpu()
    assert [(0, 0, False)] == machine.cuda.snapshots


def test_an_older_torch_whose_snapshot_takes_no_argument_is_understood(machine):
    machine.cuda.takes_no_pool = True
    hold(machine, segment(BASE, block(1024, 1000)))
    machine.find(1000, BASE)
    assert {"user": 1000, "rounding": 24} == lines(sum_called(machine.gpu(), "allocated"))
    assert [None] == machine.cuda.snapshots


def test_a_snapshot_without_addresses_and_requests_still_closes(machine):
    laid = segment(BASE, block(1024, 1000), block(512))
    for item in laid["blocks"]:
        del item["address"], item["requested_size"]
    for name in ("is_expandable", "segment_pool_id", "device", "stream"):
        del laid[name]
    hold(machine, laid | {"is_expandable": False})
    machine.find(512, BASE + 1024)
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"user": 512, "not found": 1024, "rounding": 0} == lines(allocated)
    assert closes(allocated)


def test_expandable_segments_close_and_have_no_fragments(machine):
    mapped = segment(
        BASE, block(2 * MIB), block(3 * MIB, 0, "inactive"), block(MIB), expandable=True
    )
    hold(machine, mapped)
    machine.find(2 * MIB, BASE)
    machine.find(MIB, BASE + 5 * MIB)
    allocated, reserved = machine.gpu().sums
    assert {"user": 3 * MIB, "rounding": 0} == lines(allocated)
    assert closes(allocated)
    assert closes(reserved)
    assert (3 * MIB, 0) == (lines(reserved)["cached"], lines(reserved)["fragmented"])
    assert [
        "torch counts no fragments in expandable segments: it can give whole free pages of them "
        "back."
    ] == sentences(reserved.notes)


def test_cuda_malloc_async_has_honest_sums_and_says_what_it_does_not_tell(machine):
    machine.cuda.backend = "cudaMallocAsync"
    gpu = machine.cuda.devices[0]
    gpu.count("allocated_bytes", 10 * MIB)
    gpu.count("active_bytes", 10 * MIB)  # the driver does not tell the two apart
    gpu.count("reserved_bytes", 32 * MIB)
    machine.find(3 * MIB, 0x1234_0000, category="parameter")
    machine.find(4 * MIB, 0x5678_0000)
    ledger = machine.gpu()
    allocated, reserved = ledger.sums
    assert {"parameter": 3 * MIB, "user": 4 * MIB, "not found": 3 * MIB} == lines(allocated)
    assert "not found, and rounding" == allocated.lines[-1].label
    assert {"allocated": 10 * MIB, "cached": 22 * MIB} == lines(reserved)
    for one in (allocated, reserved):
        assert closes(one)
        assert ["derived"] == ["derived" for line in one.lines if line.derived]
    assert () == ledger.blocks
    assert (
        "The cudaMallocAsync backend leaves its blocks to the driver, so what no tensor shows "
        "can't be listed." in sentences(allocated.notes)
    )
    assert [] == machine.cuda.snapshots


def test_an_allocator_that_was_plugged_in_and_tells_nothing_gives_no_figure(machine):
    machine.cuda.backend = "pluggable"

    def refuse(index):
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats.")

    for name in ("_cuda_memoryStats", "_accelerator_getDeviceStats"):
        machine.cuda.monkeypatch.setattr(torch._C, name, refuse)
    machine.find(4 * MIB, BASE)
    ledger = machine.gpu()
    allocated, reserved = ledger.sums
    assert (None, None) == (allocated.total.bytes, reserved.total.bytes)
    assert {"user": 4 * MIB, "not found": None} == lines(allocated)
    assert (None, None) == (allocated.remainder, reserved.remainder)
    for notes in (allocated.notes, reserved.notes):
        assert any("does not yet support getDeviceStats" in text for text in sentences(notes))
    assert any("plugged in tells nothing" in text for text in sentences(allocated.notes))


def test_counters_that_another_thread_moved_leave_a_remainder_that_is_shown(machine):
    hold(machine, segment(BASE, block(1024), block(1024)))
    machine.find(1024, BASE)
    machine.find(1024, BASE + 1024)
    machine.cuda.devices[0].count("allocated_bytes", 1024)  # one was freed after the blocks
    allocated = sum_called(machine.gpu(), "allocated")
    assert -1024 == allocated.remainder
    assert [
        "Another thread allocated or freed while this was read: counters and blocks disagree."
    ] == sentences(allocated.notes)
    assert 3 == len(machine.cuda.snapshots)  # it is read anew before that is said


def test_a_reading_that_fails_says_so_and_leaves_the_other_gpu_alone(monkeypatch):
    machine = Machine(monkeypatch, count=2)
    broken = segment(BASE, block(512, state="of a later torch"))
    hold(machine, broken, device=0)
    hold(machine, segment(BASE, block(512), device=1), device=1)
    machine.find(512, BASE, device="cuda:1")
    first, second = machine.take().devices
    told = sentences(first.sums[0].notes)
    assert any("Reading blocks of cuda:0 failed: " in text for text in told)
    assert closes(sum_called(second, "allocated"))


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        (0, {"user": 1000, "rounding": 24, "not found": 512}),
        (2048, {"user": 1000, "not found": 536}),  # what is asked for in it can't be told apart
    ],
)
def test_without_blocks_the_counters_tell_rounding_unless_a_block_waits(machine, waiting, told):
    held = block(2048, 2000, "active_awaiting_free" if waiting else "inactive")
    hold(machine, segment(BASE, block(1024, 1000), block(512), held))
    machine.cuda.monkeypatch.delattr(torch._C, "_cuda_memorySnapshot")
    machine.find(1000, BASE)
    allocated, reserved = machine.gpu().sums
    assert told == lines(allocated)
    assert closes(allocated)
    assert closes(reserved)
    assert waiting == lines(reserved)["waiting"]
    assert ["torch does not list the blocks of cuda devices."] == sentences(allocated.notes)[:1]


# What the blocks without a tensor are.


def kinds(machine):
    return {
        line.code: (line.bytes, line.count)
        for line in sum_called(machine.gpu(), "allocated").lines
        if line.code != "rounding"
    }


def test_a_block_without_a_tensor_is_listed_by_size_stream_and_pool(machine):
    hold(
        machine,
        segment(BASE, block(4096, 4000), block(4096, 4000), stream=0, kind="small"),
        segment(BASE + MIB, block(4096, 4000), stream=77, kind="small"),
        segment(BASE + 2 * MIB, block(3 * MIB, 3 * MIB - 1)),
    )
    ledger = machine.gpu()
    assert [
        (3 * MIB, 3 * MIB - 1, 1, 0, "large"),
        (8192, 8000, 2, 0, "small"),
        (4096, 4000, 1, 77, "small"),
    ] == [(row.bytes, row.requested, row.count, row.stream, row.pool) for row in ledger.blocks]
    assert {"unknown"} == {row.kind for row in ledger.blocks}
    assert {"not found": (12_000 + 3 * MIB - 1, 4)} == kinds(machine)


@pytest.mark.parametrize(
    ("setting", "size"),
    [(None, CUBLAS), (None, 32 * MIB), (":16:8", 128 * KIB), (":4096:2:16:8", CUBLAS)],
)
def test_a_workspace_of_cublas_is_known_by_its_size(machine, setting, size):
    if setting:
        machine.cuda.monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", setting)
    hold(machine, segment(BASE, block(size), block(size + 512)))
    assert {"library workspace": (size, 1), "not found": (size + 512, 1)} == kinds(machine)


@pytest.mark.parametrize(
    ("setting", "size", "other"),
    [(None, MIB, 2 * MIB), ("2048", 2 * MIB, MIB), ("as it likes", MIB, 2 * MIB)],
)
def test_a_workspace_of_cublaslt_is_known_by_its_size(machine, setting, size, other):
    if setting:
        machine.cuda.monkeypatch.setenv("CUBLASLT_WORKSPACE_SIZE", setting)
    hold(machine, segment(BASE, block(size), block(other)))
    assert {"library workspace": (size, 1), "not found": (other, 1)} == kinds(machine)


@pytest.mark.parametrize(
    ("version", "settings", "kept"),
    [  # what each release did on emulated cards: `x @ x`, then `torch.addmm(b, x, x)`
        ("2.11.0+cu130", {}, {CUBLAS, MIB}),
        ("2.11.0+cu130", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "1"}, {CUBLAS}),
        ("2.13.0+cu130", {}, {CUBLAS}),
        ("2.14.1+cu130", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, {CUBLAS, MIB}),
        ("2.15.0+cu132", {}, set()),
        ("2.15.0+cu132", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, set()),
        ("2.15.0+cu132", {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}, {CUBLAS}),
        ("2.16.0.dev20261201", {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}, {CUBLAS}),
    ],
)
def test_a_block_without_a_tensor_is_a_workspace_only_where_that_torch_keeps_one(
    machine, version, settings, kept
):
    machine.cuda.monkeypatch.setattr(torch, "__version__", version)
    for name, value in settings.items():
        machine.cuda.monkeypatch.setenv(name, value)
    hold(machine, segment(BASE, block(CUBLAS), block(MIB)))
    known = {"library workspace": (sum(kept), len(kept))} if kept else {}
    rest = {CUBLAS, MIB} - kept
    unknown = {"not found": (sum(rest), len(rest))} if rest else {}
    assert known | unknown == kinds(machine)


def test_the_size_that_torch_tells_of_cublaslt_goes_before_its_usual_one(machine):
    machine.cuda.monkeypatch.setattr(
        torch._C, "_cuda_getCublasLtWorkspaceSize", lambda: 3 * MIB, raising=False
    )
    hold(machine, segment(BASE, block(3 * MIB), block(MIB)))
    assert {"library workspace": (3 * MIB, 1), "not found": (MIB, 1)} == kinds(machine)


def test_the_size_that_torch_itself_tells_goes_before_the_usual_ones(machine):
    machine.cuda.monkeypatch.setattr(
        torch._C, "_cuda_getCublasWorkspaceSize", lambda: 5 * MIB, raising=False
    )
    hold(machine, segment(BASE, block(5 * MIB), block(32 * MIB)))
    assert {"library workspace": (5 * MIB, 1), "not found": (32 * MIB, 1)} == kinds(machine)


def test_a_tensor_of_a_workspaces_size_is_a_tensor(machine):
    hold(machine, segment(BASE, block(32 * MIB)))
    machine.find(32 * MIB, BASE)
    assert {"user": (32 * MIB, 1)} == kinds(machine)


def test_with_history_on_a_workspace_is_known_by_what_allocated_it(machine):
    frames = [
        frame("CUDACachingAllocator.cpp", 4, "c10::cuda::malloc"),
        frame("CublasHandlePool.cpp", 310, "at::cuda::getNewWorkspace()"),
        frame("/home/me/train.py", 12, "forward"),
    ]
    hold(machine, segment(BASE, block(7 * MIB, frames=frames)))
    ledger = machine.gpu()
    assert {"library workspace": (7 * MIB, 1)} == kinds(machine)
    assert (
        "CUDACachingAllocator.cpp:4 c10::cuda::malloc",
        "CublasHandlePool.cpp:310 at::cuda::getNewWorkspace()",
        "/home/me/train.py:12 forward",
    ) == ledger.blocks[0].stack


@pytest.mark.parametrize(
    "frame_of",
    [
        ("/home/me/workspace/train.py", 3, "forward"),
        ("/var/lib/jenkins/workspace/aten/src/ATen/Empty.cpp", 7, "at::detail::empty_cuda"),
        ("train.py", 3, "my_workspace"),
    ],
)
def test_a_folder_or_a_function_of_yours_called_workspace_makes_none(machine, frame_of):
    hold(machine, segment(BASE, block(7 * MIB, frames=[frame(*frame_of)])))
    assert {"not found": (7 * MIB, 1)} == kinds(machine)


def test_blocks_of_one_size_are_told_apart_by_their_stacks(machine):
    here, there = frame("a.py", 1, "f"), frame("b.py", 2, "g")
    hold(machine, segment(BASE, *[block(512, frames=[f]) for f in (here, there, here)]))
    assert [(1024, 2, ("a.py:1 f",)), (512, 1, ("b.py:2 g",))] == [
        (row.bytes, row.count, row.stack) for row in machine.gpu().blocks
    ]


def test_a_private_pool_without_tensors_is_a_cuda_graphs(machine):
    hold(
        machine,
        segment(
            BASE, block(4 * MIB), block(2 * MIB, 0, "inactive"), block(MIB), pool=(3, 0), stream=5
        ),
        segment(BASE + 64 * MIB, block(8 * MIB), block(6 * MIB, 0, "inactive")),
    )
    machine.find(MIB, BASE + 6 * MIB)  # a graph's output that the user holds
    machine.find(8 * MIB, BASE + 64 * MIB)
    ledger = machine.gpu()
    assert {"user": (9 * MIB, 2), "CUDA graph": (4 * MIB, 1)} == kinds(machine)
    assert [(4 * MIB, "graph", "CUDA graph", 5)] == [
        (row.bytes, row.pool, row.kind, row.stream) for row in ledger.blocks
    ]
    reserved = sum_called(ledger, "reserved")
    assert (8 * MIB, 2 * MIB) == (lines(reserved)["cached"], lines(reserved)["private"])
    assert closes(reserved)


def test_of_many_unlike_blocks_fifty_are_listed_and_the_rest_summed(machine):
    sizes = [512 * number for number in range(1, 61)]
    hold(machine, segment(BASE, *[block(size) for size in sizes]))
    rows = machine.gpu().blocks
    assert 51 == len(rows)
    assert [512 * 60, 512 * 59, 512 * 58] == [row.bytes for row in rows[:3]]
    rest = rows[-1]
    assert (sum(sizes[:10]), 10, None, "several") == (
        rest.bytes, rest.count, rest.stream, rest.pool,
    )  # fmt: skip
    assert sum(sizes) == sum(row.bytes for row in rows)


# Storages that do not fill one block.


def test_storages_within_one_block_leave_the_rest_of_it_without_a_tensor(machine):
    hold(machine, segment(BASE, block(8192, 8000)))
    machine.find(1000, BASE)
    machine.find(2000, BASE + 3000, category="buffer")
    ledger = machine.gpu()
    allocated = sum_called(ledger, "allocated")
    assert {"buffer": 2000, "user": 1000, "not found": 5000, "rounding": 192} == lines(allocated)
    assert closes(allocated)
    assert [(5000, 5000, 1)] == [(row.bytes, row.requested, row.count) for row in ledger.blocks]


def test_two_storages_over_the_same_bytes_are_counted_once_for_the_first_category(machine):
    hold(machine, segment(BASE, block(4096)))
    machine.find(4096, BASE, category="user")
    machine.find(4096, BASE, category="parameter")
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"parameter": 4096, "user": 0, "rounding": 0} == lines(allocated)
    assert ["4,096 bytes belong to more than one storage; they are counted once."] == sentences(
        allocated.notes
    )


def test_storages_that_overlap_in_part_are_counted_once_where_they_do(machine):
    hold(machine, segment(BASE, block(4096)))
    machine.find(3000, BASE, category="buffer")
    machine.find(2000, BASE + 2000, category="user")
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"buffer": 3000, "user": 1000, "not found": 96, "rounding": 0} == lines(allocated)
    assert closes(allocated)


def test_a_storage_around_others_has_only_what_they_leave(machine):
    hold(machine, segment(BASE, block(4096)))
    machine.find(512, BASE + 512, category="parameter")
    machine.find(512, BASE + 2048, category="parameter")
    machine.find(4096, BASE, category="user")
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"parameter": 1024, "user": 3072, "rounding": 0} == lines(allocated)


def test_a_storage_over_several_blocks_is_counted_in_each(machine):
    hold(machine, segment(BASE, block(1024), block(1024, 1000), block(1024)))
    machine.find(2560, BASE + 256)  # C++ code took one range out of the middle
    allocated = sum_called(machine.gpu(), "allocated")
    inside = 768 + 1000 + 768
    assert {"user": inside, "not found": 512, "rounding": 24} == lines(allocated)
    assert closes(allocated)


def test_memory_of_another_library_is_told_apart_and_not_added(machine):
    hold(machine, segment(BASE, block(1024)))
    machine.find(1024, BASE)
    machine.find(3000, BASE + 64 * MIB)  # shared by another process, say
    machine.find(500, None)
    allocated = sum_called(machine.gpu(), "allocated")
    assert {"user": 1024, "rounding": 0} == lines(allocated)
    assert [
        "1 storage lies in memory that is not this allocator's but another library's or process's: "
        "3,000 bytes, which are not in this sum."
    ] == sentences(allocated.notes)
    assert closes(allocated)


def test_an_empty_storage_is_counted_with_no_bytes(machine):
    hold(machine, segment(BASE, block(1024)))
    machine.find(1024, BASE)
    machine.find(0, 0)
    line = sum_called(machine.gpu(), "allocated").lines[0]
    assert ("user", 1024, 2) == (line.code, line.bytes, line.count)


def test_nothing_of_a_storage_is_held_afterwards(machine):
    import weakref

    hold(machine, segment(BASE, block(1024)))
    kept = weakref.ref(machine.find(1024, BASE))
    ledger = machine.gpu()
    machine.storages.clear()
    assert kept() is None
    assert 1024 == ledger.sums[0].total.bytes
