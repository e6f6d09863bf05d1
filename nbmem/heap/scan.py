"""The gc scan: every live tensor that Python knows, and what their graphs keep besides."""

from __future__ import annotations

import gc
import os
import platform
import sys
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from nbmem.heap.graphs import MOST_NODES, Graph, GraphWalk
from nbmem.heap.nodes import HIDE
from nbmem.heap.packed import MOST
from nbmem.heap.storages import bare_torch, layout_of, read_storages
from nbmem.heap.surroundings import undone_by_interrupt
from nbmem.records import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from nbmem.heap.entries import StorageRef
    from nbmem.heap.table import StorageTable

_FIELDS = vars(torch._C.TensorBase)
_grad_of: Callable[[torch.Tensor], torch.Tensor | None] = _FIELDS["grad"].__get__
_is_leaf: Callable[[torch.Tensor], bool] = _FIELDS["is_leaf"].__get__
_retains_grad: Callable[[torch.Tensor], bool] = _FIELDS["retains_grad"].__get__
_OPAQUE = torch._mkldnn  # type: ignore[attr-defined]


_WITHOUT_MEMORY = ("torch._subclasses.", "torch.testing._internal.")
_dict_of: Callable[[type], Mapping[str, object]] = type.__dict__["__dict__"].__get__


class HeapScan:
    """What one scan found: the only holder of strong references, which leaving it drops.

    Use as a context manager. Everything is empty after it.
    """

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        """Tensors with a Python object, or gradient of one, that have memory of their own."""
        self.entries: dict[int, StorageRef] = {}
        """By the `id` of a tensor that has one storage: that storage's entry in the table."""
        self.gradients: list[tuple[int, int]] = []
        """The `id` of a tensor and that of its gradient."""
        self.graph = Graph()
        """The autograd graphs of all of them; a tensor that it keeps may be in `tensors` too."""
        self.roots: list[int | None] = []
        """For each of the scan's `first`: the index of its node in `graph`."""
        self.notes: list[Note] = []

    def __enter__(self) -> HeapScan:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.tensors.clear()
        self.entries.clear()
        self.gradients.clear()
        self.graph.clear()


@undone_by_interrupt
def scan_heap(table: StorageTable, *, first: Sequence[Any] = ()) -> HeapScan:
    """Returns every live tensor and what autograd graphs keep, their storages entered into `table`.

    No user code, hook or collection runs.

    Args:
        table: takes up what is found.
        first: tensors, or bare nodes of graphs, whose nodes are told in `HeapScan.roots`.
    """
    collecting = gc.isenabled()
    gc.disable()  # the walk's own objects would start a collection, which frees what it looks at
    try:
        with bare_torch():
            return _Scanner(table).scan(first)
    finally:
        if collecting:
            gc.enable()


def find_instances(kinds: Iterable[type]) -> list[Any]:
    """Returns the objects known to the garbage collector whose type is exactly one of `kinds`.

    On CPython every instance of a Python class visits its class, so that one C pass over the heap
    asking for the referrers of the classes finds them, in half the time of looking at each
    object's type.
    """
    kinds = list(kinds)
    wanted = set(map(id, kinds))
    if _referrers_are_complete():
        return [item for item in gc.get_referrers(*kinds) if id(type(item)) in wanted]
    return [item for item in gc.get_objects() if id(type(item)) in wanted]


def tensor_types() -> list[type]:
    """Returns `torch.Tensor` and every class derived from it that exists now."""
    return with_subclasses(torch.Tensor)


def has_memory(kind: type) -> bool:
    """Returns whether instances may have memory: torch's tracing tensors have none of their own.

    Each type that is asked for costs a comparison per reference on the heap.
    """
    return not str(_dict_of(kind).get("__module__")).startswith(_WITHOUT_MEMORY)


def with_subclasses(kind: type) -> list[type]:
    """Returns a class and every class derived from it that exists now."""
    found: dict[int, type] = {}
    stack = [kind]
    while stack:
        kind = stack.pop()
        if id(kind) not in found:
            found[id(kind)] = kind
            stack.extend(type.__subclasses__(kind))
    return list(found.values())


def _referrers_are_complete() -> bool:
    gil = getattr(sys, "_is_gil_enabled", None)
    return platform.python_implementation() == "CPython" and (gil is None or gil())


def _missing(unreadable: int) -> str:
    if unreadable == 1:
        return "torch cannot show 1 tensor or its graph: what only it keeps alive is missing."
    count = f"{unreadable:,} tensors or their graphs"
    return f"torch cannot show {count}: what only they keep alive is missing."


