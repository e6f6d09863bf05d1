"""What a walk does at each kind of container: which of its children it looks at, by which steps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from itertools import product
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.graphs import HOOKS
from nbmem.inventory.callables import held_by_function, held_by_method
from nbmem.inventory.natives import held_by_native
from nbmem.inventory.paths import Step
from nbmem.inventory.readers import Kind, Reader, names_in_space

if TYPE_CHECKING:
    from nbmem.inventory.walk import NameWalk

DictSteps = tuple[Step, Step, Step | None]
"""For a key that prints itself, for another key, and for what the key itself is or holds."""
_ENTRIES: DictSteps = (Step.KEY, Step.VALUE_AT, Step.KEY_AT)
_MODULE_PARTS = (
    ("_parameters", Step.PARAMETER),
    ("_buffers", Step.BUFFER),
    ("_modules", Step.MODULE),
)


def _visit_dict(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    walk.look_at_pairs(list(dict.items(value)), node, _ENTRIES)
    _visit_attributes(walk, value, reader, node)


def _visit_list(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    walk.look_at_all(list(reader.iterate(value)), node, Step.ITEM)
    _visit_attributes(walk, value, reader, node)


def _visit_tuple(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    items = list(tuple.__iter__(value))
    if len(reader.fields) == len(items) > 0:
        for name, item in zip(reader.fields, items, strict=True):
            walk.look_at(item, node, Step.FIELD, name)
        walk.spend(len(items))
    else:
        walk.look_at_all(items, node, Step.TUPLE_ITEM)
    _visit_attributes(walk, value, reader, node)


def _visit_set(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    walk.look_at_all(list(reader.iterate(value)), node, Step.MEMBER_AT)
    _visit_attributes(walk, value, reader, node)


def _visit_array(walk: NameWalk, value: Any, _reader: Reader, node: int) -> None:
    walk.look_at(value.base, node, Step.ATTRIBUTE, "base")  # the tensor, after `.numpy()`
    if value.dtype.kind != "O":
        return
    if value.ndim == 1:
        walk.look_at_all(value.tolist(), node, Step.ELEMENT)
        return
    for indices in product(*map(range, value.shape)):
        walk.spend(1)
        walk.look_at(value.item(*indices), node, Step.ELEMENT, ", ".join(map(str, indices)))


def _visit_instance(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    if reader.show is not None:
        _visit_shown(walk, value, reader, node)
        return
    # Reading `__dict__` makes Python build it; most objects hold nothing worth that.
    referents = gc.get_referents(value)
    if any(map(walk.is_walked, referents)):
        _visit_attributes(walk, value, reader, node)


def _visit_shown(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    assert reader.show is not None
    shown = reader.show(value)
    for step, key, child in shown.held:
        walk.look_at(child, node, step, key)
    walk.spend(len(shown.held))
    _visit_attributes(walk, value, reader, node, but=shown.instead)


def _visit_attributes(
    walk: NameWalk, value: Any, reader: Reader, node: int, but: Collection[str] = ()
) -> None:
    for name, slot in reader.slots:
        try:
            child = slot.__get__(value)
        except AttributeError:
            continue  # declared and never set
        if name not in but:
            walk.look_at(child, node, Step.ATTRIBUTE, name)
    walk.spend(len(reader.slots))
    if reader.dict_of is not None:
        walk.look_at_attributes(list(dict.items(reader.dict_of.__get__(value))), node, but)


def _visit_callable(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    held = held_by_function if reader.kind is Kind.FUNCTION else held_by_method
    steps = held(value)
    for step, name, child in steps:
        walk.look_at(child, node, step, name)
    walk.spend(len(steps))


def _visit_native(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    steps = held_by_native(value, reader)
    for step, name, child in steps:
        walk.look_at(child, node, step, name)
    walk.spend(len(steps))


def _visit_opaque(walk: NameWalk, value: Any, _reader: Reader, node: int) -> None:
    walk.look_at_all(gc.get_referents(value), node, Step.INSIDE_AT)


def _visit_space(walk: NameWalk, value: Any, _reader: Reader, node: int) -> None:
    walk.look_at_attributes(list((names_in_space(value) or {}).items()), node)


def _visit_node(walk: NameWalk, value: Any, _reader: Reader, node: int) -> None:
    walk.trail.graphs.append((value, node))


def _visit_tensor(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    _visit_attributes(walk, value, reader, node)
    if issubclass(reader.cls, torch.Tensor):
        for name, hooks_of in HOOKS:
            walk.look_at(hooks_of(value), node, Step.ATTRIBUTE, name)


def _visit_module(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    attributes = reader.dict_of.__get__(value)
    parts = []
    for name, step in _MODULE_PARTS:
        part: Any = dict.get(attributes, name)
        if _is_module_part(part):
            parts.append(name)
            if dict.__len__(part):
                walk.look_at_pairs(list(dict.items(part)), node, (step, step, None))
    walk.look_at_attributes(list(dict.items(attributes)), node, but=parts)


def _visit_optimizer(walk: NameWalk, value: Any, reader: Reader, node: int) -> None:
    pairs = list(dict.items(reader.dict_of.__get__(value)))
    walk.look_at_attributes(pairs, node, but=("state",))
    for state in (part for name, part in pairs if type(name) is str and name == "state"):
        if issubclass(type(state), dict):
            walk.put_off_state(state, node)
        else:
            walk.look_at(state, node, Step.ATTRIBUTE, "state")


def _visit_state(walk: NameWalk, state: Any, _reader: Reader, optimizer: int) -> None:
    trail = walk.trail
    node = trail.enter_state(state, optimizer)
    for position, (key, kept) in enumerate(list(dict.items(state))):
        if trail.index_of(key) is None:
            walk.look_at(key, node, Step.KEY_AT, position)
        index = trail.index_of(key)
        if index is None:
            walk.look_at(kept, node, Step.VALUE_AT, position)
        else:
            walk.look_at(kept, optimizer, Step.STATE, trail.first_link(index))
        walk.spend(1)


def _is_module_part(part: Any) -> bool:
    """Returns whether it is `_parameters`, `_buffers` or `_modules` as `nn.Module` keeps them."""
    return issubclass(type(part), dict) and all(type(key) is str for key in list(dict.keys(part)))


VISITS: dict[Kind, Callable[[NameWalk, Any, Reader, int], None]] = {
    Kind.TENSOR: _visit_tensor,
    Kind.MODULE: _visit_module,
    Kind.OPTIMIZER: _visit_optimizer,
    Kind.STATE: _visit_state,
    Kind.DICT: _visit_dict,
    Kind.LIST: _visit_list,
    Kind.TUPLE: _visit_tuple,
    Kind.SET: _visit_set,
    Kind.ARRAY: _visit_array,
    Kind.INSTANCE: _visit_instance,
    Kind.FUNCTION: _visit_callable,
    Kind.METHOD: _visit_callable,
    Kind.NODE: _visit_node,
    Kind.OPAQUE: _visit_opaque,
    Kind.NATIVE: _visit_native,
    Kind.SPACE: _visit_space,
}
