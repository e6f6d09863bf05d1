"""The inventory: each storage once, with its bytes, its kind and who made it."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from contextlib import suppress

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.inventory import take_inventory


def take(namespace, outputs=None, table=None, **options):
    return take_inventory(
        table or StorageTable(),
        namespace,
        output_cache=outputs or {},
        budget=60,
        now=7.5,
        **options,
    )


def by_name(inventory):
    """Returns {name: record} over all names."""
    return {name: record for record in inventory.storages for name in record.names}


def category_of(name, namespace):
    return by_name(take(namespace))[name].category


def train_one_step():
    """Returns the namespace of a notebook after one step, with the next loss pending."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.ones(5, 4)
    model(batch).sum().backward()
    optimizer.step()
    return {"model": model, "opt": optimizer, "batch": batch, "loss": model(batch).pow(2).sum()}


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("model.0.weight", "parameter"),
        ("model.1.running_mean", "buffer"),
        ("model.0.weight.grad", "gradient"),
        ("opt.state[model.0.weight]['exp_avg']", "optimizer state"),
        ("loss → graph[1] PowBackward0.self after model.3", "saved for backward"),
        ("batch", "user"),
        ("loss", "user"),
    ],
)
def test_each_storage_of_a_training_step_is_of_the_kind_that_it_serves(name, category):
    assert category == category_of(name, train_one_step())


def test_a_variable_that_aliases_a_parameter_stays_a_parameter():
    model = nn.Linear(2, 2)
    weight = by_name(take({"w": model.weight, "view": model.weight.data[0], "model": model}))["w"]
    assert "parameter" == weight.category
    assert ("model.weight", "view", "w") == weight.names


def test_a_tensor_registered_as_a_parameter_is_one_even_if_its_class_is_plain():
    model = nn.Linear(2, 2)
    model._parameters["weight"] = torch.ones(2, 2)
    assert "parameter" == category_of("m.weight", {"m": model})


def test_a_parameter_without_a_name_is_a_parameter():
    held = [nn.Parameter(torch.ones(77))]
    (record,) = [r for r in take({}).storages if r.bytes == 77 * 4]
    assert ("parameter", (), True) == (record.category, record.names, record.visible)
    del held


def test_the_gradient_of_a_leaf_without_a_name_is_a_gradient():
    leaf = [torch.ones(79, requires_grad=True)]
    (leaf[0] * 2).sum().backward()
    records = [r for r in take({}).storages if r.bytes == 79 * 4]
    assert ["gradient", "unknown"] == sorted(record.category for record in records)


def test_what_a_graph_alone_keeps_is_what_it_was():
    def make(leaf):
        loss = (leaf * 2).pow(2).sum()
        loss.backward(retain_graph=True)
        return loss

    loss, other = make(torch.ones(97, requires_grad=True)), make(nn.Parameter(torch.ones(101)))
    kinds = {(r.bytes, r.category) for r in take({"loss": loss, "other": other}).storages}
    assert {(97 * 4, "saved for backward"), (97 * 4, "gradient")} <= kinds
    assert {(101 * 4, "parameter"), (101 * 4, "gradient")} <= kinds


def test_what_is_saved_and_also_named_by_the_user_is_the_users():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()  # ExpBackward0 saves its result
    assert "user" == category_of("y", {"loss": y.sum(), "y": y})


def test_a_tensor_that_no_name_leads_to_is_unknown():
    held = [torch.ones(83)]
    (record,) = [r for r in take({}).storages if r.bytes == 83 * 4]
    assert ("unknown", (), True, 1) == (
        record.category,
        record.names,
        record.visible,
        record.views,
    )
    del held


def test_a_figure_is_the_bytes_of_the_storage_and_views_count_once():
    base = torch.zeros(1000)
    view, other = base[10:20], base.view(10, 100)
    record = by_name(take({"view": view, "base": base, "other": other}))["base"]
    assert (4000, "float32", (1000,), 3) == (
        record.bytes,
        record.dtype,
        record.shape,
        record.views,
    )
    assert ("base", "view", "other") == record.names


