"""Public accessors of libraries for what they keep in private attributes.

A data frame keeps its cells in blocks of arrays (`df._mgr`), and its user writes `df['acts'][0]`.
The table says for some classes what their accessors return, read from where it is kept: by C
descriptors and instance dicts. Neither an accessor nor a property is run.
"""

from __future__ import annotations

import sys
import types
from collections import UserDict, UserList
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from nbmem.inventory.callables import Held
from nbmem.inventory.paths import Step, prints_itself

_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_name_of = type.__dict__["__name__"].__get__
_ACCESSORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class Shown(NamedTuple):
    """What the public accessors of one object lead to."""

    held: Held
    between: list[Any]
    """Objects that only stand between it and what it holds."""
    instead: tuple[str, ...] = ()
    """Attributes in which there is nothing else: none where they are not as they are known."""


Show = Callable[[Any], Shown]


def accessors_of(cls: type) -> Show | None:
    """Returns what reads the instances of a class as the table says; runs no code of the class."""
    for base in _mro_of(cls):
        module = _namespace_of(base).get("__module__")
        if type(module) is not str:
            continue
        package = module.partition(".")[0]
        row = _TABLE.get((package, _name_of(base)))
        if row is not None and (package != "collections" or not _subscribes_itself(cls)):
            return row
    return None


def read_attribute(thing: Any, name: str) -> Any:
    """Returns what an object keeps under a name, as its C type or its `__dict__` has it, or None.

    A property is not asked.
    """
    for base in _mro_of(type(thing)):
        found = _namespace_of(base).get(name)
        if type(found) in _ACCESSORS:
            try:
                return found.__get__(thing)
            except AttributeError:  # declared and never set
                return None
    held = _instance_dict(thing)
    return dict.get(held, name) if issubclass(type(held), dict) else None


def _instance_dict(thing: Any) -> Any:
    for base in _mro_of(type(thing)):
        dict_of = _namespace_of(base).get("__dict__")
        if type(dict_of) in _ACCESSORS:
            return dict_of.__get__(thing)
    return None


def _read_way(thing: Any, *names: str) -> list[Any]:
    """Returns what attributes of attributes are, one after the other, as far as they go."""
    found: list[Any] = []
    for name in names:
        thing = read_attribute(thing, name)
        if thing is None:
            break
        found.append(thing)
    return found


# -- dicts and lists behind a class --------------------------------------------------------------


def _subscribes_itself(cls: type) -> bool:
    """Returns whether `d[key]` of a subclass may be something else than what `d.data` has there."""
    for base in _mro_of(cls):
        getter = _namespace_of(base).get("__getitem__")
        if getter is not None:
            module = _namespace_of(base).get("__module__")
            known = type(module) is str and module.partition(".")[0] in _PLAIN_GETTERS
            return not known
    return True


_PLAIN_GETTERS = ("collections", "transformers")
"""Whose classes over `UserDict` look a text up in `data`."""


def _entries(table: Any) -> Held:
    held = Held()
    for at, (key, value) in enumerate(list(dict.items(table))):
        held.append((Step.KEY, key, value) if prints_itself(key) else (Step.VALUE_AT, at, value))
        if type(key) is not str:
            held.append((Step.KEY_AT, at, key))
    return held


def _attributes(table: Any) -> Held:
    """Returns the entries of a dict that is read like attributes."""
    if not issubclass(type(table), dict):
        return []
    pairs = list(dict.items(table))
    return [(Step.ATTRIBUTE, name, value) for name, value in pairs if type(name) is str]


def _show_user_dict(thing: Any) -> Shown:
    return _show_entries(thing, "data")


def _show_user_list(thing: Any) -> Shown:
    items = read_attribute(thing, "data")
    if not issubclass(type(items), list):
        return _NOTHING
    listed = enumerate(list(list.__iter__(items)))
    return Shown([(Step.ITEM, at, item) for at, item in listed], [items], ("data",))


