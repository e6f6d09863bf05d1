"""Ways from a root down to an object, in graphs of ties that are written by hand."""

from __future__ import annotations

import itertools

from nbmem.holders.ties import ROOT, Tie, Ties
from nbmem.holders.ways import ways_to


class Thing:
    """Held and holding, by nothing but the ties of a test."""


def tied(*pairs):
    """The ties for pairs of holder and held; None is the root."""
    ties = Ties()
    for holder, held in pairs:
        if holder is not None:
            ties.objects[id(holder)] = holder
        ties.add(held, Tie(ROOT if holder is None else id(holder), None, None, "some", "way"))
    return ties


def test_every_way_is_told_shortest_first():
    top, left, right, far, below = (Thing() for _ in range(5))
    ties = tied((None, top), (top, left), (top, right), (right, far), (left, below), (far, below))
    ways, more = ways_to(ties, below)
    assert [(top, left, below), (top, right, far, below)] == [way.objects for way in ways]
    assert 0 == more


def test_a_way_is_found_where_there_are_more_ways_than_anybody_could_look_at():
    layers = [[Thing() for _ in range(12)] for _ in range(9)]
    pairs = [(None, layers[0][7])]
    for above, below in itertools.pairwise(layers):
        pairs += [(holder, held) for holder in above for held in below]
    target = Thing()
    pairs += [(holder, target) for holder in layers[-1]]
    ((ties, objects),), more = ways_to(tied(*pairs), target)
    assert layers[0][7] is objects[0]
    assert target is objects[-1]
    assert all(one in layer for one, layer in zip(objects, layers, strict=False))
    assert (len(layers) + 1, len(layers) + 1, 0) == (len(ties), len(objects), more)


def test_no_way_leads_through_what_is_left_out():
    top, only, below = (Thing() for _ in range(3))
    ties = tied((None, top), (top, only), (only, below))
    assert ([], 0) == ways_to(ties, below, but={id(only)})