def test_the_shape_is_that_of_a_named_tensor_even_if_a_larger_one_has_no_name():
    hidden = [torch.zeros(1000)]
    record = by_name(take({"part": hidden[0][:10]}))["part"]
    assert ((10,), 4000, 2) == (record.shape, record.bytes, record.views)


def test_the_bytes_add_up_to_the_storages_of_the_process():
    namespace = train_one_step()
    table = StorageTable()
    inventory = take(namespace, table=table)
    gc_sum = {}
    for item in gc.get_objects():
        if issubclass(type(item), torch.Tensor) and item.layout is torch.strided:
            storage = item.untyped_storage()
            with suppress(RuntimeError):  # fake tensors that others left behind have no memory
                gc_sum[storage.data_ptr()] = storage.nbytes()
    gc_sum.pop(0, None)  # nor have meta tensors
    listed = sum(record.bytes for record in inventory.storages)
    assert listed == table.bytes_on("cpu")
    assert listed >= sum(gc_sum.values()) > 0
    assert len(inventory.storages) == len({record.key for record in inventory.storages})


def test_every_storage_that_a_training_step_made_is_listed_once():
    table = StorageTable()
    before = {record.key for record in take({}, table=table).storages}
    namespace = train_one_step()
    made = [r for r in take(namespace, table=table).storages if r.key not in before]
    # Linear(4, 3), BatchNorm1d(3), Linear(3, 1): 12 + 3 + 3 + 3 + 3 + 1 parameters' values
    kinds = {}
    for record in made:
        kinds.setdefault(record.category, []).append(record.bytes)
    assert (6, 100) == (len(kinds["parameter"]), sum(kinds["parameter"]))
    assert (6, 100) == (len(kinds["gradient"]), sum(kinds["gradient"]))
    # exp_avg and exp_avg_sq as large as the parameters, and a step count of 4 bytes for each
    assert (18, 224) == (len(kinds["optimizer state"]), sum(kinds["optimizer state"]))
    assert (3, 32) == (len(kinds["buffer"]), sum(kinds["buffer"]))
    assert (2, 84) == (len(kinds["user"]), sum(kinds["user"]))
    # saved: Linear's output (5, 3), BatchNorm's mean and 1/std, ReLU's output (5, 3), Linear's
    # output (5, 1); the input of the second Linear is ReLU's output
    assert [12, 12, 20, 60, 60] == sorted(kinds["saved for backward"])
    assert "unknown" not in kinds


def test_largest_first_and_ties_by_age():
    small, large, twin = torch.ones(3), torch.ones(300), torch.ones(3)
    records = by_name(take({"small": small, "large": large, "twin": twin}))
    inventory = take({"small": small, "large": large, "twin": twin})
    sizes = [(-record.bytes, record.key) for record in inventory.storages]
    assert sorted(sizes) == sizes
    assert records["small"].bytes == records["twin"].bytes == 12


def test_what_only_cpp_holds_is_not_visible():
    model = nn.BatchNorm1d(3)
    loss = model(torch.ones(5, 3, requires_grad=True)).sum()
    table = StorageTable()
    for _ in range(2):  # looking at it makes it a Python object, which must not count
        names = by_name(take({"loss": loss}, table=table))
        (hidden,) = [r for name, r in names.items() if name.endswith("Backward0.result1")]
        assert (False, 0) == (hidden.visible, hidden.views)


def test_a_storage_that_python_holds_without_a_tensor_shows_its_bytes():
    raw = torch.UntypedStorage(96)
    record = by_name(take({"raw": raw}))["raw"]
    assert ("uint8", (96,), 0, True) == (record.dtype, record.shape, record.views, record.visible)
    assert ["no_tensor"] == [note.code for note in record.notes]


