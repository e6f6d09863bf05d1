"""What accelerate prepared, called by the user's own names."""

import sys
from pathlib import Path

import accelerate
import pytest
import torch
from torch import nn

import nbmem
from nbmem.errors import NameNotFoundError

sys.path.insert(0, str(Path(__file__).parent))
from told_names import names_by_category, not_taken_back


def prepared():
    net = nn.Sequential(nn.Linear(23, 9), nn.Linear(9, 1))
    opt = torch.optim.AdamW(net.parameters())
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(net, opt)
    accelerator.backward(model(torch.randn(2, 23)).sum())
    optimizer.step()
    return {
        "net": net,
        "opt": opt,
        "accelerator": accelerator,
        "model": model,
        "optimizer": optimizer,
    }


def test_the_users_own_optimizer_and_model_lead(notebook):
    notebook.names.update(prepared())
    told = names_by_category()
    assert "opt.state[net.0.weight]['exp_avg']" in told["optimizer state"]
    assert {"net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias"} == set(told["parameter"])
    assert [] == not_taken_back(notebook.names)


def test_what_only_accelerate_holds_is_called_by_a_public_way(notebook):
    made = prepared()
    notebook.names.update({name: made[name] for name in ("accelerator", "model", "optimizer")})
    made.clear()
    told = names_by_category()
    assert "optimizer.optimizer.state[model.0.weight]['exp_avg']" in told["optimizer state"]
    assert [] == [name for names in told.values() for name in names if "._" in name]
    assert [] == not_taken_back(notebook.names)


def test_the_state_that_the_wrapper_hands_out_by_a_property_is_told_as_one(notebook):
    notebook.names.update(prepared())
    with pytest.raises(NameNotFoundError) as told:
        nbmem.find_holders("optimizer.state[net.0.weight]['exp_avg']")
    assert "`optimizer.state` is a property, not followed" in str(told.value)
    assert "ask for `opt.state[net.0.weight]['exp_avg']`" in str(told.value)
