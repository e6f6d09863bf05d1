"""How large the scratch memory is that torch gives its matrix libraries, cuBLAS and cuBLASLt."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import torch

_USUAL, _HOPPER = 4096 * 1024 * 2 + 16 * 1024 * 8, 32 * 1024 * 1024
"""torch's own choices for cuBLAS: `:4096:2:16:8`, and 32 MiB on Hopper."""
_DEFAULT_LT = 1024
"""KiB that torch gives cuBLASLt."""


def workspace_sizes(type_: str) -> frozenset[int]:
    """Returns the sizes in bytes that a workspace has; to be asked once CUDA started.

    torch makes one of each library's size for each handle (one a thread) and stream, and keeps it;
    2.15 frees cuBLASLt's after each call, so that only history shows it.
    """
    if type_ != "cuda":
        return frozenset()
    return (_of_cublas() | _of_cublaslt()) - {0}


def _of_cublas() -> frozenset[int]:
    with suppress(Exception):  # `torch.backends.cuda.cublas_workspace_size()`, where torch has it
        return frozenset({int(torch._C._cuda_getCublasWorkspaceSize())})
    parts = re.findall(r":(\d+):(\d+)", os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if parts:
        return frozenset({sum(int(size) * int(count) * 1024 for size, count in parts)})
    return _chosen_for_cards()


def _chosen_for_cards() -> frozenset[int]:
    """Returns torch's choice for each visible card; both where their capability is unknown.

    Some releases take Blackwell for Hopper (10.0): either size may be one there.
    """
    with suppress(Exception):
        cards = range(torch.cuda.device_count())
        found = {torch.cuda.get_device_capability(card) for card in cards}
        hopper = {_HOPPER} if found & {(9, 0), (10, 0)} else set()
        usual = {_USUAL} if found - {(9, 0)} else set()
        return frozenset(hopper | usual) or frozenset({_USUAL, _HOPPER})
    return frozenset({_USUAL, _HOPPER})


def _of_cublaslt() -> frozenset[int]:
    with suppress(Exception):  # since torch 2.15
        return frozenset({int(torch._C._cuda_getCublasLtWorkspaceSize())})
    told = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return frozenset({(int(told) if told.isdecimal() else _DEFAULT_LT) * 1024})
