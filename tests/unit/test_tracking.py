"""What following CPU storages sees, and what it leaves as it was."""

import copy
import io
import os
import pickle
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nbmem.heap import StorageTable, scan_heap
from nbmem.tracking import CpuTracker


class Following:
    """`with Following() as f:` f.grown() is by how many bytes torch's storages grew."""

    def __init__(self):
        self.table = StorageTable()
        self.tracker = CpuTracker(self.table)

    def __enter__(self):
        with scan_heap(self.table):
            pass
        self.tracker.reset_peak()
        self.start = self.tracker.allocated()
        self.tracker.start()
        return self

    def __exit__(self, *_):
        self.tracker.stop()

    def grown(self):
        return self.tracker.allocated() - self.start

    def rise(self):
        return self.tracker.peak() - self.start

    def codes(self):
        return [note.code for note in self.tracker.notes()]


ORIGINAL = torch.ones(1000)
SAVED = io.BytesIO()
torch.save(ORIGINAL, SAVED)
PICKLED = pickle.dumps(ORIGINAL)


def _loaded():
    SAVED.seek(0)
    return torch.load(SAVED)


def _shared():
    return torch.ones(1000).share_memory_()


def _resized():
    tensor = torch.ones(10)
    tensor.resize_(1000)
    return tensor


def _storage_resized():
    storage = torch.ones(10).untyped_storage()
    storage.resize_(4000)
    return storage


def _resized_out():
    out = torch.empty(0)
    torch.add(torch.ones(1000), 1, out=out)
    return out


def _set():
    tensor = torch.empty(0)
    tensor.set_(torch.UntypedStorage(4000), 0, (1000,))
    return tensor


ARRAY = np.ones(1000, dtype=np.float32)
BUFFER = bytearray(4000)
THOUSAND_FLOATS = {
    "torch.ones": lambda: torch.ones(1000),
    "torch.tensor of a list": lambda: torch.tensor([1.0] * 1000),
    "torch.tensor of an array": lambda: torch.tensor(ARRAY),
    "from_numpy": lambda: torch.from_numpy(ARRAY),
    "as_tensor": lambda: torch.as_tensor(ARRAY),
    "frombuffer": lambda: torch.frombuffer(BUFFER, dtype=torch.float32),
    "from_dlpack": lambda: torch.from_dlpack(ARRAY),
    "Tensor": lambda: torch.Tensor([1.0] * 1000),
    "FloatTensor": lambda: torch.FloatTensor(1000),
    "UntypedStorage": lambda: torch.UntypedStorage(4000),
    "UntypedStorage of a list": lambda: torch.UntypedStorage([1] * 4000),
    "UntypedStorage from a buffer": lambda: torch.UntypedStorage.from_buffer(
        BUFFER, dtype=torch.uint8
    ),
    "TypedStorage": lambda: torch.storage.TypedStorage(
        wrap_storage=torch.UntypedStorage(4000), dtype=torch.float32, _internal=True
    ),
    "storage clone": lambda: ORIGINAL.untyped_storage().clone(),
    "torch.load": _loaded,
    "pickle": lambda: pickle.loads(PICKLED),
    "deepcopy": lambda: copy.deepcopy(ORIGINAL),
    "share_memory_": _shared,
    "resize_": _resized,
    "storage.resize_": _storage_resized,
    "out=": _resized_out,
    "set_": _set,
    "split": lambda: torch.ones(1000).split(10),
    "parameter": lambda: nn.Parameter(torch.ones(1000)),
    "inference mode": torch.inference_mode()(lambda: torch.ones(10, 100).t().reshape(1000)),
}


@pytest.mark.parametrize("way", sorted(THOUSAND_FLOATS))
def test_a_thousand_floats_are_4000_bytes_whichever_way_they_come(way):
    THOUSAND_FLOATS[way]()  # what torch keeps from the first time is not asked about
    with Following() as following:
        made = THOUSAND_FLOATS[way]()
        assert 4000 == following.grown()
        del made
        assert 0 == following.grown()


def test_the_random_state_is_a_storage_of_its_own():
    with Following() as following:
        state = torch.get_rng_state()
        assert state.untyped_storage().nbytes() == following.grown()


def test_memory_older_than_the_start_is_seen_to_go():
    old = torch.ones(1000)
    with Following() as following:
        del old
        assert -4000 == following.grown()


