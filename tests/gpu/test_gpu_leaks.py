"""Leaks on a real GPU: found, freed to the allocator's byte, looked for without a synchronize."""

from __future__ import annotations

import gc
import time

import pytest
import torch

import nbmem
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.views import shrink_views

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]
N = 1 << 20
CYCLES_A_SECOND = 2_000_000_000  # more than any card's clock; emulated cards count nanoseconds
BYTES = 4 * N


@pytest.fixture
def device():
    gc.collect()
    torch.cuda.synchronize()
    return torch.device("cuda", 0)


def leaks_of(size):
    return [leak for leak in nbmem.find_leaks() if leak.bytes == size]


def test_a_losses_graph_is_found_and_its_bytes_come_back(device, monkeypatch):
    import __main__ as main

    w = torch.ones(N, device=device, requires_grad=True)
    losses = [(w * torch.ones(N, device=device)).sum() for _ in range(2)]
    numbers = [loss.item() for loss in losses]
    monkeypatch.setattr(main, "losses", losses, raising=False)
    monkeypatch.setattr(main, "w", w, raising=False)
    (leak,) = leaks_of(2 * BYTES)
    assert ("retained_graph", "container", "cuda:0") == (leak.kind, leak.holder, leak.device)
    before = torch.cuda.memory_allocated()
    report = nbmem.reclaim_memory(leak)
    assert 2 * BYTES == before - torch.cuda.memory_allocated()
    assert report.promised == report.freed == 2 * BYTES
    assert numbers == [loss.item() for loss in main.losses]


def test_a_small_view_moves_to_memory_of_its_own(device, monkeypatch):
    import __main__ as main

    monkeypatch.setattr(main, "head", torch.arange(N, device=device)[:128], raising=False)
    before = torch.cuda.memory_allocated()
    nbmem.reclaim_memory()
    assert 8 * N - 1024 == before - torch.cuda.memory_allocated()
    assert list(range(128)) == main.head.tolist()


def busy(stream):
    """Keeps a stream busy for ten times as long as a look takes, before what comes next on it."""
    started = time.perf_counter()
    nbmem.find_leaks()
    seconds = time.perf_counter() - started
    with torch.cuda.stream(stream):
        torch.cuda._sleep(int(10 * seconds * CYCLES_A_SECOND))


def test_a_view_that_another_stream_still_writes_is_moved_with_its_numbers(device, monkeypatch):
    import __main__ as main

    stream = torch.cuda.Stream()
    busy(stream)
    with torch.cuda.stream(stream):
        monkeypatch.setattr(main, "head", torch.arange(N, device=device)[:128], raising=False)
    assert not stream.query()
    before = torch.cuda.memory_allocated()
    nbmem.reclaim_memory()
    assert 8 * N - 1024 == before - torch.cuda.memory_allocated()
    assert stream.query()
    assert list(range(128)) == main.head.tolist()


def test_a_pinned_view_that_a_copy_still_writes_is_moved_with_its_numbers(device):
    source = torch.arange(N, device=device)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    busy(stream)
    whole = torch.zeros(N, dtype=torch.int64, pin_memory=True)
    with torch.cuda.stream(stream):
        whole.copy_(source, non_blocking=True)
    head = whole[:128]
    del whole
    assert not stream.query()
    outcome = shrink_views([Target("head", head)])
    assert [] == outcome.refused
    assert 1024 == head.untyped_storage().nbytes()
    assert stream.query()
    assert head.is_pinned()
    assert list(range(128)) == head.tolist()


def test_looking_for_leaks_neither_synchronizes_nor_allocates(device):
    started = time.perf_counter()
    nbmem.find_leaks()
    seconds = time.perf_counter() - started
    torch.cuda._sleep(int(10 * seconds * CYCLES_A_SECOND))
    torch.cuda.set_sync_debug_mode("error")
    try:
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        nbmem.find_leaks()
        assert before == torch.cuda.memory_stats()["allocation.all.allocated"]
        assert not torch.cuda.current_stream().query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


def test_a_captured_graph_is_no_leak_and_replays_after_everything_is_reclaimed(device, monkeypatch):
    import __main__ as main

    x = torch.ones(N, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = ((x + 1) * 2).sum()
    monkeypatch.setattr(main, "x", x, raising=False)
    monkeypatch.setattr(main, "graph", graph, raising=False)
    monkeypatch.setattr(main, "total", total, raising=False)
    assert [] == [leak for leak in nbmem.find_leaks() if leak.holder == "cuda_graph"]
    assert [] == leaks_of(BYTES)
    nbmem.reclaim_memory(everything=True)
    x.fill_(3)
    graph.replay()
    assert 8.0 * N == total.item()
