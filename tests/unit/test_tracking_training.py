"""Peak and delta of training steps against the allocator's own events, to the byte."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable, scan_heap
from nbmem.tracking import CpuTracker

sys.path.insert(0, str(Path(__file__).parent))
from workloads import WORKLOADS, run_quietly


def _allocators_account(name):
    """What the CPU allocator recorded in a fresh process, from before its first tensor."""
    script = Path(__file__).with_name("workloads.py")
    environment = os.environ | {"KINETO_LOG_LEVEL": "99"}
    done = subprocess.run(
        [sys.executable, str(script), name],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _followed(work):
    """What nbmem says of the same part: (rise above the start, delta, storages never seen)."""
    gc.collect()
    table = StorageTable()
    tracker = CpuTracker(table)
    with scan_heap(table):
        pass
    before = tracker.allocated()
    tracker.start()
    run_quietly(work)
    tracker.stop()
    rise, known = tracker.peak() - before, table.next_serial
    with scan_heap(table):
        pass
    return rise, tracker.allocated() - before, table.next_serial - known


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_peak_and_delta_are_those_of_the_allocator(name):
    torch.manual_seed(0)
    rise, delta, unseen = _followed(WORKLOADS[name]())
    truth = _allocators_account(name)
    assert (truth["rise"], truth["delta"]) == (rise, delta)
    assert 0 == unseen


def test_a_forward_pass_rises_by_the_sum_written_down_by_hand():
    first, second = nn.Linear(100, 200, bias=False), nn.Linear(200, 50, bias=False)
    data = torch.ones(10, 100)

    def forward():
        with torch.no_grad():
            hidden = first(data)  # 10 × 200 floats
            hidden = hidden.relu()  # the same again, then the first goes
            return second(hidden).sum().item()  # 10 × 50, then one float more

    rise, delta, _ = _followed(forward)
    assert 2 * 10 * 200 * 4 == rise
    assert 0 == delta


def test_gradients_are_what_a_first_backward_leaves():
    model = nn.Linear(100, 200)
    data = torch.ones(10, 100)
    rise, delta, _ = _followed(lambda: model(data).sum().backward())
    assert (100 * 200 + 200) * 4 == delta
    assert rise >= delta


def test_backward_in_the_next_scope_frees_what_the_graph_held():
    weight = torch.ones(1000, requires_grad=True)
    loss = (weight.exp() * 2).sin().sum()
    held = [
        weakref.ref(node._saved_self.untyped_storage())
        for node in (loss.grad_fn.next_functions[0][0],)
    ]
    rise, delta, _ = _followed(loss.backward)
    # exp's result, the sine's input and the 2 that the product kept (4,000 + 4,000 + 8 bytes) go;
    # the gradient comes (4,000).
    assert -4008 == delta
    assert [None] == [storage() for storage in held]
    assert rise >= 0
