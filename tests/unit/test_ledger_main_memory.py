"""The sums of main memory: torch's storages, this process, the machine or its container."""

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from ledger_machine import GIB, MIB, Machine, Reference, Storage, closes, lines, record, sentences
from simulated_cuda import block, frame, segment
from simulated_nvml import card, process

import nbmem
from nbmem.devices import UnknownDeviceError
from nbmem.devices.capacity import memory_use
from nbmem.devices.protocols import Sample
from nbmem.ledger.main_memory import main_memory_ledger
from nbmem.records import Inventory, Ledger, from_json, to_json

ROOT = Path(__file__).parents[2]


def take(*storages, tracked=None, resident=GIB):
    """Returns the three sums over these storages.

    `tracked` is what tracking says of them all, and `resident` the process's RSS.
    """
    references = [Reference(number, storage) for number, storage in enumerate(storages, 1)]
    tracked = sum(storage.size for storage in storages) if tracked is None else tracked
    table = SimpleNamespace(live=lambda: references, bytes_on=lambda device: tracked)
    found = tuple(record(r.serial, r.storage) for r in references if r.storage.listed)
    host = SimpleNamespace(sample=lambda: Sample(resident))
    ledger = main_memory_ledger(Inventory(found, 1.0), table, host)
    assert ("cpu", "cpu") == (ledger.device, ledger.kind)
    assert ["storages", "resident", "installed"] == [one.code for one in ledger.sums]
    return ledger.sums


def on_cpu(size, category="user", **more):
    return Storage(size, None, device="cpu", category=category, **more)


def test_storages_by_category_are_what_tracking_says():
    storages, *_ = take(
        on_cpu(400, "parameter"), on_cpu(100, "parameter"), on_cpu(30), on_cpu(7, listed=False)
    )
    assert {"parameter": 500, "user": 30, "unknown": 7} == lines(storages)
    assert [2, 1, 1] == [line.count for line in storages.lines]
    assert 537 == storages.total.bytes
    assert 0 == storages.remainder
    assert not any(line.derived for line in storages.lines)


def test_storages_on_a_gpu_are_not_in_main_memory():
    storages, *_ = take(on_cpu(30), Storage(4000, 1, device="cuda:0"), tracked=30)
    assert {"user": 30} == lines(storages)


def test_a_storage_that_died_since_the_inventory_is_in_no_line():
    dead = on_cpu(1000)
    dead.alive = False
    storages, *_ = take(on_cpu(30), dead, tracked=30)
    assert {"user": 30} == lines(storages)
    assert 0 == storages.remainder


def test_what_tracking_knows_beyond_the_storages_is_a_remainder_that_is_shown():
    storages, *_ = take(on_cpu(30), tracked=100)
    assert 70 == storages.remainder


def test_the_rest_of_the_process_is_derived():
    _, resident, _ = take(on_cpu(300 * MIB), resident=GIB)
    assert {"storages": 300 * MIB, "other": 724 * MIB} == lines(resident)
    assert ["other"] == [line.code for line in resident.lines if line.derived]
    assert GIB == resident.total.bytes
    assert closes(resident)
    assert "psutil.Process().memory_info().rss" == resident.total.equals


def test_storages_larger_than_the_process_are_pages_never_touched_and_this_is_said():
    _, resident, _ = take(on_cpu(3 * GIB), resident=GIB)
    assert {"storages": 3 * GIB, "not resident": -2 * GIB} == lines(resident)
    assert closes(resident)
    assert [
        "torch's storages exceed the resident memory: pages that were never written, or that were "
        "swapped out, take no memory now."
    ] == sentences(resident.notes)


def test_a_process_whose_resident_memory_is_not_told_has_none(monkeypatch):
    def refuse():
        raise OSError("no /proc here")

    references = []
    table = SimpleNamespace(live=lambda: references, bytes_on=lambda device: 0)
    host = SimpleNamespace(sample=refuse)
    ledger = main_memory_ledger(Inventory((), 1.0), table, host)
    _, resident, installed = ledger.sums
    assert (None, None) == (resident.total.bytes, resident.remainder)
    assert ["Reading resident of host failed: OSError: no /proc here"] == sentences(resident.notes)
    assert {"resident": None, "other processes": None} == {
        code: size for code, size in lines(installed).items() if code != "available"
    }


def machine_of(monkeypatch, *, total, available, limit=None, current=None):
    import nbmem.ledger.main_memory as module

    use = SimpleNamespace(total=total, available=available, limited=False)
    if limit is not None:
        use = SimpleNamespace(total=limit, available=limit - current, limited=True)
    monkeypatch.setattr(module, "memory_use", lambda: use)


def test_installed_memory_is_this_process_others_and_what_is_available(monkeypatch):
    machine_of(monkeypatch, total=16 * GIB, available=10 * GIB)
    *_, installed = take(on_cpu(30), resident=2 * GIB)
    assert {"resident": 2 * GIB, "other processes": 4 * GIB, "available": 10 * GIB} == lines(
        installed
    )
    assert ["other processes"] == [line.code for line in installed.lines if line.derived]
    assert ("installed memory", 16 * GIB) == (installed.total.label, installed.total.bytes)
    assert closes(installed)
    assert "psutil.virtual_memory().available" == installed.lines[2].equals


def test_in_a_container_the_sum_is_its_limit(monkeypatch):
    machine_of(monkeypatch, total=64 * GIB, available=60 * GIB, limit=8 * GIB, current=3 * GIB)
    *_, installed = take(on_cpu(30), resident=2 * GIB)
    assert {"resident": 2 * GIB, "other processes": GIB, "available": 5 * GIB} == lines(installed)
    assert ("the container's limit", 8 * GIB) == (installed.total.label, installed.total.bytes)
    assert closes(installed)


