"""What acts leave alone because somebody whom Python does not show may be using it."""

from __future__ import annotations

import threading

import numpy
import pytest
import torch

from nbmem.holders.unseen import running_frames
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.dropping import remove_hook
from nbmem.reclaim.views import shrink_views, shrunk_bytes

# Memory that others read.


def read_by_numpy(part):
    return numpy.from_dlpack(part)


def read_by_torch(part):
    return torch.from_dlpack(part)


def in_a_capsule(part):
    return torch.utils.dlpack.to_dlpack(part)


def as_an_array(part):
    return part.numpy()


def in_a_memoryview(part):
    return memoryview(part.numpy())


def handed_on_as_storage(part):
    return part.untyped_storage()


def saved_by_a_graph(part):
    weight = torch.ones(4, requires_grad=True)
    return (weight * part).sum()


@pytest.mark.parametrize(
    "hand_on",
    [
        read_by_numpy,
        read_by_torch,
        in_a_capsule,
        as_an_array,
        in_a_memoryview,
        handed_on_as_storage,
        saved_by_a_graph,
    ],
)
@pytest.mark.parametrize("part_of", [lambda big: big[5:9].data, lambda big: big[5:9]])
def test_memory_that_somebody_was_handed_stays_where_it_is(hand_on, part_of):
    part = part_of(torch.arange(1 << 16).float())
    address, reader = part.data_ptr(), hand_on(part)
    targets = [Target("part", part)]
    assert shrunk_bytes(targets) is None
    outcome = shrink_views(targets)
    assert ([], 1) == (outcome.done, len(outcome.refused))
    assert "`part = part.clone()`" in outcome.refused[0]
    assert address == part.data_ptr()
    assert reader is not None


def test_view_is_moved_once_nobody_reads_it_any_more():
    part = torch.arange(1 << 16).float()[5:9].data
    reader = numpy.from_dlpack(part)
    del reader
    outcome = shrink_views([Target("part", part)])
    assert [] == outcome.refused
    assert 16 == part.untyped_storage().nbytes()
    assert [5.0, 6.0, 7.0, 8.0] == part.tolist()


# Code of the user's is never asked for a name.


class Nosy(type):
    """A metaclass that fails when a class's name or module is asked for."""

    def __getattribute__(cls, name):
        if name in ("__module__", "__name__", "__qualname__"):
            raise AssertionError(name)
        return super().__getattribute__(name)


class Hook(metaclass=Nosy):
    """A hook that fails when its name is asked for."""

    def __getattr__(self, name):
        raise AssertionError(name)

    def __call__(self, *_):
        return None


def test_name_of_a_hook_is_read_past_its_own_code():
    hooks = {7: Hook()}
    assert ["remove the hook 'Hook'"] == remove_hook(hooks, 7).done
    assert {} == hooks


def test_name_of_a_thread_is_read_past_its_own_code():
    class Worker(threading.Thread):
        @property
        def name(self):
            raise AssertionError("name")

    end, begun = threading.Event(), threading.Event()
    worker = Worker(target=lambda: (begun.set(), end.wait()))
    vars(worker)["_name"] = "loader"
    worker.start()
    begun.wait()
    try:
        assert "loader" in {name for _, name in running_frames()}
    finally:
        end.set()
        worker.join()