class _Scanner:
    """One scan in the making."""

    def __init__(self, table: StorageTable) -> None:
        self._table = table
        self._kinds = tensor_types()
        self._found = HeapScan()
        self._seen: set[int] = set()
        self._roots: list[torch.Tensor] = []
        # The walk knows nothing of us: a cycle would outlive the scan.
        self._walk = GraphWalk(set(map(id, self._kinds)))
        self._found.graph = self._walk.graph
        self._opaque = 0
        self._unsafe = False

    def scan(self, first: Sequence[Any]) -> HeapScan:
        listed = self._list_instances()
        self._take([item for item in first if issubclass(type(item), torch.Tensor)])
        self._take(listed)
        self._found.roots = [self._begin_at(item) for item in first]
        self._follow_graphs()
        self._found.notes.extend(self._notes())
        return self._found

    def _begin_at(self, item: Any) -> int | None:
        if issubclass(type(item), torch.Tensor):
            return self._walk.begin_at(item)
        return self._walk.begin_at_node(item)

    def _list_instances(self) -> list[torch.Tensor]:
        storages = with_subclasses(torch.UntypedStorage)
        storage_ids = set(map(id, storages))
        looked_up, note = self._table.looked_up, self._table.note
        tensors = []
        for item in find_instances([*filter(has_memory, self._kinds), *storages]):
            if id(type(item)) in storage_ids:
                note(item)
            elif id(item) not in looked_up:
                tensors.append(item)
        return tensors

    def _take(self, tensors: Iterable[torch.Tensor]) -> None:
        """Lists the tensors and their gradients, and the gradients' gradients."""
        seen, enter, found = self._seen, self._enter, self._found.tensors
        for each in tensors:
            tensor: torch.Tensor | None = each
            while tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                if enter(tensor):
                    found.append(tensor)
                gradient = self._gradient_of(tensor)
                if gradient is not None:
                    self._found.gradients.append((id(tensor), id(gradient)))
                tensor = gradient

    def _enter(self, tensor: torch.Tensor) -> bool:
        """Returns whether the tensor has memory of its own; its storages are then in the table."""
        key, entries = id(tensor), self._found.entries
        if key in entries:
            return True
        storages = read_storages(tensor)
        if len(storages) == 1:
            entry = self._table.note(storages[0])
            if entry is not None:
                entries[key] = entry
            return entry is not None
        self._table.parts_seen = True
        if not storages and layout_of(tensor) is _OPAQUE:
            self._opaque += 1
        noted = [self._table.note(storage) for storage in storages]
        return any(entry is not None for entry in noted)

    def _gradient_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        try:
            if _is_leaf(tensor):
                return _grad_of(tensor)
            self._roots.append(tensor)
            return _grad_of(tensor) if _retains_grad(tensor) else None
        except RuntimeError:
            self._walk.refuse(tensor)
            return None

    def _follow_graphs(self) -> None:
        walk = self._walk
        try:
            for tensor in self._roots:
                walk.begin_at(tensor)
            walk.walk()
            for _, _, tensor in walk.graph.saved():
                self._enter(tensor)
                if id(tensor) not in self._seen:
                    self._remember(tensor)
            self._unsafe = not walk.make_safe()
        except BaseException:  # what was read must be safe to free, however little it is
            walk.make_safe()
            raise

    def _remember(self, tensor: torch.Tensor) -> None:
        """Marks a tensor that has a Python object only because this scan looked at it."""
        looked_up, key = self._table.looked_up, id(tensor)
        if key not in looked_up:
            # Without a line of Python in the callback, in which an interrupt would be lost.
            looked_up[key] = weakref.ref(tensor, partial(looked_up.pop, key))

    def _notes(self) -> list[Note]:
        walk, notes = self._walk, []
        if walk.unreadable:
            notes.append(Note("storages", "unreadable", _missing(walk.unreadable)))
        if walk.cut_short:
            notes.append(Note("storages", "graph_cut", _CUT))
        hidden = sum(node.kind in HIDE for node in walk.graph.nodes)
        if hidden:
            notes.append(Note("storages", "hidden_in_graph", _hidden(hidden)))
        if self._unsafe:
            notes.append(Note("storages", "graph_too_deep", _UNSAFE))
        if walk.packed_away:
            notes.append(Note("storages", "packed_away", _packed(walk)))
        if self._opaque:
            sentence = f"{self._opaque} tensors are in oneDNN's layout, whose bytes torch hides."
            notes.append(Note("storages", "opaque", sentence))
        return notes


_CUT = (
    f"Autograd graphs of more than {MOST_NODES:,} nodes, or what hooks keep in more than "
    f"{MOST:,} objects, were not read to the end: what only the rest keeps is missing."
)
_UNSAFE = (
    "An autograd graph is so deep that this Python may crash when it is freed: "
    "detach what you carry from step to step."
)


def _hidden(count: int) -> str:
    what = "1 operation" if count == 1 else f"{count:,} operations"
    return (
        f"{what} on views in place, or in C++, may keep for backward what torch does not show: "
        "that would be missing here."
    )


def _packed(walk: GraphWalk) -> str:
    count = f"{walk.packed_away:,} values saved for backward take"
    if walk.packed_away == 1:
        count = "1 value saved for backward takes"
    files = walk.files()
    if not files:
        return f"{count} no memory of torch's now: hooks, as checkpoint's, will bring them back."
    where = "1 file" if len(files) == 1 else f"{len(files):,} files"
    size = f"{sum(map(os.path.getsize, files)):,} bytes"
    return f"{count} no memory of torch's now: hooks put {size} into {where}."
