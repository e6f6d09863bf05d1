"""Memory that several have: counted once, and no leak while a value uses it."""

import pytest

import nbmem
from nbmem.session import current_session

N = 40_000
"""Bytes of each memory here."""


@pytest.fixture
def shell(notebook):
    notebook.run("import numpy as np")
    notebook.run("%config NbMem.leak_threshold = 1000")
    return notebook


def leaks():
    return [(leak.bytes, leak.kind, leak.cuts) for leak in nbmem.find_leaks()]


def total():
    return sum(storage.bytes for storage in nbmem.list_storages() if storage.device == "cpu")


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("n = np.zeros(5000)", "torch.from_numpy(n)"),
        ("n = np.zeros(5000)", "torch.from_numpy(n[10:])"),
        ("n = {'deep': [np.zeros(5000)]}", "torch.from_numpy(n['deep'][0])"),
        ("n = bytearray(40_000)", "torch.frombuffer(n, dtype=torch.float32)"),
        ("n = [bytearray(40_000)]", "torch.frombuffer(n[0], dtype=torch.float32)"),
        (
            "n = ({'deep': (bytearray(40_000), 'name')}, 7)",
            "torch.frombuffer(n[0]['deep'][0], dtype=torch.float32)",
        ),
        ("import array; n = array.array('d', [0.0] * 5000)", "torch.frombuffer(n, dtype=float)"),
        ("n = torch.zeros(10_000)", "torch.from_dlpack(n)"),
        ("n = torch.zeros(10_000)", "torch.from_numpy(n.numpy())"),
        ("n = torch.zeros(10_000).numpy()", "torch.from_numpy(n)"),
        ("n = torch.zeros(10_000).untyped_storage()", "torch.tensor(()).set_(n[:20_000].clone())"),
    ],
)
def test_what_a_named_value_uses_is_no_leak(shell, made, shown):
    shell.run(made)
    shell.run(shown)
    shell.run("1 + 1")
    found = leaks()
    if ".clone()" in shown:  # a memory of its own, which nobody needs
        assert [(20_000, "stale_output")] == [leak[:2] for leak in found]
    else:
        assert [] == found


@pytest.mark.parametrize("kept", ["{}", "{{'of': ({}, 1)}}"])
def test_a_capsule_uses_the_memory_of_its_tensor(shell, kept):
    made = kept.format("torch.utils.dlpack.to_dlpack(x)")
    shell.run(f"x = torch.zeros(10_000); cap = {made}; del x")
    assert [] == leaks()
    before = total()
    shell.run("del cap")
    assert before - N == total()


def test_what_two_outputs_show_goes_with_both(shell):
    before = total()
    shell.run("n = np.zeros(5000)")
    first = shell.shell.execution_count
    shell.run("torch.from_numpy(n)")
    shell.run("torch.from_numpy(n)")
    shell.run("1 + 1")
    assert before + N == total()
    assert [] == leaks()
    shell.run("del n")
    ((size, kind, cuts),) = leaks()
    assert (N, "stale_output") == (size, kind)
    assert {f"Out[{first}]", f"Out[{first + 1}]"} == set(cuts)
    nbmem.reclaim_memory(nbmem.find_leaks())
    assert before == total()


def test_the_alias_goes_on_when_the_original_is_gone(shell):
    shell.run("%gpumem on")
    before = total()
    shell.run("n = np.zeros(5000); a = torch.from_numpy(n); b = torch.from_numpy(n[1000:])")
    for source, change in (("del a", -8_000), ("a = torch.from_numpy(n)", 8_000), ("del b", 0)):
        shell.run(source)
        record = shell.records[-1]
        made = sum(storage.bytes for storage in record.created)
        freed, delta = record.freed.get("cpu", 0), record.devices["cpu"]
        assert change == delta.delta == made - freed + record.resized.get("cpu", 0)
        assert 0 == delta.unattributed
    assert before + N == total()


def test_the_ledger_of_main_memory_closes_over_shared_memory(shell):
    shell.run("n = np.zeros(5000); a = torch.from_numpy(n); b = torch.from_dlpack(a)")
    ledger = nbmem.take_ledger("cpu")
    storages = ledger.devices[0].sums[0]
    assert 0 == storages.remainder
    assert any("a and b share one memory" in note.sentence.lower() for note in ledger.notes)


def test_a_plan_promises_each_byte_of_shared_memory_once(shell):
    shell.run("n = np.zeros(5000)")
    shell.run("torch.from_numpy(n)")
    shell.run("[torch.from_numpy(n[1000:]), torch.from_numpy(n[:3000])]")
    shell.run("del n")
    shell.run("1 + 1")
    before = total()
    plan = nbmem.reclaim_memory(nbmem.find_leaks(), dry_run=True)
    assert (N, N) == (plan.promised, plan.freed)
    done = nbmem.reclaim_memory(nbmem.find_leaks())
    assert (N, N) == (done.promised, done.freed)
    assert before - N == total()


@pytest.mark.parametrize(
    ("named", "comes_back"),
    [(["x"], 24_000), (["half"], 0), (["x", "half"], N), (["x", "half", "own"], N + 400)],
)
def test_del_promises_what_no_other_tensor_covers(shell, named, comes_back):
    shell.run("n = np.zeros(5000); x = torch.from_numpy(n); own = torch.zeros(100)")
    shell.run("half = torch.from_numpy(n[:2000]); del n")
    keys = [s.key for s in nbmem.list_storages() if set(named) & set(s.names)]
    before = total()
    plan = current_session().plan_drop(keys)
    assert comes_back == plan.freed
    report = current_session().drop_storages(keys)
    assert () == report.still_held
    assert before - comes_back == total()
