"""A model that transformers loads from its own files: its bytes are counted once."""

import gc
import os

import pytest

import nbmem

transformers = pytest.importorskip("transformers")


@pytest.fixture
def saved(notebook, tmp_path):
    config = transformers.BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        vocab_size=500,
        max_position_embeddings=64,
    )
    model = transformers.BertModel(config)
    model.save_pretrained(tmp_path)
    del model
    gc.collect()
    notebook.run("%config NbMem.leak_threshold = 1000")
    notebook.run("from transformers import BertModel")
    notebook.shell.user_ns["folder"] = str(tmp_path)
    return tmp_path


def total():
    return sum(storage.bytes for storage in nbmem.list_storages() if storage.device == "cpu")


def covered(storages):
    """Bytes of memory that storages cover together, counted without nbmem."""
    size = end = 0
    for begin, last in sorted((s.data_ptr(), s.data_ptr() + s.nbytes()) for s in storages):
        size += max(0, last - max(begin, end))
        end = max(end, last)
    return size


def test_a_model_from_its_files_is_counted_once_and_is_no_leak(notebook, saved):
    before = total()
    assert notebook.run("%%gpumem --device cpu\nm = BertModel.from_pretrained(folder)").success
    model = notebook.names["m"]
    tensors = [*model.parameters(), *model.buffers()]
    truth = covered(t.untyped_storage() for t in tensors)
    assert sum(t.nbytes for t in tensors) == truth
    # What the file has besides: its header, where the parameters lie in it.
    files = [saved / name for name in os.listdir(saved) if name.endswith(".safetensors")]
    header = sum(map(os.path.getsize, files)) - sum(p.nbytes for p in model.parameters())
    grown = total() - before
    assert grown in (truth, truth + header)
    named = [s for s in nbmem.list_storages() if s.names and s.names[0].startswith("m.")]
    assert truth == sum(s.bytes for s in named)
    delta = notebook.records[-1].devices["cpu"]
    assert (grown, 0) == (delta.delta, delta.unattributed)
    assert grown == sum(s.bytes for s in notebook.records[-1].created)
    assert [] == nbmem.find_leaks()
    del model, tensors
    assert notebook.run("del m; import gc; gc.collect(); None").success
    assert before == total()


def test_a_model_that_only_a_shown_slice_keeps_is_a_leak(notebook, saved):
    before = total()
    notebook.run("m = BertModel.from_pretrained(folder)")
    notebook.run("m.embeddings.word_embeddings.weight.detach()[:2]")
    notebook.run("del m; import gc; gc.collect(); None")
    left = total() - before
    assert left > 0
    (leak,) = nbmem.find_leaks()
    assert (left, "stale_output") == (leak.bytes, leak.kind)
    nbmem.reclaim_memory(leak)
    assert before == total()
