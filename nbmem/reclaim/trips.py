"""What a move to the CPU and back would take along, decided before anything is touched."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from nbmem.heap import scan_heap
from nbmem.heap.storages import bare_torch, gradient_of, read_storages
from nbmem.reclaim.captured import any_captured
from nbmem.reclaim.lot import Parked, ParkingLot
from nbmem.reclaim.moves import HOST, STAYING, Load, Sharing
from nbmem.reclaim.names import Holdings
from nbmem.reclaim.reached import Reached, name_them, reach
from nbmem.records import Note
from nbmem.units import format_bytes, format_count

_NO_ACCELERATOR = (
    "there is no accelerator here, and parking moves what is on one: `%gpumem tensors` tells what "
    "takes the CPU's memory, and `del` gives it back"
)
_CAPTURED = (
    "a captured CUDA graph is alive and replays at the addresses that memory has now: drop it "
    "(`del graph`) before you park"
)
_SHOWN = 5
"""Names that are told one by one."""


class Berth(NamedTuple):
    """Where one storage goes, and how it is told."""

    name: str
    """As the user gave it."""
    text: str
    """Of a tensor that shows the storage."""
    source: str
    target: str
    guarded: bool = False
    """It never was parked: a parked tensor was given it meanwhile. It stays where others show it
    too."""


@dataclass(slots=True)
class Trip:
    """What is to be moved. It holds the tensors: to be cleared after the act."""

    act: str
    loads: list[Load] = field(default_factory=list)
    entries: list[Parked] = field(default_factory=list)
    """Those that are parked no longer once it is done."""
    refused: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    blocked: set[int] = field(default_factory=set)
    """Addresses of storages that can't be moved."""

    def clear(self) -> None:
        """Lets go of all tensors."""
        for reached in self.reached:
            reached.clear()
        self.reached.clear()
        self.loads.clear()

    def devices(self) -> list[str]:
        """Returns the accelerators at which it begins or ends."""
        ends = {end for load in self.loads for end in (load.source, load.target)}
        return sorted(ends.difference(STAYING))

    def sentences(self) -> tuple[str, ...]:
        """Returns what moves, a sentence for each name and device."""
        groups: dict[tuple[str, str, str], list[int]] = {}
        for load in self.loads:
            groups.setdefault((load.name, load.source, load.target), []).append(load.bytes)
        return tuple(
            f"{name}: {format_bytes(sum(sizes))} in {format_count(len(sizes), 'storage')} "
            f"from {place_of(source)} to {place_of(target)}"
            for (name, source, target), sizes in groups.items()
        )

    def refuse(self, sentence: str) -> None:
        """Adds a reason, once."""
        if sentence not in self.refused:
            self.refused.append(sentence)

    def call_off(self, sentence: str) -> None:
        """Refuses all of it."""
        self.refuse(sentence)
        self.loads.clear()

    def note(self, code: str, sentence: str) -> None:
        """Adds what else there is to know."""
        self.notes.append(Note("park", code, sentence))


def place_of(device: str) -> str:
    """Returns what the user is told for a device."""
    return "pinned CPU memory" if device == HOST else device


# -- there -----------------------------------------------------------------------------------------


def plan_parking(holdings: Holdings, lot: ParkingLot, names: Iterable[str]) -> Trip:
    """Returns what parking these names would move; nothing is touched."""
    trip = Trip("park")
    if not lot.carrier.accelerators():
        trip.refuse(_NO_ACCELERATOR)
        return trip
    for name in _each(names):
        reached = reach(name, holdings, lot.carrier)
        if reached is None:
            trip.refuse(f"`{name}` names nothing: `%gpumem tensors` lists the names of now")
        else:
            trip.reached.append(reached)
    berths = _berths_on_host(trip.reached, lot)
    _load(trip, holdings, lot, berths)
    for reached in trip.reached:
        _tell_what_stays(trip, reached, lot, berths)
    _tell_who_moves_along(trip, holdings)
    _check_the_way(trip, lot)
    return trip


def _each(names: Iterable[str]) -> list[str]:
    """Returns names once; a lone one is no sequence of letters."""
    return list(dict.fromkeys((names,) if isinstance(names, str) else names))


def _berths_on_host(all_reached: Sequence[Reached], lot: ParkingLot) -> dict[int, Berth]:
    """Returns where each storage is to go, by its address."""
    berths: dict[int, Berth] = {}
    for reached in all_reached:
        for text, (address, device) in _places(reached.tensors, lot).items():
            if device not in STAYING:
                berths.setdefault(address, Berth(reached.name, text, device, HOST))
    return berths


