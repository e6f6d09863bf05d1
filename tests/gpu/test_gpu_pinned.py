"""Pinned host memory on a real allocator: what is in use, what torch keeps, and how it goes."""

import gc
import re

import pytest
import torch

import nbmem
from nbmem.session import current_session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

KIB, MIB = 2**10, 2**20


def pinned_by_torch():
    """The allocator's own count, of blocks in use and of those it keeps."""
    return torch._C._cuda_hostMemoryStats()["allocated_bytes"]["current"]


def pin(size):
    return torch.zeros(size, dtype=torch.uint8, pin_memory=True)


@pytest.fixture(autouse=True)
def nothing_pinned():
    gc.collect()
    torch.cuda.synchronize()
    newer = getattr(torch._C, "_accelerator_emptyHostCache", None)
    (newer or torch._C._host_emptyCache)()
    assert 0 == pinned_by_torch()


@pytest.fixture
def session(shell):
    shell.run_line_magic("load_ext", "nbmem")
    return current_session()


def pinned_sum():
    """Bytes by line of the ledger's sum of pinned memory, and its total; None: it has none."""
    for device in nbmem.take_ledger().devices:
        if device.device == "host":
            (told,) = device.sums
            assert 0 == told.remainder
            return {line.code: line.bytes for line in told.lines}, told.total.bytes
    return None


def test_pinned_memory_is_told_apart(session, printed):
    names = session.shell.user_ns
    names["x"] = torch.ones(300).pin_memory()
    names["y"] = torch.ones(500)
    names["z"] = torch.ones(700, device="cuda")
    by_name = {s.names[0]: s for s in nbmem.list_storages() if s.names and s.names[0] in "xyz"}
    assert {"x": True, "y": False, "z": False} == {n: s.pinned for n, s in by_name.items()}
    head = printed("tensors --where").splitlines()[1]
    assert ["module", "cuda:0", "cpu", "cpu (pinned)", "all"] == re.split(r"\s{2,}", head.strip())


def test_the_ledger_has_a_sum_of_what_is_pinned(session):
    assert pinned_sum() is None
    names = session.shell.user_ns
    names["batch"] = pin(5 * MIB)
    names["part"] = names["batch"][MIB:]
    names["small"] = pin(1000)
    kept = pin(3 * KIB)
    del kept
    lines, total = pinned_sum()
    # Blocks are powers of two: 8 MiB, 1 KiB, and 4 KiB that nobody has any more.
    assert 8 * MIB + 5 * KIB == total == pinned_by_torch()
    assert {"storages": 5 * MIB + 1000, "rounding": 3 * MIB + 24, "cached": 4 * KIB} == lines


def test_what_unparking_leaves_pinned_is_the_whole_block_as_torch_counts_it(session):
    x = torch.zeros(MIB + 4 * KIB, dtype=torch.uint8, device="cuda")
    session.shell.user_ns["x"] = x
    session.park(["x"])
    assert 2 * MIB == pinned_by_torch()
    (note,) = session.unpark([]).notes
    assert note.sentence.startswith("torch keeps the 2.00 MiB of pinned CPU memory")
    assert 2 * MIB == session.empty_pinned().freed


def test_one_card_is_asked_for_without_what_is_pinned(session):
    session.shell.user_ns["batch"] = pin(MIB)
    assert ["cuda:0"] == [d.device for d in nbmem.take_ledger("cuda:0").devices]
    assert ["cpu", "host"] == [d.device for d in nbmem.take_ledger("cpu").devices][-2:]


def test_what_torch_keeps_after_unparking_is_told_and_comes_back(session, printed):
    names = session.shell.user_ns
    names["weights"] = [torch.ones(MIB // 4, device="cuda") for _ in range(6)]
    names["batch"] = pin(2 * MIB)
    session.park(["weights"])
    assert 8 * MIB == pinned_by_torch()
    assert 0 == session.empty_pinned().freed
    (note,) = session.unpark([]).notes
    assert note.sentence.startswith("torch keeps the 6.00 MiB of pinned CPU memory")
    assert "`%gpumem reclaim --pinned`" in note.sentence
    plan = session.empty_pinned(dry_run=True)
    assert (6 * MIB, 8 * MIB, None) == (plan.promised, plan.bytes_before, plan.bytes_after)
    assert 8 * MIB == pinned_by_torch(), "a plan frees nothing"
    text = printed("reclaim --pinned")
    assert text.startswith("Freed 6.00 MiB (8.00 → 2.00 MiB, pinned by torch).")
    assert 2 * MIB == pinned_by_torch()
    assert (True, 0) == (names["batch"].is_pinned(), names["batch"].sum().item())


def test_what_nothing_can_be_done_about_is_said(session):
    report = session.empty_pinned()
    assert (0, ("torch has pinned no memory in this process",)) == (report.freed, report.refused)
    session.shell.user_ns["batch"] = pin(MIB)
    report = session.empty_pinned()
    assert (0, ("all pinned memory is in use",)) == (report.freed, report.refused)


def test_batches_of_a_data_loader_are_counted(session):
    names = session.shell.user_ns
    rows = torch.utils.data.TensorDataset(torch.ones(8, MIB // 4))
    loader = torch.utils.data.DataLoader(rows, batch_size=2, pin_memory=True)
    names["batches"] = [batch for (batch,) in loader]
    gc.collect()
    lines, total = pinned_sum()
    assert 8 * MIB == lines["storages"]
    assert total == pinned_by_torch()
    names["batches"] = names["batches"][:1]
    assert 2 * MIB == pinned_sum()[0]["storages"]
    assert 6 * MIB <= session.empty_pinned().freed
