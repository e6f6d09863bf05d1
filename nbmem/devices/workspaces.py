"""How large the scratch memory is that torch gives its matrix libraries, cuBLAS and cuBLASLt."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import torch

_DEFAULTS = frozenset({4096 * 1024 * 2 + 16 * 1024 * 8, 32 * 1024 * 1024})
"""torch's own choice: `:4096:2:16:8`, and 32 MiB on Hopper and Blackwell."""
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
    return _DEFAULTS


def _of_cublaslt() -> frozenset[int]:
    with suppress(Exception):  # since torch 2.15
        return frozenset({int(torch._C._cuda_getCublasLtWorkspaceSize())})
    told = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    return frozenset({(int(told) if told.isdecimal() else _DEFAULT_LT) * 1024})
