"""The only room that frees: `del`, `gc.collect()`, `empty cache`; each with its proof in bytes.

    choose ──> plan (sentences, nothing touched) ──> act (each target looked at again) ──> report

`del` drops the user's own names: variables, entries of plain dicts, and every copy that IPython's
output cache keeps of a shown value. What belongs to a model, an optimizer, a list or an object is
refused with the line of code that would do it. `plan` decides, `names` drops, `acts` proves.

Leaks are got back by `leaks`: a fresh look, `choosing` what is meant, `planning` what comes back,
`cutting` each chain where it holds, `work` that does it all, the proof. The acts themselves stand
alone: `tracebacks` (an error loses the variables of its calls), `detaching` and `cycles` (graphs),
`views` and `layouts` (small views of large storages), `training` (gradients, optimizer state),
`dropping`, `loops` and `registered` (what functions, hooks, generators, queues, logs and Python
itself keep), `rebinding` (one object in another's place). Each keeps every value that has a name
and says in words what it did.

`park` and `unpark` free an accelerator for a while: `reached` finds what a name leads to, `trips`
plans, `moves` re-points tensors at memory elsewhere, `lot` remembers weakly.
"""

from nbmem.reclaim.acts import (
    collect_garbage,
    drop_storages,
    empty_cache,
    empty_pinned,
    plan_drop,
)
from nbmem.reclaim.leaks import plan_reclaim, reclaim_leaks
from nbmem.reclaim.lot import ParkingLot
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.parking import park, unpark
from nbmem.reclaim.planning import Finder
from nbmem.reclaim.tracebacks import release_error

__all__ = [
    "Finder",
    "Holdings",
    "ParkingLot",
    "collect_garbage",
    "drop_storages",
    "empty_cache",
    "empty_pinned",
    "park",
    "plan_drop",
    "plan_reclaim",
    "reclaim_leaks",
    "release_error",
    "unpark",
]
