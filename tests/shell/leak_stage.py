"""Runs scenes in a shell as a user would, with or without nbmem."""

from __future__ import annotations

import contextlib

import leak_probes
import torch
from leak_values import addresses_of, values_of
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

IMPORTS = "import torch; from torch import nn"
LOADING = ("%load_ext nbmem", "%gpumem on", "%config NbMem.name_budget = 60")
"""Time enough to look at everything on a machine that does other work too."""


class MadeStorages(TorchDispatchMode):
    """C++'s weak references to all storages that torch's operations read or make meanwhile."""

    def __init__(self):
        super().__init__()
        self.known = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for thing in tree_leaves((args, made)):
            if isinstance(thing, torch.Tensor):
                self.note(thing.untyped_storage())
        return made

    def note(self, storage):
        reference = StorageWeakRef(storage)
        self.known.setdefault(reference.cdata, (reference, storage.nbytes()))

    def alive(self):
        """Returns {address: bytes} of those that live."""
        return {a: size for a, (reference, size) in self.known.items() if not reference.expired()}


class Stage:
    """A shell in which scenes are played one after another."""

    def __init__(self, shell, *, loaded):
        self.shell = shell
        self.loaded = loaded
        self.made = MadeStorages()
        self.counts = []
        self.plays = 0
        for cell in (IMPORTS, *(LOADING if loaded else ())):
            self.run(cell)

    def play(self, cells, *, fails=False):
        """Runs the cells of a scene; a source met before is the same cell run again."""
        self.counts = []
        self.plays += 1
        for cell in cells:
            cell_id = f"cell-{cells.index(cell)}-of-play-{self.plays}"
            self.counts.append(self.run(cell, fails=fails, cell_id=cell_id))

    def run(self, cell, *, fails=False, **options):
        """Runs one cell and returns its execution count; nothing of the result is kept."""
        watch = contextlib.nullcontext() if self.loaded else self.made
        with watch:
            result = self.shell.run_cell(cell, store_history=True, **options)
        count, error = result.execution_count, result.error_in_exec
        assert result.error_before_exec is None, cell
        assert fails or error is None, f"{cell}\n{error!r}"
        return count

    def act(self, code):
        """Runs code as part of no cell."""
        with contextlib.nullcontext() if self.loaded else self.made:
            exec(compile(code, "<act>", "exec"), self.shell.user_ns)

    @property
    def told(self):
        return self.shell.user_ns["told"]

    def values(self):
        found = values_of(self.shell.user_ns)
        found.pop("told", None)
        return found

    def named(self):
        """Returns the addresses of storages that names lead to by value."""
        return addresses_of(self.shell.user_ns)

    def clear(self):
        """Ends a scene and leaves the shell as it was."""
        leak_probes.end()
        leak_probes.forget_outputs()
        leak_probes.forget_errors()
        for name in [n for n in self.shell.user_ns if n not in self.shell.user_ns_hidden]:
            if name not in ("torch", "nn") and not name.startswith("__"):  # __name__ is Python's
                del self.shell.user_ns[name]
        leak_probes.break_cycles()
        leak_probes.PROBES.clear()
        self.made.known.clear()


@contextlib.contextmanager
def stage_in(shell, *, loaded):
    """A stage on which cells know `probe` and the like."""
    leak_probes.install()
    stage = Stage(shell, loaded=loaded)
    try:
        yield stage
    finally:
        stage.clear()
        leak_probes.uninstall()


def without(values, beginnings):
    """Returns those values whose names begin with none of these."""
    return {name: told for name, told in values.items() if not name.startswith(tuple(beginnings))}
