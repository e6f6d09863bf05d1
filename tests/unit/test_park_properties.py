"""Whatever tensors share, and whatever is done while they are parked: nobody can tell afterwards.

A random program runs twice, once with parking in between and once without. Values, layouts,
versions, gradients and who shares memory with whom must be the same.
"""

from __future__ import annotations

import contextlib
import gc
import os
import weakref

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_carrier import SimulatedCarrier
from torch import nn

from nbmem.heap import StorageTable
from nbmem.reclaim import Holdings, ParkingLot, park, unpark

NAMES = ("a", "b", "c", "d", "e")
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError)
CAREFULLY = settings(
    deadline=None,
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
    max_examples=int(os.environ.get("PARK_EXAMPLES", "40")),
    suppress_health_check=list(HealthCheck),
)


class World:
    """Variables, a list and an optimizer, and what a cell may do to them."""

    def __init__(self, parking):
        self.names, self.kept = {}, []
        self.names["kept"] = self.kept
        self.parking = parking
        self.carrier = SimulatedCarrier()
        self.lot = ParkingLot(self.carrier)
        self.born_on_cpu = []
        self.taken = False
        self.holdings = Holdings(StorageTable(), None, lambda: self.names, dict, list)

    def run(self, program):
        for name, one, two, number in program:
            with contextlib.suppress(*REFUSALS):
                getattr(self, name)(one, two, number)

    def _on(self, device, tensor):
        """A new storage is on the device of what it was made of."""
        if self.carrier.where(tensor) != device:
            self.carrier.place(tensor, device=device)
        return tensor

    def new(self, one, two, number):
        values = torch.arange(12.0) + number
        self.names[one] = self._on(f"cuda:{number % 2}", values)

    def weight(self, one, two, number):
        self.names[one] = nn.Parameter(self._on("cuda:0", torch.arange(6.0) + number))

    def grow(self, one, two, number):
        """A gradient comes to a weight."""
        weight = self.names[one]
        (weight * number).sum().backward()
        self._on(self.carrier.where(weight), weight.grad)

    def tie(self, one, two, number):
        self.names[one] = self.names[two]

    def keep(self, one, two, number):
        self.kept.append(self.names[one])

    def part(self, one, two, number):
        self.names[one] = self.names[two].detach()[number % 5 :]

    def every_second(self, one, two, number):
        self.names[one] = self.names[two].view(-1)[:: number % 3 + 1]

    def turned(self, one, two, number):
        tensor = self.names[two]
        self.names[one] = tensor.view(2, -1).t() if tensor.dim() == 1 else tensor.t()

    def strided(self, one, two, number):
        self.names[one] = self.names[two].as_strided((2, 2), (1, 2), number % 4)

    def widened(self, one, two, number):
        self.names[one] = self.names[two].expand(3, *self.names[two].shape)

    def as_bits(self, one, two, number):
        self.names[one] = self.names[two].view(torch.int32)

    def own_copy(self, one, two, number):
        device = self.carrier.where(self.names[two])
        self.names[one] = self._on(device, self.names[two].detach().clone())
        if device == "cpu":  # its source is parked
            self.born_on_cpu.append(weakref.ref(self.names[one].untyped_storage()))

    def wrap(self, one, two, number):
        self.names[one] = nn.Parameter(self.names[two].detach())

    def write(self, one, two, number):
        with torch.no_grad():
            self.names[one].view(-1)[number % 3] = number

    def take_data(self, one, two, number):
        self.names[one].data = self.names[two].data
        self.taken = True

    def drop(self, one, two, number):
        del self.names[one]

    def drop_kept(self, one, two, number):
        self.kept.pop(number % 7)

    def look_as_array(self, one, two, number):
        self.names[one].detach().numpy()

    # -- parking ------------------------------------------------------------------------------

    def park(self, one, two, number):
        if self.parking:
            named = [name for name in (one, two) if name in self.names]
            report = park(self.holdings, self.lot, named)
            for name in named:
                self._check_parked(name, report)

    def _check_parked(self, name, report):
        tensor = self.names[name]
        if not torch.is_tensor(tensor):
            return
        graph = any(text.startswith(f"{name} has a graph") for text in report.refused)
        assert graph or "cpu" == self.carrier.where(tensor), report.refused

    def unpark(self, one, two, number):
        if self.parking:
            unpark(self.holdings, self.lot, [one])

    def fail_to_park(self, one, two, number):
        if self.parking and one in self.names:
            before = self.told()
            self.carrier.fail_at = number % 3
            park(self.holdings, self.lot, [one, "kept"])
            self.carrier.fail_at = None
            assert before == self.told()

    # -- what a user can see ------------------------------------------------------------------

    def tensors(self):
        named = {name: t for name, t in self.names.items() if torch.is_tensor(t)}
        named |= {f"kept[{n}]": t for n, t in enumerate(self.kept)}
        gradients = {f"{n}.grad": t.grad for n, t in named.items() if t.is_leaf}
        return named | {name: t for name, t in gradients.items() if t is not None}

    def told(self):
        tensors = self.tensors()
        storages = [t.untyped_storage()._cdata for t in tensors.values()]
        objects = [id(t) for t in tensors.values()]
        return {
            name: (
                type(tensor),
                tensor.dtype,
                tensor.tolist(),
                tensor.stride(),
                tensor.storage_offset(),
                tensor.requires_grad,
                tensor.is_leaf,
                tensor._version,
                storages.index(tensor.untyped_storage()._cdata),
                objects.index(id(tensor)),
            )
            for name, tensor in tensors.items()
        }

    def places(self):
        return {name: self.carrier.where(tensor) for name, tensor in self.tensors().items()}

    def made_while_parked(self):
        """Names of what was made on the CPU of what was parked: it was never anywhere else."""
        born = [ref() for ref in self.born_on_cpu]
        named = self.tensors()
        own = {n for n, t in named.items() if any(t.untyped_storage() is b for b in born)}
        return own | {f"{name}.grad" for name in own}


ACTS = [name for name in vars(World) if not name.startswith("_") and name not in
        ("run", "tensors", "told", "places", "made_while_parked")]  # fmt: skip
PROGRAMS = st.lists(
    st.tuples(
        st.sampled_from(ACTS + ["new", "weight", "part", "park"] * 2),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.integers(0, 12),
    ),
    min_size=4,
    max_size=25,
)
START = [("new", "a", "a", 2), ("weight", "b", "b", 3), ("part", "c", "a", 1)]


@CAREFULLY
@given(PROGRAMS)
def test_nobody_can_tell_that_anything_was_parked(program):
    parked, plain = World(True), World(False)
    for world in (parked, plain):
        world.run(START + program)
    assert plain.told() == parked.told()
    unpark(parked.holdings, parked.lot)
    assert plain.told() == parked.told()
    if not parked.taken:
        made, places = parked.made_while_parked(), parked.places()
        home = {name: "cpu" if name in made else place for name, place in plain.places().items()}
        assert home == places
        assert () == parked.lot.things()


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    gc.collect()
