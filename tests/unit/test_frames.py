"""Which line of a stack is told: the user's own, in whatever shape torch wrote the stack."""

import sysconfig

import pytest
from ledger_machine import Machine
from simulated_cuda import block, frame, segment

from nbmem.records.frames import innermost_own

BASE = 0x7F00_0000_0000
UNWIND = ("??:0 torch::unwind::unwind()", "??:0 torch::CapturedTraceback::gather(bool, bool, bool)")
ALLOCATOR = (
    "CUDACachingAllocator.cpp:0 c10::cuda::CUDACachingAllocator::Native::"
    "DeviceCachingAllocator::malloc(signed char, unsigned long, CUstream_st*)"
)
LINEAR = "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py:117 forward"
STEP = "/home/me/train.py:42 step"
MAIN = "/home/me/train.py:90 <module>"


@pytest.mark.parametrize(
    ("expected", "stack"),
    [
        (STEP, (*UNWIND, ALLOCATOR, "Blas.cpp:0 at::native::addmm", LINEAR, STEP, MAIN)),
        (STEP, (LINEAR, STEP, MAIN)),
        (STEP, ("<frozen runpy>:88 _run_code", STEP)),
        (STEP, (f"{sysconfig.get_path('stdlib')}/contextlib.py:81 inner", STEP)),
        (STEP, ("/usr/lib/python3.12/contextlib.py:81 inner", STEP)),
        (STEP, ("/tmp/torchinductor_me/ab/cab.py:30 call", "<eval_with_key>.7:4 forward", STEP)),
        (STEP, ("/opt/dist-packages/einops/einops.py:939 einsum", STEP)),
        ("C:\\Users\\me\\train.py:7 <module>",) * 2,
        ("/tmp/ipykernel_7/123.py:4 <module>", (LINEAR, "/tmp/ipykernel_7/123.py:4 <module>")),
        ("<ipython-input-3-0a>:2 <module>", (LINEAR, "<ipython-input-3-0a>:2 <module>")),
        (LINEAR, (*UNWIND, LINEAR, "/a/site-packages/lightning/loop.py:5 run")),
        ("Blas.cpp:0 at::native::addmm", (*UNWIND, ALLOCATOR, "Blas.cpp:0 at::native::addmm")),
        (UNWIND[0], UNWIND),
        ("nothing of the kind", ("nothing of the kind",)),
        (None, ()),
    ],
)
def test_the_line_told_is_the_innermost_of_the_users_own(expected, stack):
    assert expected == innermost_own((stack,) if isinstance(stack, str) else stack)


def test_a_block_without_a_tensor_is_told_with_the_users_line_under_stacks_all(monkeypatch):
    machine = Machine(monkeypatch)
    frames = [
        frame("??", 0, "torch::unwind::unwind()"),
        frame("", 0, "at::detail::empty_cuda(c10::ArrayRef<long>)"),
        frame("/x/site-packages/torch/functional.py", 373, "einsum"),
        frame("D:\\work\\model.py", 39, "forward"),
    ]
    machine.cuda.devices[0].hold(segment(BASE, block(4096, frames=frames)))
    (row,) = machine.gpu().blocks
    assert "D:\\work\\model.py:39 forward" == row.made_at
    assert 4 == len(row.stack)
