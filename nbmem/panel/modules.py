"""Modules as rows with bars: the children of one module, then the storages it holds itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbmem.panel.columns import (
    ELASTIC,
    Column,
    TableData,
    bar_parts,
    figures,
    floats,
    one_line,
    track,
)
from nbmem.panel.live_columns import storage_name, storage_tip
from nbmem.totals import module_tree, sort_storages, split_module
from nbmem.units import format_bytes, format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.records import StorageRecord
    from nbmem.totals import ModuleTotal, ModuleTree
    from nbmem.units import Units

MOST_ROWS = 300
TOP = "all modules"


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One row: a module that can be entered, or what stands beside the modules."""

    label: str
    bytes: int
    by_category: Mapping[str, int]
    tip: str
    enters: str | None = None
    """Path of the module that a choice leads to; None: it leads nowhere."""
    key: int = 0
    """The same for the same row each time, and of no other row of any level."""


@dataclass(frozen=True, slots=True)
class ModuleLevel:
    """What is shown of the tree: one module, or its top."""

    path: str
    """Empty: the top."""
    crumbs: tuple[tuple[str, str], ...]
    """Word and path of each step from the top to here."""
    rows: tuple[ModuleRow, ...]
    bytes: int
    hidden: int
    """Rows left out."""


class ModuleWalk:
    """Where in the tree of modules the user stands."""

    def __init__(self) -> None:
        self._storages: Sequence[StorageRecord] = ()
        self._tree: ModuleTree | None = None
        self._path: str | None = None
        self._keys: dict[str, int] = {}

    def follow(self, storages: Sequence[StorageRecord]) -> None:
        """Takes what is alive now."""
        self._storages = storages
        self._tree = module_tree(storages)

    @property
    def is_empty(self) -> bool:
        """Whether no storage belongs to a module that has a name."""
        return self._tree is None or not self._tree.roots

    def enter(self, path: str) -> None:
        """Goes to a module; empty: to the top."""
        self._path = path

    def summary(self, units: Units) -> str:
        """Returns how much belongs to modules: `model 512 MiB`, `3 modules, 1.20 GiB`."""
        roots = self._tree.roots if self._tree is not None else ()
        size = format_bytes(sum(root.bytes for root in roots), units)
        return f"{one_line(roots[0].name, 24)} {size}" if len(roots) == 1 else (
            f"{len(roots):,} modules, {size}" if roots else ""
        )  # fmt: skip

    def level(self, units: Units) -> ModuleLevel:
        """Returns the rows of where the user stands; the only module there is stands open."""
        here, parents = self._find()
        if here is None:
            rows = self._top_rows(units)
        else:
            rows = [_module_row(child, here.name, here.bytes, units) for child in here.children]
            rows += self._own_rows(here, units)
        whole = sum(row.bytes for row in rows) if here is None else here.bytes
        path = "" if here is None else here.name
        chain = [*parents, here] if here is not None else []
        crumbs = [(TOP, ""), *((_step(each, before), each.name) for before, each in _pairs(chain))]
        shown = [self._with_key(row, f"{path} {n}") for n, row in enumerate(rows[:MOST_ROWS])]
        return ModuleLevel(path, tuple(crumbs), tuple(shown), whole, len(rows) - len(shown))

    def _with_key(self, row: ModuleRow, place: str) -> ModuleRow:
        identity = row.enters or place
        return replace(row, key=self._keys.setdefault(identity, 1 + len(self._keys)))

    def _find(self) -> tuple[ModuleTotal | None, list[ModuleTotal]]:
        """Returns the module at the path, or the nearest above that there still is."""
        roots = self._tree.roots if self._tree is not None else ()
        if self._path is None:
            return (roots[0], []) if len(roots) == 1 else (None, [])
        chain: list[ModuleTotal] = []
        below: Sequence[ModuleTotal] = roots
        while found := next((each for each in below if _holds(each.name, self._path)), None):
            chain.append(found)
            below = found.children
        return (chain[-1], chain[:-1]) if chain else (None, [])

    def _top_rows(self, units: Units) -> list[ModuleRow]:
        if self._tree is None:
            return []
        none = self._tree.none
        whole = none.bytes + sum(root.bytes for root in self._tree.roots)
        rows = [_module_row(root, "", whole, units) for root in self._tree.roots]
        if none.count:
            tip = f"{format_count(none.count, 'storage')} of no module that has a name"
            rows.append(ModuleRow("(no module)", none.bytes, none.by_category, tip))
        return rows

    def _own_rows(self, here: ModuleTotal, units: Units) -> list[ModuleRow]:
        own = sort_storages(s for s in self._storages if s.module == here.name)
        return [
            ModuleRow(
                storage_name(storage),
                storage.bytes,
                {storage.category: storage.bytes},
                storage_tip(storage, units),
            )
            for storage in own
        ]


def _holds(name: str, path: str) -> bool:
    steps = split_module(name)
    return steps == split_module(path)[: len(steps)]


def _pairs(chain: list[ModuleTotal]) -> list[tuple[str, ModuleTotal]]:
    return [(chain[n - 1].name if n else "", each) for n, each in enumerate(chain)]


def _step(module: ModuleTotal, parent: str) -> str:
    """Returns the part of its name that is its own: `conv1` of `model.layer3.conv1`."""
    return module.name[len(parent) + 1 :] if parent else module.name


def _module_row(module: ModuleTotal, parent: str, whole: int, units: Units) -> ModuleRow:
    share = f", {format_share(module.bytes, whole)}" if whole else ""
    kinds = [f"{word} {format_bytes(size, units)}" for word, size in module.by_category.items()]
    tip = "\n".join(
        [
            one_line(module.name),
            f"{format_count(module.count, 'storage')}, {format_bytes(module.bytes, units)}{share}",
            ", ".join(kinds),
        ]
    )
    label = _step(module, parent)
    if label.isdecimal() and parent:  # of a Sequential: a number alone says little
        label = f"{split_module(parent)[-1]}.{label}"
    return ModuleRow(label, module.bytes, module.by_category, tip, module.name)


def module_table(level: ModuleLevel, units: Units) -> TableData:
    """Returns the level as a table."""
    rows = level.rows
    most = max((row.bytes for row in rows), default=0)
    sizes = figures([row.bytes for row in rows], units)
    labels = [f"{one_line(row.label)}{' ›' if row.enters is not None else ''}" for row in rows]
    return TableData(
        columns=[
            Column("module", "Choose one to look into it", "name", ELASTIC, labels),
            Column("by category", "Bytes by category, beside the largest here", "bar",
                   "minmax(80px, 1.2fr)", [""] * len(rows), narrow="minmax(60px, 1fr)",
                   bars=[bar_parts(row.by_category, most) for row in rows]),
            Column(sizes.unit, "Bytes of all that is inside", "figure",
                   track([sizes.unit, *sizes.texts]), sizes.texts,
                   floats([row.bytes for row in rows])),
        ],
        keys=[row.key for row in rows],
        tips=[row.tip for row in rows],
        empty="Nothing of this module is alive.",
        unlisted=f"{format_count(level.hidden, 'smaller row')} not shown" if level.hidden else "",
    )  # fmt: skip
