"""Scenes in which something lies hidden: packed by hooks, saved by graphs, held by functions."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

N = 300
"""Values in a tensor: 1,200 bytes of float32, so that none is too small to need a name."""
CALLS = []
"""Every hook, pack and unpack function of this file writes here when it runs."""


def weight():
    return torch.ones(N, requires_grad=True)


# -- packed ------------------------------------------------------------------------------------


class Box:
    def __init__(self, tensor):
        self.kept = tensor.clone()


class SlottedBox:
    __slots__ = ("kept", "never_set")

    def __init__(self, tensor):
        self.kept = tensor.clone()


class Greedy(list):
    def __iter__(self):
        CALLS.append("iterated")
        return super().__iter__()

    def __getitem__(self, index):
        CALLS.append("indexed")
        return super().__getitem__(index)


PACKS = {
    "tuple": (lambda t: (t.clone(), "text"), lambda p: p[0]),
    "dict": (lambda t: {"kept": t.clone()}, lambda p: p["kept"]),
    "nested": (lambda t: {"a": [({"b": t.clone()},)]}, lambda p: p["a"][0][0]["b"]),
    "object": (Box, lambda p: p.kept),
    "slots": (SlottedBox, lambda p: p.kept),
    "own list": (lambda t: Greedy([t.clone()]), lambda p: list.__getitem__(p, 0)),
    "namespace": (lambda t: SimpleNamespace(kept=t.clone()), lambda p: p.kept),
    "array over torch's memory": (lambda t: t.detach().clone().numpy(), torch.from_numpy),
    "array of objects": (lambda t: _as_objects(t.clone()), lambda p: p[0]),
    "the tensor": (lambda t: t, lambda p: p),
    "half": (lambda t: t.half(), lambda p: p.float()),
    "closure": (lambda t: functools.partial(torch.clone, t.clone()), lambda p: p()),
    "sparse": (lambda t: t.to_sparse(), lambda p: p.to_dense()),
}


def _as_objects(tensor):
    array = np.empty(1, dtype=object)
    array[0] = tensor
    return array


def packed(kind):
    pack, unpack = PACKS[kind]

    def counted_pack(tensor):
        CALLS.append("pack")
        return pack(tensor)

    def counted_unpack(value):
        CALLS.append("unpack")
        return unpack(value)

    w = weight()
    with saved_tensors_hooks(counted_pack, counted_unpack):
        return {"w": w, "loss": (w * 2).exp().sin().sum()}


def packed_to_a_file(folder):
    paths = iter(folder / f"{n}.pt" for n in range(99))

    def pack(tensor):
        path = next(paths)
        torch.save(tensor, path)
        return str(path)

    def unpack(path):
        CALLS.append("unpack")
        return torch.load(path)

    w = weight()
    with saved_tensors_hooks(pack, unpack):
        return {"w": w, "loss": (w * 2).exp().sin().sum()}


def on_the_cpu():
    w = weight()
    with save_on_cpu():
        return {"w": w, "loss": (w * 2).exp().sin().sum()}


# -- checkpointed --------------------------------------------------------------------------------


def segment(value):
    CALLS.append("segment")
    return value.exp().sin()


def checkpointed(use_reentrant):
    w = weight()
    hidden = checkpoint(segment, w * 2, use_reentrant=use_reentrant)
    return {"w": w, "loss": checkpoint(segment, hidden, use_reentrant=use_reentrant).sum()}


def checkpointed_twice():
    def outer(value):
        return checkpoint(segment, value * 2, use_reentrant=False).cos()

    w = weight()
    return {"w": w, "loss": checkpoint(outer, w * 3, use_reentrant=False).sum()}


def checkpointed_model():
    block = nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N), nn.Tanh())
    loss = checkpoint(block, torch.ones(4, N, requires_grad=True), use_reentrant=False).sum()
    return {"block": block, "loss": loss}


def checkpointed_on_the_cpu():
    w = weight()
    with save_on_cpu():
        return {"w": w, "loss": checkpoint(segment, w * 2, use_reentrant=False).exp().sum()}


# -- custom functions ----------------------------------------------------------------------------


class Keeps(torch.autograd.Function):
    """Keeps tensors in each way that a `ctx` offers."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 2, x * 3)
        ctx.direct = x * 4
        ctx.listed = [x * 5, (x * 6,)]
        ctx.mapped = {"a": {"b": x * 7}}
        ctx.boxed = Box(x)
        ctx.number = 5
        return x * 8

    @staticmethod
    def backward(ctx, gradient):
        CALLS.append("backward")
        return gradient * ctx.saved_tensors[0]


class Later(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 8, (x * 9).long()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0] * 2, output[1])
        ctx.extra = inputs[0] * 3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient, _):
        CALLS.append("backward")
        return gradient * ctx.saved_tensors[0]


class Trap(BaseException):
    """Passes every `except Exception`."""


