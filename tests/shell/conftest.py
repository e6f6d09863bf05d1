"""Cells in a shell are about the CPU's tensors, also where there is a GPU (see `tests/gpu`)."""

from __future__ import annotations

import pytest


@pytest.fixture
def measured():
    """`%gpumem` measures the CPU's storages."""
    return "cpu"
