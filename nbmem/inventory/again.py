"""An inventory asked for again: handed out as it was where nothing changed.

Two marks are taken of what an inventory is made from, each a number: one of the names and the
containers they lead through, one of the tensors, storages and graphs that were found. Where both
are as they were, and somebody still holds the last inventory, that one is told again. Nothing is
kept alive: a mark is a number, and the inventory is held weakly.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter, mul
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap import StorageTable
from nbmem.heap.graphs import HOOKS
from nbmem.inventory.callables import held_by_function, held_by_method
from nbmem.inventory.natives import held_by_native, may_hold
from nbmem.inventory.paths import prints_itself
from nbmem.inventory.readers import Kind, Reader, may_hold_tensors, names_in_space, read_type
from nbmem.records import Inventory, StorageRecord

if TYPE_CHECKING:
    from nbmem.heap import Graph, HeapScan, StorageRef

MOST = 200_000
"""Containers of which a mark is taken; beyond that every inventory is made anew."""
_BASE: Any = torch._C.TensorBase
_shape_of = _BASE.shape.__get__
_dtype_of = _BASE.dtype.__get__
_serial_of = attrgetter("serial")  # never used again, as an address may be
_TEXTS = {id(str)}
Origin = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class _Memo:
    found: int
    named: int
    origins: object
    inventory: weakref.ref[Inventory]


_memos: weakref.WeakKeyDictionary[StorageTable, _Memo] = weakref.WeakKeyDictionary()


def recall(
    table: StorageTable,
    found: int | None,
    mark_names: Callable[[], int | None],
    origin_of: Callable[[int], Origin],
    origins: object,
    now: float,
) -> Inventory | None:
    """Returns the table's last inventory as of now, or None where anything changed since.

    Args:
        table: whose inventory.
        found: the mark of what a scan found just now.
        mark_names: takes the mark of the names.
        origin_of: as for `take_inventory`.
        origins: which state of the origins it is.
        now: seconds since the epoch.
    """
    memo = _memos.get(table)
    last = memo.inventory() if memo is not None else None
    if memo is None or last is None or found is None or memo.found != found:
        return None
    if mark_names() != memo.named:
        return None
    storages = last.storages
    if memo.origins != origins:
        storages = tuple(_with_origin(record, origin_of(record.key)) for record in storages)
    return replace(last, storages=storages, taken_at=now)


def _with_origin(record: StorageRecord, origin: Origin) -> StorageRecord:
    if (record.created_by, record.created_in, record.line) == origin:
        return record
    count, serial, line = origin
    return replace(record, created_by=count, created_in=serial, line=line)


def remember(
    table: StorageTable,
    found: int | None,
    named: int | None,
    origins: object,
    inventory: Inventory,
) -> None:
    """Keeps the marks of an inventory, and a weak reference to it."""
    if found is None or named is None:
        _memos.pop(table, None)
    else:
        _memos[table] = _Memo(found, named, origins, weakref.ref(inventory))


def mark_scan(table: StorageTable, scan: HeapScan) -> int | None:
    """Returns the mark of what a scan found; None where parts of tensors make it unsure."""
    if table.parts_seen:
        return None
    tensors, entries = scan.tensors, scan.entries
    ids = list(map(id, tensors))
    seen = zip(
        ids,
        map(_serial_of, map(entries.__getitem__, ids)),
        map(id, map(type, tensors)),
        map(_shape_of, tensors),
        map(id, map(_dtype_of, tensors)),
        strict=True,
    )
    found = sum(map(hash, seen))  # whatever their order, which a collection changes
    live = table.list_all(anew=False)
    storages = hash(tuple(map(_serial_of, live))), hash(tuple(map(attrgetter("bytes"), live)))
    shared = hash(tuple(table.groups()))
    return hash((found, len(ids), storages, shared, frozenset(scan.gradients), _mark_graph(scan)))


def _mark_graph(scan: HeapScan) -> int:
    graph, entries = scan.graph, scan.entries
    nodes = frozenset(
        (node.sequence, node.kind, node.hooks, _kept(graph, index, entries))
        for index, node in enumerate(graph.nodes)
    )
    return hash((nodes, frozenset(graph.roots())))


def _kept(graph: Graph, index: int, entries: Mapping[int, StorageRef]) -> tuple[Any, ...]:
    return tuple(
        (attribute, entries[id(tensor)].serial if id(tensor) in entries else id(tensor))
        for attribute, tensor in graph.kept(index)
    )


class NameMark:
    """Takes the mark of the names, a level of containers at a time, mostly in C.

    Nothing of the user's is called.
    """

    def __init__(self) -> None:
        self._readers: dict[int, Reader] = {}
        self._kinds: dict[int, int] = {}
        """Kinds of types by their ids; 0 for those that are walked past."""
        self._looked_at: set[int] = set()
        self._marks: list[Any] = []

    def take(self, *roots: Mapping[str, object]) -> int | None:
        """Returns the mark; None where there are too many containers, or one breaks the look."""
        level: list[Any] = []
        for names in roots:
            self._marks.append(_mark_keys(list(names)))
            level += names.values()
        while level:
            containers = self._mark(level)
            if len(self._looked_at) > MOST:
                return None
            level = []
            try:
                for value in containers:
                    before = len(level)
                    self._marks.append(self._open(value, level))
                    self._marks.append(len(level) - before)
            except Exception:  # another thread may change what is being looked into
                return None
        return hash(tuple(self._marks))

    def _mark(self, level: list[Any]) -> list[Any]:
        """Notes by identity what is not walked past; returns the containers not met before."""
        types = list(map(type, level))
        type_ids = list(map(id, types))
        for key, cls in dict(zip(type_ids, types, strict=True)).items():
            if key not in self._kinds:
                self._learn(key, cls)
        kinds = list(map(self._kinds.__getitem__, type_ids))
        ids = list(map(id, level))
        self._marks.append(hash(tuple(map(mul, ids, map(bool, kinds)))))
        self._marks.append(hash(tuple(type_ids)))
        tensor, looked_at = _TENSOR, self._looked_at
        found = [(o, key, k) for o, key, k in zip(level, ids, kinds, strict=True) if k]
        tensors = [o for o, _, k in found if k == tensor]
        bare = len(gc.get_referents(*tensors)) == len(tensors)  # nothing but its type each
        containers = []
        for value, key, kind in found:
            if not (kind == tensor and bare) and key not in looked_at and _holds(value, kind):
                looked_at.add(key)
                containers.append(value)
        return containers

    def _learn(self, key: int, cls: type) -> None:
        reader = self._readers[key] = read_type(cls)
        self._kinds[key] = int(reader.kind)

    def _open(self, value: Any, level: list[Any]) -> Any:
        """Adds what a container holds to the level; returns the mark of its names."""
        cls = type(value)
        if cls is list or cls is tuple:
            level += value
            return 0
        reader = self._readers[id(cls)]
        names = value if cls is dict or cls is OrderedDict else _attributes_of(value, reader)
        if names is not None:
            keys = list(names)
            if set(map(id, map(type, keys))) == _TEXTS:
                level += names.values()
                return hash(tuple(keys))
        mark, children = self._children(value, reader)
        level += children
        return mark

    def _children(self, value: Any, reader: Reader) -> tuple[Any, list[Any]]:
        """Returns the mark of the names of what a container holds, and what it holds."""
        kind = reader.kind
        if kind is Kind.FUNCTION or kind is Kind.METHOD:
            held = (held_by_function if kind is Kind.FUNCTION else held_by_method)(value)
            return _mark_keys([name for _, name, _ in held]), [child for _, _, child in held]
        if kind is Kind.NATIVE:
            steps = held_by_native(value, reader)
            keys = tuple((int(step), repr(key)) for step, key, _ in steps)
            return hash(keys), [child for _, _, child in steps]
        if kind is Kind.SPACE:
            names = names_in_space(value) or {}
            return _mark_keys(list(names)), list(names.values())
        if kind is Kind.OPAQUE:
            return None, gc.get_referents(value)
        if kind is Kind.ARRAY:
            elements = value.ravel().tolist() if value.dtype.kind == "O" else []
            return value.shape, [value.base, *elements]
        return self._children_of_container(value, reader)

    def _children_of_container(self, value: Any, reader: Reader) -> tuple[Any, list[Any]]:
        keys: list[Any] = []
        children: list[Any] = []
        if reader.kind is Kind.DICT:
            keys, children = list(dict.keys(value)), list(dict.values(value))
            children += [key for key in keys if type(key) is not str]
        elif reader.iterate is not None:
            children = list(reader.iterate(value))
        elif reader.kind is Kind.TENSOR and issubclass(reader.cls, torch.Tensor):
            children = [hooks_of(value) for _, hooks_of in HOOKS]
        if reader.show is not None:
            held = reader.show(value).held
            keys += [key for _, key, _ in held]
            children += [child for _, _, child in held]
        for _, slot in reader.slots:
            try:
                children.append(slot.__get__(value))
            except AttributeError:  # declared and never set
                children.append(None)
        if reader.dict_of is not None:
            attributes = reader.dict_of.__get__(value)
            keys += list(dict.keys(attributes))
            children += list(dict.values(attributes))
        return _mark_keys(keys), children


def _attributes_of(value: Any, reader: Reader) -> dict[Any, Any] | None:
    """Returns the attributes of what holds nothing besides; None for everything else."""
    only = reader.kind in _ATTRIBUTES_ONLY and reader.show is None
    if not only or reader.slots or reader.dict_of is None:
        return None
    attributes: dict[Any, Any] = reader.dict_of.__get__(value)
    return attributes if type(attributes) is dict else None


_ATTRIBUTES_ONLY = frozenset((Kind.MODULE, Kind.OPTIMIZER, Kind.INSTANCE))


def _holds(value: Any, kind: int) -> bool:
    """Returns whether there can be anything in it."""
    if kind == _DICT:
        return bool(dict.__len__(value)) and may_hold_tensors(value)
    if kind == _TENSOR:
        return len(gc.get_referents(value)) > 1
    if kind == _NATIVE:
        return may_hold(value)
    if kind == _TUPLE:
        return may_hold_tensors(value)
    return kind != _NODE and (kind != _SET or bool(gc.get_referents(value)))


_DICT, _TENSOR, _SET, _TUPLE, _NODE, _NATIVE = map(
    int, (Kind.DICT, Kind.TENSOR, Kind.SET, Kind.TUPLE, Kind.NODE, Kind.NATIVE)
)


def _mark_keys(keys: Iterable[Any]) -> int:
    """Returns the mark of keys: as they print where they do, else by identity.

    By their hashes -1 and -2 would be one key, and True would be 1.
    """
    keys = list(keys)
    if set(map(id, map(type, keys))) == _TEXTS:
        return hash(tuple(keys))
    return hash(tuple(repr(key) if prints_itself(key) else id(key) for key in keys))
