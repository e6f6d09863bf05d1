"""Inventories of models in training, against the allocator's own account from a fresh process.

Six models, four ways to save for backward, three optimizers, two steps, and three moments of each:
after forward, after backward, after the step.
"""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
import torch

import nbmem
from nbmem.heap import StorageTable
from nbmem.inventory import resolve_name, take_inventory

sys.path.insert(0, str(Path(__file__).parent))
from model_zoo import CALLS, MODELS
from zoo_training import MODES, MOMENTS, OPTIMIZERS, STEPS, Notebook, facts_of

EACH_CASE = pytest.mark.parametrize(
    ("model", "mode"), [(model, mode) for model in MODELS for mode in MODES]
)
SMALL = ("mlp", "transformer", "lstm")
BIG = 1024
"""Bytes from which on every storage has a name."""


class Account:
    """What a fresh process tells, read as far as it is asked for."""

    def __init__(self, *words):
        script = Path(__file__).with_name("zoo_training.py")
        same_nbmem = {"PYTHONPATH": str(Path(nbmem.__file__).parents[1])}
        self._process = subprocess.Popen(
            [sys.executable, str(script), *words],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"KINETO_LOG_LEVEL": "99"} | same_nbmem,
        )
        self._told = {}

    def rows(self, model, mode):
        case = f"{model} {mode}"
        while case not in self._told:
            line = self._process.stdout.readline()
            assert line, f"the process ended before {case}"
            if line.startswith("{"):
                told = json.loads(line)
                self._told[told["case"]] = told["rows"]
        return self._told[case]

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def allocator():
    account = Account(*MODELS)
    yield account
    account.close()


@pytest.fixture(scope="module")
def allocator_while_looking():
    account = Account("looking", *SMALL)
    yield account
    account.close()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    trained.cache_clear()


def storages_in(tensors):
    """Returns {address: bytes} of the storages of some tensors."""
    storages = [tensor.untyped_storage() for tensor in tensors if tensor is not None]
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def bytes_by_kind(names, total):
    """Returns what each kind takes, from what the model and the optimizer say of themselves."""
    model, optimizer = names["model"], names["opt"]
    parameters = dict(model.named_parameters()).values()
    state = optimizer.state_dict()["state"].values()
    kinds = {
        "parameter": parameters,
        "buffer": model.buffers(),
        "gradient": [parameter.grad for parameter in parameters],
        "optimizer state": [value for kept in state for value in kept.values()],
        "user": [names["x"], names["y"], names["loss"]],
    }
    found = {
        kind: sum(storages_in(filter(torch.is_tensor, tensors)).values())
        for kind, tensors in kinds.items()
    }
    found["saved for backward"] = total - sum(found.values())
    return {kind: size for kind, size in found.items() if size}


class Moment:
    """What an inventory said at one moment, as plain facts."""

    def __init__(self, at, notebook, table, first, names_wanted):
        self.at = at
        calls = dict(CALLS)
        inventory = take_inventory(table, notebook.names, budget=60, now=0.0)
        self.inventory = inventory  # held until the next is taken, as a panel holds what it shows
        self.ran = Counter(CALLS) - Counter(calls)
        self.facts = json.loads(json.dumps(facts_of(notebook)))
        self.notes = [note.code for note in inventory.notes]
        records = [record for record in inventory.storages if record.key >= first]
        self.told = Counter()
        for record in records:
            self.told[record.category] += record.bytes
        self.covered = sum(
            record.bytes
            for record in records
            if record.names or record.category == "saved for backward"
        )
        self.nameless = [
            (record.bytes, record.category, record.dtype, record.shape)
            for record in records
            if record.bytes >= BIG and not record.names
        ]
        self.kinds = bytes_by_kind(notebook.names, 0)
        self.changed = told_otherwise(inventory, table, notebook.names) if names_wanted else []
        self.misled = list(misled(sample(records, names_wanted), notebook.names, table))


def told_otherwise(inventory, table, names):
    """Returns the records that are not the same when asked for again, with what they are then."""
    again = take_inventory(table, names, budget=60, now=0.0)
    pairs = zip_longest(inventory.storages, again.storages)
    return [(told, told_again) for told, told_again in pairs if told != told_again]


def sample(records, count):
    """Returns (name, record) of each category, and of some others."""
    pairs = [(name, record) for record in records for name in record.names]
    chosen = {record.category: (name, record) for name, record in pairs} if count else {}
    return [*chosen.values(), *random.Random(0).sample(pairs, min(count, len(pairs)))]


def misled(pairs, names, table):
    """Yields the names that do not lead back to what they were printed for."""
    for name, record in pairs:
        storage = resolve_name(name, names).untyped_storage()
        entry = table.find(storage)
        if entry is None or (entry.serial, storage.nbytes()) != (record.key, record.bytes):
            yield name


@cache
def trained(model, mode):
    """Returns the moments of a training, an inventory taken at each."""
    gc.collect()
    gc.disable()  # as in the fresh process: at each moment the same garbage, if any
    CALLS.clear()
    table = StorageTable()
    try:
        take_inventory(table, {}, budget=60, now=0.0)
        first = table.next_serial  # what is older is not of this training
        notebook, moments = Notebook(model, mode), []
        for at in notebook.moments():
            wanted = 2 if at[1] == STEPS - 1 else 0
            moments.append(Moment(at, notebook, table, first, wanted))
            for earlier in moments[:-1]:
                earlier.inventory = None
        moments[-1].inventory = None
        return moments
    finally:
        gc.enable()


