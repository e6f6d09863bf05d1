"""The way back from a printed name to the tensor."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from nbmem.errors import NameNotFoundError
from nbmem.heap.storages import bare_torch
from nbmem.inventory.gradients import reach_gradients
from nbmem.inventory.graphs import find_label, split_name
from nbmem.inventory.names import Names, write_names
from nbmem.inventory.parts import as_tensor, parts_of
from nbmem.inventory.trail import Trail
from nbmem.inventory.walk import NameWalk


def resolve_name(
    name: str, namespace: Mapping[str, object], output_cache: Mapping[str, object] | None = None
) -> torch.Tensor:
    """Returns the tensor that a name of an inventory leads to, as things stand now.

    Of a sparse tensor's part it is that part; of a bare storage, its bytes as `uint8`.

    Raises:
        NameNotFoundError: the name leads to no tensor now.
    """
    with bare_torch():
        found = _find(name, namespace, output_cache or {})
    if found is None:
        raise NameNotFoundError(
            f"`{name}` leads to no live tensor: it was renamed, deleted or assigned anew. "
            "Run `%gpumem tensors` for the names of now."
        )
    return found


def _find(
    name: str, namespace: Mapping[str, object], output_cache: Mapping[str, object]
) -> torch.Tensor | None:
    trail = NameWalk().run(namespace, output_cache)
    try:
        reach_gradients(trail)
        return _find_on(trail, write_names(trail), name)
    finally:
        trail.clear()


def _find_on(trail: Trail, names: Names, name: str) -> torch.Tensor | None:
    pairs = zip(names.texts, trail.links)  # noqa: B905  names may be fewer
    things: dict[str, object] = {text: trail.tensors[link.tensor] for text, link in pairs}
    found = _find_part(name, things)
    split = split_name(name)
    if found is not None or split is None:
        return found
    root = things.get(split[0])
    if root is None:
        nodes = {names.of_node(place): node for node, place in trail.graphs}
        root = nodes.get(split[0])
    return None if root is None else find_label(root, split[1])


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
