"""Gives the emulated GPU's tensors real values: EMULATED_CUDA_VALUES=1 (see sitecustomize.py).

Each operator's own CUDA kernel runs first, so that torch's allocator sees all that it would see on
a GPU; the emulated launches compute nothing. Then the CPU's kernel computes the same over CPU
tensors that lie at the same addresses. Operators without a CPU kernel leave what memory held.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import warnings

import torch
from torch.utils._pytree import tree_flatten, tree_map

_SKIPPED = ("empty", "as_strided", "view", "set_", "resize", "record_stream", "is_pinned", "_pin",
            "_local_scalar", "unfold", "_reshape_alias", "_cudnn", "cudnn", "lift", "is_set_to",
            "_nested", "_efficient", "_flash", "_copy_from")  # fmt: skip
_BY_VALUES = ("nonzero", "masked_select", "_unique", "unique_", "repeat_interleave")
"""Operators whose results are as large as the values say."""
_CPU = torch.device("cpu")
_RUNTIME = ctypes.CDLL("libemulatedcuda.so")
_HOST_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_inside = threading.local()
_replays = []  # what captured graphs call again; as long as the process lives
_library = torch.library.Library("aten", "IMPL")


class _Place:
    """Where a tensor of the card lies. A captured graph keeps these, not tensors that are seen."""

    def __init__(self, tensor):
        storage = tensor.untyped_storage()
        self.memory = storage.data_ptr(), _CPU, storage.nbytes()
        self.dtype = tensor.dtype
        self.view = tensor.storage_offset(), tensor.shape, tensor.stride()

    def as_tensor(self):
        storage = torch._C._construct_storage_from_data_pointer(*self.memory)
        return torch.empty(0, dtype=self.dtype).set_(storage, *self.view)


def _place(value):
    """Returns the place of a tensor of the card, the CPU for a device; anything else as it is."""
    if isinstance(value, torch.Generator):
        return None
    if isinstance(value, torch.device):
        return _CPU
    return _Place(value) if isinstance(value, torch.Tensor) and value.is_cuda else value


def _alias(value):
    """Returns a CPU tensor at the same address; anything else as it is."""
    return _found(_place(value))


def _found(placed):
    return placed.as_tensor() if isinstance(placed, _Place) else placed


def _seed(args, kwargs):
    """Returns a number that moves on as the generator does that the operator draws from."""
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Generator)]
    device = torch.cuda.current_device()
    generator = given[0] if given else torch.cuda.default_generators[device]
    try:
        return hash((generator.initial_seed(), generator.get_offset())) % 2**63
    except RuntimeError:  # a graph is being captured
        return 0


def _kind(value):
    dtype = value.dtype if isinstance(value, torch.Tensor) else torch.tensor(value).dtype
    return dtype.is_complex * 3 or dtype.is_floating_point * 2 or int(dtype != torch.bool)


def _boxed(operator, args):
    """Returns the arguments with a tensor for each number that stands in a tensor's place."""
    like = next((a for a in args if isinstance(a, torch.Tensor)), None)
    made = list(args)
    for place, (value, told) in enumerate(zip(args, operator._schema.arguments, strict=False)):
        if isinstance(value, (bool, int, float, complex)) and str(told.type) == "Tensor":
            same = like is not None and _kind(value) <= _kind(like)
            made[place] = torch.tensor(value, dtype=like.dtype if same else None)
    return made


def _wrap(operator, kernel):
    draws = "nondeterministic_seeded" in str(operator.tags)
    by_values = operator.__name__.startswith(_BY_VALUES) and not operator._schema.is_mutable

    def run(keys, *args, **kwargs):
        if by_values:
            found = _call(operator, *tree_map(_alias, (args, kwargs)))
            return tree_map(lambda t: t.to("cuda") if isinstance(t, torch.Tensor) else t, found)
        if getattr(_inside, "operator", False):  # a step of another operator's kernel
            return kernel.call_boxed(keys, *_boxed(operator, args), **kwargs)
        seed = _seed(args, kwargs) if draws else None
        _inside.operator = True
        try:
            made = kernel.call_boxed(keys, *_boxed(operator, args), **kwargs)
            given = tree_map(_place, (args, kwargs))
            outputs = [_place(t) for t in tree_flatten(made)[0] if isinstance(t, torch.Tensor)]
            places = {
                t.data_ptr() for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)
            }

            def compute(_=None):
                with torch.no_grad(), torch.random.fork_rng([], enabled=draws):
                    if draws:
                        torch.manual_seed(seed)
                    try:
                        answer = _call(operator, *tree_map(_found, given))
                    # The CPU has no such kernel, or none for these types: memory stays as it was.
                    except (RuntimeError, NotImplementedError, IndexError) as error:
                        if os.environ.get("EMULATED_CUDA_VALUES_TOLD"):
                            print(
                                f"emulated CUDA: no values from {operator}: {error}"[:200],
                                file=sys.stderr,
                            )
                        return None
                    found = [t for t in tree_flatten(answer)[0] if isinstance(t, torch.Tensor)]
                    for to, value in zip(map(_found, outputs), found, strict=False):
                        if to.data_ptr() not in places and to.shape == value.shape:
                            torch.ops.aten.copy_.default.redispatch(_KEYS, to, value)
                return answer

            if torch.cuda.is_current_stream_capturing():
                call = _HOST_CALL(compute)
                _replays.append(call)
                stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
                _RUNTIME.cudaLaunchHostFunc(stream, call, None)
            else:
                answer = compute()
                if not outputs and answer is not None:  # a number, from memory that held nothing
                    made = answer
        finally:
            _inside.operator = False
        return made

    return run


_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _call(operator, args, kwargs):
    spelled = _SPELLED.get(operator._schema.name)
    if spelled is not None:
        return spelled(*args, **kwargs)
    return operator.redispatch(_KEYS, *_boxed(operator, args), **kwargs)


def _attention(q, k, v, bias, log_sums, dropout=0.0, causal=False, *, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, 0.0, causal, scale=scale)


def _attention_backward(
    grad, q, k, v, bias, out, sums, seed, offset, dropout, mask, causal=False, *, scale=None
):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.mT * scale + (0 if bias is None else bias)
    if causal:
        scores += torch.full(scores.shape[-2:], -torch.inf).triu(1)
    weights = scores.softmax(-1)
    of_scores = weights * (grad @ v.mT - (grad * out).sum(-1, keepdim=True))
    return of_scores @ k * scale, of_scores.mT @ q * scale, weights.mT @ grad


_SPELLED = {  # what the CPU has no kernel for; without dropout
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
}


def install():
    """Puts the CPU's arithmetic behind all CUDA kernels that have a counterpart."""
    warnings.filterwarnings("ignore", "Warning only once for all operators")
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    for name in {*names, "aten::copy_"}:  # one kernel copies for all devices
        namespace, _, rest = name.partition("::")
        if namespace != "aten" or rest.startswith(_SKIPPED):
            continue
        on_cpu = torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU")
        if not on_cpu and name not in _SPELLED:
            continue
        packet, _, overload = rest.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        kernel = torch.library.get_kernel(operator, "CUDA")
        _library.impl(rest, _wrap(operator, kernel), "CUDA", with_keyset=True, allow_override=True)
