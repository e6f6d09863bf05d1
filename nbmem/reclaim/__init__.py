"""The only room that frees: `del`, `gc.collect()`, `empty cache`; each with its proof in bytes.

    choose ──> plan (sentences, nothing touched) ──> act (each target looked at again) ──> report

`del` drops the user's own names: variables, entries of plain dicts, and every copy that IPython's
output cache keeps of a shown value. What belongs to a model, an optimizer, a list or an object is
refused with the line of code that would do it. `plan` decides, `names` drops, `acts` proves.

`park` and `unpark` free an accelerator for a while: `reached` finds what a name leads to, `trips`
plans, `moves` re-points tensors at memory elsewhere, `lot` remembers weakly.
"""

from nbmem.reclaim.acts import collect_garbage, drop_storages, empty_cache, plan_drop
from nbmem.reclaim.lot import ParkingLot
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.parking import park, unpark

__all__ = [
    "Holdings",
    "ParkingLot",
    "collect_garbage",
    "drop_storages",
    "empty_cache",
    "park",
    "plan_drop",
    "unpark",
]
