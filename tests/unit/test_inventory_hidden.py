"""What no variable shows: saved by graphs, packed by hooks, held by functions; all is found."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter

import hidden_scenes
import holding_scenes
import pytest
from hidden_scenes import CALLS, GRAPH_SCENES, N, packed_to_a_file
from holding_scenes import HOLDING_SCENES
from storage_truth import Look, MadeStorages, collected, nothing_of_ours_runs

from nbmem.heap import StorageTable

pytestmark = pytest.mark.leaves_graphs

SCENES = GRAPH_SCENES | HOLDING_SCENES


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """What other tests left is kept from the collector, so that to collect is quick."""
    collected()
    gc.freeze()
    yield
    gc.unfreeze()


WITHOUT_A_NAME = {
    "hook on a node": "torch shows nobody what a node's hooks are",
}
"""Scenes in which something is counted and has no name, and why."""


OUT_OF_SIGHT = {"views changed in place": Counter({600: 1})}
"""Sizes of what torch shows nobody: the node of an operation in place on a view hides another."""
MADE_UNSEEN = {8: "the number of a product", 5056: "the random generator's state, by checkpoint"}
"""Sizes of what torch makes without an operation that a mode could see."""


def build(scene):
    """Returns the namespace of a scene and weak references to what it made.

    Such a reference gives a storage a Python object, by which it is found. What is found without
    that help is for `build_bare`.
    """
    made = MadeStorages()
    with made:
        namespace = SCENES[scene]()
    collected()
    CALLS.clear()
    return namespace, made


def build_bare(scene):
    """Returns the namespace of a scene and a table that knows what was there before."""
    table = StorageTable()
    Look({}, table=table)
    namespace = SCENES[scene]()
    collected()
    CALLS.clear()
    return namespace, table


@pytest.mark.parametrize("scene", SCENES)
def test_every_byte_is_found_once_and_nothing_of_the_users_runs(scene):
    namespace, made = build(scene)
    expected = Counter(made.alive().values())
    del namespace, made
    collected()
    namespace, table = build_bare(scene)
    first = table.next_serial
    with nothing_of_ours_runs(hidden_scenes.__file__, holding_scenes.__file__):
        look = Look(namespace, table=table)
    assert [] == CALLS
    found = Counter(record.bytes for record in look.inventory.storages if record.key >= first)
    assert OUT_OF_SIGHT.get(scene, Counter()) == expected - found
    assert (found - expected).keys() <= MADE_UNSEEN.keys()


@pytest.mark.parametrize("scene", SCENES)
def test_all_of_it_has_a_name_that_leads_back_and_a_kind(scene):
    namespace, table = build_bare(scene)
    first = table.next_serial
    look = Look(namespace, table=table)
    new = [record for record in look.inventory.storages if record.key >= first]
    assert [] == look.lost_names()
    assert [] == CALLS
    nameless = [record.bytes for record in new if not record.names]
    unknown = [record.bytes for record in new if record.category == "unknown"]
    assert (scene in WITHOUT_A_NAME) == bool(nameless) == bool(unknown)


@pytest.mark.parametrize("scene", SCENES)
def test_what_is_dropped_goes_as_if_nobody_had_looked(scene):
    left = []  # not nothing: a packed result that its own graph keeps is a cycle of torch's
    for looking in (False, True):
        namespace, made = build(scene)
        if looking:
            Look(namespace)
        namespace.clear()
        collected()
        left.append(sorted(made.alive().values()))
    assert left[0] == left[1]


def test_what_hooks_wrote_to_a_file_is_not_read_back(tmp_path):
    made = MadeStorages()
    with made:
        namespace = packed_to_a_file(tmp_path)
    collected()
    CALLS.clear()
    look = Look(namespace)
    assert [] == CALLS
    # the leaf and the loss; the three saved results lie on the disk
    assert [4, 4 * N] == sorted(made.alive().values())
    assert made.alive() == look.sizes(made.alive())


def test_what_an_operation_in_place_on_a_view_hides_is_told():
    namespace, _ = build("views changed in place")
    assert "operations on views in place, or in C++, may keep for backward" in (
        Look(namespace).sentences()
    )


def names_and_kinds(scene):
    namespace, made = build(scene)
    look = Look(namespace)
    records = [look.by_address[address] for address in made.alive()]
    return {record.names[:1]: (record.bytes, record.category) for record in records}


def test_what_backward_freed_is_gone_and_its_gradient_is_one():
    # exp's and sin's results went with the graph
    assert {
        ("w",): (1200, "user"),
        ("w.grad",): (1200, "gradient"),
        ("loss",): (4, "user"),
    } == names_and_kinds("freed graph")


def test_what_a_second_backward_needs_is_named_through_the_loss():
    assert {
        ("w",): (1200, "user"),
        ("w.grad",): (1200, "gradient"),
        ("loss",): (4, "user"),
        ("loss → graph[1] SinBackward0.self",): (1200, "saved for backward"),
    } == names_and_kinds("retained graph")


def test_what_the_graph_of_one_loss_freed_stays_for_the_other():
    kinds = names_and_kinds("half freed")
    # tan's result and the sine that both share: the body's own were freed by the first backward
    assert (1200, "saved for backward") == kinds[("two → graph[1] TanBackward0.result",)]
    assert [1200] * 3 == [size for size, _ in kinds.values() if size > 4]


def test_functions_run_backward_as_before_after_a_look():
    for scene in ("packed into dict", "checkpoint", "checkpoint in a checkpoint", "ctx"):
        expected = None
        for looking in (False, True):
            namespace, _ = build(scene)
            if looking:
                Look(namespace)
            namespace["loss"].backward()
            ran, gradient = sorted(CALLS), namespace["w"].grad.tolist()
            expected = expected or (ran, gradient)
            assert expected == (ran, gradient)


CHAINS = {
    "adding one": "t = t + 1",
    "summing losses": "t = t + w.exp().sum()",
    "a recurrent state": "t = torch.tanh(t * w)",
}
DEEP = """
import sys
import torch
from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory, resolve_name
w = torch.ones(1, requires_grad=True)
t = w * 1
table = StorageTable()
for cell in range(2):
    for _ in range(50_000):
        {body}
    listed = take_inventory(table, {{"t": t, "w": w}}, budget=60, now=0.0)
    print(sorted({{note.code for note in listed.notes}}), {{r.category for r in listed.storages}})
del listed
del t
print("freed", table.bytes_on("cpu"), flush=True)
"""


@pytest.mark.parametrize("chain", CHAINS)
def test_a_graph_of_a_hundred_thousand_nodes_is_walked_and_freed(chain):
    code = DEEP.format(body=CHAINS[chain])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    walked, again, freed = done.stdout.splitlines()
    assert walked.startswith("[] ")
    assert walked == again
    assert "unknown" not in walked
    assert "freed 4" == freed  # the leaf
