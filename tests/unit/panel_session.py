"""A session for the panel's tests: records, counters and acts are what the test writes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from nbmem.records import (
    CellRecord,
    DeviceDelta,
    DeviceLedger,
    DeviceReading,
    Holders,
    Inventory,
    Leak,
    LeakReport,
    Ledger,
    LedgerLine,
    LedgerSum,
    PathStep,
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


def leak(size, *steps, kind="stale_error", holder="traceback", **more):
    """A leak held by a way of texts."""
    facts = {
        "count": 1,
        "created_by": 7,
        "reason": f"{steps[0]} keeps it.",
        "remedy": "drop(it)",
        "cost": "",
        "storages": (1,),
        "cuts": (steps[0],),
    }
    path = tuple(PathStep("step", text) for text in steps)
    return Leak(bytes=size, kind=kind, holder=holder, path=path, **{**facts, **more})


class ScriptedWatcher:
    """Says which cell runs, as a test wants it."""

    def __init__(self):
        self.running = None
        self.listeners = []

    def subscribe(self, callback):
        self.listeners.append(callback)
        return lambda: callback in self.listeners and self.listeners.remove(callback)

    def begin(self, cell):
        self.running = cell
        for callback in list(self.listeners):
            callback()


class ScriptedSampler:
    """Tells of the running cell what a test wants told."""

    def __init__(self):
        self.listeners = []

    def subscribe(self, callback):
        self.listeners.append(callback)
        return lambda: callback in self.listeners and self.listeners.remove(callback)

    def tell(self, reading):
        for callback in list(self.listeners):
            callback(reading)


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
        self.watcher = ScriptedWatcher()
        self.sampler = ScriptedSampler()
        self.leaks = []
        self.searches = 0
        self.notes = ()
        self.below = 0
        self.held = []
        self.costs = ()
        self.comes_back = None

    def find_leaks(self):
        self.searches += 1
        return LeakReport(tuple(self.leaks), 1_000_000.0, 256 * 1024, self.below, self.notes)

    def find_holders(self, keys):
        self.acts.append(("holders", tuple(keys)))
        return Holders(tuple(held for held in self.held if held.key in keys))

    def plan_reclaim(self, targets=None, *, everything=False):
        chosen = self._targets(targets, everything)
        self.acts.append(("plan", self._asked(targets, everything)))
        planned = tuple(f"free {each.path_text}" for each in chosen)
        promised = sum(each.bytes for each in chosen)
        return self._report(planned, (), 4 * MIB, None, promised, chosen)

    def reclaim(self, targets=None, *, everything=False):
        chosen = self._targets(targets, everything)
        self.acts.append(("reclaim", self._asked(targets, everything)))
        self.leaks = [each for each in self.leaks if each not in chosen]
        promised = sum(each.bytes for each in chosen)
        freed = promised if self.comes_back is None else self.comes_back
        dropped = tuple(f"free {each.path_text}" for each in chosen)
        self.tell()
        return self._report(dropped, dropped, 4 * MIB, 4 * MIB - freed, promised, chosen)

    def _targets(self, targets, everything):
        if targets is not None:
            texts = {target for target in targets if isinstance(target, str)}
            return [each for each in self.leaks if each in targets or texts & {*each.sources}]
        return [each for each in self.leaks if everything or not each.cost]

    def _asked(self, targets, everything):
        asked = targets and [getattr(each, "path_text", each) for each in targets]
        return "all" if everything else asked

    def _report(self, planned, dropped, before, after, promised, chosen):
        return ReclaimReport(
            "reclaim", planned, dropped, self.refused, before, after, "torch storages on cpu",
            costs=tuple(each.cost for each in chosen if each.cost), promised=promised,
        )  # fmt: skip

    def end_cell(self):
        self.watcher.running = None
        self.tell()

    def take_inventory(self):
        self.scans += 1
        return Inventory(tuple(self.storages), 1_000_000.0)

    def take_ledger(self):
        self.ledgers += 1
        return self.ledger

    def read_devices(self, *, scan=True):
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
