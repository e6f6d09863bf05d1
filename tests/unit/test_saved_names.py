"""What graphs keep is told by the operation that saved it, and by its module."""

import gc

import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.inventory import resolve_name, take_inventory


def saved(namespace):
    """(name, module, operation and value) of what is only kept for backward, by these names."""
    inventory = take_inventory(StorageTable(), namespace, budget=60, now=0.0)
    return {
        (record.names[0], record.module, record.saved_by)
        for record in inventory.storages
        if record.category == "saved for backward" and record.names
    }


def record_of(tensor, namespace):
    table = StorageTable()
    inventory = take_inventory(table, namespace, budget=60, now=0.0)
    serial = table.find(tensor.untyped_storage()).serial
    return next(record for record in inventory.storages if record.key == serial)


def test_an_operation_is_of_the_module_whose_parameters_it_uses():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    loss = model(torch.ones(5, 4)).exp().sum()
    # sum 0, exp 1, linear 2, its bias 3, relu 4; then the weight's transpose, and so on.
    assert {
        ("loss → graph[1] ExpBackward0.result after model.2", "model.2", "ExpBackward0.result"),
        ("loss → graph[2] AddmmBackward0.mat1 of model.2", "model.2", "AddmmBackward0.mat1"),
        ("loss → graph[7] AddmmBackward0.mat1 of model.0", "model.0", "AddmmBackward0.mat1"),
    } == saved({"model": model, "loss": loss})


def test_a_tied_weight_has_all_its_names_and_one_storage():
    model = nn.ModuleDict({"embed": nn.Embedding(7, 5), "head": nn.Linear(5, 7, bias=False)})
    model["head"].weight = model["embed"].weight
    record = record_of(model["embed"].weight, {"model": model})
    assert ("model.embed.weight", "model.head.weight") == record.names
    assert (7 * 5 * 4, "parameter", "model.embed") == (record.bytes, record.category, record.module)


def test_a_tied_weight_is_the_heads_where_it_multiplies_and_the_embeddings_where_it_looks_up():
    model = nn.ModuleDict({"embed": nn.Embedding(7, 5), "head": nn.Linear(5, 7, bias=False)})
    model["head"].weight = model["embed"].weight
    loss = model["head"](model["embed"](torch.tensor([1, 2])).exp()).sum()
    told = {(saved_by, module) for _, module, saved_by in saved({"model": model, "loss": loss})}
    # The exponential's result is the head's input: one storage, told by the later operation.
    assert {
        ("MmBackward0.self", "model.head"),
        ("EmbeddingBackward0.indices", "model.embed"),
    } == told


def test_gradient_and_optimizer_state_belong_to_the_parameters_module():
    model = nn.Sequential(nn.Linear(4, 3))
    opt = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    opt.step()
    namespace = {"model": model, "opt": opt}
    weight = model[0].weight
    for tensor in (weight, weight.grad, opt.state[weight]["exp_avg"]):
        assert "model.0" == record_of(tensor, namespace).module
    assert record_of(torch.ones(3), namespace).module is None


def test_an_operation_on_weights_of_two_modules_belongs_to_what_holds_both():
    model = nn.Module()
    model.pair = nn.ModuleList([nn.Linear(4, 3, bias=False), nn.Linear(3, 2, bias=False)])
    product = model.pair[1].weight @ model.pair[0].weight
    assert {
        (
            "loss → graph[1] ExpBackward0.result after model.pair",
            "model.pair",
            "ExpBackward0.result",
        )
    } == saved({"model": model, "loss": product.exp().sum()})


def test_what_an_entry_of_out_keeps_is_told_after_the_variables():
    x = torch.ones(3, requires_grad=True)
    table = StorageTable()
    shown = x.exp()
    loss = shown.sum()
    inventory = take_inventory(table, {"loss": loss}, output_cache={"Out[3]": shown}, now=0.0)
    serial = table.find(shown.untyped_storage()).serial
    (record,) = [record for record in inventory.storages if record.key == serial]
    assert ("loss → graph[1] ExpBackward0.result", "Out[3]") == record.names
    assert "user" == record.category  # somebody may want to read Out[3] again


def test_a_node_without_its_tensor_names_what_its_graph_keeps():
    node = torch.ones(3, requires_grad=True).exp().sum().grad_fn
    assert {
        ("kept[0] → graph[1] ExpBackward0.result", None, "ExpBackward0.result"),
        ("kept[0] → graph[2] AccumulateGrad.variable", None, "AccumulateGrad.variable"),
    } == saved({"kept": [node]})
    assert (3,) == tuple(
        resolve_name("kept[0] → graph[1] ExpBackward0.result", {"kept": [node]}).shape
    )


