"""Sizes of the scratch memory that torch gives its matrix libraries, cuBLAS and cuBLASLt."""

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
    """Returns the sizes in bytes of the workspaces that torch keeps; ask once CUDA started.

    torch keeps one for each library, handle (one a thread) and stream. Empty where it keeps none:
    since 2.15 each is freed after its call, so that only history shows it.
    """
    if type_ != "cuda" or not _are_kept():
        return frozenset()
    return (_of_cublas() | (frozenset() if _is_shared() else _of_cublaslt())) - {0}


def _are_kept() -> bool:
    return _release() < (2, 15) or os.environ.get("TORCH_CUBLAS_WORKSPACE_CACHE") == "1"


def _is_shared() -> bool:
    """Returns whether cuBLASLt works in cuBLAS's workspace: the default since 2.13."""
    told = os.environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE")
    return told == "1" if told in ("0", "1") else _release() >= (2, 13)


def _release() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])


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
    with suppress(Exception):  # since torch 2.13
        return frozenset({int(torch._C._cuda_getCublasLtWorkspaceSize())})
    told = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return frozenset({(int(told) if told.isdecimal() else _DEFAULT_LT) * 1024})
