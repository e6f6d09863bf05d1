"""Small views of memory that is not theirs alone: nothing is promised that would be refused."""

import gc

import pytest
import torch

import nbmem

MIB = 1 << 20


@pytest.fixture
def shell(notebook, tmp_path):
    notebook.run("import numpy as np")
    notebook.run("%config NbMem.leak_threshold = 1000")
    (tmp_path / "f").write_bytes(bytes(MIB))
    torch.save({"a": torch.zeros(1 << 18)}, tmp_path / "p")
    notebook.names["file"], notebook.names["saved"] = str(tmp_path / "f"), str(tmp_path / "p")
    return notebook


OWNED = [
    "x = torch.from_file(file, shared=True, size=1 << 18)[:10]",
    "x = torch.from_numpy(np.memmap(file, mode='r+', dtype='f4'))[5:9]",
    "x = torch.zeros(1000, 1000).share_memory_()[0]",
    "ba = bytearray(1 << 20); x = torch.frombuffer(ba, dtype=torch.float32)[:16]",
    "ba = [bytearray(1 << 20)]; x = torch.frombuffer(ba[0], dtype=torch.float32)[:16]",
    "n = np.zeros(1 << 18); x = torch.from_numpy(n)[:4]",
    "n = {'deep': [np.zeros(1 << 18)]}; x = torch.from_numpy(n['deep'][0])[:4]",
    "n = np.zeros(1 << 18); m = n[:100]; x = torch.from_numpy(n)[:4]; del n",
    "def f():\n    q = bytearray(1 << 20)\n    return (lambda: q), q\n"
    "g, q = f(); x = torch.frombuffer(q, dtype=float)[:5]; del q",
    "x = torch.zeros(1 << 18)[:9]; seen = memoryview(x.numpy())",
    "x = torch.zeros(1 << 18)[:9]; seen = np.from_dlpack(x)",
]


@pytest.mark.parametrize("made", OWNED)
def test_a_view_of_memory_that_a_file_or_a_named_object_has_is_no_leak(shell, made):
    shell.run(made)
    assert () == tuple(nbmem.find_leaks())
    report = nbmem.reclaim_memory(everything=True)
    assert (0, ()) == (report.freed, report.dropped)


PRIVATE = [
    "x = torch.load(saved, mmap=True)['a'][:2]",
    "x = torch.from_file(file, shared=False, size=1 << 18)[:10]",
    "x = torch.from_numpy(np.memmap(file, mode='c', dtype='f4'))[5:9]",
    "n = np.zeros(1 << 18); x = torch.from_numpy(n)[:4]; del n",
    "ba = bytearray(1 << 20); x = torch.frombuffer(ba, dtype=torch.float32)[:16]; del ba",
    "with torch.inference_mode(): x = torch.zeros(1 << 18)[:10]",
]


def total():
    return sum(storage.bytes for storage in nbmem.list_storages())


@pytest.mark.parametrize("made", PRIVATE)
def test_a_private_copy_is_told_and_its_remedy_frees_it(shell, made):
    before = total()
    shell.run(made)
    (leak,) = nbmem.find_leaks()
    assert ("oversized_view", "x = x.clone()", False) == (leak.kind, leak.remedy, leak.reclaimable)
    assert 0 == nbmem.reclaim_memory(dry_run=True).promised
    values = shell.names["x"].tolist()
    shell.run(leak.remedy)
    gc.collect()
    kept = shell.names["x"].untyped_storage().nbytes()
    assert before + kept == total()
    assert values == shell.names["x"].tolist()
    assert () == tuple(nbmem.find_leaks())


MOVABLE = [
    "big = torch.zeros(1 << 18); big.numpy().sum(); x = big[:10]; del big",
    "x = torch.load(saved)['a'][:2]",
    "big = torch.zeros(1 << 18); x = big[:10]; y = x[3:]; del big",
]


@pytest.mark.parametrize("made", MOVABLE)
def test_what_is_torchs_own_is_still_freed(shell, made):
    shell.run(made)
    (leak,) = nbmem.find_leaks()
    assert leak.reclaimable
    report = nbmem.reclaim_memory()
    assert leak.bytes == report.promised == report.freed
    assert () == report.refused


SHARED = [
    "lent = torch.randn(4096, 512); x = lent[:10]; arr = x.numpy(); del lent",
    "lent = torch.randn(4096, 512); arr = lent.numpy()[:3]; x = lent[:10]; del lent",
    "lent = torch.randn(4096, 512); x = lent[:10].numpy(); arr = x[:2]; del lent",
    "x = torch.zeros(1 << 18)[:10]; w = torch.ones(10, requires_grad=True); y = (x * w).sum()",
]


@pytest.mark.parametrize("made", SHARED)
def test_views_that_others_read_are_told_without_a_remedy(shell, made):
    shell.run(made)
    (leak,) = nbmem.find_leaks()
    assert ("oversized_view", "", False) == (leak.kind, leak.remedy, leak.reclaimable)
    shares = "A graph that awaits" if "w = " in made else "An array shares that memory"
    assert shares in leak.reason
    for report in (nbmem.reclaim_memory(dry_run=True), nbmem.reclaim_memory(everything=True)):
        assert (0, ()) == (report.promised, report.dropped)
    assert 1 == len(report.refused)
    if "arr" in made:
        shell.run("x[0] = 7")
        assert (shell.names["arr"] == 7).any()


def test_the_text_for_what_is_refused_is_one_line(shell):
    names = ("x", "y")
    shell.run("n = np.zeros(1 << 18); t = torch.from_numpy(n); x = t[:4]; y = t[9:12]; del n, t")
    (leak,) = nbmem.find_leaks()
    assert set(names) == set(leak.cuts)
    assert {"x = x.clone()", "y = y.clone()"} == set(leak.remedy.splitlines())
    (said,) = nbmem.reclaim_memory(leak).refused
    assert "\n" not in said
    assert "x = x.clone()" in said


def test_overlapping_views_are_not_parted_by_a_plain_line(shell):
    shell.run("big = torch.zeros(1 << 18); x = big[:10]; y = x[3:]; del big")
    (leak,) = nbmem.find_leaks()
    assert "clone" not in leak.remedy
    shell.run(leak.remedy)
    shell.run("x[3] = 7")
    assert 7 == shell.names["y"][0].item()
    assert () == tuple(nbmem.find_leaks())


def test_a_parameter_that_is_a_small_view_stays_one(shell):
    shell.run("x = torch.nn.Parameter(torch.zeros(1 << 18)[:10])")
    (leak,) = nbmem.find_leaks()
    before = total()
    shell.run(leak.remedy)  # a clone's graph would keep the parameter with all its memory
    assert before - leak.bytes == total()
    assert shell.names["x"].is_leaf
    assert isinstance(shell.names["x"], torch.nn.Parameter)
