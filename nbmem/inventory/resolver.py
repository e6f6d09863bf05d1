"""The way back from a printed name to the tensor."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from nbmem.errors import NameNotFoundError
from nbmem.heap.storages import bare_torch
from nbmem.inventory.descent import Descent
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.graphs import find_label, split_name
from nbmem.inventory.names import Names, write_names
from nbmem.inventory.parts import as_tensor, parts_of
from nbmem.inventory.readers import type_name
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk

_GONE = "`{name}` leads to no live tensor: it was renamed, deleted or assigned anew"
_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_ATTRIBUTE = re.compile(r"\.([^\W\d]\w*)")
_PLAIN = (types.MemberDescriptorType, types.GetSetDescriptorType)


def resolve_name(
    name: str, namespace: Mapping[str, object], output_cache: Mapping[str, object] | None = None
) -> torch.Tensor:
    """Returns the tensor that a name leads to, as things stand now.

    The name is one of an inventory, or another way to what has one there. Of a sparse tensor's part
    it is that part; of a bare storage, its bytes as `uint8`.

    Raises:
        NameNotFoundError: the name leads to no tensor now.
    """
    outputs = output_cache or {}
    with bare_torch():
        found = _find(name, namespace, outputs)
    if found is None:
        why = explain_property(name, namespace, outputs)
        raise NameNotFoundError(
            f"{why or _GONE.format(name=name)}. Run `%gpumem tensors` for the names of now."
        )
    return found


def find_thing(
    name: str, namespace: Mapping[str, object], output_cache: Mapping[str, object] | None = None
) -> list[Any]:
    """Returns what a name stands for, a tensor or what holds some, in a list of one.

    Empty where it stands for nothing. Whoever asks clears the list.
    """
    outputs = output_cache or {}
    with bare_torch():
        return Descent(namespace, outputs).find(name) or _find_in_walk(name, namespace, outputs)


def explain_property(
    name: str,
    namespace: Mapping[str, object],
    output_cache: Mapping[str, object] | None = None,
    known: Iterable[str] = (),
) -> str:
    """Returns the sentence, without its full stop, that tells which code would have to run.

    Empty where the name leads to nothing for another reason.

    Args:
        name: one that leads to nothing as far as objects can be read.
        namespace: the user's variables.
        output_cache: IPython's copies of shown values.
        known: names that do lead somewhere.
    """
    with bare_torch():
        descent = Descent(namespace, output_cache or {})
        if descent.find(name) or descent.last is None:
            return ""
        text, thing = descent.last
        rest = name[len(text) :]
        step, what = _code_at(type(thing), rest)
    if not step:
        return ""
    tail = rest[len(step) :]
    same = [one for one in known if tail and one.endswith(tail) and "→" not in one]
    then = f"ask for `{min(same, key=len)}`, or for" if same else "ask for"
    return (
        f"`{text}{step}` is {what}, not followed: nbmem runs no code of others to read it;"
        f" write `found = {text}{step}` and {then} `found{tail}`"
    )


def _code_at(cls: type, rest: str) -> tuple[str, str]:
    """Returns the step with which `rest` begins, and what answers it; empty where nothing does."""
    match = _ATTRIBUTE.match(rest)
    if match is None:
        end = rest.find("]") + 1
        if rest.startswith("[") and end and _has_own(cls, "__getitem__"):
            return rest[:end], f"answered by code of {type_name(cls)} (`__getitem__`)"
        return "", ""
    for base in _mro_of(cls):
        found = _namespace_of(base).get(match[1])
        if found is None:
            continue
        if issubclass(type(found), property) or type_name(type(found)) == "cached_property":
            return match[0], "a property"
        descriptor = any("__get__" in _namespace_of(one) for one in _mro_of(type(found)))
        plain = type(found) in _PLAIN or issubclass(type(found), types.FunctionType)
        return (match[0], "a property") if descriptor and not plain else ("", "")
    if _has_own(cls, "__getattr__") or _has_own(cls, "__getattribute__"):
        return match[0], f"answered by code of {type_name(cls)} (`__getattr__`)"
    return "", ""


def _has_own(cls: type, name: str) -> bool:
    """Returns whether a method written in Python, and not by torch's modules, is there."""
    for base in _mro_of(cls):
        if name in _namespace_of(base):
            found = _namespace_of(base)[name]
            return type(found) is types.FunctionType and base is not torch.nn.Module
    return False


def _find(
    name: str, namespace: Mapping[str, object], output_cache: Mapping[str, object]
) -> torch.Tensor | None:
    trail = NameWalk().run(namespace, output_cache)
    try:
        reach_gradients(trail)
        return _find_on(trail, write_names(trail), name, Descent(namespace, output_cache))
    finally:
        trail.clear()


def _find_in_walk(
    name: str, namespace: Mapping[str, object], outputs: Mapping[str, object]
) -> list[Any]:
    """Returns what a walk calls so: two attributes that look the same are numbered there."""
    trail = NameWalk().run(namespace, outputs)
    try:
        reach_gradients(trail)
        names = write_names(trail)
        for text, link in zip(names.texts, trail.links):  # noqa: B905  names may be fewer
            if text == name:
                return [trail.tensors[link.tensor]]
        found = _find_on(trail, names, name, Descent(namespace, outputs))
        return [] if found is None else [found]
    finally:
        trail.clear()


def _find_on(trail: Trail, names: Names, name: str, descent: Descent) -> torch.Tensor | None:
    pairs = zip(names.texts, trail.links)  # noqa: B905  names may be fewer
    things: dict[str, object] = {text: trail.tensors[link.tensor] for text, link in pairs}
    found = _find_part(name, things)
    if found is not None:
        return found
    split = split_name(name)
    if split is None:
        whole = (name, name.rpartition(" (")[0])
        others = {text: one for text in whole if text for one in descent.find(text)}
        return _find_part(name, {t: one for t, one in others.items() if _is_tensor(one)})
    root = things.get(split[0])
    if root is None:
        nodes = {names.of_node(place): node for node, place in trail.graphs}
        root = nodes.get(split[0])
    if root is None:
        root = next((one for one in descent.find(split[0]) if _is_tensor(one)), None)
    return None if root is None else find_label(root, split[1])


def _is_tensor(thing: Any) -> bool:
    return issubclass(type(thing), (torch.Tensor, torch.UntypedStorage))


def _find_part(name: str, things: Mapping[str, object]) -> torch.Tensor | None:
    if name in things:
        parts = parts_of(things[name])
        return next((as_tensor(part) for part in parts if not part.word), None)
    whole = things.get(name.rpartition(" (")[0])
    if whole is None:
        return None
    for part in parts_of(whole):
        if part.word and name.endswith(f" ({part.word})"):
            return as_tensor(part)
    return None
