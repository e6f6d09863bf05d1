"""Training steps that the tests measure, and the allocator's own account of them.

Run as a script in a fresh process it prints, as JSON, what the CPU allocator did during the
measured part, from a recording that began before the process made its first tensor. Imports no
nbmem: it is the truth that nbmem is measured against.
"""

import gc
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional


def _training_step(model, data, target, optimizer):
    optimizer.zero_grad()
    functional.cross_entropy(model(data), target).backward()
    optimizer.step()


def _steady_training(model, data, target):
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    _training_step(model, data, target, optimizer)
    return lambda: _training_step(model, data, target, optimizer)


def mlp():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    return _steady_training(model, torch.ones(16, 32), torch.zeros(16, dtype=torch.int64))


def conv_net():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(),
        nn.Flatten(),
        nn.Linear(8 * 7 * 7, 10),
    )
    return _steady_training(model, torch.ones(4, 3, 16, 16), torch.zeros(4, dtype=torch.int64))


def transformer():
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(50, 32),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        nn.Flatten(),
        nn.Linear(32 * 8, 10),
    )
    return _steady_training(
        model, torch.zeros(4, 8, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    )


def pending_backward():
    """The loss is computed before the measured part; only `backward()` is measured."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(196, 10)
    )
    output = model(torch.ones(8, 1, 16, 16))
    losses = [functional.cross_entropy(output, torch.zeros(8, dtype=torch.int64))]
    del output
    return lambda: (losses.pop().backward(), model)[0]


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    block = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
    head = nn.Linear(32, 1)
    data = torch.ones(64, 32, requires_grad=True)
    return lambda: head(checkpoint(block, data, use_reentrant=False)).sum().backward()


def inference():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    data = torch.ones(16, 4, 32)

    def run():
        with torch.inference_mode():
            return model(data).softmax(-1).sum().item()

    return run


WORKLOADS = {
    work.__name__: work
    for work in (mlp, conv_net, transformer, pending_backward, checkpointed, inference)
}


def run_quietly(work):
    """Runs the measured part with nothing for the collector to free in the middle of it."""
    gc.collect()
    gc.disable()
    try:
        work()
    finally:
        gc.enable()


def _flatten(events):
    stack = list(events)
    while stack:
        event = stack.pop()
        yield event
        stack.extend(event.children)


def _operation_around(event):
    """The outermost operation that torch does not merely compose of others."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = None
    while event is not None:
        name = event.name
        if name.startswith("aten::"):
            try:
                composed = has(name, "CompositeImplicitAutograd")
            except RuntimeError:  # an overload's name is not recorded: any of them will do
                composed = False
            if not composed:
                found = event.id
        event = event.parent
    return found


def _account(events):
    """Bytes before, peak and bytes after of the part called `measured`, without temporaries.

    A temporary is a block that one operation both takes and returns, or the one number that
    Python hands to an operation as a tensor (`x / 2.0`: 8 bytes, taken just before it).
    """
    events = sorted(_flatten(events), key=lambda event: event.start_time_ns)
    (part,) = [event for event in events if event.name == "measured"]
    moves = [event for event in events if event.name == "[memory]"]
    temporary, taken = set(), {}
    for event in moves:
        move = event.typed[1]
        if move.alloc_size > 0:
            taken[move.ptr] = event
        else:
            start = taken.pop(move.ptr)
            inside = _operation_around(start.parent)
            handed = inside is None and start.typed[1].alloc_size <= 8
            if handed or (inside is not None and inside == _operation_around(event.parent)):
                temporary |= {start.id, event.id}
    total = before = peak = largest_temporary = 0
    end = None
    for event in moves:
        size = event.typed[1].alloc_size
        if event.start_time_ns > part.end_time_ns and end is None:
            end = total
        if event.id in temporary:
            if part.start_time_ns < event.start_time_ns < part.end_time_ns:
                largest_temporary = max(largest_temporary, size)
            continue
        total += size
        if event.start_time_ns < part.start_time_ns:
            before = peak = total
        elif end is None:
            peak = max(peak, total)
    end = total if end is None else end
    return {
        "rise": peak - before,
        "delta": end - before,
        "largest_temporary": largest_temporary,
    }


def _main(name):
    torch.manual_seed(0)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        work = WORKLOADS[name]()
        gc.collect()
        with torch.profiler.record_function("measured"):
            run_quietly(work)
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    sys.stdout.write(json.dumps(_account(tree)) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1])
