"""What the allocator's history adds: the line that made what has no name, and the user's labels."""

import gc

import pytest
import torch

import nbmem
from nbmem.devices.history import stacks_in
from nbmem.devices.snapshot import read_blocks
from nbmem.session import current_session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]


@pytest.fixture
def session(shell):
    gc.collect()
    torch.cuda.empty_cache()
    shell.run_line_magic("load_ext", "nbmem")
    torch.cuda.memory._record_memory_history(stacks="python")
    yield current_session()
    torch.cuda.memory._set_memory_metadata("")
    torch.cuda.memory._record_memory_history(enabled=None)


WITHOUT_CHOICE = torch.__version__.startswith("2.10.")  # its snapshot always has the events


def events(action):
    snapshot = torch._C._cuda_memorySnapshot(None if WITHOUT_CHOICE else (0, 0, True))
    return sum(event["action"] == action for event in snapshot["device_traces"][0])


def keep_without_a_name(shell, cell):
    """Runs a cell whose tensors go where no name of the user's leads; returns who keeps them."""
    kept = []
    shell.user_ns["keep"] = kept.append
    shell.run_cell(cell, store_history=True).raise_error()
    del shell.user_ns["keep"]
    return kept


def test_what_has_no_name_tells_the_cell_and_line_that_made_it(session, printed):
    cell = "import torch\ndef make():\n    return torch.ones(5000, device='cuda')\nkeep(make())"
    kept = keep_without_a_name(session.shell, cell)
    count = session.shell.execution_count - 1
    (mine,) = [s for s in nbmem.list_storages() if s.bytes == 20_000]
    assert ((), count, 4) == (mine.names, mine.created_by, mine.line)
    assert f"no name, made by line 4 of [{count}]" in printed("tensors")
    del kept


def test_one_storage_costs_no_snapshot_of_all_blocks(session):
    others = [torch.ones(1000, device="cuda") for _ in range(50)]
    session.shell.user_ns["others"] = others
    kept = keep_without_a_name(session.shell, "import torch\nkeep(torch.ones(5000, device='cuda'))")
    for look in range(3):
        before = events("snapshot")
        (mine,) = [s for s in nbmem.list_storages() if s.bytes == 20_000]
        assert 2 == mine.line
        # torch notes each snapshot as an event: this test's own, and one where torch has no
        # traceback of one block; what was told once is not asked for again.
        can_ask = hasattr(torch._C, "_cuda_allocationTraceback")
        assert (1 if can_ask or look else 2) == events("snapshot") - before
    del kept


def test_torchs_traceback_of_one_block_is_what_its_snapshot_says(session):
    ask = getattr(torch._C, "_cuda_allocationTraceback", None)
    session.shell.user_ns["others"] = [torch.ones(1000, device="cuda") for _ in range(50)]
    x = torch.ones(5000, device="cuda")
    (reader,) = [r for r in session._devices.accelerators() if r.device == "cuda:0"]
    told = reader.allocations_at([x.data_ptr(), x.data_ptr() + 512, 4096])
    stack = stacks_in(read_blocks("cuda", 0), [x.data_ptr()])[x.data_ptr()]
    assert "test_torchs_traceback" in stack[0]
    # Within a block only the snapshot knows; what lies in no block has no stack.
    assert [stack, stack, ()] == [each.stack for each in told.values()]
    if ask is not None:
        frames = [f"{f['filename']}:{f['line']} {f['name']}" for f in ask(x.data_ptr())]
        assert list(stack) == frames


def test_a_label_is_told_for_what_has_no_name_and_stays_the_users(session, printed):
    torch.cuda.memory._set_memory_metadata("encoder <1>")
    kept = keep_without_a_name(session.shell, "import torch\nkeep(torch.ones(5000, device='cuda'))")
    block = torch.cuda.caching_allocator_alloc(3 << 20)
    torch.cuda.memory._set_memory_metadata("")
    plain = torch.cuda.caching_allocator_alloc(5 << 20)
    try:
        (mine,) = [s for s in nbmem.list_storages() if s.bytes == 20_000]
        assert ("encoder <1>", 2) == (mine.label, mine.line)
        assert "no name, made by line 2 of" in (text := printed("tensors"))
        assert "· encoder <1>" in text
        (ledger,) = [d for d in nbmem.take_ledger().devices if d.device == "cuda:0"]
        labels = {row.bytes: row.label for row in ledger.blocks}
        assert ("encoder <1>", "") == (labels[3 << 20], labels[5 << 20])
        assert "encoder <1>" in printed("ledger")
        assert "" == torch.cuda.memory._get_memory_metadata()
        torch.cuda.memory._set_memory_metadata("mine")
        nbmem.take_ledger()
        assert "mine" == torch.cuda.memory._get_memory_metadata()
    finally:
        torch.cuda.caching_allocator_delete(block)
        torch.cuda.caching_allocator_delete(plain)
    del kept


def test_labels_that_are_too_many_to_read_are_said_to_lack(session, printed, monkeypatch):
    torch.cuda.memory._set_memory_metadata("encoder")
    block = torch.cuda.caching_allocator_alloc(3 << 20)
    try:
        assert "Your labels are not shown" not in printed("ledger")
        monkeypatch.setattr("nbmem.devices.history.MOST_EVENTS", 1)
        (ledger,) = [d for d in nbmem.take_ledger().devices if d.device == "cuda:0"]
        assert "" == next(row.label for row in ledger.blocks if row.bytes == 3 << 20)
        said = [note for note in ledger.notes if note.field == "labels"]
        assert ["unavailable"] == [note.code for note in said]
        sentence = "Your labels are not shown: the history may have more than 1 events."
        assert sentence in " ".join(printed("ledger").split())
        kept = keep_without_a_name(
            session.shell, "import torch\nkeep(torch.ones(5000, device='cuda'))"
        )
        (mine,) = [s for s in nbmem.list_storages() if s.bytes == 20_000]
        assert ("", 2) == (mine.label, mine.line)
        del kept
    finally:
        torch.cuda.memory._set_memory_metadata("")
        torch.cuda.caching_allocator_delete(block)


def test_events_are_not_read_where_nobody_gave_a_label(session, monkeypatch):
    taken, real = [], torch._C._cuda_memorySnapshot

    def take(arguments):
        taken.append(arguments)
        return real(arguments)

    monkeypatch.setattr(torch._C, "_cuda_memorySnapshot", take)
    block = torch.cuda.caching_allocator_alloc(3 << 20)
    try:
        nbmem.take_ledger()
        assert taken
        assert {False} == {one[2] for one in taken if one is not None}
        assert WITHOUT_CHOICE == (None in taken)
    finally:
        torch.cuda.caching_allocator_delete(block)
