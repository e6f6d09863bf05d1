"""Training of the zoo's models as in a notebook, and the allocator's own account of it.

Run as a script in a fresh process, `zoo_training.py MODEL…` trains each in each mode and prints, a
line of JSON for each, what was at each moment: the bytes that torch's CPU allocator had handed out
since before the model was built and not got back (kineto's memory events), the loss bit by bit, how
often tensors were written to, and how often segments and hooks ran. It does not know nbmem, unless
the first word is `looking`: then an inventory is taken at each moment, and dropped.
"""

import gc
import json
import os
import sys
from functools import partial

import torch
from model_zoo import CALLS, MODELS, loss_of, run
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

OPTIMIZERS = {
    "sgd": partial(torch.optim.SGD, lr=0.01),
    "momentum": partial(torch.optim.SGD, lr=0.01, momentum=0.9),
    "adam": partial(torch.optim.Adam, lr=1e-4),
}
MODES = ("plain", "checkpoint", "reentrant", "save_on_cpu")
MOMENTS = ("forward", "backward", "step")
STEPS = 2


class CountedHooks(save_on_cpu):
    """`save_on_cpu`, which counts how often it packs and unpacks.

    Of a CPU tensor it makes a copy only where it is told to pin and nothing can be pinned.
    """

    def __init__(self):
        super().__init__(pin_memory=not torch.cuda.is_available())
        self.pack_hook = partial(counted, "pack", self.pack_hook)
        self.unpack_hook = partial(counted, "unpack", self.unpack_hook)


def counted(what, hook, value):
    CALLS[what] += 1
    return hook(value)


class Notebook:
    """One model trained in one mode by one optimizer after the other; `names` are its variables."""

    def __init__(self, model, mode):
        torch.manual_seed(0)
        make, data = MODELS[model]
        x, y = data()
        self.names = {"model": make(), "x": x, "y": y}
        self.mode = mode
        if mode in ("checkpoint", "reentrant"):
            reentrant = mode == "reentrant"
            self.names["model"].through = partial(checkpoint, run, use_reentrant=reentrant)

    def moments(self):
        """Trains; yields (optimizer, step, moment) with the notebook as it is then."""
        for optimizer, make in OPTIMIZERS.items():
            self.names["opt"] = make(self.names["model"].parameters())
            for step in range(STEPS):
                for moment in MOMENTS:
                    getattr(self, moment)()
                    yield optimizer, step, moment

    def forward(self):
        self.names["opt"].zero_grad()
        if self.mode == "save_on_cpu":
            with CountedHooks():
                self._find_loss()
        else:
            self._find_loss()

    def _find_loss(self):
        self.names["loss"] = loss_of(self.names["model"](self.names["x"]), self.names["y"])

    def backward(self):
        self.names["loss"].backward()

    def step(self):
        self.names["opt"].step()


def balance(events):
    """Returns the bytes handed out and not got back at each mark, in their order."""
    total, marks = 0, []
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            total += event.nbytes()
        elif event.name() == "mark":
            marks.append(total)
    return marks


def facts_of(notebook):
    """Returns what looking must not change: the loss, what was written to, what ran."""
    model = notebook.names["model"]
    loss = notebook.names["loss"].detach().numpy().tobytes().hex()
    writes = sum(tensor._version for tensor in [*model.parameters(), *model.buffers()])
    return [loss, writes, sorted(CALLS.items())]


def account(model, mode, look):
    """Returns [[optimizer, step, moment, bytes, *facts]] of a training under the profiler."""
    CALLS.clear()
    rows = []
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        notebook = Notebook(model, mode)
        for moment in notebook.moments():
            look(notebook)
            with torch.profiler.record_function("mark"):
                rows.append([*moment, None, *facts_of(notebook)])
    for row, total in zip(rows, balance(profiler.profiler.kineto_results.events()), strict=True):
        row[3] = total
    return rows


def inventory_taker():
    """Returns what takes an inventory of a notebook and drops it."""
    from nbmem.heap import StorageTable
    from nbmem.inventory import take_inventory

    table = StorageTable()

    def look(notebook):
        take_inventory(table, notebook.names, budget=60, now=0.0)

    return look


def main(words):
    looking = words[0] == "looking"
    look = inventory_taker() if looking else id
    torch.set_num_threads(1)
    gc.disable()  # at each moment the same garbage, if any
    for model in words[looking:]:
        for mode in MODES:
            told = {"case": f"{model} {mode}", "rows": account(model, mode, look)}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