def test_pages_counted_as_resident_and_as_available_are_shown_as_less_than_nothing(monkeypatch):
    machine_of(monkeypatch, total=4 * GIB, available=3 * GIB)
    *_, installed = take(on_cpu(30), resident=2 * GIB)
    assert -GIB == lines(installed)["other processes"]
    assert closes(installed)
    assert ["counted_twice"] == [note.code for note in installed.notes]


# What the system says.


def test_without_a_control_group_the_whole_machine_counts(tmp_path):
    use = memory_use(tmp_path)
    assert (psutil.virtual_memory().total, False) == (use.total, use.limited)
    assert 0 < use.available < use.total


@pytest.mark.parametrize(
    ("group", "folder", "limit", "current"),
    [
        ("0::/a/b", "sys/fs/cgroup/a", "memory.max", "memory.current"),
        (
            "4:memory:/a/b",
            "sys/fs/cgroup/memory/a",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
    ],
)
def test_a_containers_use_is_that_of_the_group_with_the_limit(
    tmp_path, group, folder, limit, current
):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"{group}\n")
    inner = tmp_path / folder / "b"
    inner.mkdir(parents=True)
    (inner / limit).write_text("max\n")
    (inner / current).write_text("1000\n")
    (inner.parent / limit).write_text(f"{64 * MIB}\n")
    (inner.parent / current).write_text(f"{24 * MIB}\n")
    use = memory_use(tmp_path)
    assert (64 * MIB, True, 40 * MIB) == (use.total, use.limited, use.available)
    (inner / limit).write_text(f"{96 * MIB}\n")  # more than its parent lets it have
    use = memory_use(tmp_path)
    assert (64 * MIB, True, 40 * MIB) == (use.total, use.limited, use.available)


# All of it, on this machine.

PROGRAM = """
import json, torch, nbmem
model = torch.nn.Linear(1000, 100)
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(64, 1000)
model(x).square().mean().backward()
optimizer.step()
loss = model(x).square().mean()
ledger = nbmem.take_ledger()
from nbmem.records import to_json
print(json.dumps(to_json(ledger)))
"""


def test_the_ledger_of_a_training_step_on_the_cpu_closes():
    printed = subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=ROOT, text=True)
    (cpu,) = json.loads(printed)["devices"]
    storages, resident, installed = cpu["sums"]
    weights = (1000 * 100 + 100) * 4
    told = {line["code"]: line["bytes"] for line in storages["lines"]}
    assert {
        "parameter": weights,
        "gradient": weights,
        "optimizer state": 2 * weights + 2 * 4,
        "saved for backward": 64 * 100 * 4,
        "user": 64 * 1000 * 4 + 4,
    } == told
    assert sum(told.values()) == storages["total"]["bytes"]
    for one in (resident, installed):
        assert one["total"]["bytes"] == sum(line["bytes"] for line in one["lines"])
        assert 1 == sum(line["derived"] for line in one["lines"])
    assert resident["total"]["bytes"] == installed["lines"][0]["bytes"]
    assert weights < resident["total"]["bytes"] < installed["total"]["bytes"]


def test_taking_a_ledger_keeps_nothing_alive():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        x = torch.empty(1000)
        tensor, storage = weakref.ref(x), weakref.ref(x.untyped_storage())
        assert 4000 <= nbmem.take_ledger("cpu").devices[-1].sums[0].total.bytes
        del x
        assert (None, None) == (tensor(), storage())
    finally:
        if was_enabled:
            gc.enable()


def test_the_cpu_can_be_asked_for_beside_the_gpus(monkeypatch):
    machine = Machine(monkeypatch, count=2)
    assert ["cuda:0", "cuda:1"] == [ledger.device for ledger in machine.take().devices]
    assert ["cuda:1"] == [ledger.device for ledger in machine.take("cuda:1").devices]
    assert ["cuda:0", "cuda:1", "cpu"] == [d.device for d in machine.take("cpu").devices]
    assert ["cpu"] == [ledger.device for ledger in machine.take("host").devices]
    with pytest.raises(UnknownDeviceError, match="there is no device 'cuda:7' here"):
        machine.take("cuda:7")


def test_a_ledger_says_when_it_was_taken_and_what_the_inventory_noted(monkeypatch):
    ledger = Machine(monkeypatch).take()
    assert 2.0 == ledger.taken_at
    assert () == ledger.notes


@pytest.mark.parametrize(("count", "told"), [(0, []), (375, []), (16_037, ["frozen"])])
def test_what_python_keeps_out_of_sight_itself_is_told_as_no_freeze(monkeypatch, count, told):
    monkeypatch.setattr(gc, "get_freeze_count", lambda: count)  # 375 of types on Python 3.12.1
    assert told == [note.code for note in Machine(monkeypatch).take().notes]


def test_a_ledger_survives_json(monkeypatch):
    machine = Machine(monkeypatch, cards=[card("0", used=2 * GIB)])
    machine.driver.cards[0].uuid = "GPU-00000000-1111-2222-3333-4444"
    machine.driver.processes = {"Compute": [process(2**30, None)]}
    frames = [frame("train.py", 3, "step")]
    machine.cuda.devices[0].hold(segment(4096, block(1024, 1000), block(512, frames=frames)))
    machine.find(1000, 4096)
    ledger = machine.take("cpu")
    assert 2 == len(ledger.devices)
    assert ledger == from_json(Ledger, json.loads(json.dumps(to_json(ledger))))
