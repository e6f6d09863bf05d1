"""What the heap says beyond the names: ties found upwards, garbage, and what only C++ holds."""

from __future__ import annotations

import types
from collections import deque
from contextvars import Context
from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.loose import CYCLE, below, called_by_c, part_of_graph
from nbmem.holders.search import Found, search_holders
from nbmem.holders.ties import ROOT, Tie, Ties
from nbmem.holders.wanted import HIDDEN, classes_in_use
from nbmem.inventory.paths import Step
from nbmem.inventory.readers import HEAP_TYPE, names_in_space, type_name

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_NEAR = 8
"""Steps above a tensor within which garbage is given its name."""
_flags_of = type.__dict__["__flags__"].__get__
_FIELDS = vars(BaseException)
_traceback_of = _FIELDS["__traceback__"].__get__
_cause_of = _FIELDS["__cause__"].__get__
_context_of = _FIELDS["__context__"].__get__


def find_others(
    ties: Ties,
    targets: Sequence[Any],
    wanted: dict[int, int],
    ours: set[int],
    cyclic: dict[int, Any],
    in_graphs: Container[int],
    explained: set[int],
    named: set[int],
) -> set[int]:
    """Adds to `ties` who else holds these objects, and the containers that are known to hold them.

    Returns the ids of what is in use all the same: the user's classes of which an instance lives,
    and what a value holds in a way that the walk of names does not follow.

    Args:
        ties: all ways that are known; takes up what is found.
        targets: tensors that no value needs.
        wanted: ids of what values need: the search stops there.
        ours: ids of the caller's own containers.
        cyclic: tensors, by `id`, that their own graph keeps if nothing else does.
        in_graphs: ids of what some graph keeps, tensors and nodes: that C++ holds it is no news.
        explained: ids of holders that the roots speak of: the search stops there.
        named: ids of the values of the user's variables.
    """
    if not targets:
        return set()
    above = _known_above(ties, targets, wanted)
    ours = ours | {id(targets), id(above)}
    asked = {id(target) for target in targets if wanted.get(id(target), HIDDEN) > HIDDEN}
    known = (wanted.keys() | _of_roots(ties) | explained) - asked
    found = search_holders([*targets, *above], known=known, ours=ours)
    try:
        walked = set(ties.objects)
        _take(ties, found, cyclic, in_graphs)
        return _classes_in_use(found) | _passed_by(found, walked, wanted, named)
    finally:
        found.clear()


def _classes_in_use(found: Found) -> set[int]:
    classes = [found.objects[at] for at, (kind, _) in found.roots.items() if kind == "class"]
    classes = [one for one in classes if names_in_space(one) is not None]
    return classes_in_use(classes)


def _passed_by(found: Found, walked: set[int], wanted: Container[int], named: set[int]) -> set[int]:
    """Returns the ids of what values lead to by objects of C code that no walk looks into.

    A module is no value: `import threading` asks for no thread that the module has a list of.
    """
    ids = list(map(id, found.objects))
    values = {id(o) for o in found.objects if not issubclass(type(o), types.ModuleType)}
    passed = {key for key in ids if key in named and key in values and key not in walked}
    for edge in found.edges:
        if ids[edge.holder] in wanted and ids[edge.held] not in walked:
            passed.add(ids[edge.held])
    return passed


def _known_above(ties: Ties, targets: Sequence[Any], wanted: dict[int, int]) -> list[Any]:
    """Returns the known holders of targets, and theirs, up to what is needed."""
    seen = {id(target) for target in targets}
    above, queue = [], deque(seen)
    while queue:
        for tie in ties.incoming.get(queue.popleft(), ()):
            if tie.holder not in seen and tie.holder != ROOT and tie.holder not in wanted:
                seen.add(tie.holder)
                above.append(ties.objects[tie.holder])
                queue.append(tie.holder)
    return above


def _of_roots(ties: Ties) -> set[int]:
    """Returns the ids of errors, threads and the like: who holds them is told by the root."""
    of_roots = {key for key, tie in ties.outgoing.get(ROOT, ()) if tie.step is Step.ROOT}
    for key in list(of_roots):
        of_roots.update(_tracebacks_of(ties.objects[key]))
    return of_roots