def of_each_moment(moments, tell):
    """Returns {moment: what `tell` says of it}, without the moments of which it says nothing."""
    return {moment.at: told for moment in moments if (told := tell(moment))}


@pytest.fixture(autouse=True, scope="module")
def nothing_of_other_tests():
    """Graphs that other tests left in cycles would be noted here."""
    gc.collect()


def test_the_zoo_has_the_published_numbers_of_parameters():
    def count(name):
        return sum(parameter.numel() for parameter in MODELS[name][0]().parameters())

    assert 25_557_032 == count("resnet50")
    assert 5_288_548 == count("efficientnet_b0")


@EACH_CASE
def test_each_moment_is_looked_at(model, mode):
    assert len(OPTIMIZERS) * STEPS * len(MOMENTS) == len(trained(model, mode))


@EACH_CASE
def test_what_is_named_and_what_is_saved_add_up_to_what_the_allocator_gave(model, mode, allocator):
    truth = {tuple(row[:3]): row[3] for row in allocator.rows(model, mode)}
    assert truth == of_each_moment(trained(model, mode), lambda moment: moment.covered)


@EACH_CASE
def test_nothing_is_of_an_unknown_kind(model, mode):
    assert {} == of_each_moment(trained(model, mode), lambda moment: moment.told["unknown"])


@EACH_CASE
def test_no_storage_of_1_kib_or_more_lacks_a_name(model, mode):
    assert {} == of_each_moment(trained(model, mode), lambda moment: moment.nameless)


@EACH_CASE
def test_each_kind_has_the_bytes_that_the_model_and_the_optimizer_say(model, mode, allocator):
    truth = {}
    for row, moment in zip(allocator.rows(model, mode), trained(model, mode), strict=True):
        saved = row[3] - sum(size for size in moment.kinds.values() if size > 0)
        kinds = {kind: size for kind, size in moment.kinds.items() if size > 0}
        truth[tuple(row[:3])] = kinds | ({"saved for backward": saved} if saved else {})
    told = of_each_moment(trained(model, mode), lambda moment: dict(moment.told))
    assert truth == told


@EACH_CASE
def test_names_of_each_kind_lead_back_to_their_storages(model, mode):
    assert {} == of_each_moment(trained(model, mode), lambda moment: moment.misled)


@EACH_CASE
def test_looking_runs_no_segment_and_no_hook(model, mode):
    assert {} == of_each_moment(trained(model, mode), lambda moment: moment.ran)


@EACH_CASE
def test_asked_again_an_inventory_says_the_same(model, mode):
    assert {} == of_each_moment(trained(model, mode), lambda moment: moment.changed)


@EACH_CASE
def test_only_what_a_checkpoint_will_compute_again_is_noted(model, mode):
    after_forward = [m.at for m in trained(model, mode) if m.at[2] == "forward"]
    noted = {at: ["packed_away"] for at in after_forward} if mode == "checkpoint" else {}
    assert noted == of_each_moment(trained(model, mode), lambda moment: moment.notes)


@EACH_CASE
def test_training_is_bit_by_bit_what_it_is_without_looking(model, mode, allocator):
    truth = {tuple(row[:3]): row[4:] for row in allocator.rows(model, mode)}
    assert truth == of_each_moment(trained(model, mode), lambda moment: moment.facts)


@pytest.mark.parametrize(("model", "mode"), [(model, mode) for model in SMALL for mode in MODES])
def test_looking_leaves_the_allocator_as_it_was(model, mode, allocator, allocator_while_looking):
    assert allocator.rows(model, mode) == allocator_while_looking.rows(model, mode)


def forward_and_see_inputs(notebook):
    """Runs forward; returns {address of a storage: names of the modules that it went into}."""
    went_into = {}
    names = {module: f"model.{name}" for name, module in notebook.names["model"].named_modules()}

    def see(module, inputs, _output):
        went_into.setdefault(inputs[0].untyped_storage().data_ptr(), set()).add(names[module])

    hook = torch.nn.modules.module.register_module_forward_hook(see)
    try:
        notebook.names["opt"] = OPTIMIZERS["sgd"](notebook.names["model"].parameters())
        notebook.forward()
    finally:
        hook.remove()
    return went_into


SAVED_INPUTS = (
    "AddmmBackward0.mat1",
    "ConvolutionBackward0.input",
    "NativeBatchNormBackward0.input",
    "NativeLayerNormBackward0.input",
)
"""What the operations of layers with weights save of what went into them."""


@pytest.mark.parametrize("model", MODELS)
def test_what_a_layer_saved_of_its_input_is_told_as_of_that_layer(model):
    notebook, table = Notebook(model, "plain"), StorageTable()
    went_into = forward_and_see_inputs(notebook)
    records = take_inventory(table, notebook.names, budget=60, now=0.0).storages
    address = {entry.serial: entry().data_ptr() for entry in table.live()}
    inputs = [record for record in records if record.saved_by in SAVED_INPUTS]
    wrong = [
        (record.module, record.saved_by, record.shape)
        for record in inputs
        if record.module not in went_into[address[record.key]]
    ]
    assert [] == wrong
    assert inputs or model == "lstm"
    homeless = [record for record in records if record.saved_by and record.module is None]
    assert [] == homeless