def test_a_view_takes_nothing_and_keeps_all():
    with Following() as following:
        view = torch.ones(1000)[:1]
        assert 4000 == following.grown()
        del view
        assert 0 == following.grown()


def test_the_peak_counts_what_lived_at_once():
    with Following() as following:
        torch.ones(1000)
        torch.ones(1000)
        assert 4000 == following.rise()
        torch.ones(1000), torch.ones(500)
        assert 6000 == following.rise()


def test_shrinking_a_storage_gives_bytes_back():
    tensor = torch.ones(1000)
    with Following() as following:
        tensor.untyped_storage().resize_(0)
        assert -4000 == following.grown()


def test_sparse_tensors_count_their_parts_even_when_changed_in_place():
    indices, values = torch.tensor([[0, 5]]), torch.ones(2)
    with Following() as following:
        sparse = torch.sparse_coo_tensor(indices, values, (10,)).coalesce()
        assert 2 * 8 + 2 * 4 == following.grown()
        sparse.add_(torch.sparse_coo_tensor([[1, 2, 3]], torch.ones(3), (10,)))
        expected = sparse._indices().untyped_storage().nbytes()
        expected += sparse._values().untyped_storage().nbytes()
        assert expected == following.grown()


def test_a_nested_tensor_is_followed_into_its_values():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with Following() as following:
        doubled = nested * 2
        assert 5 * 4 == following.grown()
        del doubled
        assert 0 == following.grown()


