"""What scenes call besides torch, and what tells whether their storages live: without nbmem.

`install` puts these words where cells find them without holding them in their namespace:

- `probe(tensor)` notes the storages of a tensor, a module or a container and hands it back,
- `aside(name, value)` keeps something out of the namespace (an event, a token: no tensor),
- `Unseen(value)` refers to it as C code does, where Python sees no reference,
- `later(call)` is called when the scene is over.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import sys
import threading
import traceback
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

PROBES: dict[int, Probe] = {}
ASIDE: dict[str, object] = {}
_at_end: list = []
_lost: list[int] = []


@dataclass(frozen=True)
class Probe:
    """A storage that a scene made; it is known by C++'s own weak reference."""

    reference: StorageWeakRef
    bytes: int

    @property
    def alive(self):
        return not self.reference.expired()


def probe(*things):
    """Notes the storages of these; returns the first, or all where there are more."""
    for tensor in tensors_in(things):
        storage = tensor.untyped_storage()
        reference = StorageWeakRef(storage)
        PROBES.setdefault(reference.cdata, Probe(reference, storage.nbytes()))
    return things[0] if len(things) == 1 else things


def tensors_in(thing):
    """Yields the tensors of modules, optimizers, lists, tuples and dicts."""
    if isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, torch.nn.Module):
        yield from [*thing.parameters(), *thing.buffers()]
    elif isinstance(thing, torch.optim.Optimizer):
        yield from tensors_in(list(thing.state.values()))
    elif isinstance(thing, dict):
        yield from tensors_in(list(thing.values()))
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from tensors_in(part)


def alive():
    """Returns {address: bytes} of the probed storages that live."""
    return {address: probe.bytes for address, probe in PROBES.items() if probe.alive}


def aside(name, value):
    ASIDE[name] = value
    return value


class Unseen:
    """A reference that only C code has, for as long as this object lives."""

    def __init__(self, value):
        self.address = id(value)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))

    def __del__(self):
        ctypes.pythonapi.Py_DecRef(ctypes.cast(self.address, ctypes.py_object))


def later(call):
    _at_end.append(call)


# -- what somebody who knows IPython and torch by heart would write -------------------------------


def forget_outputs():
    """Drops every copy that IPython keeps of what it showed."""
    from IPython import get_ipython

    shell = get_ipython()
    shell.user_ns["_oh"].clear()
    for names in (shell.user_ns, shell.user_ns_hidden):
        for name in [
            n for n in names if n in ("_", "__", "___") or (n[:1] == "_" and n[1:].isdigit())
        ]:
            del names[name]
    for name in ("_", "__", "___"):
        shell.user_ns[name] = ""
        setattr(shell.displayhook, name, "")
    if shell.last_execution_result is not None:
        shell.last_execution_result.result = None


def forget_errors():
    """Clears the frames of the last error wherever IPython and Python keep them."""
    from IPython import get_ipython

    shell = get_ipython()
    for error in (getattr(sys, "last_value", None), getattr(sys, "last_exc", None)):
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__
    sys.last_value = sys.last_traceback = sys.last_type = None
    if hasattr(sys, "last_exc"):
        sys.last_exc = None
    shell.InteractiveTB.tb = None
    if shell.last_execution_result is not None:
        shell.last_execution_result.error_in_exec = None


def join(name):
    """Waits for the threads of this name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def lose(tensor):
    """Takes a reference to a tensor that no object holds, as a faulty extension does."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    _lost.append(id(tensor))


def give_back():
    """Gives back what `lose` took."""
    while _lost:
        ctypes.pythonapi.Py_DecRef(ctypes.cast(_lost.pop(), ctypes.py_object))


def forget_callbacks(name):
    """Unregisters the callbacks of IPython's events that are called so."""
    from IPython import get_ipython

    for calls in get_ipython().events.callbacks.values():
        calls[:] = [call for call in calls if getattr(call, "__name__", "") != name]


def forget_hooks():
    """Empties what hooks, gradients with graphs and Python's own lists hold in cycles."""
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            if thing._backward_hooks:
                thing._backward_hooks.clear()
            if thing.is_leaf and thing.grad is not None and thing.grad.grad_fn is not None:
                thing.grad = None
            if thing.grad_fn is not None:
                thing.grad_fn.metadata.clear()


_WORDS = {
    "probe": probe,
    "aside": aside,
    "later": later,
    "ASIDE": ASIDE,
    "Unseen": Unseen,
    "join": join,
    "lose": lose,
    "give_back": give_back,
    "forget_outputs": forget_outputs,
    "forget_errors": forget_errors,
    "forget_callbacks": forget_callbacks,
    "forget_hooks": forget_hooks,
}


def install():
    """Makes the words known to cells."""
    vars(builtins).update(_WORDS)


def clean_up():
    """Ends a scene, and forgets its probes."""
    try:
        end()
    finally:
        PROBES.clear()


def end():
    """Calls what was put off, and has the collector as it was."""
    try:
        while _at_end:
            _at_end.pop()()
    finally:
        _at_end.clear()
        ASIDE.clear()
        gc.unfreeze()
        gc.enable()


def break_cycles():
    """Leaves nothing of a scene to the next: collects garbage, and breaks what stays then."""
    if alive():
        gc.collect()
    if alive():
        forget_hooks()
        gc.collect()


def uninstall():
    for name in _WORDS:
        vars(builtins).pop(name, None)
