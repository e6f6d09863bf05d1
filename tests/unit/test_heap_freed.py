"""What backward has left of a graph, told from the graph alone: torch itself is asked what is true.

Each case is a graph, what was done with it, and what nbmem must say; then backward is tried.
"""

import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from nbmem.heap import StorageTable, scan_heap
from nbmem.heap.freed import RemainsReader

pytestmark = pytest.mark.filterwarnings("ignore:.*use_reentrant")


class Saves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x.detach()
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.x


def remains_of(tensor):
    with scan_heap(StorageTable(), first=[tensor]) as scan:
        return RemainsReader(scan.graph).read(scan.roots[0])


def can_go_back(tensor):
    try:
        tensor.backward(retain_graph=True)
    except RuntimeError:
        return False
    return True


def weights():
    return torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)


BUILT = {
    "a product": lambda w, v: (w * v).sum(),
    "a product with a number": lambda w, v: (w * 2).mean() + (v * 3).mean(),
    "a linear layer": lambda w, v: torch.nn.functional.linear(w, v).sum(),
    "values in a list": lambda w, v: w[torch.tensor([0, 1])].sum() + v[torch.tensor([2])].sum(),
    "a Function": lambda w, v: Saves.apply(w + v).sum(),
    "a Function above another operation": lambda w, v: Keeps.apply(w * v).sum(),
    "a checkpoint": lambda w, v: checkpoint(torch.mul, w, v, use_reentrant=False).sum(),
    "a checkpoint of the old kind": lambda w, v: checkpoint(
        torch.mul, w, v, use_reentrant=True
    ).sum(),
    "several results": lambda w, v: sum(torch._foreach_norm([w, v])),
}


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT)
def test_a_graph_is_freed_once_backward_went_through_it_and_not_before(build):
    loss = build(*weights())
    before = remains_of(loss)
    assert (False, True, False) == (before.fails, before.intact, before.freed)
    assert can_go_back(loss)
    retained = remains_of(loss)
    assert (False, True) == (retained.fails, retained.intact)
    loss.backward()
    assert remains_of(loss).freed
    assert not can_go_back(loss)


def test_a_function_that_saved_nothing_can_be_gone_through_again_and_only_backward_is_told():
    loss = Keeps.apply(weights()[0]).sum()
    assert remains_of(loss).silent
    loss.backward()
    told = remains_of(loss)
    assert (True, False, False) == (told.ran, told.fails, told.freed)
    assert can_go_back(loss)


def test_a_graph_that_saved_nothing_tells_nothing():
    loss = weights()[0].t().sum()
    loss.backward()
    assert remains_of(loss).silent
    assert can_go_back(loss)


def test_of_two_losses_over_a_freed_trunk_the_other_can_be_gone_through_in_part():
    w, v = weights()
    trunk = w.exp()
    first, second = trunk.sum(), (trunk * v).sum()
    first.backward()
    told = remains_of(second)
    assert (True, False) == (told.partly, told.freed)
    assert not can_go_back(second)
    (gradient,) = torch.autograd.grad((trunk.detach() * v).sum(), v)
    assert gradient.shape == v.shape


def test_a_loss_whose_head_was_freed_cannot_reach_the_trunk_that_is_intact():
    w, v = weights()
    trunk = w.exp()
    loss = (trunk * v).sum()
    (gradient,) = torch.autograd.grad(loss, trunk)
    assert (True, False) == (remains_of(loss).freed, remains_of(trunk).freed)
    trunk.backward(gradient)
    assert w.grad is not None


def test_reading_runs_no_hook():
    unpacked = []
    w, v = weights()
    with torch.autograd.graph.saved_tensors_hooks(torch.Tensor.detach, unpacked.append):
        loss = (w * v).exp().sum()
    assert remains_of(loss).intact
    assert [] == unpacked
