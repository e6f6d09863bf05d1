"""Leaks around the Trainer of transformers: what is told is true, and training goes on after it."""

from __future__ import annotations

import gc
import warnings
import weakref

import pytest

import nbmem

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")
KIB = 1024
SET_UP = (
    "import torch\n"
    "from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments\n"
    "torch.manual_seed(0)",
    "config = GPT2Config(vocab_size=512, n_positions=64, n_embd=256, n_layer=2, n_head=2,\n"
    "                    bos_token_id=0, eos_token_id=0, loss_type='ForCausalLM')\n"
    "model = GPT2LMHeadModel(config)\n"
    "rows = [{'input_ids': torch.arange(32) + n, 'labels': torch.arange(32) + n}"
    " for n in range(8)]",
    "class Watched(Trainer):\n"
    "    fail = False\n"
    "    def training_step(self, model, inputs, *args, **more):\n"
    "        acts = torch.ones(2**18)\n"
    "        kept.add(acts)\n"
    "        if self.fail: raise ValueError('not today')\n"
    "        return super().training_step(model, inputs, *args, **more)\n"
    "settings = TrainingArguments(output_dir=folder, max_steps=3, use_cpu=True, report_to=[],\n"
    "    per_device_train_batch_size=4, save_strategy='no', disable_tqdm=True, logging_steps=1)\n"
    "trainer = Watched(model=model, args=settings, train_dataset=rows)",
    "done = trainer.train()",
)
MORE = "trainer.args.max_steps = 2; trainer.fail = False; again = trainer.train()"


@pytest.fixture
def trained(notebook, tmp_path, capsys):
    notebook.names["folder"], notebook.names["kept"] = str(tmp_path), weakref.WeakSet()
    for cell in SET_UP:
        assert notebook.run(cell).success, cell
    gc.collect()
    return notebook


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def trains_on(notebook):
    """Whether the model goes on learning."""
    before = weights_of(notebook.names["model"])
    assert notebook.run(MORE).success
    after = weights_of(notebook.names["model"])
    loss = notebook.names["again"].training_loss
    return loss == loss and any((before[name] != after[name]).any() for name in before)


def test_after_training_nothing_is_told_and_training_goes_on(trained):
    assert [] == nbmem.find_leaks()
    weights = weights_of(trained.names["model"])
    assert () == nbmem.reclaim_memory(everything=True).dropped
    after = weights_of(trained.names["model"])
    assert all((weights[name] == after[name]).all() for name in weights)
    assert trains_on(trained)


def test_an_error_inside_a_step_is_told_and_freed_and_training_goes_on(trained):
    kept = trained.names["kept"]
    assert 0 == len(kept)
    assert not trained.run("trainer.fail = True; trainer.train()").success
    assert 1 == len(kept)
    leak = max(nbmem.find_leaks(), key=lambda one: one.bytes)
    assert "stale_error" == leak.kind
    assert 1024 * KIB <= leak.bytes
    report = nbmem.reclaim_memory(everything=True)
    assert (0, report.promised) == (len(kept), report.freed)
    assert trains_on(trained)


def test_a_trainer_and_its_model_without_a_name_come_back(trained):
    weight = weakref.ref(trained.names["model"].transformer.wte.weight)
    gc.disable()
    try:
        assert trained.run("del trainer, model, done").success
        report = nbmem.reclaim_memory()
        assert report.promised == report.freed
        assert weight() is None
    finally:
        gc.enable()
