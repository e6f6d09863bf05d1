"""Modules as an indented tree, and where tensors are, as tables in words."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from nbmem.records import CATEGORIES
from nbmem.render.mixtures import categories_in, mixture_column
from nbmem.render.names import clean
from nbmem.render.palette import letter_of
from nbmem.render.tables import Column, Table
from nbmem.render.tensor_tables import notes_of, nothing_table, share_columns, title_of
from nbmem.totals import filter_storages, module_tree, places_by_category
from nbmem.units import Units, column_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbmem.records import Inventory, StorageRecord
    from nbmem.totals import ModuleTotal, Place

_INDENT = "  "
_DEEPEST = 6
"""Steps to the right; what lies deeper stands under each other."""


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One line of the tree."""

    label: str
    """The steps of its name below the line that it stands under."""
    depth: int
    bytes: int
    count: int
    mixture: Mapping[str, int]


def modules_table(inventory: Inventory, units: Units, rows: int, *, text: str = "") -> Table:
    """Returns the `rows` largest modules as a tree; each has the bytes of those below it.

    Raises:
        ValueError: filter `text` makes no sense.
    """
    found = filter_storages(inventory.storages, text)
    if not found:
        return nothing_table(inventory, units, text)
    lines = module_rows(found, rows)
    whole = sum(storage.bytes for storage in found)
    mixtures = tuple(line.mixture for line in lines)
    labels = (_INDENT * min(line.depth, _DEEPEST) + clean(line.label) for line in lines)
    columns = (
        Column("module", tuple(labels), elastic=True, code=True),
        *share_columns([w.bytes for w in lines], [w.count for w in lines], units, whole),
        mixture_column(mixtures),
    )
    title = title_of("Live tensors by module", found, inventory, units, text)
    legend = categories_in(mixtures)
    return Table(title, columns, notes_of(inventory), mixtures=mixtures, legend=legend)


def module_rows(storages: Iterable[StorageRecord], most: int) -> list[ModuleRow]:
    """Returns the `most` largest modules in the order of their tree, then what has no module.

    Below each module stand those of its children that are shown, then one line for the rest of
    it, so that the lines below a line add up to it.
    """
    tree = module_tree(storages)
    shown = _largest(tree.roots, most)
    rows: list[ModuleRow] = []
    waiting: list[ModuleRow | tuple[_Node, int]] = _below(tree.roots, shown, 0, None)
    while waiting:
        each = waiting.pop()
        if isinstance(each, ModuleRow):
            rows.append(each)
            continue
        node, depth = each
        module = node.module
        rows.append(ModuleRow(node.label, depth, module.bytes, module.count, module.by_category))
        waiting += _below(module.children, shown, depth + 1, module)
    if tree.none.count:
        none = tree.none
        rows.append(ModuleRow(none.key, 0, none.bytes, none.count, none.by_category))
    return rows


@dataclass(frozen=True, slots=True)
class _Node:
    """A module under the label that it is shown by: `layers.0` where `layers` holds no other."""

    label: str
    module: ModuleTotal


def _node(module: ModuleTotal, above: str) -> _Node:
    while len(module.children) == 1 and not module.own_count:
        (module,) = module.children
    return _Node(module.name[len(above) + 1 :] if above else module.name, module)


def _largest(roots: Sequence[ModuleTotal], most: int) -> dict[str, _Node]:
    """Returns the largest modules by name; no child is among them without its parent."""
    heap = [(-root.bytes, index, root, "") for index, root in enumerate(roots)]
    heap.sort()
    met, shown = len(heap), dict[str, _Node]()
    while heap and len(shown) < most:
        _, _, module, above = heappop(heap)
        node = shown[module.name] = _node(module, above)
        for child in node.module.children:
            met += 1
            heappush(heap, (-child.bytes, met, child, node.module.name))
    return shown