def _show_tensor_dict(thing: Any) -> Shown:
    return _show_entries(thing, "_tensordict")


def _show_entries(thing: Any, name: str) -> Shown:
    """Returns the entries of the dict under an attribute."""
    table = read_attribute(thing, name)
    if not issubclass(type(table), dict):
        return _NOTHING
    return Shown(_entries(table), [table], (name,))


# -- torch_geometric -------------------------------------------------------------------------------


def _show_storage(store: Any) -> Shown:
    mapping = read_attribute(store, "_mapping")
    if not issubclass(type(mapping), dict):
        return _NOTHING
    return Shown(_attributes(mapping), [mapping], ("_mapping",))


def _show_data(data: Any) -> Shown:
    return _through(data, "_store")


def _show_hetero_data(data: Any) -> Shown:
    shown = _through(data, "_global_store")
    held, between, instead = list(shown.held), list(shown.between), shown.instead
    for name in ("_node_store_dict", "_edge_store_dict"):
        stores = _show_entries(data, name)
        held += stores.held
        between += stores.between
        instead += stores.instead
    return Shown(held, between, instead)


def _through(data: Any, name: str) -> Shown:
    """Returns what a data object hands out of its store; the store's own attributes go along."""
    store = read_attribute(data, name)
    held, between, known = _show_storage(store)
    if not known:
        return _NOTHING
    own = _attributes(_instance_dict(store))
    others = [one for one in own if one[1] not in (*known, "_parent")]
    return Shown(held + others, [store, *between], (name,))


# -- Lightning -------------------------------------------------------------------------------------

_OF_STRATEGY = (
    ("lightning_module", "_lightning_module"),
    ("model", "_model"),
    ("optimizers", "_optimizers"),
)


def _show_strategy(strategy: Any) -> Shown:
    found = [(name, kept, read_attribute(strategy, kept)) for name, kept in _OF_STRATEGY]
    held = [(Step.ATTRIBUTE, name, one) for name, _, one in found if one is not None]
    return Shown(held, [], tuple(kept for _, kept, one in found if one is not None))


def _show_trainer(trainer: Any) -> Shown:
    held = Held()
    for strategy in _read_way(trainer, "_accelerator_connector", "strategy")[1:]:
        held += _show_strategy(strategy).held
        held.append((Step.ATTRIBUTE, "strategy", strategy))
    for loader in _read_way(trainer, "fit_loop", "_combined_loader", "_iterables")[2:]:
        held.append((Step.ATTRIBUTE, "train_dataloader", loader))
    return Shown(held, [])


# -- pandas ----------------------------------------------------------------------------------------


def _show_frame(frame: Any) -> Shown:
    """Returns the cells of a data frame or series that hold objects, and its own attributes."""
    manager = read_attribute(frame, "_mgr")
    blocks, axes = read_attribute(manager, "blocks"), read_attribute(manager, "axes")
    if type(blocks) is not tuple or type(axes) is not list:
        return _NOTHING
    shown = Shown([], [manager, blocks], ("_mgr", "_item_cache", "_attrs"))
    attributes = read_attribute(frame, "_attrs")
    if attributes:
        shown.held.append((Step.ATTRIBUTE, "attrs", attributes))
    labels = [_Labels(axis) for axis in axes]
    for at, block in enumerate(blocks):
        values = read_attribute(block, "values")
        if not _is_array(values):
            continue
        shown.between.extend((block, values))
        if values.dtype.kind == "O":
            shown.held.extend(_cells(values, _places_of(block), labels))
        elif values.base is not None:
            shown.held.append((Step.INSIDE_AT, at, values))  # it may be memory of a tensor
    return shown


