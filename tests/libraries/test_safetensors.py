"""Weights read from files by safetensors, or mapped by torch: one memory under several storages."""

import os

import pytest
import torch

import nbmem

pytest.importorskip("safetensors")

A, B = 4 * 300 * 100, 4 * 200 * 100
"""Bytes of two tensors."""


@pytest.fixture
def saved(notebook, tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file({"a": torch.randn(300, 100), "b": torch.randn(200, 100)}, path)
    notebook.run("from safetensors import safe_open; from safetensors.torch import load_file")
    notebook.run("%config NbMem.leak_threshold = 1000")
    notebook.shell.user_ns["path"] = str(path)
    return path


@pytest.fixture
def pickled(notebook, tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.randn(300, 100), "b": torch.randn(200, 100)}, path)
    notebook.run("%config NbMem.leak_threshold = 1000")
    notebook.shell.user_ns["path"] = str(path)
    return path


def record_of(notebook, source):
    assert notebook.run(f"%%gpumem --device cpu\n{source}").success
    return nbmem.get_history().records()[-1]


def books(record):
    """What went on, and that it adds up."""
    delta = record.devices["cpu"]
    made = sum(storage.bytes for storage in record.created)
    freed, resized = record.freed.get("cpu", 0), record.resized.get("cpu", 0)
    assert delta.after == delta.before + made - freed + resized
    assert 0 == delta.unattributed
    return made, freed, delta.delta


def total():
    return sum(storage.bytes for storage in nbmem.list_storages() if storage.device == "cpu")


def named(name):
    return next(s for s in nbmem.list_storages() if name in s.names)


@pytest.mark.parametrize(
    "source",
    [
        "sd = load_file(path)",
        "f = safe_open(path, 'pt'); sd = {k: f.get_tensor(k) for k in f.keys()}",
    ],
)
def test_a_file_that_is_read_is_counted_once_and_is_no_leak(notebook, saved, source):
    before = total()
    size = os.path.getsize(saved)
    assert (size, 0, size) == books(record_of(notebook, source))
    assert before + size == total()
    assert [] == nbmem.find_leaks()
    notebook.run("sd.pop('b'); None")
    assert before + size == total()  # the file stays mapped for `a`
    assert [] == nbmem.find_leaks()
    assert size == books(record_of(notebook, "globals().pop('f', None); del sd"))[1]
    assert before == total()


def test_each_tensor_of_a_file_says_what_it_shares_memory_with(notebook, saved):
    notebook.run("sd = load_file(path)")
    a, b = named("sd['a']"), named("sd['b']")
    assert ((A, 0), (B, 0)) == ((a.bytes, a.shared), (b.bytes, b.shared))
    assert a.shares_with == b.shares_with
    file = next(s for s in nbmem.list_storages() if s.key in a.shares_with)
    assert (os.path.getsize(saved) - A - B, A + B) == (file.bytes, file.shared)
    assert {a.key, b.key} <= set(file.shares_with)
    assert any("shares memory" in note.sentence for note in a.notes)


def test_a_later_tensor_of_an_open_file_takes_nothing(notebook, saved):
    size = os.path.getsize(saved)
    assert (size, 0, size) == books(record_of(notebook, "f = safe_open(path, 'pt')"))
    assert [] == nbmem.find_leaks()
    assert (0, 0, 0) == books(record_of(notebook, "a = f.get_tensor('a')"))
    assert (0, 0, 0) == books(record_of(notebook, "b = f.get_slice('b')[10:20]"))
    assert (0, 0, 0) == books(record_of(notebook, "del a, b"))
    assert [] == nbmem.find_leaks()
    assert (0, size, -size) == books(record_of(notebook, "del f"))


def test_a_mapped_checkpoint_is_counted_once_and_is_no_leak(notebook, pickled):
    before, size = total(), os.path.getsize(pickled)
    assert (size, 0, size) == books(record_of(notebook, "sd = torch.load(path, mmap=True)"))
    assert before + size == total()
    assert [] == nbmem.find_leaks()
    assert (0, 0, 0) == books(record_of(notebook, "w = sd.pop('a'); del sd"))
    assert [] == nbmem.find_leaks()
    assert (0, size, -size) == books(record_of(notebook, "del w"))


def test_a_file_that_only_a_shown_tensor_keeps_is_a_leak_of_the_whole(notebook, saved):
    before, size = total(), os.path.getsize(saved)
    notebook.run("sd = load_file(path)")
    notebook.run("sd['a'][:2]", store_history=True)
    notebook.run("del sd")
    assert before + size == total()
    (leak,) = nbmem.find_leaks()
    assert (size, "stale_output") == (leak.bytes, leak.kind)
    nbmem.reclaim_memory(leak)
    assert before == total()


def test_a_copy_of_what_was_read_is_counted_by_itself(notebook, saved):
    size = os.path.getsize(saved)
    notebook.run("sd = load_file(path)")
    assert (A, 0, A) == books(record_of(notebook, "c = sd['a'].clone()"))
    assert (0, size, -size) == books(record_of(notebook, "del sd"))
    assert [] == nbmem.find_leaks()
