"""The walk of autograd graphs: what C++ keeps is found, and no hook hears of it."""

import gc
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from nbmem.heap import StorageTable, scan_heap


def _saved_in(*roots):
    """(node, attribute, shape, position) of what the graphs of `roots` keep, by root.

    The position is counted from the root, the latest operation first; a node that several roots
    reach is told with each.
    """
    with scan_heap(StorageTable(), first=roots) as scan:
        return [
            [
                (node.kind, attribute, tuple(tensor.shape), position)
                for position, index in enumerate(scan.graph.from_latest(root))
                for node in [scan.graph.nodes[index]]
                for attribute, tensor in kept_with_names(scan.graph, node)
            ]
            for root in scan.roots
        ]


def kept_with_names(graph, node):
    hooks = (tensor for hook in node.hooks for tensor in graph.hooks[hook].tensors)
    return [*node.saved, *(("unpack_hook", tensor) for tensor in hooks)]


def test_what_only_cpp_saved_is_found():
    pooled = nn.MaxPool2d(2)(torch.ones(1, 1, 4, 4, requires_grad=True).exp())
    loss = nn.functional.cross_entropy(pooled.flatten(1), torch.tensor([1]))
    (kept,) = _saved_in(loss)
    found = {(node, attribute): shape for node, attribute, shape, _ in kept}
    assert (1, 1, 2, 2) == found["MaxPool2DWithIndicesBackward0", "result1"]  # its indices
    assert (1, 4) == found["LogSoftmaxBackward0", "result"]
    assert () == found["NllLossBackward0", "total_weight"]


def test_the_bytes_a_scalar_loss_keeps_are_found_to_the_byte():
    weight = torch.ones(1000, requires_grad=True)
    table = StorageTable()
    with scan_heap(table):
        pass
    before = table.bytes_on("cpu")
    loss = weight.exp().sin().sum()
    with scan_heap(table):
        pass
    # exp keeps its result, which is the sine's input too; the loss itself is one float.
    assert 4000 + 4 == table.bytes_on("cpu") - before
    del loss
    assert before == table.bytes_on("cpu")


def test_each_root_counts_its_own_nodes_from_the_latest():
    weight = torch.ones(5, requires_grad=True)
    shared = weight.exp()
    first, second = shared.sin(), shared.cos()
    below = [("ExpBackward0", "result", (5,), 1), ("AccumulateGrad", "variable", (5,), 2)]
    assert [
        [("SinBackward0", "self", (5,), 0), *below],
        [("CosBackward0", "self", (5,), 0), *below],
    ] == _saved_in(first, second)


def test_a_graph_without_a_named_root_is_walked_too():
    loss = torch.ones(5, requires_grad=True).exp().sum()
    with scan_heap(StorageTable()) as scan:
        found = {node.kind for node, _, _ in scan.graph.saved()}
    assert "ExpBackward0" in found
    del loss


def test_saved_tensors_hooks_do_not_run():
    calls = []

    def pack(tensor):
        return {"kept": [tensor, "text"], "number": 3}

    def unpack(packed):
        calls.append(packed)
        return packed["kept"][0]

    weight = torch.ones(5, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = weight.exp().sin()
    assert ("ExpBackward0", "result", (5,), 1) in _saved_in(result)[0]
    assert [] == calls
    result.sum().backward()
    assert 2 == len(calls)


def test_a_packed_value_that_holds_itself_is_read_once():
    kept = []
    weight = torch.ones(5, requires_grad=True)

    def pack(tensor):
        value = [tensor]
        value.append(value)
        kept.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value[0]):
        result = weight.exp()
    assert [("ExpBackward0", "result", (5,), 0)] == _saved_in(result)[0][:1]
    for value in kept:
        value.clear()


def test_a_checkpointed_segment_is_not_computed_again():
    calls = []

    def segment(value):
        calls.append(value.shape)
        return value.exp().sin()

    result = checkpoint(segment, torch.ones(5, requires_grad=True), use_reentrant=False)
    _saved_in(result)
    assert 1 == len(calls)


def test_a_custom_functions_tensors_are_found():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value * value)
            return value**3

        @staticmethod
        def backward(ctx, gradient):
            return 3 * ctx.saved_tensors[0] * gradient

    result = Cube.apply(torch.ones(6, requires_grad=True))
    assert ("CubeBackward", "tensors", (6,), 0) in _saved_in(result)[0]


def test_a_graph_that_backward_freed_shows_nothing_and_raises_nothing():
    weight = torch.ones(5, requires_grad=True)
    loss = weight.exp().sum()
    loss.backward()
    leaf = [("AccumulateGrad", name, (5,), 2) for name in ("variable", "variable.grad")]
    assert [leaf] == _saved_in(loss)


def test_a_custom_function_that_ran_backward_leaves_no_note():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.save_for_backward(value)
            return value**3

        @staticmethod
        def backward(ctx, gradient):
            return 3 * ctx.saved_tensors[0] ** 2 * gradient

    loss = Cube.apply(torch.ones(6, requires_grad=True)).sum()
    loss.backward()
    with scan_heap(StorageTable(), first=[loss]) as scan:
        assert [] == scan.notes


