"""How large the scratch memory is that torch gives its matrix library, cuBLAS."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import torch

_DEFAULTS = frozenset({4096 * 1024 * 2 + 16 * 1024 * 8, 32 * 1024 * 1024})
"""torch's own choice: `:4096:2:16:8`, and 32 MiB on Hopper and Blackwell."""


def workspace_sizes(type_: str) -> frozenset[int]:
    """Returns the sizes in bytes that a workspace of cuBLAS has; to be asked once CUDA started.

    torch makes one for each cuBLAS handle (one a thread) and stream, and keeps it.
    """
    if type_ != "cuda":
        return frozenset()
    sizes = _chosen()
    separate = os.environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    if separate.isdecimal() and int(separate):
        sizes |= {int(separate) * 1024}
    return sizes


def _chosen() -> frozenset[int]:
    with suppress(Exception):  # `torch.backends.cuda.cublas_workspace_size()`, where torch has it
        return frozenset({int(torch._C._cuda_getCublasWorkspaceSize())})
    parts = re.findall(r":(\d+):(\d+)", os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if parts:
        return frozenset({sum(int(size) * int(count) * 1024 for size, count in parts)})
    return _DEFAULTS
