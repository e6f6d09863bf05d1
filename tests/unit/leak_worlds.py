"""Hand-made facts of small worlds, for tests of judging: no torch, nothing alive."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nbmem.leaks import judge_leaks
from nbmem.origins import CellRun, Origin
from nbmem.records import Chain, HeldStorage, Holders, Inventory, PathStep, StorageRecord

MIB = 2**20
THRESHOLD = 256 * 1024
NOW = 1.7e9
_KINDS = {
    "Out[": "output",
    "_": "output",
    "traceback": "traceback",
    "graph": "graph",
    "local": "local",
    "hook": "hook",
    "thread": "thread",
    "a cycle": "cycle",
    "['": "dict entry",
    "[": "list item",
    ".": "attribute",
}


def path(*texts):
    """Returns steps of these texts, of the kinds that they begin like."""
    return tuple(PathStep(_kind_of(text, not n), text) for n, text in enumerate(texts))


def _kind_of(text, first):
    for start, kind in _KINDS.items():
        if text.startswith(start):
            return kind
    return "variable" if first and text.isidentifier() else "step"


def chain(holder, cut, *texts, **more):
    return Chain(path(*(texts or (cut,))), holder, more.pop("wanted", False), cut, **more)


def storage(key, *names, size=MIB, category="user", made_by=3, device="cpu", module=None):
    return StorageRecord(
        key=key,
        bytes=size,
        device=device,
        dtype="float32",
        shape=(size // 4,),
        category=category,
        names=names,
        created_by=made_by,
        created_in=made_by,
        views=1,
        visible=bool(names),
        module=module,
    )


def made(count, *, run=None, name="", cell=1):
    """Returns who made a storage: cell `[count]`, in a run of a cell."""
    runs = () if run is None else (CellRun(cell, run),)
    return Origin(count or 0, count, name, None, runs)


@dataclass(frozen=True)
class World:
    """All that a judgement reads."""

    storages: tuple = ()
    held: dict = field(default_factory=dict)
    """By key: the chains of a storage that no value needs."""
    needed: tuple = ()
    """Keys of storages among `held` that some value needs."""
    facts: dict = field(default_factory=dict)
    """`graphs`, `views`, … of `Holders`."""
    origins: dict = field(default_factory=dict)
    runs: tuple = ()
    last: int | None = 9
    complete: bool = True
    threshold: int = THRESHOLD

    def but(self, **changes):
        """Returns the world with facts changed."""
        return replace(self, **changes)

    @property
    def inventory(self):
        ordered = sorted(self.storages, key=lambda one: (-one.bytes, one.key))
        return Inventory(tuple(ordered), NOW)

    @property
    def holders(self):
        sizes = {one.key: one.bytes for one in self.storages}
        held = [
            HeldStorage(key, sizes.get(key, 0), tuple(chains), wanted=key in self.needed)
            for key, chains in self.held.items()
        ]
        return Holders(tuple(held), complete=self.complete, **self.facts)

    def judge(self):
        return judge_leaks(
            self.inventory,
            self.holders,
            origin_of=self.origins.get,
            runs=self.runs,
            last_count=self.last,
            threshold=self.threshold,
            now=NOW,
        )

    def leak(self):
        """Returns the one leak there is."""
        (leak,) = self.judge().leaks
        return leak


def held_by(holder, cut, *texts, **more):
    """Returns a world of one storage that one chain holds."""
    return World((storage(1),), {1: [chain(holder, cut, *texts, **more)]})
