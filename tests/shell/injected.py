"""An interrupt that comes at one chosen line of nbmem's own work, and what it must leave."""

from __future__ import annotations

import gc
import sys

import torch

import nbmem

HOME = nbmem.__path__[0]


class Injected:
    """A trace function that raises at the n-th line of nbmem that runs; 0: only counts them."""

    def __init__(self, number):
        self.number, self.count, self.place = number, 0, None

    def __call__(self, frame, event, arg):
        return self.line if frame.f_code.co_filename.startswith(HOME) else None

    def line(self, frame, event, arg):
        if event == "line":
            self.count += 1
            if self.count == self.number:
                self.place = f"{frame.f_code.co_filename[len(HOME) :]}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.line


def interrupted(run, number):
    """Runs with an interrupt at one line; returns the trace function and what came back."""
    injected, former = Injected(number), sys.gettrace()
    sys.settrace(injected)
    try:
        came = run()
    except KeyboardInterrupt as error:
        came = error
    finally:
        sys.settrace(former)
    return injected, came


def bytes_alive():
    """Bytes of all storages that Python knows, without nbmem."""
    sizes = {}
    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter):
            storage = torch.Tensor.untyped_storage(thing)
            sizes[storage._cdata] = storage.nbytes()
        elif type(thing) is torch.UntypedStorage:
            sizes[thing._cdata] = thing.nbytes()
    return sum(sizes.values())


def ambient(shell):
    """What an interrupt must leave as it was."""
    return {
        "modes": torch._C._len_torch_dispatch_stack(),
        "collector": gc.isenabled(),
        "functions": torch._C._is_torch_function_enabled(),
        "transformers": list(shell.ast_transformers),
        "storage": dict(vars(torch.UntypedStorage)),
        "frombuffer": torch.frombuffer,
    }
