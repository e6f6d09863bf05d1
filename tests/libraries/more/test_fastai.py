"""fastai has optimizers of its own, none of torch's: what they step with is left alone."""

from __future__ import annotations

import gc
import warnings

import pytest

import nbmem

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("fastai.optimizer")

pytestmark = pytest.mark.filterwarnings("ignore")
MIB = 1024**2
SET_UP = (
    "import torch; from torch import nn\nfrom fastai.optimizer import Adam",
    "net = nn.Linear(512, 512, bias=False)\nopt = Adam(list(net.parameters()), lr=0.125)",
    "def train():\n"
    "    loss = net(torch.ones(2, 512)).pow(2).mean()\n"
    "    loss.backward(); opt.step(); opt.zero_grad()\n"
    "    return loss.item()",
    "first = train()",
)


@pytest.fixture
def trained(notebook):
    for cell in SET_UP:
        assert notebook.run(cell).success, cell
    gc.collect()
    return notebook


def test_zeros_that_an_optimizer_of_fastai_steps_with_cost_its_step_and_stay(trained):
    gradient = trained.names["net"].weight.grad
    assert not gradient.any()
    (leak,) = nbmem.find_leaks()
    assert ("unused_gradient", MIB, True) == (leak.kind, leak.bytes, leak.on_request)
    assert "no optimizer of torch's has its parameter, but opt." in leak.reason
    assert leak.cost.startswith("another step of opt.")
    assert () == nbmem.reclaim_memory().dropped
    assert () == nbmem.reclaim_memory(everything=True).dropped
    assert gradient is trained.names["net"].weight.grad
    assert trained.run("second = train(); opt.zero_grad()").success


def test_without_the_optimizer_the_zeros_go_at_no_cost(trained):
    assert trained.run("import gc; del opt, train; gc.collect()").success
    (leak,) = nbmem.find_leaks()
    assert ("unused_gradient", "") == (leak.kind, leak.cost)
    assert MIB == nbmem.reclaim_memory().freed


def test_a_learner_goes_on_after_everything_was_reclaimed(trained, tmp_path, capsys):
    cells = (
        "from fastai.learner import Learner; from fastai.data.core import DataLoaders",
        "from torch.utils.data import DataLoader, TensorDataset",
        "data = TensorDataset(torch.ones(8, 512), torch.zeros(8, 512))\n"
        "loaders = DataLoaders(DataLoader(data, 4), DataLoader(data, 4))\n"
        "learn = Learner(loaders, net, loss_func=nn.MSELoss(), path=folder)",
        "learn.fit(1)",
    )
    trained.names["folder"] = str(tmp_path)
    for cell in cells:
        assert trained.run(cell).success, cell
    assert () == nbmem.reclaim_memory(everything=True).dropped
    assert trained.run(cells[-1]).success
