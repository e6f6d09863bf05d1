"""An operation that fails while it is followed: its traceback is that of plain torch."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nbmem


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ torch.ones(3, 3)


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Wrapping(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(each.inner for each in args), **(kwargs or {}))


def in_a_users_mode():
    with Passing():
        torch.ones(2, 3) @ torch.ones(2, 3)


def in_inference_mode():
    with torch.inference_mode():
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 4))


def in_a_hook_of_backward():
    x = torch.ones(3, requires_grad=True)
    doubled = x * 2
    doubled.register_hook(lambda gradient: gradient @ torch.ones(2, 2))
    doubled.sum().backward()


def chained():
    try:
        torch.ones(2)[5]
    except IndexError as error:
        raise ValueError("told anew") from error


def while_another_is_handled():
    try:
        torch.ones(2)[5]
    except IndexError:
        torch.ones(2, 3) @ torch.ones(2, 3)


def twice_backward():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()


FAILING = {
    "shapes": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    "index": lambda: torch.ones(2)[5],
    "out of memory": lambda: torch.empty(1 << 60),
    "in a module": lambda: torch.nn.Sequential(torch.nn.Linear(3, 4))(torch.ones(2, 5)),
    "backward": lambda: Squared.apply(torch.ones(4, 4, requires_grad=True)).sum().backward(),
    "hook": in_a_hook_of_backward,
    "backward twice": twice_backward,
    "inference mode": in_inference_mode,
    "user's mode": in_a_users_mode,
    "wrapper": lambda: Wrapping(torch.ones(2, 3)) @ Wrapping(torch.ones(2, 3)),
    "vmap": lambda: torch.vmap(lambda row: row @ torch.ones(2, 2))(torch.ones(4, 3)),
    "chained": chained,
    "handled": while_another_is_handled,
    "resized storage": lambda: torch.UntypedStorage(4).resize_(-5),
    "storage of -1": lambda: torch.UntypedStorage(-1),
    "storage of words": lambda: torch.UntypedStorage("a", "b", "c"),
    "missing file": lambda: torch.UntypedStorage.from_file("/no/such/file", False, 10),
    "empty buffer": lambda: torch.frombuffer(bytearray(), dtype=torch.float32),
    "no DLPack": lambda: torch.from_dlpack(3),
}


def told_of(error):
    """The error as text, and where its traceback and those of its causes lead."""
    told = []
    while error is not None:
        entries = traceback.extract_tb(error.__traceback__)
        places = [(entry.filename, entry.lineno, entry.name) for entry in entries]
        told.append((type(error), str(error), places))
        error = error.__cause__ or error.__context__
    return told


def failure(call):
    try:
        call()
    except BaseException as error:
        return told_of(error), traceback.format_exc()
    return pytest.fail("it did not raise")


@pytest.mark.parametrize("name", FAILING)
def test_a_traceback_ends_where_it_does_without_nbmem(bare, name):
    failure(FAILING[name])  # what torch imports at the first failure is imported
    plain, measured = failure(FAILING[name]), None
    with nbmem.measure(device="cpu", scan=False):
        measured = failure(FAILING[name])
    assert plain[0] == measured[0]
    assert nbmem.__path__[0] not in measured[1]


def test_a_caught_error_keeps_no_operand_of_the_call_that_failed(bare):
    operand = torch.ones(200, 3)
    ref = weakref.ref(operand)
    with nbmem.measure(device="cpu", scan=False):
        try:
            torch.mm(operand, torch.ones(2, 2))
        except RuntimeError as error:
            kept = error
    del operand
    gc.collect()
    assert ref() is None
    assert kept.__traceback__.tb_next is None


def test_the_debugger_and_format_exc_begin_in_the_users_frame(notebook):
    ran = notebook.run(
        "%%gpumem -q\nimport torch, traceback\n"
        "try: torch.ones(2, 3) @ torch.ones(2, 3)\n"
        "except RuntimeError: told = traceback.format_exc()\n"
        "torch.ones(2)[5]"
    )
    assert type(ran.error_in_exec) is IndexError
    innermost = list(traceback.walk_tb(sys.last_value.__traceback__))[-1][0]
    assert innermost.f_globals is notebook.shell.user_ns
    assert "nbmem" not in notebook.shell.user_ns["told"]
