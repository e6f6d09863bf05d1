"""Ways from a root down to an object, shortest first."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from nbmem.holders.ties import ROOT, Tie, Ties

if TYPE_CHECKING:
    from collections.abc import Container

MOST_WAYS = 24
"""Ways told to one object; further ones are counted as far as they are met."""
MOST_STEPS = 4_000
"""Steps looked at for one object."""


class Way(NamedTuple):
    """One way: the ties from the root down, and the object that each leads to."""

    ties: tuple[Tie, ...]
    objects: tuple[Any, ...]


def ways_to(ties: Ties, thing: Any, *, but: Container[int] = ()) -> tuple[list[Way], int]:
    """Returns the ways from roots to an object, shortest first, and how many more were met.

    Of all ways a part is looked at; a shortest one is found wherever one exists.

    Args:
        ties: all ways between objects.
        thing: where the ways end.
        but: ids of objects that no way may lead through.
    """
    found: list[Way] = []
    more, spent = 0, 0
    queue: deque[tuple[int, tuple[Tie, ...], tuple[int, ...]]] = deque([(id(thing), (), ())])
    while queue and spent < MOST_STEPS:
        key, below, passed = queue.popleft()
        passed = (key, *passed)
        for tie in ties.incoming.get(key, ()):
            spent += 1
            if tie.holder != ROOT:
                if tie.holder not in passed and tie.holder not in but:
                    queue.append((tie.holder, (tie, *below), passed))
            elif len(found) < MOST_WAYS:
                found.append(Way((tie, *below), tuple(ties.objects[one] for one in passed)))
            else:
                more += 1
    return found or _shortest(ties, thing, but), more


def _shortest(ties: Ties, thing: Any, but: Container[int]) -> list[Way]:
    """Returns one of the shortest ways, looking at each object once; nothing where none exists."""
    towards: dict[int, tuple[Tie, int]] = {}
    """What leads on from an object to `thing`, and to which object."""
    queue, seen = deque([id(thing)]), {id(thing)}
    while queue:
        key = queue.popleft()
        for tie in ties.incoming.get(key, ()):
            if tie.holder == ROOT:
                passed, below = [key], [tie]
                while passed[-1] in towards:
                    below.append(towards[passed[-1]][0])
                    passed.append(towards[passed[-1]][1])
                return [Way(tuple(below), tuple(ties.objects[one] for one in passed))]
            if tie.holder not in seen and tie.holder not in but:
                seen.add(tie.holder)
                towards[tie.holder] = (tie, key)
                queue.append(tie.holder)
    return []
