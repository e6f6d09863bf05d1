"""Sums of a record close whenever something is collected or freed while nbmem reads them."""

import gc
import os
import sys
import weakref

import pytest
import torch
from simulated_cuda import SimulatedCuda

import nbmem
from nbmem.devices import Devices
from nbmem.heap import StorageTable
from nbmem.heap.entries import DeviceTotal
from nbmem.inventory import take_inventory
from nbmem.origins import Origins
from nbmem.scopes import Scopes
from nbmem.session.recorder import Heading, Recorder
from nbmem.session.reruns import RunBook
from nbmem.session.troubles import Troubles
from nbmem.tracking import CpuTracker

MIB = 2**20
OWN = os.path.dirname(nbmem.__file__)


class AtLine:
    """Calls `act` before the n-th line of nbmem's own code that runs within it."""

    def __init__(self, at, act):
        self.lines = 0
        self._at = at
        self._act = act

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, event, _):
        return self._line if frame.f_code.co_filename.startswith(OWN) else None

    def _line(self, frame, event, _):
        if event == "line":
            self.lines += 1
            if self.lines == self._at:
                self._act()
        return self._line


class Machine:
    """A recorder over a table of its own; with `cuda`, torch's storages lie on a simulated GPU."""

    def __init__(self, monkeypatch, cuda):
        self.table = StorageTable()
        self.device = "cuda:0" if cuda else "cpu"
        self.allocator = None
        if cuda:
            self.allocator = SimulatedCuda(monkeypatch).devices[0]
            total = self.table._totals[self.device] = DeviceTotal(self.device)
            self.table._total_of[torch.device("cpu")] = total
        else:
            monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)
        tracker = CpuTracker(self.table)
        self.scopes = Scopes(self.table, tracker, Devices(tracker))
        self.names = {}
        self.troubles = Troubles()
        self.recorder = Recorder(
            self.scopes, self.inventory, Origins(), self.troubles, tracker.lines, RunBook()
        )

    def inventory(self):
        return take_inventory(self.table, self.names, now=0.0)

    def make(self, size):
        tensor = torch.empty(size, dtype=torch.uint8)
        if self.allocator is not None:
            self.allocator.allocate(size)
            at = len(self.allocator.blocks)
            weakref.finalize(tensor.untyped_storage(), self._free, size)
            assert at
        return tensor

    def _free(self, size):
        self.allocator.free(self.allocator.blocks.index(size))

    def litter(self, size):
        """Makes memory that only the collector frees."""
        cycle = [self.make(size)]
        cycle.append(cycle)


@pytest.fixture
def make_machine(monkeypatch):
    made = []

    def make(cuda):
        made.append(Machine(monkeypatch, cuda))
        return made[-1]

    gc.collect()
    gc.disable()  # the test decides when
    gc.freeze()  # and is not to wait for what other tests made
    yield make
    gc.unfreeze()
    gc.enable()
    for machine in made:
        machine.scopes.close_all()


def _run(machine, at, act):
    """One measured cell: it makes what stays, what goes and what only the collector frees."""
    machine.names = {"old": machine.make(3 * MIB), "gone": machine.make(5 * MIB)}
    machine.litter(7 * MIB)  # of an earlier cell
    with AtLine(at, lambda: act(machine)) as lines:
        opened = machine.recorder.open(Heading("x = 1"), None, scan=True)
        machine.names["kept"] = machine.make(2 * MIB)
        machine.names["alias"] = torch.from_dlpack(machine.names["kept"])
        del machine.names["gone"]
        machine.litter(8 * MIB)
        record = machine.recorder.close(opened)
    return record, lines.lines


def _collect(machine):
    gc.collect()


def _drop(machine):
    """As another thread, or a weak reference's callback, would."""
    machine.names.pop("old", None)
    machine.names.pop("kept", None)
    gc.collect()


def _make(machine):
    machine.names["late"] = machine.make(MIB // 2)
    gc.collect()


def _books(record, device):
    delta = record.devices[device]
    made = sum(storage.bytes for storage in record.created if storage.device == device)
    freed, resized = record.freed.get(device, 0), record.resized.get(device, 0)
    return delta.before + made - freed + resized, delta.after, delta.unattributed


@pytest.mark.parametrize("cuda", [False, True], ids=["cpu", "cuda"])
@pytest.mark.parametrize("act", [_collect, _drop])
def test_sums_close_wherever_something_is_collected_meanwhile(make_machine, cuda, act):
    _, lines = _run(make_machine(cuda), 0, act)
    assert lines > 500
    device = "cuda:0" if cuda else "cpu"
    outcomes = set()
    for at in range(1, lines, max(1, lines // 80)):
        machine = make_machine(cuda)
        record, _ = _run(machine, at, act)
        assert [] == [trouble.summary for trouble in machine.troubles.all()]
        told, after, rest = _books(record, device)
        assert (told, 0) == (after, rest), f"collected before line {at} of {lines}"
        outcomes.add(after)
        machine.scopes.close_all()
        machine.names.clear()
        gc.collect()
    assert len(outcomes) > 1  # it did matter when