def _places(tensors: dict[str, torch.Tensor], lot: ParkingLot) -> dict[str, tuple[int, str]]:
    """Returns address and device of each tensor's storage."""
    with bare_torch():
        return {
            text: (storage._cdata, lot.carrier.device_of(storage))
            for text, tensor in tensors.items()
            for storage in read_storages(tensor)[:1]
        }


def _load(trip: Trip, holdings: Holdings, lot: ParkingLot, berths: dict[int, Berth]) -> None:
    """Takes up every storage that can be moved, with all its tensors; tells why others can't.

    The gradients of tensors that move along join `berths`.
    """
    if not berths:
        return
    known = [tensor for reached in trip.reached for tensor in reached.tensors.values()]
    with scan_heap(holdings.table) as scan, bare_torch():
        sharing = Sharing(scan, known)
    ours, kept, waiting = set(map(id, known)), dict[str, None](), deque(berths.items())
    with bare_torch():
        while waiting:
            address, berth = waiting.popleft()
            load = _load_one(trip, sharing, address, berth, ours)
            if load is None:
                continue
            if sharing.awaits_backward(load):
                kept[berth.name] = None
            for place, gradient in _berths_of_gradients(load, berth, lot).items():
                if place not in berths:
                    berths[place] = gradient
                    waiting.append((place, gradient))
    for name in kept if trip.act == "park" else ():
        trip.note("graph", _KEPT.format(name))


def _load_one(
    trip: Trip, sharing: Sharing, address: int, berth: Berth, ours: Container[int]
) -> Load | None:
    load = sharing.load(address, berth.source, berth.target, berth.name)
    if load is None:
        return None
    shared = berth.guarded and any(id(tensor) not in ours for tensor in load.tensors)
    reason = _GIVEN if shared else sharing.obstacle(load)
    if reason is None:
        trip.loads.append(load)
        return load
    trip.refuse(f"{berth.text} {reason}")
    trip.blocked.add(address)
    return None


def _berths_of_gradients(load: Load, berth: Berth, lot: ParkingLot) -> dict[int, Berth]:
    along = berth._replace(text=f"{berth.text}.grad", guarded=False)
    return {
        storage._cdata: along
        for gradient in map(gradient_of, load.tensors)
        if gradient is not None
        for storage in read_storages(gradient)
        if lot.carrier.device_of(storage) == berth.source
    }


_KEPT = "a graph keeps {} for a backward pass, which fails until it is unparked"
_GIVEN = (
    "was given memory while it was parked that other tensors show too, and stays on the CPU: "
    "`.to(…)` makes a copy on another device"
)


def _tell_what_stays(
    trip: Trip, reached: Reached, lot: ParkingLot, berths: dict[int, Berth]
) -> None:
    before = len(trip.refused)
    for sentence in reached.refused:
        trip.refuse(sentence)
    for text, (address, device) in _places(reached.graphs, lot).items():
        if address not in berths:
            trip.refuse(
                f"{text} has a graph, whose saved values would stay on {device}: "
                f"`{text} = {text}.detach()` lets it go along"
            )
    if any(address in berths for address, _ in _places(reached.tensors, lot).values()):
        _tell_parameters(trip, reached, lot, berths)
    elif len(trip.refused) == before and not _all_move(reached.left | reached.graphs, lot, berths):
        trip.refuse(_why_nothing(reached, lot))


def _all_move(tensors: dict[str, torch.Tensor], lot: ParkingLot, berths: Container[int]) -> bool:
    """Returns whether there are any, and all of them go along under another name."""
    return bool(tensors) and all(address in berths for address, _ in _places(tensors, lot).values())


def _tell_parameters(
    trip: Trip, reached: Reached, lot: ParkingLot, berths: dict[int, Berth]
) -> None:
    left = _places(reached.left, lot).values()
    stay = {device for address, device in left if device not in STAYING and address not in berths}
    if stay:
        where = ", ".join(sorted(stay))
        trip.note(
            "parameters",
            f"the parameters of {reached.name} stay on {where}: name their model too to park them",
        )