def _is_array(thing: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(thing) is numpy.ndarray


def _places_of(block: Any) -> Any:
    """Returns which columns a block has: a slice or an array of positions, or None."""
    placement = read_attribute(block, "_mgr_locs")
    return read_attribute(placement, "indexer")


def _cells(values: Any, places: Any, labels: list[_Labels]) -> Held:
    if values.ndim == 1:
        rows = labels[0]
        return [(Step.SHOWN, rows.of_item(at), one) for at, one in _objects(values)]
    if type(places) is slice:
        columns: Iterable[int] = range(places.start, places.stop, places.step or 1)
    else:
        columns = map(int, places.tolist()) if _is_array(places) else ()
    held = Held()
    for column, listed in zip(columns, values, strict=False):
        for at, one in _objects(listed):
            held.append((Step.SHOWN, _cell(labels[0], labels[1], column, at), one))
    return held


def _objects(values: Any) -> list[tuple[int, Any]]:
    """Returns the objects in an array, with their positions; texts and numbers are left out."""
    listed = values.tolist()
    if _PLAIN.issuperset(map(id, map(type, listed))):
        return []
    return [(at, one) for at, one in enumerate(listed) if id(type(one)) not in _PLAIN]


_PLAIN = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))


class _Labels:
    """The labels of one axis, read when one is asked for."""

    def __init__(self, axis: Any) -> None:
        self._axis = axis
        self._read: Any = False

    def of_item(self, at: int) -> str:
        """Returns how an item is taken by its label, or by its position: `['a']`, `.iloc[0]`."""
        label = self.at(at)
        return f".iloc[{at}]" if label is None else f"[{label}]"

    def at(self, position: int) -> str | None:
        """Returns the label at a position as it is written; None where it finds nothing else."""
        if self._read is False:
            self._read = self._read_all()
        label = None if self._read is None else self._read[position]
        return None if label is None or not prints_itself(label) else repr(label)

    def _read_all(self) -> Any:
        numbers = read_attribute(self._axis, "_range")
        if type(numbers) is range:
            return numbers
        data = read_attribute(self._axis, "_data")
        if not _is_array(data):
            data = read_attribute(data, "_ndarray") if data is not None else None
        if not _is_array(data):
            data = read_attribute(read_attribute(self._axis, "_data"), "_pa_array")
            if _of_arrow(data):
                listed = data.to_pylist() if len(data) <= _MOST_LABELS else None
                return listed if listed and len(set(listed)) == len(listed) else None
            return None
        if data.dtype.kind not in "iufbOU":
            return None
        listed = data.tolist()
        plain = _PLAIN.issuperset(map(id, map(type, listed)))  # else it would be asked for its hash
        return listed if plain and len(set(listed)) == len(listed) else None


_MOST_LABELS = 100_000


def _of_arrow(data: Any) -> bool:
    arrow = sys.modules.get("pyarrow.lib")
    return arrow is not None and type(data) is vars(arrow).get("ChunkedArray")


def _cell(columns: _Labels, rows: _Labels, column: int, row: int) -> str:
    label = columns.at(column)
    if label is None:
        return f".iloc[{row}, {column}]"
    return f"[{label}]{rows.of_item(row)}"


_NOTHING = Shown([], [])
_LIGHTNING = ("lightning", "pytorch_lightning")
_TABLE: dict[tuple[str, str], Show] = {
    ("collections", UserDict.__name__): _show_user_dict,
    ("collections", UserList.__name__): _show_user_list,
    ("pandas", "DataFrame"): _show_frame,
    ("pandas", "Series"): _show_frame,
    ("tensordict", "TensorDict"): _show_tensor_dict,
    ("torch_geometric", "BaseStorage"): _show_storage,
    ("torch_geometric", "Data"): _show_data,
    ("torch_geometric", "TemporalData"): _show_data,
    ("torch_geometric", "HeteroData"): _show_hetero_data,
    **{(package, "Trainer"): _show_trainer for package in _LIGHTNING},
    **{(package, "Strategy"): _show_strategy for package in _LIGHTNING},
}
"""By package and class; what a subclass of the user's adds is read besides."""