class Evil:
    def __init__(self, tensor):
        vars(self)["kept"] = tensor

    def __getattr__(self, name):
        CALLS.append(name)
        raise Trap

    @property
    def shape(self):
        CALLS.append("shape")
        raise Trap

    def __len__(self):
        CALLS.append("len")
        raise Trap

    def __eq__(self, other):
        CALLS.append("eq")
        raise Trap

    def __hash__(self):
        CALLS.append("hash")
        raise Trap

    __iter__ = __bool__ = __len__


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.evil = Evil(x * 2)
        ctx.cycle = [x * 3, ctx]
        return x * 8

    @staticmethod
    def backward(ctx, gradient):
        CALLS.append("backward")
        raise ValueError("no")


def custom(function):
    w = weight()
    result = function.apply(w * 1)
    result = result[0] if isinstance(result, tuple) else result
    return {"w": w, "loss": result.sum()}


def raised_in_backward():
    made = custom(Raises)
    try:
        made["loss"].backward(retain_graph=True)
    except ValueError:
        CALLS.clear()
    return made


def raised_in_forward():
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * 2)
            ctx.kept = x * 3
            raise ValueError("no")

    w = weight()
    hidden = w.exp()
    with contextlib.suppress(ValueError):
        Fails.apply(hidden)
    return {"w": w, "hidden": hidden}


# -- graphs in all conditions --------------------------------------------------------------------


def freed():
    w = weight()
    loss = w.exp().sin().sum()
    loss.backward()
    return {"w": w, "loss": loss}


def retained():
    w = weight()
    loss = w.exp().sin().sum()
    loss.backward(retain_graph=True)
    return {"w": w, "loss": loss}


def double_backward():
    w = weight()
    loss = w.exp().sin().sum()
    loss.backward(create_graph=True)
    return {"w": w, "loss": loss}


def gradient_of_gradient():
    w = weight()
    (gradient,) = torch.autograd.grad(w.exp().sin().sum(), w, create_graph=True)
    return {"w": w, "gradient": gradient, "penalty": gradient.pow(2).sum()}


def kept_gradients():
    w = weight()
    hidden = w.exp()
    hidden.retain_grad()
    loss = hidden.sin().sum()
    loss.backward()
    return {"w": w, "hidden": hidden, "loss": loss}


def kept_gradients_without_a_name():
    w = weight()
    hidden = w.exp()
    hidden.retain_grad()
    loss = (hidden.sin() * hidden).sum()
    loss.backward(retain_graph=True)
    return {"w": w, "loss": loss}


def half_freed():
    w = weight()
    body = w.exp().sin()
    one, two = body.cos().sum(), body.tan().sum()
    one.backward()
    return {"w": w, "one": one, "two": two}


def unrolled():
    lstm, cell = nn.LSTM(8, 64, 2), nn.GRUCell(8, 64)
    outputs, _ = lstm(torch.ones(5, 3, 8))
    state = torch.zeros(3, 64)
    for _ in range(5):
        state = cell(torch.ones(3, 8), state)
    return {"lstm": lstm, "cell": cell, "loss": outputs.sum() + state.sum()}


def views_in_place():
    base = weight() * 1
    view = base[: N // 2]
    view.exp_()
    base[N // 2 :].sin_()
    return {"loss": (base * base).sum(), "view": view}


def many_outputs():
    w = torch.ones(N, 4, requires_grad=True)
    values, vectors = torch.linalg.qr(w)
    parts = (w * 2).unbind(1)
    return {"w": w, "loss": values.sum() * vectors.sum() * (parts[0] * parts[1]).sum()}


def a_graph_in_a_list():
    w = weight()
    return {"w": w, "losses": [(w * n).exp().sum() for n in range(3)]}


def model_that_trains():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(),
        nn.Flatten(),
        nn.Linear(16 * 49, 10),
    )
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 3, 16, 16)).sum().backward()
    optimizer.step()
    return {"model": model, "opt": optimizer, "loss": model(torch.ones(4, 3, 16, 16)).sum()}


GRAPH_SCENES = {f"packed into {kind}": functools.partial(packed, kind) for kind in PACKS} | {
    "save_on_cpu": on_the_cpu,
    "checkpoint": functools.partial(checkpointed, False),
    "reentrant checkpoint": functools.partial(checkpointed, True),
    "checkpoint in a checkpoint": checkpointed_twice,
    "checkpointed model": checkpointed_model,
    "checkpoint under save_on_cpu": checkpointed_on_the_cpu,
    "ctx": functools.partial(custom, Keeps),
    "ctx set up later": functools.partial(custom, Later),
    "ctx that raises": functools.partial(custom, Raises),
    "raised in backward": raised_in_backward,
    "raised in forward": raised_in_forward,
    "freed graph": freed,
    "retained graph": retained,
    "double backward": double_backward,
    "gradient of a gradient": gradient_of_gradient,
    "kept gradients": kept_gradients,
    "kept gradients without a name": kept_gradients_without_a_name,
    "half freed": half_freed,
    "unrolled": unrolled,
    "views changed in place": views_in_place,
    "operations of many outputs": many_outputs,
    "losses in a list": a_graph_in_a_list,
    "a model that trains": model_that_trains,
}
