"""What forgets by itself: a deque with a limit lets go of its oldest items."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbmem.holders.index import StorageIndex
    from nbmem.holders.ties import Ties

_maxlen = vars(deque)["maxlen"].__get__


def find_bounded(ties: Ties, index: StorageIndex) -> tuple[int, ...]:
    """Returns the storages that deques with `maxlen` lead to, by their serials, in order.

    A replay buffer grows while it fills, and not for good.
    """
    deques = [key for key, thing in ties.objects.items() if _is_bounded(thing)]
    if not deques:
        return ()
    reached = ties.reached_from(deques)
    return tuple(sorted({serial for key in reached for serial in index.known(key)}))


def _is_bounded(thing: Any) -> bool:
    return issubclass(type(thing), deque) and _maxlen(thing) is not None