class Wrapper(torch.Tensor):
    """A tensor that only holds another, and logs nothing."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.inner if type(arg) is Wrapper else arg for arg in args]
        func(*plain, **(kwargs or {}))  # a temporary of the subclass's own
        return Wrapper(func(*plain, **(kwargs or {})))


@pytest.mark.parametrize(
    "work",
    [
        lambda rows: nn.functional.linear(rows, torch.ones(5, 4)),
        lambda rows: rows.chunk(2, -1),
        lambda rows: rows @ torch.nested.nested_tensor([torch.ones(4, 3), torch.ones(4, 2)]),
        lambda rows: rows @ torch.ones(4),
    ],
    ids=["linear", "chunk", "matmul", "an error"],
)
@pytest.mark.parametrize("grad", [True, False])
def test_nested_tensors_have_the_operations_and_the_errors_that_they_have_alone(work, grad):
    def outcome():
        try:
            made = work(torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)]))
        except Exception as error:
            return type(error), str(error)
        return [[row.tolist() for row in each.unbind()] for each in made]

    with torch.set_grad_enabled(grad):
        alone = outcome()
        tracker = CpuTracker(StorageTable())
        tracker.start()
        try:
            followed = outcome()
        finally:
            tracker.stop()
    assert alone == followed


def test_a_wrapper_subclass_is_followed_into_what_it_does():
    wrapped = Wrapper(torch.ones(1000))
    with Following() as following:
        doubled = wrapped * 2
        assert 4000 == following.grown()
        assert torch.equal(torch.full((1000,), 2.0), doubled.inner)
        del doubled


def test_fake_and_meta_tensors_take_nothing():
    from torch._subclasses import FakeTensorMode

    with Following() as following, FakeTensorMode():
        kept = torch.ones(1000) + 1, torch.ones(10, device="meta") * 2
        assert 0 == following.grown()
        assert (1000,) == kept[0].shape


def test_vmap_grad_and_export_work_as_before():
    with Following() as following:
        assert 6.0 == torch.vmap(lambda x: x * 2)(torch.ones(3)).sum().item()
        gradient = torch.func.grad(lambda x: (x * x).sum())(torch.ones(3))
        assert [2.0, 2.0, 2.0] == gradient.tolist()
        program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
        assert (1, 2) == program.module()(torch.ones(1, 2)).shape
        assert [] == [code for code in following.codes() if code == "mode_removed"]


def test_scripted_code_is_followed():
    scripted = torch.jit.trace(lambda x: (x * 2).relu(), torch.ones(1000))
    data = torch.ones(1000)
    scripted(data), scripted(data)
    with Following() as following:
        result = scripted(data)
        assert 4000 == following.grown()
        del result


def test_a_profiler_of_the_users_keeps_its_events():
    activities = [torch.profiler.ProfilerActivity.CPU]
    with Following() as following:
        with torch.profiler.profile(activities=activities) as profiler:
            kept = torch.ones(1000) + 1
        assert "aten::add" in {event.key for event in profiler.key_averages()}
        assert 4000 == following.grown()
        del kept


def test_starts_and_stops_are_counted():
    with Following() as following:
        following.tracker.start()
        following.tracker.stop()
        kept = torch.ones(1000)
        assert 4000 == following.grown()
        del kept
    following.tracker.stop()
    assert not following.tracker.is_on
    kept = torch.ones(1000)
    assert 0 == following.grown()
    del kept


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_users_mode_left_open_is_popped_by_its_own_exit():
    users = Doubling()
    with Following() as following:
        users.__enter__()
        torch.ones(10)
    with Following() as following:
        users.__exit__(None, None, None)
        kept = torch.ones(1000)
        assert 4000 == following.grown()
        del kept
    assert [] == following.codes()
    assert 0 == torch._C._len_torch_dispatch_stack()


def test_a_mode_opened_before_and_closed_within_is_the_users():
    users = Doubling()
    users.__enter__()
    with Following() as following:
        users.__exit__(None, None, None)
        kept = torch.ones(1000)
        assert 4000 == following.grown()
        del kept
    assert 0 == torch._C._len_torch_dispatch_stack()


def test_a_mode_popped_too_often_is_told():
    with Following() as following:
        torch._C._pop_torch_dispatch_stack(None)
    assert ["mode_removed"] == following.codes()
    assert 0 == torch._C._len_torch_dispatch_stack()


def test_notes_are_those_of_the_last_start():
    with Following() as following:
        torch._C._pop_torch_dispatch_stack(None)
    with following:
        pass
    assert [] == following.codes()


def test_what_another_thread_made_is_found_by_the_scan_and_told():
    made = []
    with Following() as following:
        thread = threading.Thread(target=lambda: made.append(torch.ones(1000)))
        thread.start()
        thread.join()
        serial = following.table.next_serial
        with scan_heap(following.table):
            pass
        (note,) = following.tracker.note_unseen(serial)
    assert ("peak", "other_threads") == (note.field, note.code)
    assert note.sentence.startswith("1 storage was made out of sight")
    assert 4000 == following.grown()


def test_numbers_that_autograd_keeps_are_counted_and_no_reason_for_a_note():
    weight = torch.ones(1000, requires_grad=True)
    with Following() as following:
        kept = weight * 2, weight * (2 + 1j)
        serial = following.table.next_serial
        with scan_heap(following.table):
            pass
        # 4 bytes a float, 8 a complex one; an int64 and a complex128 as factors
        assert 4000 + 8000 + 8 + 16 == following.grown()
        assert [] == following.tracker.note_unseen(serial)
        assert 24 == following.tracker.unseen_numbers(serial)
        del kept


def test_two_storages_out_of_sight_are_told_beside_a_number():
    made = []
    weight = torch.ones(1000, requires_grad=True)
    with Following() as following:
        made.append(weight * 2)
        thread = threading.Thread(target=lambda: made.extend([torch.ones(5), torch.ones(5)]))
        thread.start()
        thread.join()
        serial = following.table.next_serial
        with scan_heap(following.table):
            pass
        (note,) = following.tracker.note_unseen(serial)
    assert note.sentence.startswith("2 storages were made out of sight")


def test_a_quiet_cell_has_no_notes():
    with Following() as following:
        kept = torch.ones(1000)
        serial = following.table.next_serial
        with scan_heap(following.table):
            pass
        assert [] == following.tracker.note_unseen(serial)
        del kept


def test_each_thread_may_follow_its_own_operations():
    table = StorageTable()
    tracker = CpuTracker(table)
    seen = []

    def work():
        tracker.start()
        before = tracker.allocated()
        kept = torch.ones(1000)
        seen.append(tracker.allocated() - before)
        tracker.stop()
        del kept

    tracker.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    kept = torch.ones(500)
    assert [4000] == seen
    assert 2000 == tracker.allocated()
    tracker.stop()
    del kept


def test_no_function_mode_of_the_users_hears_of_it():
    heard = []

    class Listening(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    with Following() as following, Listening():
        kept = torch.ones(1000)
    assert ["ones"] == heard
    assert 4000 == following.grown()
    del kept


def test_torch_is_as_before_when_the_last_tracker_stops():
    names = ("frombuffer", "get_rng_state")
    before = dict(vars(torch.UntypedStorage)), [getattr(torch, name) for name in names]
    with Following():
        with Following():
            assert before[0] != dict(vars(torch.UntypedStorage))
        assert before[0] != dict(vars(torch.UntypedStorage))
    after = dict(vars(torch.UntypedStorage)), [getattr(torch, name) for name in names]
    assert before == after


def test_following_alone_does_not_load_dynamo():
    script = (
        "import sys, torch\n"
        "from nbmem.heap import StorageTable\n"
        "from nbmem.tracking import CpuTracker\n"
        "tracker = CpuTracker(StorageTable()); tracker.start()\n"
        "torch.ones(3) + 1\n"
        "tracker.stop(); print('torch._dynamo' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "False" == done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_not_followed():
    with Following() as following:
        child = os.fork()
        if child == 0:
            kept = torch.ones(1000)
            clean = torch._C._len_torch_dispatch_stack() == 0
            silent = following.grown() == 0 and not following.tracker.is_on
            del kept
            os._exit(0 if clean and silent else 1)
        _, status = os.waitpid(child, 0)
        kept = torch.ones(1000)
        assert 0 == os.waitstatus_to_exitcode(status)
        assert 4000 == following.grown()
        del kept


COMPILED = """
import sys, torch
from torch._dynamo.utils import counters
backend, follow = sys.argv[1], sys.argv[2] == "yes"
function = torch.compile(lambda x: (x * 2).sin() + 1, backend=backend)
data = torch.ones(1000)
from nbmem.heap import StorageTable
from nbmem.tracking import CpuTracker
tracker = CpuTracker(StorageTable())
if follow:
    tracker.start()
