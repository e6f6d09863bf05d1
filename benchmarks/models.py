"""The large models of the benchmarks, built from the parts that the tests train small."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))
from model_zoo import gpt, loss_of, resnet

RESNET152 = 60_192_808
"""Parameters, as published."""
GPT2_SMALL = 124_439_808
"""Parameters, the tied head counted once, as published."""


def resnet152() -> dict[str, Any]:
    """Returns a notebook's names after the forward pass of the second step with Adam."""
    data, target = torch.randn(2, 3, 64, 64), torch.randint(1000, (2,))
    return _after_forward(resnet((3, 8, 36, 3)), RESNET152, data, target)


def gpt2_small() -> dict[str, Any]:
    """Returns a notebook's names after the forward pass of the second step with Adam."""
    model = gpt(vocabulary=50257, length=1024, width=768, heads=12, layers=12)
    data, target = torch.randint(50257, (1, 32)), torch.randint(50257, (1, 32))
    return _after_forward(model, GPT2_SMALL, data, target)


def _after_forward(
    model: Any, parameters: int, data: torch.Tensor, target: torch.Tensor
) -> dict[str, Any]:
    assert parameters == sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.Adam(model.parameters())
    loss_of(model(data), target).backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = loss_of(model(data), target)
    return {"model": model, "opt": optimizer, "x": data, "y": target, "loss": loss}
