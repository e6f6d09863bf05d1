"""The table of storages: its bytes are those of the storages that live, whatever happens."""

import gc
import sys
import threading
import weakref

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nbmem.heap import StorageTable


def _storage(size):
    return torch.empty(size, dtype=torch.uint8).untyped_storage()


def test_a_storage_is_entered_once_however_many_views_it_has():
    table, tensor = StorageTable(), torch.ones(100)
    entry = table.note(tensor.untyped_storage())
    assert entry is table.note(tensor[3:5].untyped_storage())
    assert (400, "cpu", 1) == (entry.bytes, entry.device, entry.serial)
    assert 400 == table.bytes_on("cpu")
    assert 2 == table.next_serial


def test_a_storage_lives_until_its_last_view_goes():
    table, tensor = StorageTable(), torch.ones(100)
    table.note(tensor.untyped_storage())
    view = tensor[3:5]
    del tensor
    assert 400 == table.bytes_on("cpu")
    del view
    assert 0 == table.bytes_on("cpu")
    assert [] == table.live()


def test_a_storage_that_only_a_graph_holds_is_alive():
    table, weight = StorageTable(), torch.ones(100, requires_grad=True)
    result = weight.exp()
    entry = table.note(result.untyped_storage())
    total = result.sum()
    del result
    assert entry() is not None
    assert 400 == table.bytes_on("cpu")
    total.backward()
    assert entry() is None
    assert 0 == table.bytes_on("cpu")


def test_the_table_keeps_nothing_alive():
    table, storage = StorageTable(), _storage(10)
    alive = weakref.ref(storage)
    table.note(storage)
    del storage
    assert alive() is None


def test_an_address_used_again_is_another_storage():
    table = StorageTable()
    serials, addresses = set(), set()
    for size in range(1, 200):
        storage = _storage(size)
        addresses.add(storage._cdata)
        serials.add(table.note(storage).serial)
        assert size == table.bytes_on("cpu")
        del storage
    assert len(addresses) < 199  # torch did use some again
    assert set(range(1, 200)) == serials


def test_the_peak_is_the_most_that_lived_at_once():
    table = StorageTable()
    first = _storage(100)
    table.note(first)
    second = _storage(50)
    table.note(second)
    del first
    third = _storage(70)
    table.note(third)
    assert 150 == table.peak_on("cpu")
    assert 120 == table.bytes_on("cpu")
    table.reset_peak("cpu")
    assert 120 == table.peak_on("cpu")


def test_a_device_that_was_never_seen_has_no_bytes():
    table = StorageTable()
    assert (0, 0) == (table.bytes_on("cuda:0"), table.peak_on("cuda:0"))
    table.reset_peak("cuda:0")
    assert [] == table.devices()


def test_meta_fake_and_wrapper_storages_are_not_entered():
    from torch._subclasses import FakeTensorMode

    table = StorageTable()
    with FakeTensorMode():
        fake = torch.ones(10)
    nested = torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)
    zero = torch._efficientzerotensor(3)
    storages = [
        torch.ones(10, device="meta").untyped_storage(),
        fake.untyped_storage(),
        torch._C.TensorBase.untyped_storage(zero),
    ]
    with torch._C.DisableTorchFunctionSubclass():
        storages.append(nested.untyped_storage())
    assert [None] * 4 == [table.note(storage) for storage in storages]
    assert 0 == table.bytes_on("cpu")
    assert 1 == table.next_serial


def test_an_empty_storage_is_entered_and_may_grow():
    table, tensor = StorageTable(), torch.empty(0)
    assert 0 == table.note(tensor.untyped_storage()).bytes
    tensor.resize_(10)
    assert 40 == table.note(tensor.untyped_storage()).bytes
    assert 40 == table.peak_on("cpu")


def test_find_enters_nothing():
    table, storage = StorageTable(), _storage(10)
    assert table.find(storage) is None
    assert 0 == table.bytes_on("cpu")
    entry = table.note(storage)
    assert entry is table.find(storage)


