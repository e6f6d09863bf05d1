"""A machine with simulated GPUs, of which a test says what lies where."""

import sys
from types import SimpleNamespace

from simulated_cuda import SimulatedCuda
from simulated_nvml import FakeDriver

from nbmem.devices import Devices
from nbmem.ledger import take_ledger
from nbmem.records import Inventory, StorageRecord

KIB, MIB, GIB = 2**10, 2**20, 2**30


class Storage:
    """A storage on a GPU: the part of torch's that can be asked where there is none."""

    def __init__(self, size, address, device="cuda:0", category="user", listed=True):
        self.size = size
        self.address = address
        self.device = device
        self.category = category
        self.listed = listed
        """Whether the inventory has it."""
        self.alive = True

    def nbytes(self):
        return self.size

    def data_ptr(self):
        if self.address is None:
            raise RuntimeError("Attempted to access the data pointer on an invalid python storage.")
        return self.address


class Reference:
    """A storage's entry in the table."""

    def __init__(self, serial, storage):
        self.serial, self.storage = serial, storage
        self.bytes, self.device = storage.size, storage.device

    def __call__(self):
        return self.storage if self.storage.alive else None


class Machine:
    """Simulated GPUs, the driver, and what nbmem found on them."""

    def __init__(self, monkeypatch, *, count=1, started=True, cards=()):
        self.cuda = SimulatedCuda(monkeypatch, count=count, started=started)
        self.driver = FakeDriver(*cards) if cards else None
        monkeypatch.setitem(sys.modules, "pynvml", self.driver)
        self.storages = []
        counter = SimpleNamespace(device="cpu", allocated=lambda: 0)
        self.devices = Devices(counter)

    def find(self, size, address, **more):
        self.storages.append(Storage(size, address, **more))
        return self.storages[-1]

    def take(self, device=None):
        references = [Reference(serial, s) for serial, s in enumerate(self.storages, 1)]
        table = SimpleNamespace(live=lambda: references, bytes_on=lambda _: 0)
        records = tuple(
            record(reference.serial, reference.storage)
            for reference in references
            if reference.storage.listed
        )
        inventory = Inventory(records, 1.0)
        return take_ledger(inventory, table, self.devices, device=device, now=2.0)

    def gpu(self, index=0):
        """Returns the ledger of one GPU."""
        return self.take().devices[index]


def record(key, storage):
    return StorageRecord(
        key, storage.size, storage.device, "uint8", (storage.size,), storage.category,
        (), None, None, 1, True,
    )  # fmt: skip


def lines(one_sum):
    """Returns the bytes of each line by its code."""
    return {line.code: line.bytes for line in one_sum.lines}


def sum_called(ledger, code):
    (found,) = [one for one in ledger.sums if one.code == code]
    return found


def sentences(notes):
    return [note.sentence for note in notes]


def closes(one_sum):
    """Returns whether the lines add up to the total by hand, with at most one that is derived."""
    added = sum(line.bytes for line in one_sum.lines if line.part_of is None)
    derived = sum(line.derived for line in one_sum.lines)
    return derived <= 1 and added == one_sum.total.bytes