def test_the_cell_that_made_it_comes_from_the_origins():
    x = torch.ones(3)
    record = by_name(take({"x": x}, origin_of=lambda key: (12, key + 1000, 3)))["x"]
    assert (12, record.key + 1000) == (record.created_by, record.created_in)
    unknown = by_name(take({"x": x}))["x"]
    assert (None, None) == (unknown.created_by, unknown.created_in)


def test_the_clock_is_the_callers():
    assert take({}).taken_at == 7.5


def test_two_inventories_in_a_row_are_equal():
    namespace = train_one_step()
    namespace["sparse"] = torch.eye(3).to_sparse()
    namespace["rows"] = torch.eye(3).to_sparse_csr()
    namespace["nested"] = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    table = StorageTable()
    first = take(namespace, {"_": namespace["batch"]}, table)
    assert first == take(namespace, {"_": namespace["batch"]}, table)
    assert first == take(namespace, {"_": namespace["batch"]}, table)


def test_an_inventory_keeps_nothing_alive():
    namespace = train_one_step()
    inventory = take(namespace)
    model, optimizer, loss = namespace["model"], namespace["opt"], namespace["loss"]
    tensors = [*model.parameters(), *model.buffers(), namespace["batch"], loss]
    tensors += [parameter.grad for parameter in model.parameters()]
    tensors += [value for state in optimizer.state.values() for value in state.values()]
    tensors.append(loss.grad_fn.next_functions[0][0]._saved_self)
    watched = [weakref.ref(tensor.untyped_storage()) for tensor in tensors]
    namespace.clear()
    del model, optimizer, loss, tensors
    gc.collect()  # an optimizer's hooks are a cycle of torch's own
    assert [None] * len(watched) == [reference() for reference in watched]
    assert inventory.storages


def test_reference_counts_are_as_they_were_without_a_collection():
    x = torch.ones(5)
    storage = weakref.ref(x.untyped_storage())
    gc.disable()
    try:
        take({"x": x, "nest": [[x], {"k": x}]})
        del x
        assert storage() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_left_as_it_was(collecting):
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        take({})
        assert collecting == gc.isenabled()
    finally:
        (gc.enable if before else gc.disable)()


def test_looking_at_results_that_are_no_leaves_warns_of_nothing():
    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take({"x": x, "y": x * 2})


def test_a_hook_on_saved_tensors_does_not_run():
    ran = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(), lambda t: ran.append(t) or t
    ):
        x = torch.ones(3, requires_grad=True)
        loss = x.pow(2).sum()
    names = by_name(take({"loss": loss}))
    assert [] == ran
    assert "loss → graph[1] PowBackward0.self" in names


def test_frozen_objects_are_listed_if_they_have_names():
    x = torch.ones(89)
    gc.collect()
    gc.freeze()
    try:
        record = by_name(take({"x": x}))["x"]
    finally:
        gc.unfreeze()
    assert (89 * 4, "user", 1) == (record.bytes, record.category, record.views)


def test_a_compiled_modules_parameters_have_the_names_torch_gives_them():
    model = nn.Linear(2, 2)
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(1, 2))
    (expected,) = [name for name, p in compiled.named_parameters() if p is model.weight]
    assert "parameter" == category_of(f"c.{expected}", {"c": compiled})


def test_a_hundred_thousand_tensors_are_all_listed_and_named():
    many = [torch.empty(1) for _ in range(100_000)]
    names = by_name(take({"many": many}))
    assert all(f"many[{n}]" in names for n in range(100_000))


def test_an_array_in_a_dict_of_plain_values_leads_to_its_tensor():
    pytest.importorskip("numpy")
    arrays = {"seed": 7, "first": torch.ones(1000).numpy()}
    assert gc.is_tracked(arrays) == (sys.version_info >= (3, 14))  # before, gc did not see it
    names = {s.bytes: s.names for s in take({"arrays": arrays}).storages}
    assert ("arrays['first'].base",) == names[4000]
