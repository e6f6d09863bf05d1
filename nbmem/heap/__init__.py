"""What is alive, bare: every storage with its bytes and a weak reference to it, and no names.

    the gc scan ──┐
    the graph walk┼──> StorageTable ──> bytes per device, high-water mark, freed and resized
    `tracking` ───┘

`table` holds what is known (`entries`), and counts memory once that several storages have
(`ranges`, `overlaps`); `windows` tell what became of older ones. `storages` reads one tensor,
`scan` finds tensors, `graphs` walks autograd graphs (`nodes` reads one node, `packed` follows what
hooks made of a saved tensor, `freed` tells what backward has left of a graph, `unwinding` makes
long graphs safe to free), and `frozen` counts what no scan sees. Nothing here runs the user's code
or keeps a storage alive.
"""

from nbmem.heap.entries import StorageRef
from nbmem.heap.frozen import count_frozen, notes_on_frozen
from nbmem.heap.graphs import Graph, GraphNode
from nbmem.heap.listed import list_objects, refused_object
from nbmem.heap.scan import HeapScan, scan_heap
from nbmem.heap.storages import storages_of
from nbmem.heap.table import StorageTable
from nbmem.heap.windows import Group, Listing, TableWindow

__all__ = [
    "Graph",
    "GraphNode",
    "Group",
    "HeapScan",
    "Listing",
    "StorageRef",
    "StorageTable",
    "TableWindow",
    "count_frozen",
    "list_objects",
    "notes_on_frozen",
    "refused_object",
    "scan_heap",
    "storages_of",
]