def _below(
    modules: Sequence[ModuleTotal],
    shown: Mapping[str, _Node],
    depth: int,
    parent: ModuleTotal | None,
) -> list[ModuleRow | tuple[_Node, int]]:
    """Returns what stands below one line, last first: nothing where no child is shown."""
    nodes = [shown[module.name] for module in modules if module.name in shown]
    lines: list[ModuleRow | tuple[_Node, int]] = [(node, depth) for node in reversed(nodes)]
    hidden = [module for module in modules if module.name not in shown]
    itself = parent is not None and parent.own_count > 0
    if (not nodes and parent is not None) or (not hidden and not itself):
        return lines
    if len(hidden) == 1 and not itself:  # its name takes no more room than its number
        return [(_node(hidden[0], parent.name if parent is not None else ""), depth), *lines]
    return [_rest(hidden, parent if itself else None, depth), *lines]


def _rest(hidden: Sequence[ModuleTotal], itself: ModuleTotal | None, depth: int) -> ModuleRow:
    more = f"{len(hidden):,} more" if hidden else ""
    label = " and ".join(filter(None, ("itself" if itself else "", more)))
    mixture: dict[str, int] = {}
    for module in hidden:
        _add(mixture, module.by_category, 1)
    count = sum(module.count for module in hidden)
    if itself is not None:
        _add(mixture, itself.by_category, 1)
        for child in itself.children:
            _add(mixture, child.by_category, -1)
        count += itself.own_count
    ordered = {kind: mixture[kind] for kind in CATEGORIES if mixture.get(kind)}
    return ModuleRow(label, depth, sum(mixture.values()), count, ordered)


def _add(mixture: dict[str, int], other: Mapping[str, int], sign: int) -> None:
    for category, size in other.items():
        mixture[category] = mixture.get(category, 0) + sign * size


def places_table(inventory: Inventory, units: Units, most: int, *, text: str = "") -> Table:
    """Returns what each model has on each device, and below a rule what all have.

    Args:
        inventory: what is alive.
        units: of the figures.
        most: columns of devices that there is room for; the smallest share one beyond that.
        text: a filter.

    Raises:
        ValueError: filter `text` makes no sense.
    """
    found = filter_storages(inventory.storages, text)
    if not found:
        return nothing_table(inventory, units, text)
    places = places_by_category(found)
    devices, others = _columns(places.devices, places.total, most)
    sections = list(places.modules) if len(places.modules) > 1 else []
    only = "all" if sections else places.modules[0].key
    whole = (places.total, places.categories, only)
    lines = [row for place in sections for row in _section(place, place.parts, place.key)]
    foot = _section(*whole)
    lines += foot
    columns = (
        Column("", tuple(letter_of(kind) if kind else "" for _, kind, _ in lines)),
        Column("module", tuple(clean(label) for label, _, _ in lines), elastic=True, code=True),
        *_figures([place for _, _, place in lines], devices, others, units),
    )
    title = title_of("Where tensors are", found, inventory, units, text)
    kinds = tuple(kind for _, kind, _ in lines)
    return Table(title, columns, notes_of(inventory), kinds, foot=len(foot) if sections else 0)


def _section(place: Place, parts: Iterable[Place], key: str) -> list[tuple[str, str, Place]]:
    """Returns label, category and figures of a model's lines."""
    return [(key, "", place), *((f"{_INDENT}{part.key}", part.key, part) for part in parts)]


def _columns(
    devices: Sequence[str], total: Place, most: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the devices that have a column of their own, and those that share one."""
    if len(devices) <= most:
        return tuple(devices), ()
    largest = sorted(devices, key=lambda device: -total.bytes[device])[: max(1, most - 1)]
    alone = tuple(device for device in devices if device in largest)
    return alone, tuple(device for device in devices if device not in largest)


def _figures(
    places: Sequence[Place], devices: Sequence[str], others: Sequence[str], units: Units
) -> list[Column]:
    wanted: list[tuple[str, tuple[str, ...]]] = [(clean(one), (one,)) for one in devices]
    if others:
        wanted.append((f"{len(others)} others", tuple(others)))
    if len(wanted) > 1:
        wanted.append(("all", (*devices, *others)))
    figures = [
        [sum(place.bytes.get(device, 0) for device in summed) for place in places]
        for _, summed in wanted
    ]
    unit = column_unit([size for column in figures for size in column], units)
    return [
        Column(
            heading,
            tuple(unit.format(size) if size else "–" for size in column),
            figures=True,
            unit=unit.suffix,
        )
        for (heading, _), column in zip(wanted, figures, strict=True)
    ]