def test_a_graph_that_torch_cannot_show_is_told_with_what_it_means():
    base = torch.ones(4, requires_grad=True) * 1
    with torch.no_grad():
        view = base[:2]
    base.add_(1)
    with scan_heap(StorageTable(), first=[view]) as scan:
        (note,) = scan.notes
    said = "torch cannot show 1 tensor or its graph: what only it keeps alive is missing."
    assert ("unreadable", said) == (note.code, note.sentence)


def test_a_leaf_that_only_the_graph_keeps_is_found_with_its_gradient():
    def build():
        weight = torch.ones(1000, requires_grad=True)
        (weight * 3).sum().backward()
        return (weight * 2).sum()

    table = StorageTable()
    with scan_heap(table):
        pass
    before = table.bytes_on("cpu")
    loss = build()
    with scan_heap(table):
        pass
    # leaf and gradient 4,000 bytes each, the loss 4, the saved 2 as a double 8
    assert 4000 + 4000 + 4 + 8 == table.bytes_on("cpu") - before
    del loss


def test_a_gradient_with_a_graph_of_its_own_is_walked():
    weight = torch.ones(5, requires_grad=True)
    weight.exp().sin().sum().backward(create_graph=True)
    with scan_heap(StorageTable()) as scan:
        nodes = {node.kind for node, _, _ in scan.graph.saved()}
    assert "CosBackward0" in nodes  # of the second derivative
    weight.grad = None


def test_a_hundred_thousand_nodes_are_walked():
    weight = torch.ones(1, requires_grad=True)
    results = []
    for _ in range(100):
        result = weight
        for _ in range(1000):
            result = result * 1.5
        results.append(result)
    with scan_heap(StorageTable(), first=results) as scan:
        saved = sum(node.kind == "MulBackward0" for node, _, _ in scan.graph.saved())
        assert [] == scan.notes
    assert 100_000 == saved


DEEP = """
import pytest
import torch
from nbmem.heap import StorageTable, scan_heap
result = torch.ones(1, requires_grad=True)
table = StorageTable()
for cell in range(5):
    for _ in range(20_000):
        result = result * 1.5
    with scan_heap(table) as scan:
        kept = sum(node.kind == "MulBackward0" for node, _, _ in scan.graph.saved())
        print(kept, [note.code for note in scan.notes], flush=True)
        scan.graph.clear()
before = table.bytes_on("cpu")
del result, scan
for _ in range(1_000):
    pass
print("freed", before - table.bytes_on("cpu"))
"""


def test_a_chain_of_a_hundred_thousand_operations_is_read_and_can_still_be_freed():
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True)
    # Each product keeps its factor, a double of 8 bytes; the result is one float, the leaf another.
    read = [f"{cell * 20_000} []" for cell in range(1, 6)]
    assert [*read, "freed 800008"] == done.stdout.splitlines()
    assert 0 == done.returncode


def test_freeing_half_of_a_long_chain_leaves_the_other_half_whole():
    done = subprocess.run([sys.executable, "-c", HALF], capture_output=True, text=True)
    assert ["1.0", "1.0"] == done.stdout.splitlines()
    assert 0 == done.returncode


HALF = """
import pytest
import torch
from nbmem.heap import StorageTable, scan_heap
weight = torch.ones(1, requires_grad=True)
half = weight * 1
for _ in range(30_000):
    half = half + 1
whole = half
for _ in range(30_000):
    whole = whole + 1
with scan_heap(StorageTable()):
    pass
del whole
half.backward(retain_graph=True)
print(weight.grad.item())
weight.grad = None
half.backward()
print(weight.grad.item())
del half
"""


def test_the_users_metadata_of_a_node_stays():
    result = torch.ones(1, requires_grad=True)
    for _ in range(5_000):
        result = result * 1.5
    result.grad_fn.metadata["mine"] = 7
    with scan_heap(StorageTable()):
        pass
    assert 7 == result.grad_fn.metadata["mine"]


def test_a_short_graph_gets_no_metadata():
    result = torch.ones(1, requires_grad=True).exp().exp()
    with scan_heap(StorageTable(), first=[result]):
        pass
    assert {} == dict(result.grad_fn.metadata)


def test_reading_a_node_makes_torch_keep_a_python_object_for_it():
    # Why long graphs are cut. Where this fails, torch has mended it and `unwinding` can go.
    result = torch.ones(1, requires_grad=True)
    for _ in range(10):
        result = result * 1.5

    def objects():
        return sum(type(item).__name__ == "MulBackward0" for item in gc.get_objects())

    gc.collect()
    before = objects()
    with scan_heap(StorageTable(), first=[result]):
        pass
    assert objects() - before in (0, 10)  # 0: torch 2.10 forgets them, 10: 2.13 keeps them


def test_an_interrupt_while_a_long_graph_is_freed_reaches_the_user(monkeypatch):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    x = torch.ones(3, requires_grad=True)
    result = x
    for _ in range(100_000):
        result = result * 1.0
    with scan_heap(StorageTable()):
        pass
    held = [result]
    del result

    def free_and_wait():
        signal.setitimer(signal.ITIMER_REAL, 0.005)  # rings in torch's own code
        held.clear()
        time.sleep(10)

    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            free_and_wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert [] == lost
