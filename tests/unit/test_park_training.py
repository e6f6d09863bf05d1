"""Whole models parked in the middle of training: the losses are bit by bit those of a twin."""

from __future__ import annotations

import pytest
import torch
from model_zoo import MODELS, loss_of
from simulated_carrier import SimulatedCarrier

from nbmem.heap import StorageTable
from nbmem.reclaim import Holdings, ParkingLot, park, unpark

ZOO = ("mlp", "transformer", "lstm")


class Training:
    """One model, Adam, and a batch; `between` is called at each moment of a step."""

    def __init__(self, name, between):
        torch.manual_seed(0)
        make, data = MODELS[name]
        self.model, (self.x, self.y) = make(), data()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.between = between

    def run(self, steps):
        losses = []
        for number in range(steps):
            torch.manual_seed(number)
            self.opt.zero_grad()
            loss = loss_of(self.model(self.x), self.y)
            self.between(self)
            loss.backward()
            self.between(self)
            self.opt.step()
            self.between(self)
            losses.append(loss.item())
        return losses

    def tensors(self):
        weights = list(self.model.parameters())
        state = [t for kept in self.opt.state.values() for t in kept.values()]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        return [*weights, *self.model.buffers(), *gradients, *state]


@pytest.mark.parametrize("name", ZOO)
def test_a_model_parked_at_each_moment_of_training_gives_its_twins_losses(name):
    carrier, names = SimulatedCarrier(), {}
    lot = ParkingLot(carrier)
    holdings = Holdings(StorageTable(), None, lambda: names, dict, list)

    def there_and_back(training):
        names.update(model=training.model, opt=training.opt)
        tensors = training.tensors()
        carrier.place(*tensors)
        report = park(holdings, lot, ["model", "opt"])
        assert () == report.refused
        assert {"cpu"} == {carrier.where(tensor) for tensor in tensors}
        assert carrier.allocated("cuda:0") == 0 == report.bytes_after
        assert () == unpark(holdings, lot).refused
        assert {"cuda:0"} == {carrier.where(tensor) for tensor in tensors}

    moved = Training(name, there_and_back)
    twin = Training(name, lambda training: None)
    assert twin.run(2) == moved.run(2)
    for a, b in zip(moved.tensors(), twin.tensors(), strict=True):
        assert torch.equal(a, b)
