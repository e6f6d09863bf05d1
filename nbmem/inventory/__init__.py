"""What each live storage is called and what kind it is.

    the user's names ──> walk ──> trail ──┐
                                          ├──> join ──> Inventory
    heap's scan (gc and graphs) ──────────┘

`walk` visits containers (`visits`) as `readers`, `callables` and, for what Python's own C code
keeps (`frames` among it), `natives` say, and writes a `trail`; `names` makes texts of it (`paths`
has their forms), `gradients`, `parts` and `graphs` add what hangs on a tensor, `modules` where it
belongs; `listing` joins the trail with the scan; `resolver` leads from a text back to the tensor,
by whichever way (`descent`), `places` to what holds it. `pools` names who keeps the allocator's
private pools. `accessors` is the table of what libraries keep in private attributes and hand out by
public ones.
"""

from nbmem.inventory.listing import take_inventory
from nbmem.inventory.places import Place, PlaceStep, find_places
from nbmem.inventory.pools import find_pool_owners
from nbmem.inventory.resolver import explain_property, find_thing, resolve_name

__all__ = [
    "Place",
    "PlaceStep",
    "explain_property",
    "find_places",
    "find_pool_owners",
    "find_thing",
    "resolve_name",
    "take_inventory",
]
