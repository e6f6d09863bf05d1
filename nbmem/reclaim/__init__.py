"""The only room that frees: `del`, `gc.collect()`, `empty cache`; each with its proof in bytes.

    choose ──> plan (sentences, nothing touched) ──> act (each target looked at again) ──> report

`del` drops the user's own names: variables, entries of plain dicts, and every copy that IPython's
output cache keeps of a shown value. What belongs to a model, an optimizer, a list or an object is
refused with the line of code that would do it. `plan` decides, `names` drops, `acts` proves.
"""

from nbmem.reclaim.acts import collect_garbage, drop_storages, empty_cache, plan_drop
from nbmem.reclaim.names import Holdings

__all__ = ["Holdings", "collect_garbage", "drop_storages", "empty_cache", "plan_drop"]
