"""Storages over one memory: which address ranges overlap, and the bytes that they cover together.

    whole file      |=====================|                  one cluster: begin to end of the file
    three slices     |====| |===|   |==|                     (each of them adds nothing)
    x and its alias                            |=====|=====| another

Memory that torch's allocator gives out never overlaps what lives. Only memory that torch was handed
can: numpy's and DLPack's, mapped files, slices of storages. torch calls such storages not
resizable. They are kept here sorted by address. All others are looked up only where one of these
comes, so that as long as there is none, nothing is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from math import isqrt
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

    from nbmem.heap.entries import StorageRef
    from nbmem.heap.windows import Group

Range = tuple[int, int]
"""First address, and the one behind the last."""
_NEW = 256
"""Storages entered since the others were sorted that are worth looking through one by one."""
_FEW = 16
"""Of these each is put where it belongs among the others, once."""
_begin_of = attrgetter("begin")


class Cluster:
    """Storages that overlap, directly or through each other: together they cover one range."""

    __slots__ = ("begin", "cover", "end", "members")

    def __init__(self, members: dict[int, StorageRef], begin: int, end: int) -> None:
        self.members = members
        """By the `id` of the entry."""
        self.begin = begin
        self.end = end
        self.cover: StorageRef | None = None
        """One that covers the range alone, if a member does: while it lives nothing changes."""
        self.find_cover()

    def find_cover(self) -> None:
        """Looks for a member that covers all of the range."""
        for entry in self.members.values():
            if entry.begin == self.begin and entry.begin + entry.bytes == self.end:
                self.cover = entry
                return
        self.cover = None


class Ranges:
    """The address ranges of one device's storages, as far as any may overlap.

    Not to be used by two threads at once; only `spans` and `cluster_of` may be looked at by others.
    """

    __slots__ = ("_begins", "_displaced", "_sorted", "_sorted_to", "cluster_of", "spans")

    def __init__(self) -> None:
        self.spans: list[tuple[int, int, Cluster]] = []
        """Clusters by address; they do not overlap."""
        self.cluster_of: dict[int, Cluster] = {}
        """By the `id` of the entry."""
        self._displaced: list[StorageRef] = []
        self._sorted: list[StorageRef] = []
        """Storages in no cluster, by the address that they had then."""
        self._begins: list[int] = []
        """These addresses."""
        self._sorted_to = -1
        """The highest serial among them."""

    def overlaps(self, begin: int, end: int) -> bool:
        """Returns whether a cluster has any of these addresses."""
        spans = self.spans
        at = bisect_left(spans, (end,))
        try:
            return at > 0 and spans[at - 1][1] > begin
        except IndexError:  # another thread took one away: looking closer does no harm
            return True

    def join(self, entry: StorageRef, table: Mapping[int, StorageRef], *, owned: bool) -> int:
        """Takes up a storage; returns by how many bytes all that is covered grew.

        Args:
            entry: whose bytes are not counted yet.
            table: every entry, oldest first but for those that were displaced.
            owned: its memory is of torch's allocator, so that no other such storage overlaps it.
        """
        begin, end = entry.begin, entry.begin + entry.bytes
        hits = self._take_hits(begin, end)
        if len(hits) == 1 and hits[0].begin <= begin and end <= hits[0].end:
            cluster = hits[0]
            self._put(cluster)
            cluster.members[id(entry)] = entry
            self.cluster_of[id(entry)] = cluster
            if cluster.cover is None:
                cluster.find_cover()
            return 0
        before, members = 0, {id(entry): entry}
        # Strong references: what is looked at here must not die before it is a member.
        over = [] if owned else self._others_over(entry, table)
        for other, _ in over:
            members[id(other)] = other
            before += other.bytes
            begin, end = min(begin, other.begin), max(end, other.begin + other.bytes)
        while True:
            for hit in hits:
                members.update(hit.members)
                before += hit.end - hit.begin
                begin, end = min(begin, hit.begin), max(end, hit.end)
            hits = self._take_hits(begin, end)
            if not hits:
                break
        self._put(Cluster(members, begin, end))
        return end - begin - before

    def leave(self, dead: Iterable[StorageRef]) -> int:
        """Lets go of storages; returns by how many bytes all that is covered shrank."""
        shrunk = 0
        touched: dict[int, Cluster] = {}
        for entry in dead:
            cluster = self.cluster_of.pop(id(entry), None)
            if cluster is not None:
                cluster.members.pop(id(entry), None)
                touched[id(cluster)] = cluster
                if cluster.cover is entry:
                    cluster.cover = None
        for cluster in touched.values():
            if cluster.cover is None and cluster.members:
                cluster.find_cover()
            if cluster.cover is None:
                shrunk += self._take_apart(cluster)
        return shrunk

    def _take_apart(self, cluster: Cluster) -> int:
        del self.spans[self._place_of(cluster)]
        left = 0
        for members, begin, end in _groups_of(cluster.members.values()):
            self._put(Cluster({id(entry): entry for entry in members}, begin, end))
            left += end - begin
        return cluster.end - cluster.begin - left

    def _take_hits(self, begin: int, end: int) -> list[Cluster]:
        """Returns the clusters that overlap a range; they stand nowhere then."""
        spans = self.spans
        last = first = bisect_left(spans, (end,))
        while first and spans[first - 1][1] > begin:
            first -= 1
        hits = [cluster for _, _, cluster in spans[first:last]]
        del spans[first:last]
        return hits

    def _put(self, cluster: Cluster) -> None:
        span = cluster.begin, cluster.end, cluster
        self.spans.insert(bisect_left(self.spans, span[:1]), span)
        for key in cluster.members:
            if self.cluster_of.get(key) is not cluster:
                self.cluster_of[key] = cluster

    def _place_of(self, cluster: Cluster) -> int:
        return bisect_left(self.spans, (cluster.begin,))

    # -- storages in no cluster --------------------------------------------------------------

    def _others_over(
        self, one: StorageRef, table: Mapping[int, StorageRef]
    ) -> list[tuple[StorageRef, object]]:
        """Returns the other storages in no cluster that overlap one, each held for the moment."""
        begin, end = one.begin, one.begin + one.bytes
        if len(self._sorted) > 2 * len(table) + _NEW:  # for the most part they are dead
            self._sort(list(table.values()))
        entries = self._recent(table)
        if len(entries) <= _FEW:
            self._insert(entries, one)
            entries = []
        entries += self._displaced
        known, begins = self._sorted, self._begins
        at = bisect_left(begins, end)
        while at:
            at -= 1
            entries.append(known[at])
            if begins[at] < begin and known[at]() is not None:
                break  # those before it end where it begins, or sooner
        found: dict[int, tuple[StorageRef, object]] = {}
        for entry in entries:
            if entry is one or not self._is_other(entry):
                continue
            if entry.begin < end and begin < entry.begin + entry.bytes:
                storage = entry()
                if storage is not None:
                    found[id(entry)] = entry, storage
        return list(found.values())

    def _is_other(self, entry: StorageRef) -> bool:
        if not (entry.begin and entry.bytes) or entry.total.ranges is not self:
            return False
        return id(entry) not in self.cluster_of

    def _recent(self, table: Mapping[int, StorageRef]) -> list[StorageRef]:
        """Returns the storages that were entered since the others were sorted."""
        limit = max(_NEW, 4 * isqrt(len(table)))
        recent: list[StorageRef] = []
        try:
            for entry in reversed(table.values()):  # type: ignore[call-overload]
                if entry.serial <= self._sorted_to:
                    return recent
                recent.append(entry)
                if len(recent) > limit:
                    break
            else:
                return recent
        except RuntimeError:  # another thread entered one meanwhile
            pass
        self._sort(list(table.values()))
        return []

    def _insert(self, recent: list[StorageRef], but: StorageRef) -> None:
        """Takes a few storages in among the sorted ones."""
        for entry in recent:
            if entry is not but and self._is_other(entry):
                at = bisect_left(self._begins, entry.begin)
                self._begins.insert(at, entry.begin)
                self._sorted.insert(at, entry)
            self._sorted_to = max(self._sorted_to, entry.serial)

    def displace(self, entry: StorageRef) -> None:
        """Notes that a storage is not where its serial or its former address would have it."""
        if len(self._displaced) > _NEW:
            self._displaced, self._sorted, self._begins, self._sorted_to = [], [], [], -1
        self._displaced.append(entry)

    def _sort(self, entries: Collection[StorageRef]) -> None:
        newest = max((entry.serial for entry in entries), default=-1)
        mine = sorted(filter(self._is_other, entries), key=_begin_of)
        self._take_sorted(mine, newest)

    def _take_sorted(self, entries: list[StorageRef], newest: int) -> None:
        self._displaced = []
        self._sorted, self._begins = entries, [entry.begin for entry in entries]
        self._sorted_to = newest

    def rebuild(self, entries: Iterable[StorageRef], handed: Container[int], newest: int) -> int:
        """Makes all of it anew from what lives; returns the bytes that are covered.

        Args:
            entries: every storage of this device that has bytes at an address, as it is now.
            handed: ids of those whose memory is not of torch's allocator.
            newest: the highest serial that was given so far.
        """
        self.spans.clear()
        self.cluster_of.clear()
        total = 0
        others: list[StorageRef] = []
        for members, begin, end in _groups_of(entries):
            total += end - begin
            if len(members) > 1 or id(members[0]) in handed:
                self._put(Cluster({id(entry): entry for entry in members}, begin, end))
            else:
                others += members
        self._take_sorted(others, newest)
        return total


def covered(ranges: Iterable[Range]) -> int:
    """Returns how many addresses are in any of the ranges."""
    total = end = 0
    for first, last in sorted(ranges):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _groups_of(entries: Iterable[StorageRef]) -> Iterator[tuple[list[StorageRef], int, int]]:
    """Goes through the storages that overlap, and the range that each group covers, by address."""
    members: list[StorageRef] = []
    begin = end = 0
    for entry in sorted(entries, key=_begin_of):
        if members and entry.begin >= end:
            yield members, begin, end
            members, end = [], 0
        if not members:
            begin = entry.begin
        members.append(entry)
        end = max(end, entry.begin + entry.bytes)
    if members:
        yield members, begin, end


def uncovered(taken: list[Range], begin: int, end: int) -> int:
    """Returns how many addresses of a range are not taken, and takes them.

    Args:
        taken: ranges by address that neither overlap nor touch; what is taken joins them.
        begin: first address of the range.
        end: the one behind its last.
    """
    if begin >= end:
        return 0
    first = last = bisect_left(taken, (begin,))
    if first and taken[first - 1][1] >= begin:
        first -= 1
    while last < len(taken) and taken[last][0] <= end:
        last += 1
    hits = taken[first:last]
    had = sum(max(0, min(end, right) - max(begin, left)) for left, right in hits)
    if hits:
        taken[first:last] = [(min(begin, hits[0][0]), max(end, hits[-1][1]))]
    else:
        taken.insert(first, (begin, end))
    return end - begin - had


def share_out(groups: Iterable[Group], rank: Callable[[int], Any]) -> dict[int, int]:
    """Returns the bytes that are counted with each storage that shares memory, by serial.

    Each address is counted with the first storage that has it.

    Args:
        groups: storages that overlap.
        rank: the order of storages, by their serials.
    """
    counted: dict[int, int] = {}
    for group in groups:
        taken: list[tuple[int, int]] = []
        for serial, begin, end in sorted(group, key=lambda one: (rank(one[0]), one[0])):
            counted[serial] = uncovered(taken, begin, end)
    return counted