def _why_nothing(reached: Reached, lot: ParkingLot) -> str:
    name = reached.name
    addresses = {address for address, _ in _places(reached.tensors, lot).values()}
    for entry in lot.entries():
        storage = entry.storage()
        if storage is not None and storage._cdata in addresses:
            return (
                f"{name} is parked already, from {entry.device}: "
                f"`%gpumem unpark {name}` brings it back"
            )
    if not addresses and reached.left:
        return f"{name} keeps no state yet, and its parameters are a model's: park the model"
    if not addresses:
        return f"{name} leads to no tensor: park a model, an optimizer, a tensor or what holds them"
    return f"{name} is on the CPU already: only what is on an accelerator can be parked"


def _tell_who_moves_along(trip: Trip, holdings: Holdings) -> None:
    known = {id(t) for one in trip.reached for t in (*one.tensors.values(), *one.graphs.values())}
    known.update(id(t) for one in trip.reached for t in one.left.values())
    others = {id(t): load.name for load in trip.loads for t in load.tensors if id(t) not in known}
    named = name_them(others, holdings) if others else {}
    for number, (key, text) in enumerate(named.items()):
        if number < _SHOWN:
            trip.note("along", f"{text} shares memory with {others[key]} and moves along")
    if len(named) > _SHOWN:
        trip.note("along", f"{len(named) - _SHOWN:,} more share memory with them and move along")


def _check_the_way(trip: Trip, lot: ParkingLot) -> None:
    if not trip.loads:
        return
    if any_captured():
        trip.call_off(_CAPTURED)
        return
    # torch takes pinned memory in powers of two.
    needed = sum(1 << max(load.bytes - 1, 0).bit_length() for load in trip.loads)
    room = lot.carrier.host_room()
    if needed > room:
        trip.call_off(
            f"pinning takes {format_bytes(needed)} of main memory, of which {format_bytes(room)} "
            "can be had: nothing was moved; park less at a time"
        )


# -- and back --------------------------------------------------------------------------------------


def plan_return(holdings: Holdings, lot: ParkingLot, names: Iterable[str]) -> Trip:
    """Returns what unparking these names, or everything, would move; nothing is touched."""
    trip = Trip("unpark")
    entries = lot.entries()
    if not entries:
        trip.refuse("nothing is parked: `%gpumem park NAME` moves a model to the CPU")
        return trip
    wanted = _each(names)
    chosen = _choose(trip, holdings, lot, wanted) if wanted else entries
    living = [tensor for entry in entries for tensor in entry.living()]
    trip.reached.append(Reached("", {str(n): tensor for n, tensor in enumerate(living)}))
    homes = [_home_of(entry, lot) for entry in chosen]
    berths = [pair for home in homes for pair in home.items()]
    # Of two ways back that of the tensor whose memory it was counts.
    _load(trip, holdings, lot, dict(sorted(berths, key=lambda pair: not pair[1].guarded)))
    pairs = zip(chosen, homes, strict=True)
    trip.entries = [entry for entry, home in pairs if trip.blocked.isdisjoint(home)]
    _tell_who_moves_along(trip, holdings)
    return trip


def _home_of(entry: Parked, lot: ParkingLot) -> dict[int, Berth]:
    """Returns where what became of a parked storage goes, by address."""
    home: dict[int, Berth] = {}
    with bare_torch():
        for storage in lot.storages_of(entry):
            guarded = storage is not entry.storage()
            home[storage._cdata] = Berth(entry.name, entry.name, HOST, entry.device, guarded)
    return home


def _choose(trip: Trip, holdings: Holdings, lot: ParkingLot, names: Sequence[str]) -> list[Parked]:
    """Returns what these names lead to now, or were given for when it was parked."""
    chosen: dict[int, Parked] = {}
    for name in names:
        found = _parked_under(name, holdings, lot)
        if not found:
            trip.refuse(f"nothing of `{name}` is parked: `%gpumem park` lists what is")
        chosen.update((id(entry), entry) for entry in found)
    return list(chosen.values())


def _parked_under(name: str, holdings: Holdings, lot: ParkingLot) -> list[Parked]:
    entries = lot.entries()
    reached = reach(name, holdings, lot.carrier)
    if reached is not None:
        addresses = {address for address, _ in _places(reached.tensors, lot).values()}
        reached.clear()
        with bare_torch():
            found = [
                entry
                for entry in entries
                if not addresses.isdisjoint(one._cdata for one in lot.storages_of(entry))
            ]
        if found:
            return found
    return [entry for entry in entries if entry.name == name]
