"""What is alive, told without nbmem: weak references taken while the storages were made.

Shared by the tests of the inventory. Only the functions that name the inventory import it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nbmem.heap import StorageTable
from nbmem.inventory import resolve_name, take_inventory

BIG = 1024
"""Bytes from which on a storage without a name is a mistake."""


class MadeStorages(TorchDispatchMode):
    """Weak references to the storages of everything that torch's operations read or made."""

    def __init__(self):
        super().__init__()
        self._known = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.add(args, kwargs, result)
        return result

    def add(self, *values):
        for tensor in tree_leaves(values):
            if isinstance(tensor, torch.Tensor):
                for part in pieces(tensor):
                    self._remember(part.untyped_storage())

    def _remember(self, storage):
        known = self._known.get(storage._cdata)
        if storage.device.type != "meta" and (known is None or known() is not storage):
            self._known[storage._cdata] = weakref.ref(storage)

    def forget_all(self):
        self._known.clear()

    def alive(self):
        """Returns {address: bytes} of those that live."""
        storages = [reference() for reference in self._known.values()]
        return {s._cdata: s.nbytes() for s in storages if s is not None}


def pieces(tensor):
    """Returns the plain tensors that a tensor consists of."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return [tensor]
    return []


class Look:
    """One inventory of a namespace, with the records by the address of their storage."""

    def __init__(self, namespace, outputs=None, table=None, budget=60, **options):
        self.namespace, self.outputs = namespace, outputs or {}
        self.table = table or StorageTable()
        self.inventory = take_inventory(
            self.table, namespace, output_cache=self.outputs, budget=budget, now=0.0, **options
        )
        by_key = {ref.serial: ref.address for ref in self.table.live()}
        records = [r for r in self.inventory.storages if r.key in by_key]  # the others died since
        self.by_address = {by_key[record.key]: record for record in records}
        assert len(records) == len(self.by_address)

    def record_of(self, tensor):
        return self.by_address[tensor.untyped_storage()._cdata]

    def names_of(self, tensor):
        return self.record_of(tensor).names

    def codes(self):
        return [note.code for note in self.inventory.notes]

    def sentences(self):
        return " ".join(note.sentence for note in self.inventory.notes)

    def sizes(self, addresses):
        """Returns {address: bytes} of these storages as far as they were found."""
        return {a: r.bytes for a, r in self.by_address.items() if a in addresses}

    def nameless(self, addresses, least=BIG):
        """Returns the records of these storages that have no name, from `least` bytes on."""
        found = [r for a, r in self.by_address.items() if a in addresses]
        return [r for r in found if not r.names and r.bytes >= least]

    def resolve(self, name):
        return resolve_name(name, self.namespace, self.outputs)

    def lost_names(self):
        """Returns the names that do not lead back to their storage, and those given twice."""
        lost, given = [], set()
        for address, record in self.by_address.items():
            for name in record.names:
                if name in given:
                    lost.append((name, "given twice"))
                given.add(name)
                try:
                    found = self.resolve(name)
                except Exception as error:
                    lost.append((name, repr(error)))
                    continue
                with torch._C.DisableTorchFunction():
                    found_at = found.untyped_storage()._cdata
                if found_at != address:
                    lost.append((name, "leads to another storage"))
        return lost


@contextlib.contextmanager
def nothing_of_ours_runs(*files):
    """Fails where a Python function that was written in one of these files runs meanwhile."""
    called = []

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename in files:
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert [] == called


def collected():
    """Collects until nothing more goes: an optimizer's hooks are cycles of torch's own."""
    while gc.collect():
        pass
