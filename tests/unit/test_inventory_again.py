"""An inventory asked for again: the same where nothing changed, a new one where anything did."""

import gc
import weakref

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory


class Holder:
    pass


@pytest.fixture(autouse=True)
def nothing_dies_meanwhile():
    """What other tests left behind must not be collected between two inventories."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def take(table, names, **options):
    return take_inventory(table, names, budget=60, now=0.0, **options)


def test_nothing_changed_and_the_same_records_are_told():
    names = {"model": nn.Linear(3, 2), "x": torch.ones(5)}
    table = StorageTable()
    first = take(table, names)
    again = take_inventory(table, names, budget=60, now=7.0)
    assert first.storages is again.storages
    assert (0.0, 7.0) == (first.taken_at, again.taken_at)


def test_the_last_inventory_is_not_kept_alive_for_it():
    names = {"x": torch.ones(5)}
    table = StorageTable()
    inventory = take(table, names)
    last = weakref.ref(inventory)
    del inventory
    assert last() is None
    assert ("x",) in [record.names for record in take(table, names).storages]


def test_a_cell_that_is_known_only_now_is_told():
    names = {"x": torch.ones(5)}
    table = StorageTable()
    first = take(table, names, origins=1)
    serial = next(record.key for record in first.storages if record.names == ("x",))
    told = take(
        table, names, origins=2, origin_of=lambda key: (4, 9, 2) if key == serial else (None,) * 3
    )
    (record,) = [record for record in told.storages if record.key == serial]
    assert (4, 9, 2) == (record.created_by, record.created_in, record.line)


def swap_items(names):
    names["xs"][0], names["xs"][1] = names["xs"][1], names["xs"][0]


def move_between_neighbours(names):
    names["ys"].insert(0, names["xs"].pop())


def rename_key(names):
    names["d"]["b"] = names["d"].pop("a")


def swap_value_with_a_number(names):
    names["d"]["a"], names["d"]["n"] = names["d"]["n"], names["d"]["a"]


def rename_variable(names):
    names["other"] = names.pop("x")


def rename_attribute(names):
    names["holder"].renamed = names["holder"].tensor
    del names["holder"].tensor


def point_a_view_elsewhere(names):
    names["view"] = None
    names["view"] = names["y"][:2]


def put_other_data(names):
    names["x"].data = names["y"]


def change_shape(names):
    names["y"].unsqueeze_(0)


def swap_gradients(names):
    one, two = names["model"].weight, names["twin"].weight
    one.grad, two.grad = two.grad, one.grad


def grow_graph_in_place(names):
    names["loss"].add_(1)


def run_backward(names):
    names["loss"].backward()


def tie_a_weight(names):
    names["twin"].weight = names["model"].weight


def make_it_a_buffer(names):
    names["model"]._buffers["mask"] = names["x"]


def hide_in_a_closure(names):
    held = names["x"]
    names["f"] = lambda: held


def rebind_in_a_closure(names):
    names["rebind"](names["y"])


def add_a_hook(names):
    names["model"].register_forward_hook(lambda *_, kept=names["x"]: kept)


def resize(names):
    names["y"].untyped_storage().resize_(4000)


def key_of_another_type(names):
    names["d"][True] = names["d"].pop(1)


def make_closure():
    kept = None

    def rebind(value):
        nonlocal kept
        kept = value

    return rebind


CHANGES = [
    swap_items,
    move_between_neighbours,
    rename_key,
    swap_value_with_a_number,
    rename_variable,
    rename_attribute,
    point_a_view_elsewhere,
    put_other_data,
    change_shape,
    swap_gradients,
    grow_graph_in_place,
    run_backward,
    tie_a_weight,
    make_it_a_buffer,
    hide_in_a_closure,
    rebind_in_a_closure,
    add_a_hook,
    resize,
    key_of_another_type,
]


def a_notebook():
    names = {
        "x": torch.ones(3),
        "y": torch.ones(3),
        "xs": [torch.ones(1), torch.ones(2)],
        "ys": [torch.ones(4)],
        "d": {"a": torch.ones(5), "n": 7, 1: torch.ones(6)},
        "holder": Holder(),
        "model": nn.Linear(3, 2),
        "twin": nn.Linear(3, 2),
        "rebind": make_closure(),
    }
    names["view"] = names["x"][:2]
    names["holder"].tensor = torch.ones(7)
    for model in (names["model"], names["twin"]):
        model(torch.ones(1, 3)).sum().backward()
    names["loss"] = names["model"](torch.ones(1, 3)).exp().sum()
    return names


def told(inventory):
    """What an inventory says of each storage, but for the order among equal sizes."""
    return sorted(repr(record) for record in inventory.storages)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_whatever_changed_is_seen(change):
    names, table = a_notebook(), StorageTable()
    before = take(table, names)
    assert before.storages is take(table, names).storages
    change(names)
    now = take(table, names)
    kept, before = told(before), None  # with nobody holding the last one, all is made anew
    now_told, now = told(now), None
    assert now_told == told(take(table, names))
    assert now_told != kept


class Trap(Exception):
    pass


class Odd(type):
    def __hash__(cls):
        raise Trap

    def __eq__(cls, other):
        raise Trap


def test_types_of_keys_and_values_are_not_asked_for_their_hash():
    made = Odd("Made", (), {"__hash__": lambda self: 1})
    names = {"d": {made(): torch.ones(3)}, "xs": [made(), torch.ones(4)]}
    table = StorageTable()
    first = take(table, names)
    assert first.storages is take(table, names).storages