def test_a_window_tells_old_storages_from_new_ones():
    table = StorageTable()
    old, kept = _storage(100), _storage(10)
    table.note(old)
    table.note(kept)
    window = table.open_window()
    new = _storage(1000)
    table.note(new)
    kept.resize_(30)
    table.note(kept)
    del old, new
    window.close()
    assert {"cpu": 100} == window.freed
    assert {"cpu": 20} == window.resized
    assert (3, 4) == (window.first_serial, window.end_serial)
    assert 110 - 100 + 20 == table.bytes_on("cpu")


def test_windows_close_in_any_order_and_once():
    table = StorageTable()
    first = _storage(100)
    table.note(first)
    outer = table.open_window()
    second = _storage(7)
    table.note(second)
    inner = table.open_window()
    outer.close()
    del first, second
    inner.close()
    inner.close()
    third = _storage(1)
    table.note(third)
    assert ({}, {"cpu": 107}) == (outer.freed, inner.freed)
    assert (3, 3) == (outer.end_serial, inner.end_serial)


# Hypothesis times the collector by a callback that stays: so it comes before any test begins.
given(st.none())(lambda nothing: None)()

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["make", "view", "free", "resize", "open", "close", "reset"]),
        st.integers(0, 300),
    ),
    max_size=60,
)


class Model:
    """The same story told by plain sums, without any table."""

    def __init__(self):
        self.held = []  # lists of tensors of one storage each
        self.peak = 0

    def total(self):
        return sum(group[0].untyped_storage().nbytes() for group in self.held)


@settings(max_examples=150, deadline=None)
@given(ACTIONS)
def test_before_plus_created_minus_freed_plus_resized_is_after(actions):
    table, model, windows = StorageTable(), Model(), []
    for action, number in actions:
        group = model.held[number % len(model.held)] if model.held else None
        if action == "make":
            model.held.append([torch.empty(number, dtype=torch.uint8)])
            table.note(model.held[-1][0].untyped_storage())
        elif action == "view" and group:
            group.append(group[0].detach())
        elif action == "free" and group:
            group.pop()
            if not group:
                model.held = [other for other in model.held if other is not group]
        elif action == "resize" and group:
            group[0].untyped_storage().resize_(number)
            table.note(group[0].untyped_storage())
        elif action == "open":
            windows.append((table.open_window(), model.total()))
        elif action == "close" and windows:
            _check(table, model, *windows.pop(number % len(windows)))
        elif action == "reset":
            table.reset_peak("cpu")
            model.peak = model.total()
        del group
        model.peak = max(model.peak, model.total())
        assert (model.total(), model.peak) == (table.bytes_on("cpu"), table.peak_on("cpu"))
    for window, before in windows:
        _check(table, model, window, before)


def _check(table, model, window, before):
    window.close()
    created = sum(
        entry.bytes
        for entry in table.live()
        if window.first_serial <= entry.serial < window.end_serial
    )
    freed, resized = window.freed.get("cpu", 0), window.resized.get("cpu", 0)
    assert model.total() == before + created - freed + resized


def test_threads_may_make_and_free_at_the_same_time():
    table, switching = StorageTable(), sys.getswitchinterval()
    kept = []

    def work():
        mine = []
        for number in range(1500):
            storage = _storage(number % 50 + 1)
            table.note(storage)
            table.note(storage)
            if number % 100 == 0:
                mine.append(storage)
        kept.extend(mine)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switching)
    assert sum(storage.nbytes() for storage in kept) == table.bytes_on("cpu")
    assert len(kept) == len(table.live())
    assert 60 == len({entry.serial for entry in table.live()})


def test_a_finalizer_that_makes_tensors_does_not_disturb_the_sums():
    table, made = StorageTable(), []

    class Finalized:
        def __init__(self):
            self.itself = self  # only the collector frees it

        def __del__(self):
            made.append(_storage(3))
            table.note(made[-1])

    thresholds = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for number in range(300):
            Finalized()
            storage = _storage(number + 1)
            table.note(storage)
    finally:
        gc.set_threshold(*thresholds)
    del storage
    gc.collect()
    assert 300 == len(made)
    assert 900 == table.bytes_on("cpu")
