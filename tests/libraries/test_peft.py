"""A model that peft wraps: called by the user's own shortest name."""

import sys
from pathlib import Path

import peft
import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from told_names import names_by_category, not_taken_back


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(29, 11), nn.Linear(11, 3)

    def forward(self, x):
        return self.last(self.first(x).relu())


def tuned(base):
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["first"]))
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    model(torch.randn(2, 29)).sum().backward()
    opt.step()
    return model, opt


def truth(module, name):
    return module.get_parameter(name.partition(".")[2])


@pytest.mark.parametrize("order", [("base", "model", "opt"), ("model", "opt", "base")])
def test_the_models_own_variable_leads_whatever_wraps_it(notebook, order):
    base = Net()
    model, opt = tuned(base)
    values = {"base": base, "model": model, "opt": opt}
    notebook.names.update({name: values[name] for name in order})
    told = names_by_category()
    lora = "base.first.lora_A.default.weight"
    assert {lora, "base.first.base_layer.weight", "base.last.bias"} <= set(told["parameter"])
    assert f"opt.state[{lora}]['exp_avg']" in told["optimizer state"]
    assert f"{lora}.grad" in told["gradient"]
    assert truth(base, lora) is model.get_parameter(f"base_model.model.{lora[5:]}")
    assert [] == not_taken_back(notebook.names)


def test_a_model_that_only_its_wrapper_has_is_called_as_torch_calls_it(notebook):
    model, opt = tuned(Net())
    notebook.names.update(model=model, opt=opt)
    told = names_by_category()
    public = {f"model.{name}" for name, _ in model.named_parameters()}
    assert public == set(told["parameter"])
    assert [] == not_taken_back(notebook.names)
