"""What a user's names lead to by value: containers, instances, modules, optimizers, arrays."""

from __future__ import annotations

import hashlib
import re
from collections import deque

import numpy as np
import torch

_NO_VALUE = re.compile(r"_+\d*\Z|_i+\d*\Z|_[dio]h\Z|In\Z|Out\Z|exit\Z|quit\Z|get_ipython\Z|__.*")
_NUMBERS = (int, float, str, bool)


def values_of(namespace):
    """Returns {name: text of its value} for all numbers, arrays and tensors."""
    return {name: _told(value) for name, value in _walk(namespace)}


def addresses_of(namespace):
    """Returns the addresses of all storages that names lead to."""
    found = set()
    for _, value in _walk(namespace):
        if isinstance(value, np.ndarray):
            while isinstance(value, np.ndarray):
                value = value.base
        if isinstance(value, torch.Tensor):
            found.add(value.untyped_storage()._cdata)
    return found


def _told(value):
    if isinstance(value, torch.Tensor):
        value = value.detach().clone().numpy()  # numpy() of its own would mark its storage
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {content}"
    return repr(value)


def _walk(namespace):
    seen = set()
    rows = [(name, value) for name, value in namespace.items() if not _NO_VALUE.match(name)]
    while rows:
        name, value = rows.pop()
        if isinstance(value, (torch.Tensor, np.ndarray, *_NUMBERS)):
            yield name, value
        if isinstance(value, _NUMBERS) or id(value) in seen:
            continue
        seen.add(id(value))
        rows.extend((f"{name}.{key}", part) for key, part in _parts(value))


def _parts(value):
    if isinstance(value, torch.Tensor):
        return [("grad", value.grad)] if value.is_leaf and value.grad is not None else []
    if isinstance(value, torch.nn.Module):
        own = {k: v for k, v in vars(value).items() if k == "training" or not k.startswith("_")}
        return [
            *value._parameters.items(),
            *value._buffers.items(),
            *value._modules.items(),
            *own.items(),
        ]
    if isinstance(value, torch.optim.Optimizer):
        return [("state", list(value.state.items())), ("groups", value.param_groups)]
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple, set, deque)):
        return list(enumerate(value))
    if type(value).__module__ == "__main__" or type(value).__name__.endswith("LR"):
        return [*getattr(value, "__dict__", {}).items(), *_containers_of(type(value))]
    return []


def _containers_of(kind):
    """What instances of a class share is theirs, as long as one lives."""
    return [(k, v) for k, v in vars(kind).items() if isinstance(v, (list, dict, set, deque))]