def test_a_closures_tensors_are_named_after_the_function():
    def make():
        mask, layers, eight, nine = torch.ones(6), [torch.ones(7)], torch.ones(8), torch.ones(9)

        def forward(x, scale=eight, *, shift=nine):
            return x * mask * layers[0] * scale + shift

        return forward

    forward = make()
    named = {
        name: record.bytes
        for record in take_inventory(StorageTable(), {"f": forward}, now=0.0).storages
        for name in record.names
    }
    assert {
        "f → closure mask": 24,
        "f → closure layers[0]": 28,
        "f → default scale": 32,
        "f → default shift": 36,
    } == named
    found = resolve_name("f → closure layers[0]", {"f": forward})
    assert (7,) == tuple(found.shape)


def test_what_a_forward_hook_gathers_is_named_after_its_module():
    model = nn.Sequential(nn.Linear(4, 3))
    gathered = []

    def watch(into):
        return lambda module, inputs, output: into.append(output.detach().clone())

    model[0].register_forward_hook(watch(gathered))
    model(torch.ones(2, 4))
    record = record_of(gathered[0], {"model": model})
    (hook,) = model[0]._forward_hooks
    assert (f"model.0._forward_hooks[{hook}] → closure into[0]",) == record.names


def test_what_a_tensors_hook_gathers_is_named_after_the_tensor():
    x = torch.ones(4, requires_grad=True)
    seen = []
    x.register_hook(lambda gradient, seen=seen: seen.append(gradient.clone()))
    (x * 2).sum().backward()
    record = record_of(seen[0], {"x": x})
    (hook,) = x._backward_hooks
    assert (f"x._backward_hooks[{hook}] → default seen[0]",) == record.names


def test_a_class_of_the_notebook_shows_its_tensors():
    holder = type("Config", (), {"table": torch.ones(5), "__module__": "__main__"})
    other = type("Config", (), {"table": torch.ones(5), "__module__": "somewhere"})
    assert ("Config.table",) == record_of(holder.table, {"Config": holder}).names
    assert () == record_of(other.table, {"Config": other}).names


def test_a_module_file_of_the_users_shows_its_tensors(tmp_path, monkeypatch):
    (tmp_path / "my_cache.py").write_text("import torch\nKEPT = {'a': torch.ones(5)}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import my_cache

    record = record_of(my_cache.KEPT["a"], {"my_cache": my_cache, "torch": torch})
    assert ("my_cache.KEPT['a']",) == record.names


def test_an_operation_in_place_on_a_view_is_said_to_hide_what_it_keeps():
    gc.collect()  # graphs that other tests left
    base = torch.ones(10, requires_grad=True) * 1
    base[5:].sin_()
    inventory = take_inventory(StorageTable(), {"base": base}, now=0.0)
    assert [
        "1 operation on views in place, or in C++, may keep for backward what torch does not show: "
        "that would be missing here."
    ] == [note.sentence for note in inventory.notes if note.code == "hidden_in_graph"]


def after_a_step():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    opt = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    opt.step()
    return model, opt


def test_variables_that_loops_left_do_not_take_a_model_apart():
    model, opt = after_a_step()
    names = {"layer": model[1], "p": model[0].weight, "model": model, "opt": opt}
    weight, last = model[0].weight, model[1].bias
    assert ("model.0.weight", "p", "opt.param_groups[0]['params'][0]") == (
        record_of(weight, names).names
    )
    assert ("model.0.weight.grad",) == record_of(weight.grad, names).names
    assert ("opt.state[model.1.bias]['exp_avg']",) == (
        record_of(opt.state[last]["exp_avg"], names).names
    )
    for tensor in (weight, weight.grad, opt.state[weight]["exp_avg"]):
        assert "model.0" == record_of(tensor, names).module
    assert "model.1" == record_of(last.grad, names).module


def test_a_part_of_a_model_that_only_an_object_holds_is_told_as_that_models():
    class Trainer:
        pass

    trainer = Trainer()
    trainer.net, _ = after_a_step()
    names = {"m": trainer.net[0], "trainer": trainer}
    assert "trainer.net.0.weight" == record_of(trainer.net[0].weight, names).names[0]


def test_a_parameter_of_no_model_keeps_its_own_name():
    w = nn.Parameter(torch.ones(3))
    opt = torch.optim.Adam([w])
    (w * 2).sum().backward()
    opt.step()
    names = {"ws": [w], "w": w, "opt": opt}
    assert ("w", "ws[0]", "opt.param_groups[0]['params'][0]") == record_of(w, names).names
    assert ("opt.state[w]['exp_avg']",) == record_of(opt.state[w]["exp_avg"], names).names
