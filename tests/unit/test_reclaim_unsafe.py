"""What acts leave alone because somebody whom Python does not show may be using it."""

from __future__ import annotations

import io
import threading

import numpy
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from nbmem.holders.unseen import running_frames
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.dropping import remove_hook
from nbmem.reclaim.lending import is_of_torch
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


# Memory that was lent once. `resizable()` stays False for good, so that it tells nothing.


def lent_by_the_view(whole):
    part = whole[5:9]
    part.numpy().sum()
    return part


def lent_by_its_base(whole):
    whole.numpy().sum()
    return whole[5:9]


def lent_and_without_a_base(whole):
    numpy.asarray(whole).sum()
    return whole[5:9].data


def read_from_a_file(whole):
    return torch.load(saved(whole))[5:9]


LENDING = [lent_by_the_view, lent_by_its_base, lent_and_without_a_base, read_from_a_file]


@pytest.mark.parametrize("lend", LENDING)
def test_view_of_what_was_lent_is_moved_when_the_array_is_gone(lend):
    names = {"part": lend(torch.arange(1 << 16).float())}
    seen = StorageWeakRef(names["part"].untyped_storage())
    assert not names["part"].untyped_storage().resizable()
    assert 16 == shrunk_bytes([Target("part", names["part"])])
    outcome = shrink_views([Target("part", names["part"])])
    assert [] == outcome.refused
    assert seen.expired()
    assert 16 == names["part"].untyped_storage().nbytes()
    assert [5.0, 6.0, 7.0, 8.0] == names["part"].tolist()


@pytest.mark.parametrize("lend", LENDING)
@pytest.mark.parametrize("kept", [dict, list, tuple])
def test_view_of_what_is_still_lent_stays_where_it_is(lend, kept):
    names = {"part": lend(torch.arange(1 << 16).float())}
    array = names["part"].numpy()
    reader = {"a": array} if kept is dict else kept([array])
    del array
    outcome = shrink_views([Target("part", names["part"])])
    assert ([], 1) == (outcome.done, len(outcome.refused))
    assert "numpy array" in outcome.refused[0]
    assert 1 << 18 == names["part"].untyped_storage().nbytes()
    assert reader


def test_memory_of_numpys_own_stays_though_no_array_is_seen():
    names = {"part": torch.from_numpy(numpy.arange(1 << 16, dtype="f4"))[5:9]}
    outcome = shrink_views([Target("part", names["part"])])
    assert ([], 1) == (outcome.done, len(outcome.refused))


def test_whose_memory_it_is_shows_in_the_storage():
    mine = torch.ones(100)
    before = [mine.untyped_storage(), torch.load(saved(mine)).untyped_storage()]
    mine.numpy()
    assert [True, True] == list(map(is_of_torch, before))
    others = [
        torch.from_numpy(numpy.ones(100)),
        torch.from_dlpack(numpy.ones(100)),
        torch.frombuffer(bytearray(400), dtype=torch.float32),
        torch.ones(100).share_memory_(),
    ]
    assert [False] * 4 == [is_of_torch(each.untyped_storage()) for each in others]


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return file


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