def _tracebacks_of(thing: Any) -> set[int]:
    """Returns the ids of the traceback objects of an error, which no walk makes a step of."""
    found, errors, seen = set[int](), [thing], set[int]()
    while errors:
        error = errors.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        traceback = error
        if issubclass(type(error), BaseException):
            traceback = _traceback_of(error)
            errors += [_cause_of(error), _context_of(error)]
        while type(traceback) is types.TracebackType:
            found.add(id(traceback))
            traceback = traceback.tb_next
    return found


def _take(ties: Ties, found: Found, cyclic: dict[int, Any], in_graphs: Container[int]) -> None:
    objects = found.objects
    for edge in found.edges:
        held, holder = objects[edge.held], objects[edge.holder]
        if not _is_known(ties, held, holder):
            ties.objects.setdefault(id(holder), holder)
            ties.add(held, Tie(id(holder), None, None, edge.kind, edge.text))
    for vertex, (kind, text) in found.roots.items():
        if kind == "thread" and id(objects[vertex]) in ties.incoming:
            continue  # a root speaks of the thread already
        ties.add(objects[vertex], Tie(ROOT, None, None, kind, text))
    alive = ties.reached_from(key for key, _ in ties.outgoing.get(ROOT, ()))
    found.unreachable -= {at for at in found.unreachable if id(objects[at]) in alive}
    for vertex in _tops(found):
        ties.add(objects[vertex], Tie(ROOT, None, None, "garbage", _garbage(objects[vertex])))
    _take_loose(ties, found, cyclic, in_graphs)


def _take_loose(
    ties: Ties, found: Found, cyclic: dict[int, Any], in_graphs: Container[int]
) -> None:
    """Lets a chain begin at what only C code refers to, unless another one leads there."""
    reached = ties.reached_from(key for key, _ in ties.outgoing.get(ROOT, ()))
    for vertex in sorted(found.loose):
        thing = found.objects[vertex]
        if id(thing) in reached or vertex in found.roots:
            continue
        part = part_of_graph(thing, below(ties, thing))
        if id(thing) in cyclic or part:
            ties.add(thing, Tie(ROOT, None, part, "cycle", CYCLE))
        elif id(thing) not in in_graphs and type(thing) is not Context:
            ties.add(thing, Tie(ROOT, None, None, *called_by_c(thing)))
        else:
            continue
        reached |= ties.reached_from([id(thing)])


def _is_known(ties: Ties, held: Any, holder: Any) -> bool:
    return any(tie.holder == id(holder) for tie in ties.incoming.get(id(held), ()))


def _tops(found: Found) -> list[int]:
    """Returns, for each heap of garbage, objects that lead to all of it, and tell what it is."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for edge in found.edges:
        above.setdefault(edge.held, []).append(edge.holder)
        below.setdefault(edge.holder, []).append(edge.held)
    tops, reached = [], set[int]()
    for start in sorted(found.unreachable):
        if start not in reached:
            top = _climb(start, above, found)
            tops.append(top)
            reached |= _led_to(top, below, reached)
    return tops


def _led_to(top: int, below: dict[int, list[int]], but: set[int]) -> set[int]:
    stack, seen = [top], {top}
    while stack:
        for held in below.get(stack.pop(), ()):
            if held not in seen and held not in but:
                seen.add(held)
                stack.append(held)
    return seen


def _climb(start: int, above: dict[int, list[int]], found: Found) -> int:
    """Returns the farthest instance of a class nearby above an object of garbage."""
    queue, depths, top = deque((start,)), {start: 0}, start
    while queue:
        at = queue.popleft()
        if _is_instance(found.objects[at]) or top == start:
            top = at
        for holder in above.get(at, ()) if depths[at] < _NEAR else ():
            if holder not in depths and holder in found.unreachable:
                depths[holder] = depths[at] + 1
                queue.append(holder)
    return top


def _is_instance(thing: Any) -> bool:
    """Returns whether an object is of a class that somebody wrote, and no error or tensor."""
    kind = type(thing)
    plain = (BaseException, type, torch.Tensor, torch.UntypedStorage)
    return bool(_flags_of(kind) & HEAP_TYPE) and not issubclass(kind, plain)


def _garbage(thing: Any) -> str:
    return f"garbage: {type_name(type(thing))} object"