for _ in range(3):
    function(data)
function(torch.ones(3, 3))
if follow:
    tracker.stop()
print(counters["stats"]["unique_graphs"], len(counters["graph_break"]),
      [note.code for note in tracker.notes()])
"""


def _compiled(backend, follow):
    command = [sys.executable, "-c", COMPILED, backend, follow]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_compiled_code_stays_compiled():
    plain, followed = _compiled("eager", "no"), _compiled("eager", "yes")
    assert plain == followed
    assert plain.startswith("2 0")


HIDDEN = """
import torch
from torch._dynamo.utils import counters
from nbmem.heap import StorageTable
from nbmem.tracking import CpuTracker
function = torch.compile(lambda x: (x * 2).sin() + 1)
data = torch.ones(1000)
function(data)
tracker = CpuTracker(StorageTable())
tracker.start()
data + 1
tracker.stop()
quiet = [note.code for note in tracker.notes()]
tracker.start()
function(data)
tracker.stop()
print(quiet, [note.code for note in tracker.notes()], counters["stats"]["unique_graphs"])
"""


FIRST = """
import sys, threading, torch
from nbmem.heap import StorageTable, scan_heap
from nbmem.tracking import CpuTracker
finders = list(sys.meta_path)
table = StorageTable()
tracker = CpuTracker(table)
made = []
tracker.start()
function = torch.compile(lambda x: (x * 2).sin() + 1)
thread = threading.Thread(target=lambda: made.append(torch.ones(1000)))
thread.start(); thread.join()
tracker.stop()
serial = table.next_serial
with scan_heap(table):
    pass
print([note.code for note in tracker.note_unseen(serial)], finders == sys.meta_path)
"""
FIRST_RUN = """
import sys, torch
from nbmem.heap import StorageTable
from nbmem.tracking import CpuTracker
tracker = CpuTracker(StorageTable())
tracker.start()
torch.compile(lambda x: (x * 2).sin() + 1)(torch.ones(1000))
tracker.stop()
print([note.code for note in tracker.notes()])
"""


def test_a_function_that_is_compiled_and_not_called_hides_nothing():
    command = [sys.executable, "-c", FIRST]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "['other_threads'] True" == done.stdout.strip()


def test_the_wait_for_inductor_ends_with_the_tracking():
    before = list(sys.meta_path)
    with Following():
        pass
    assert before == sys.meta_path


ALONE = "import torch; torch.compile(lambda x: (x * 2).sin() + 1)(torch.ones(1000))"


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_what_inductor_hides_is_told_where_its_code_ran():
    alone = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, check=False)
    if alone.returncode:
        pytest.skip("Inductor compiles nothing here without nbmem either: no compiler, or a path")
    command = [sys.executable, "-c", HIDDEN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[] ['compiled'] 1" == done.stdout.strip()
    done = subprocess.run(
        [sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=True
    )
    assert "['compiled']" == done.stdout.strip()
