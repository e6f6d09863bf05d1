"""A session for the panel's tests: records, counters and acts are what the test writes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from nbmem.records import (
    CellRecord,
    DeviceDelta,
    DeviceLedger,
    DeviceReading,
    Inventory,
    Ledger,
    LedgerLine,
    LedgerSum,
    ReclaimReport,
    StorageRecord,
)

MIB = 1024 * 1024


def storage(key, size, names=None, category="user", **more):
    return StorageRecord(
        key=key,
        bytes=size,
        device=more.pop("device", "cpu"),
        dtype="float32",
        shape=more.pop("shape", (size // 4,)),
        category=category,
        names=(f"x{key}",) if names is None else tuple(names),
        created_by=more.pop("created_by", 3),
        created_in=1,
        views=more.pop("views", 1),
        visible=more.pop("visible", True),
        **more,
    )


def cell(serial, before, after, peak, created=(), **more):
    device = more.pop("device", "cpu")
    capacity = more.pop("capacity", 8 * 1024 * MIB)
    change = None if None in (before, after) else after - before
    delta = DeviceDelta(device, before, after, change, peak, None, None, capacity)
    record = CellRecord(
        serial=serial,
        execution_count=serial,
        cell_id=None,
        label=None,
        first_line=f"x{serial} = make()",
        run=1,
        started_at=0.0,
        seconds=0.25,
        status="ok",
        error=None,
        devices={device: delta},
        created=tuple(created),
        freed={},
        resized={},
    )
    return replace(record, **more)


def reading(device="cpu", kind="cpu", allocated=0, **more):
    figures = dict.fromkeys(
        ("name", "peak_allocated", "requested", "active", "reserved", "driver_used", "capacity")
    )
    return DeviceReading(device=device, kind=kind, allocated=allocated, **{**figures, **more})


def ledger(*lines, total, device="cpu", **more):
    """A ledger of one sum: pairs of code and bytes."""
    told = tuple(LedgerLine(code, code, size) for code, size in lines)
    one = LedgerSum("storages", told, LedgerLine("total", "torch's storages", total))
    return Ledger((DeviceLedger(device, "cpu", None, (one,), **more),), 1_000_000.0)


class ScriptedSession:
    """Answers what a test wrote, and lists what it was asked to do."""

    def __init__(self, *records):
        self.list = list(records)
        self.history = SimpleNamespace(records=lambda: tuple(self.list))
        self.settings = SimpleNamespace(units="IEC")
        self.storages = []
        self.readings = [reading(), reading("host", "host", 256 * MIB)]
        self.refused = ()
        self.acts = []
        self.scans = 0
        self.ledger = ledger(("parameter", MIB), ("user", 2 * MIB), total=3 * MIB)
        self.ledgers = 0
        self.subscribers = []
        self.closed = False

    def take_inventory(self):
        self.scans += 1
        return Inventory(tuple(self.storages), 1_000_000.0)

    def take_ledger(self):
        self.ledgers += 1
        return self.ledger

    def read_devices(self):
        return self.readings

    def plan_drop(self, keys):
        self.acts.append(("plan", tuple(keys)))
        planned = tuple(f"del x{key}" for key in keys)
        return ReclaimReport("del", planned, (), self.refused, None, None, "torch storages on cpu")

    def drop_storages(self, keys):
        self.acts.append(("drop", tuple(keys)))
        before = sum(each.bytes for each in self.storages)
        self.storages = [each for each in self.storages if each.key not in keys]
        after = sum(each.bytes for each in self.storages)
        self.tell()
        return ReclaimReport("del", (), (), self.refused, before, after, "torch storages on cpu")

    def collect(self):
        self.acts.append(("collect",))
        return ReclaimReport("gc.collect()", (), (), (), MIB, MIB, "torch storages on cpu")

    def empty_cache(self):
        self.acts.append(("empty",))
        raise RuntimeError("the driver said <b>no</b>")

    def subscribe(self, callback):
        self.subscribers.append(callback)
        return lambda: callback in self.subscribers and self.subscribers.remove(callback)

    def tell(self):
        for callback in list(self.subscribers):
            callback()
