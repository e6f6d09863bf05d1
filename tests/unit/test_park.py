"""Parking and back: the same objects, the same values, ties and views as they were."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref

import pytest
import torch
from simulated_carrier import SimulatedCarrier
from torch import nn

from nbmem.heap import StorageTable
from nbmem.reclaim import Holdings, moves
from nbmem.reclaim.lot import ParkingLot
from nbmem.reclaim.parking import park, unpark


class Yard:
    """A user's names, a machine with simulated accelerators, and the two acts."""

    def __init__(self, **simulated):
        self.carrier = SimulatedCarrier(**simulated)
        self.names, self.outputs = {}, {}
        self.lot = ParkingLot(self.carrier)
        self.holdings = Holdings(
            StorageTable(), None, lambda: self.names, lambda: self.outputs, list
        )

    def have(self, device="cuda:0", **named):
        """Binds variables; tensors and models among them are on the device."""
        self.names.update(named)
        for thing in named.values():
            if isinstance(thing, nn.Module):
                self.carrier.place_model(thing, device)
            elif isinstance(thing, torch.optim.Optimizer):
                self.carrier.place_state(thing, device)
            elif torch.is_tensor(thing):
                self.carrier.place(thing, device=device)

    def park(self, *names, **options):
        return park(self.holdings, self.lot, names, **options)

    def unpark(self, *names, **options):
        return unpark(self.holdings, self.lot, names, **options)

    def parked(self):
        return [(t.name, t.bytes, t.storages, t.device) for t in self.lot.things()]

    def where(self, tensor):
        return self.carrier.where(tensor)


@pytest.fixture
def yard():
    return Yard()


def layout(tensor):
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.dtype


def sharing(tensors):
    """Which of them share a storage: the position of the first one with the same."""
    addresses = [tensor.untyped_storage()._cdata for tensor in tensors]
    return [addresses.index(address) for address in addresses]


def trained(model, steps=1):
    """Runs steps of Adam on fixed numbers; returns the optimizer."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        step(model, optimizer)
    return optimizer


def step(model, optimizer):
    torch.manual_seed(1)
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4)).square().sum()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


class Tied(nn.Module):
    """A head tied to the embedding, as in GPT-2."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(x)


# -- the round trip --------------------------------------------------------------------------------


def test_a_model_comes_back_as_the_same_objects_with_the_same_values(yard):
    model = make_model()
    yard.have(model=model)
    tensors = [*model.parameters(), *model.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    for act, place in ((yard.park, "cpu"), (yard.unpark, "cuda:0")):
        assert () == act("model").refused
        now = [*model.parameters(), *model.buffers()]
        assert all(a is b for a, b in zip(now, tensors, strict=True))
        assert {place} == {yard.where(tensor) for tensor in now}
        assert all(torch.equal(a, b) for a, b in zip(now, values, strict=True))
        assert place == "cuda:0" or all(yard.carrier.is_pinned(tensor) for tensor in now)


def test_a_report_says_what_moved_and_proves_it_with_the_allocators_bytes(yard):
    yard.have(x=torch.zeros(1000), y=torch.zeros(300))
    report = yard.park("x")
    # 4,000 and 1,200 bytes take blocks of 4,096 and 1,536.
    assert ("park", 5_632, 1_536) == (report.act, report.bytes_before, report.bytes_after)
    assert "allocated on cuda:0" == report.counts
    moved = "x: 3.91 KiB in 1 storage from cuda:0 to pinned CPU memory"
    assert ((moved,), (moved,), ()) == (report.planned, report.dropped, report.refused)
    assert (4_000, 4_096, ()) == (report.promised, report.freed, report.still_held)
    back = yard.unpark()
    assert ("unpark", 1_536, 5_632) == (back.act, back.bytes_before, back.bytes_after)
    assert ("x: 3.91 KiB in 1 storage from pinned CPU memory to cuda:0",) == back.dropped


def test_a_dry_run_says_the_same_and_moves_nothing(yard):
    yard.have(x=torch.zeros(1000))
    plan = yard.park("x", dry_run=True)
    assert ("x: 3.91 KiB in 1 storage from cuda:0 to pinned CPU memory",) == plan.planned
    assert ((), 4_096, None) == (plan.dropped, plan.bytes_before, plan.bytes_after)
    assert "cuda:0" == yard.where(yard.names["x"])
    assert [] == yard.parked()


def test_gradients_move_along_and_a_missing_one_is_no_trouble(yard):
    model = make_model()
    model[0](torch.ones(1, 4)).sum().backward()
    yard.have(model=model)
    gradient = model[0].weight.grad
    value = gradient.clone()
    assert model[2].weight.grad is None
    yard.park("model")
    assert "cpu" == yard.where(gradient)
    yard.unpark("model")
    assert model[0].weight.grad is gradient
    assert "cuda:0" == yard.where(gradient)
    assert torch.equal(value, gradient)
    assert model[2].weight.grad is None


def test_tied_weights_stay_tied(yard):
    model = Tied()
    yard.have(model=model)
    report = yard.park("model")
    assert ("model: 160 B in 1 storage from cuda:0 to pinned CPU memory",) == report.dropped
    assert model.head.weight is model.embed.weight
    yard.unpark()
    assert model.head.weight is model.embed.weight
    with torch.no_grad():
        model.embed.weight[3] = 7
    assert 28 == model.head.weight[3].sum()


def test_views_stay_views_with_their_strides_and_offsets(yard):
    base = torch.arange(24.0).view(4, 6)
    views = [base, base.t(), base[1:, ::2], base[0], base.as_strided((3, 3), (1, 2), 4)]
    yard.have(views=views)
    yard.carrier.place(base)
    before = [(layout(view), view.clone()) for view in views]
    for act in (yard.park, yard.unpark):
        assert () == act("views").refused
        assert [0, 0, 0, 0, 0] == sharing(views)
        for view, (shape, value) in zip(views, before, strict=True):
            assert shape == layout(view)
            assert torch.equal(value, view)
    base[1, 2] = 100.0
    assert (100.0, 100.0) == (views[1][2, 1], views[2][0, 1])
    assert views[3]._base is base or views[3]._base is base._base


def test_training_goes_on_as_if_nothing_had_happened(yard):
    model, twin = make_model(), make_model()
    optimizer, other = trained(model, 2), trained(twin, 2)
    yard.have(model=model, opt=optimizer)
    yard.park("model", "opt")
    assert {"cpu"} == {yard.where(p) for p in model.parameters()}
    yard.unpark()
    assert [step(twin, other) for _ in range(3)] == [step(model, optimizer) for _ in range(3)]
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(optimizer.state[a]["exp_avg_sq"], other.state[b]["exp_avg_sq"])


def test_a_parked_model_can_be_used_on_the_cpu_and_brings_its_new_values_back(yard):
    model, twin = make_model(), make_model()
    yard.have(model=model)
    yard.park("model")
    optimizer, other = trained(model), trained(twin)
    yard.unpark("model")
    assert {"cuda:0"} == {yard.where(p) for p in model.parameters()}
    assert {"cuda:0"} == {yard.where(p.grad) for p in model.parameters()}
    assert step(twin, other) == step(model, optimizer)


def test_naming_an_optimizer_parks_its_state_and_leaves_the_parameters(yard):
    model = make_model()
    optimizer = trained(model)
    yard.have(model=model, opt=optimizer)
    report = yard.park("opt")
    assert {"cuda:0"} == {yard.where(p) for p in model.parameters()}
    assert {"cuda:0"} == {yard.where(p.grad) for p in model.parameters()}
    state = [t for kept in optimizer.state.values() for t in kept.values()]
    assert {"cpu"} == {yard.where(tensor) for tensor in state}
    (note,) = report.notes
    assert (
        "the parameters of opt stay on cuda:0: name their model too to park them"
    ) == note.sentence
    yard.unpark("opt")
    assert {"cuda:0"} == {yard.where(tensor) for tensor in state}


def test_an_optimizer_without_state_says_to_park_the_model(yard):
    model = make_model()
    yard.have(model=model, opt=torch.optim.Adam(model.parameters()))
    assert (
        "opt keeps no state yet, and its parameters are a model's: park the model",
    ) == yard.park("opt").refused


def test_an_optimizer_without_state_is_no_trouble_where_its_model_is_parked(yard):
    model = make_model()
    yard.have(model=model, opt=torch.optim.Adam(model.parameters()))
    report = yard.park("model", "opt")
    assert ((), ()) == (report.refused, report.notes)


def test_hooks_versions_and_what_autograd_knows_stay(yard):
    weight = nn.Parameter(torch.ones(3))
    frozen = torch.ones(3)
    with torch.no_grad():
        weight.mul_(2)
    seen = []
    weight.register_hook(lambda gradient: seen.append(float(gradient.sum())))
    weight.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    yard.have(weight=weight, frozen=frozen)
    yard.park("weight", "frozen")
    assert (1, 0) == (weight._version, frozen._version)
    yard.unpark()
    assert (True, True, False) == (weight.requires_grad, weight.is_leaf, frozen.requires_grad)
    assert (1, 0) == (weight._version, frozen._version)
    (weight * 2).sum().backward()
    assert [6.0, "accumulated"] == seen


def test_a_change_in_place_while_parked_is_seen_by_the_graph_that_saved_it(yard):
    weight = nn.Parameter(torch.ones(3))
    yard.have(weight=weight)
    loss = (weight * weight).sum()
    yard.park("weight")
    with torch.no_grad():
        weight.add_(1)
    yard.unpark()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def special_tensors():
    with torch.inference_mode():
        for_inference = torch.arange(5.0)
    complex_numbers = torch.complex(torch.arange(4.0), torch.ones(4))

    class Marked(torch.Tensor):
        pass

    return {
        "conjugated": complex_numbers.conj(),
        "negated": torch._neg_view(torch.arange(3.0)),
        "an imaginary part": complex_numbers.imag,
        "for inference": for_inference,
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "expanded": torch.ones(1, 3).expand(4, 3),
        "of a subclass": torch.ones(3).as_subclass(Marked),
        "empty": torch.ones(0, 3),
        "a number": torch.tensor(3.0),
        "bool": torch.tensor([True, False]),
        "bfloat16": torch.ones(3, dtype=torch.bfloat16),
        "with nan": torch.tensor([float("nan"), -0.0, float("inf")]),
        "a view of nothing that has a name": torch.arange(10.0)[2:5],
        "a view whose base Python never saw": torch.einsum(
            "ij,jk->ki", torch.ones(2, 3), torch.ones(3, 4)
        ),
        "detached": torch.ones(3, requires_grad=True).detach(),
    }


@pytest.mark.parametrize("kind", special_tensors())
def test_every_kind_of_plain_tensor_keeps_what_it_is(yard, kind):
    x = special_tensors()[kind]
    yard.have(x=x)
    before = (layout(x), x.is_conj(), x.is_neg(), x.is_inference(), type(x), repr(x.tolist()))
    for act, place in ((yard.park, "cpu"), (yard.unpark, "cuda:0")):
        assert () == act("x").refused
        assert place == yard.where(x)
        now = (layout(x), x.is_conj(), x.is_neg(), x.is_inference(), type(x), repr(x.tolist()))
        assert before == now


def test_two_accelerators_each_get_their_own_back(yard):
    yard.have(device="cuda:0", x=torch.zeros(1000))
    yard.have(device="cuda:1", y=torch.zeros(2000))
    yard.names["both"] = [yard.names["x"], yard.names["y"]]
    report = yard.park("both")
    assert "allocated on cuda:0, cuda:1" == report.counts
    assert {"cuda:0", "cuda:1"} == set(yard.carrier.waited)
    assert [("both", 4000, 1, "cuda:0"), ("both", 8000, 1, "cuda:1")] == yard.parked()
    yard.unpark()
    assert ("cuda:0", "cuda:1") == tuple(map(yard.where, yard.names["both"]))


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parked"),
    [
        ("model.0", {"0.weight", "0.bias"}),
        ("model.2.weight", {"2.weight"}),
        ("box['net'].2", {"2.weight", "2.bias"}),
    ],
)
def test_a_part_of_a_model_is_parked_by_its_name(yard, name, parked):
    model = make_model()
    yard.have(model=model)
    yard.names["box"] = {"net": model}
    assert () == yard.park(name).refused
    assert parked == {n for n, p in model.named_parameters() if yard.where(p) == "cpu"}


def test_what_a_container_holds_is_parked(yard):
    x, y = torch.zeros(3), torch.zeros(4)
    yard.carrier.place(x, y)
    yard.names["box"] = {"a": [x], "n": 3, "deep": {"y": (y,)}}
    yard.park("box")
    assert ("cpu", "cpu") == (yard.where(x), yard.where(y))


def test_a_shown_value_is_parked_by_its_entry_of_the_cache(yard):
    x = torch.zeros(3)
    yard.carrier.place(x)
    yard.outputs["Out[3]"] = x
    assert () == yard.park("Out[3]").refused
    assert "cpu" == yard.where(x)


def test_a_name_that_names_nothing_is_refused(yard):
    yard.have(x=torch.zeros(3))
    assert (
        "`y` names nothing: `%gpumem tensors` lists the names of now",
        "`x.deep` names nothing: `%gpumem tensors` lists the names of now",
    ) == yard.park("y", "x.deep").refused


def test_what_is_on_the_cpu_is_refused_and_the_rest_is_parked(yard):
    yard.have(x=torch.zeros(3))
    yard.names.update(y=torch.zeros(3), n=5)
    report = yard.park("y", "x", "n")
    assert (
        "y is on the CPU already: only what is on an accelerator can be parked",
        "n leads to no tensor: park a model, an optimizer, a tensor or what holds them",
    ) == report.refused
    assert ("x: 12 B in 1 storage from cuda:0 to pinned CPU memory",) == report.dropped


def test_without_an_accelerator_one_sentence_says_so(yard):
    yard.carrier.has_accelerators = False
    yard.names["x"] = torch.zeros(3)
    report = yard.park("x")
    assert (
        "there is no accelerator here, and parking moves what is on one: `%gpumem tensors` tells "
        "what takes the CPU's memory, and `del` gives it back",
    ) == report.refused
    assert (None, None, None) == (report.bytes_before, report.bytes_after, report.promised)


def test_parking_twice_is_refused_with_the_way_back(yard):
    yard.have(x=torch.zeros(3))
    yard.park("x")
    assert ("x is parked already, from cuda:0: `%gpumem unpark x` brings it back",) == yard.park(
        "x"
    ).refused
    assert [("x", 12, 1, "cuda:0")] == yard.parked()


# -- sharing with others ---------------------------------------------------------------------------


def test_a_view_in_another_variable_moves_along_and_is_told(yard):
    x = torch.arange(6.0)
    yard.have(x=x, rest=x[2:])
    report = yard.park("x")
    assert [0, 0] == sharing([x, yard.names["rest"]])
    assert "cpu" == yard.where(yard.names["rest"])
    assert ["rest shares memory with x and moves along"] == [n.sentence for n in report.notes]
    report = yard.unpark("rest")
    assert ("cuda:0", "cuda:0") == (yard.where(x), yard.where(yard.names["rest"]))
    assert [2.0, 3.0, 4.0, 5.0] == yard.names["rest"].tolist()


def test_many_that_share_are_told_by_their_number(yard):
    x = torch.arange(20.0)
    yard.have(x=x, views=[x[n:] for n in range(8)])
    sentences = [note.sentence for note in yard.park("x").notes]
    assert 6 == len(sentences)
    assert "views[0] shares memory with x and moves along" == sentences[0]
    assert "3 more share memory with them and move along" == sentences[-1]


def test_a_view_that_was_given_other_memory_does_not_drag_its_base_along(yard):
    base = torch.arange(6.0)
    view = base[2:]
    view.data = torch.arange(8.0)
    yard.have(base=base, view=view)
    assert () == yard.park("view").refused
    assert ("cuda:0", "cpu") == (yard.where(base), yard.where(view))
    assert () == yard.park("base").refused
    assert [list(map(float, range(6))), list(map(float, range(8)))] == [
        base.tolist(),
        view.tolist(),
    ]


def test_the_gradient_of_a_weight_that_moves_along_moves_too(yard):
    x = torch.arange(6.0)
    weight = nn.Parameter(x[2:])
    yard.have(x=x, weight=weight)
    weight.sum().backward()
    yard.carrier.place(weight.grad)
    yard.park("x")
    assert ("cpu", "cpu") == (yard.where(weight), yard.where(weight.grad))
    late = nn.Parameter(x[1:])
    late.sum().backward()
    yard.unpark()
    assert ["cuda:0"] * 4 == [yard.where(t) for t in (weight, weight.grad, late, late.grad)]


def test_a_view_made_while_parked_comes_along(yard):
    x = torch.arange(6.0)
    yard.have(x=x)
    yard.park("x")
    view = x[3:]
    yard.unpark()
    assert "cuda:0" == yard.where(view)
    assert [0, 0] == sharing([x, view])


def test_memory_of_which_a_storage_object_is_held_is_refused(yard):
    yard.have(x=torch.zeros(3))
    held = yard.names["x"].untyped_storage()
    (sentence,) = yard.park("x").refused
    assert sentence.startswith("x has memory that more than its tensors hold: a storage object")
    assert "cuda:0" == yard.where(yard.names["x"])
    assert 12 == held.nbytes()


def test_memory_exported_by_dlpack_is_refused(yard):
    yard.have(x=torch.arange(3.0), y=torch.arange(3.0))
    other = torch.from_dlpack(yard.names["x"])
    capsule = torch.utils.dlpack.to_dlpack(yard.names["y"].view(1, 3).detach())
    report = yard.park("x", "y")
    assert 2 == len(report.refused)
    assert report.refused[0].startswith("x is held in C++ as well")
    assert ("cuda:0", "cuda:0") == (yard.where(yard.names["x"]), yard.where(yard.names["y"]))
    assert [0.0, 1.0, 2.0] == other.tolist()
    assert capsule is not None


def test_a_view_that_torch_keeps_further_views_of_out_of_sight_is_refused(yard):
    numbers = torch.complex(torch.arange(4.0), torch.ones(4))
    yard.have(x=numbers.conj().imag)
    (sentence,) = yard.park("x").refused
    assert sentence.startswith("x has memory that more than its tensors hold")
    assert [-1.0] * 4 == yard.names["x"].tolist()


def test_a_bare_storage_is_refused(yard):
    yard.have(x=torch.zeros(3))
    yard.names["s"] = yard.names["x"].untyped_storage()
    assert "s is a bare storage: park the tensor that shows it" == yard.park("s").refused[0]


def test_a_sparse_tensor_is_refused_and_its_neighbour_is_parked(yard):
    values = torch.ones(2)
    indices = torch.tensor([[0, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = torch.sparse_coo_tensor(indices, values, (3,), check_invariants=False)
    yard.carrier.place(sparse._values(), sparse._indices())
    yard.have(x=torch.zeros(3))
    yard.names["box"] = [sparse, yard.names["x"]]
    report = yard.park("box")
    assert (
        "box[0] is sparse, or of another layout that torch can't re-point: `.cpu()` makes a copy",
    ) == report.refused
    assert ("cuda:0", "cpu") == (yard.where(sparse._values()), yard.where(yard.names["x"]))


def test_the_values_of_a_sparse_tensor_are_refused(yard):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = torch.sparse_coo_tensor([[0, 2]], torch.ones(2), (3,), check_invariants=False)
    yard.have(values=sparse._values())
    assert (
        "values is part of a sparse, nested or quantized tensor, which torch can't re-point",
    ) == yard.park("values").refused


def test_a_quantized_and_a_nested_tensor_are_refused(yard):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yard.have(quantized=quantized, nested=nested)
    told = "is nested or quantized, which torch can't re-point: `.cpu()` makes a copy"
    report = yard.park("quantized", "nested")
    assert (f"quantized {told}", f"nested {told}") == report.refused


class Wrapper(torch.Tensor):
    """Stands for another tensor, as a shard of a distributed one does."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError


def test_a_wrapper_is_refused_with_what_it_wraps(yard):
    inner = torch.ones(3)
    wrapped = Wrapper(inner)
    yard.carrier.place(inner)
    yard.carrier.place(wrapped)
    yard.names["w"] = wrapped
    (sentence,) = yard.park("w").refused
    assert sentence.startswith("w is a Wrapper, which acts for the tensors inside it")
    assert "cuda:0" == yard.where(inner)


def test_a_tensor_whose_memory_was_freed_is_refused(yard):
    x = torch.ones(100)
    yard.have(x=x)
    x.untyped_storage().resize_(8)
    assert ("x has no memory now: its storage was made smaller than it",) == yard.park("x").refused
    assert 8 == x.untyped_storage().nbytes()


def test_a_captured_cuda_graph_forbids_parking(yard, monkeypatch):
    class Graph:
        pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    yard.have(x=torch.zeros(3))
    alive = Graph()
    (sentence,) = yard.park("x").refused
    assert sentence.startswith("a captured CUDA graph is alive and replays at the addresses")
    assert "cuda:0" == yard.where(yard.names["x"])
    del alive
    assert () == yard.park("x").refused


# -- graphs ----------------------------------------------------------------------------------------


def test_a_tensor_with_a_graph_is_refused_with_the_line_that_lets_it_go_along(yard):
    weight = nn.Parameter(torch.ones(3))
    h = weight * 2
    yard.have(weight=weight, h=h)
    assert (
        "h has a graph, whose saved values would stay on cuda:0: `h = h.detach()` lets it go along",
    ) == yard.park("h").refused
    assert "cuda:0" == yard.where(h)


WAITS = "a graph keeps {} for a backward pass, which fails until it is unparked"


@pytest.mark.parametrize("names", [["g"], ["g", "h"], ["h", "g"], ["outs"]])
def test_a_result_goes_along_with_its_detached_alias_and_is_told_to_wait_for_backward(yard, names):
    weight = nn.Parameter(torch.ones(3))
    h = weight + 2
    yard.have(weight=weight, h=h, g=h.detach(), outs={"h": h, "d": h.detach()})
    report = yard.park(*names)
    assert () == report.refused
    assert {"cpu"} == {yard.where(tensor) for tensor in (h, yard.names["g"])}
    assert "cuda:0" == yard.where(weight)
    name = "outs" if "outs" in names else "g"
    assert [WAITS.format(name)] == [n.sentence for n in report.notes if n.code == "graph"]
    assert [] == [n.sentence for n in yard.unpark().notes if n.code == "graph"]
    h.sum().backward()
    assert [1.0, 1.0, 1.0] == weight.grad.tolist()


def test_a_models_activation_stays_and_its_weights_are_parked(yard):
    model = make_model()
    model.last = model(torch.ones(2, 4))
    yard.have(model=model)
    yard.carrier.place(model.last.data)
    report = yard.park("model")
    assert 1 == len(report.refused)
    assert report.refused[0].startswith("model.last has a graph")
    assert {"cpu"} == {yard.where(p) for p in model.parameters()}


@pytest.mark.parametrize("make", [make_model, Tied])
def test_a_pending_backward_pass_runs_once_the_weights_are_back(yard, make):
    model, twin = make(), make()
    twin.load_state_dict(model.state_dict())
    x = torch.arange(4).repeat(2, 1) if make is Tied else torch.arange(8.0).view(2, 4)
    forward = (lambda m: m(m.embed(x))) if make is Tied else (lambda m: m(x))
    loss, other = forward(model).square().sum(), forward(twin).square().sum()
    yard.have(model=model)
    report = yard.park("model")
    assert () == report.refused
    assert ("a graph keeps model for a backward pass, which fails until it is unparked") in [
        note.sentence for note in report.notes
    ]
    yard.unpark("model")
    loss.backward()
    other.backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)
        assert a.grad.untyped_storage().device == b.grad.untyped_storage().device


# -- nothing half done -----------------------------------------------------------------------------


def state_of(yard, tensors):
    return [
        (t.untyped_storage()._cdata, layout(t), yard.where(t), repr(t.tolist())) for t in tensors
    ]


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_out_of_memory_while_parking_leaves_everything_as_it_was(yard, copies):
    model = make_model()
    yard.have(model=model)
    tensors = [*model.parameters(), *model.buffers()]
    before = state_of(yard, tensors)
    yard.carrier.fail_at = copies
    gc.disable()
    try:
        report = yard.park("model")
        assert [None] * copies == [ref() for ref in yard.carrier.pinned]
    finally:
        gc.enable()
    (sentence,) = report.refused
    assert sentence.startswith("pinned CPU memory has no room for")
    assert "nothing was moved, everything is as it was" in sentence
    assert before == state_of(yard, tensors)
    assert ((), 0, []) == (report.dropped, report.freed, yard.parked())


def test_the_devices_are_waited_for_twice_however_many_storages_move(yard):
    for number in range(20):
        yard.have("cuda:1" if number % 2 else "cuda:0", **{f"x{number}": torch.arange(number + 1)})
    names = list(yard.names)
    for act in (yard.park, yard.unpark):
        yard.carrier.waited.clear()
        assert () == act(*names).refused
        assert ["cuda:0", "cuda:1"] * 2 == yard.carrier.waited
        assert [n * (n + 1) // 2 for n in range(20)] == [yard.names[x].sum() for x in names]


def test_copies_that_are_under_way_are_waited_for_where_a_later_one_fails(yard):
    yard.have(model=make_model())
    yard.carrier.fail_at, alive = 2, []
    real = yard.carrier.wait

    def wait(device):
        alive.append([ref() is not None for ref in yard.carrier.pinned])
        real(device)

    yard.carrier.wait = wait
    assert 1 == len(yard.park("model").refused)
    assert [[], [True, True]] == alive
    assert [None, None] == [ref() for ref in yard.carrier.pinned]


def refusal_of_copies(yard, monkeypatch, text):
    """What parking a model says where each copy fails with this text."""
    model = make_model()
    yard.have(model=model)

    def refuse(*_):
        raise RuntimeError(text)

    monkeypatch.setattr(yard.carrier, "copy", refuse)
    (sentence,) = yard.park("model").refused
    return sentence


@pytest.mark.parametrize(
    "text",
    [
        "You should register `PrivateUse1HooksInterface` and implement `getPinnedMemoryAllocator`",
        "Backend doesn't support synchronizing all streams on device.",
        "CUDA error: an illegal memory access was encountered",
    ],
)
def test_what_a_device_can_t_do_is_not_called_out_of_memory(yard, text, monkeypatch):
    sentence = refusal_of_copies(yard, monkeypatch, text)
    assert sentence.startswith("torch could not move ")
    assert f"({text})" in sentence
    assert "has no room" not in sentence


@pytest.mark.parametrize(
    "text",
    [
        "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)",
        "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 1024 bytes",
        "not enough memory: you tried to allocate 1024 bytes.",
    ],
)
def test_out_of_memory_in_other_vendors_words_is_told_as_that(yard, text, monkeypatch):
    sentence = refusal_of_copies(yard, monkeypatch, text)
    assert sentence.startswith("pinned CPU memory has no room for")


@pytest.mark.parametrize("pointed", [0, 1, 4])
def test_a_tensor_that_torch_will_not_re_point_brings_all_others_back(yard, pointed, monkeypatch):
    model = make_model()
    yard.have(model=model)
    tensors = [*model.parameters(), *model.buffers()]
    before, real, calls = state_of(yard, tensors), moves._point_at, []

    def point(tensor, shown):
        calls.append(1)
        if len(calls) == pointed + 1:
            raise RuntimeError("incompatible tensor type\nwith more lines")
        real(tensor, shown)

    monkeypatch.setattr(moves, "_point_at", point)
    (sentence,) = yard.park("model").refused
    assert "(incompatible tensor type): nothing was moved, everything is as it was" in sentence
    assert before == state_of(yard, tensors)
    assert [] == yard.parked()


def test_ctrl_c_in_the_middle_leaves_everything_as_it_was(yard, monkeypatch):
    model = make_model()
    yard.have(model=model)
    before, real, calls = state_of(yard, model.parameters()), moves._point_at, []

    def point(tensor, shown):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(tensor, shown)

    monkeypatch.setattr(moves, "_point_at", point)
    with pytest.raises(KeyboardInterrupt):
        yard.park("model")
    assert before == state_of(yard, model.parameters())


def test_unparking_without_room_leaves_it_parked_and_says_so():
    yard = Yard(capacity={"cuda:0": 6_000})
    yard.have(x=torch.arange(1000.0), y=torch.zeros(100))
    yard.names["both"] = [yard.names["x"], yard.names["y"]]
    yard.park("both")
    yard.have(taken=torch.zeros(500))
    before = state_of(yard, yard.names["both"])
    report = yard.unpark("both")
    assert (
        "cuda:0 has no room for 4.30 KiB: nothing was moved, everything is as it was and still "
        "parked; free some first (`%gpumem tensors` tells what takes it), or unpark less at a time",
    ) == report.refused
    assert before == state_of(yard, yard.names["both"])
    assert (2_048, 2_048) == (report.bytes_before, report.bytes_after)
    del yard.names["taken"]
    assert () == yard.unpark("both").refused
    assert torch.equal(torch.arange(1000.0), yard.names["x"])


def test_main_memory_that_can_not_be_pinned_is_not_asked_for():
    yard = Yard(room=5_000)
    yard.have(x=torch.zeros(1500))
    assert (
        "pinning takes 8.00 KiB of main memory, of which 4.88 KiB can be had: nothing was moved; "
        "park less at a time",
    ) == yard.park("x").refused
    assert "cuda:0" == yard.where(yard.names["x"])


def test_the_peak_of_the_device_is_never_above_what_it_was():
    yard = Yard()
    model = nn.Sequential(*(nn.Linear(50, 50) for _ in range(5)))
    yard.have(model=model)
    before = yard.carrier.allocated("cuda:0")
    yard.park("model")
    assert before == yard.carrier.peak["cuda:0"]
    assert 0 == yard.carrier.allocated("cuda:0")
    yard.unpark()
    assert before == yard.carrier.peak["cuda:0"] == yard.carrier.allocated("cuda:0")


def test_neither_act_keeps_anything_alive(yard):
    yard.have(model=make_model())
    on_device = [weakref.ref(p.untyped_storage()) for p in yard.names["model"].parameters()]
    gc.disable()
    try:
        yard.park("model")
        assert {None} == {ref() for ref in on_device}
        pinned = [weakref.ref(p.untyped_storage()) for p in yard.names["model"].parameters()]
        yard.unpark()
        assert {None} == {ref() for ref in pinned}
        yard.carrier.fail_at = 2
        yard.park("model")
        weights = [weakref.ref(p) for p in yard.names["model"].parameters()]
        yard.carrier.fail_at = None
        yard.park("model")
    finally:
        gc.enable()
    yard.names.clear()
    gc.collect()
    assert {None} == {ref() for ref in weights}
    assert [] == yard.parked()


# -- what became of it meanwhile -------------------------------------------------------------------


def test_what_is_parked_is_listed_with_bytes_and_where_it_came_from(yard):
    model = make_model()
    optimizer = trained(model)
    for parameter in model.parameters():
        parameter.grad = None
    yard.have(model=model, opt=optimizer, x=torch.zeros(250))
    yard.park("model", "opt")
    yard.park("x")
    weights = sum(t.nbytes for t in [*model.parameters(), *model.buffers()])
    state = sum(t.nbytes for kept in optimizer.state.values() for t in kept.values())
    assert [
        ("model", weights, 9, "cuda:0"),
        ("opt", state, 18, "cuda:0"),
        ("x", 1000, 1, "cuda:0"),
    ] == yard.parked()
    yard.unpark("model")
    assert ["opt", "x"] == [name for name, *_ in yard.parked()]


def test_a_parked_tensor_that_was_deleted_is_forgotten(yard):
    yard.have(x=torch.zeros(3), y=torch.zeros(3))
    yard.park("x", "y")
    del yard.names["x"]
    assert [("y", 12, 1, "cuda:0")] == yard.parked()
    assert () == yard.unpark().refused
    assert "cuda:0" == yard.where(yard.names["y"])
    assert ("nothing is parked: `%gpumem park NAME` moves a model to the CPU",) == (
        yard.unpark().refused
    )


def test_a_variable_that_leads_elsewhere_by_now_still_names_what_was_parked_under_it(yard):
    x = torch.zeros(3)
    yard.have(x=x)
    yard.park("x")
    yard.names.update(x=torch.ones(5), kept=x)
    assert () == yard.unpark("x").refused
    assert ("cuda:0", "cpu") == (yard.where(x), yard.where(yard.names["x"]))


def test_a_renamed_tensor_is_unparked_by_its_new_name(yard):
    yard.have(x=torch.zeros(3))
    yard.park("x")
    yard.names["z"] = yard.names.pop("x")
    assert () == yard.unpark("z").refused
    assert "cuda:0" == yard.where(yard.names["z"])


def test_a_name_of_which_nothing_is_parked_is_refused(yard):
    yard.have(x=torch.zeros(3), y=torch.zeros(3))
    yard.park("x")
    assert (
        "nothing of `y` is parked: `%gpumem park` lists what is",
        "nothing of `z` is parked: `%gpumem park` lists what is",
    ) == yard.unpark("y", "z").refused
    assert "cpu" == yard.where(yard.names["x"])


def test_weights_that_were_given_other_memory_meanwhile_come_back_too(yard):
    model = make_model()
    yard.have(model=model)
    yard.park("model")
    model.half()
    assert () == yard.unpark("model").refused
    assert {"cuda:0"} == {yard.where(p) for p in model.parameters()}
    assert {torch.float16} == {p.dtype for p in model.parameters()}


def test_memory_that_a_tensor_was_given_by_another_stays_with_that_one(yard):
    x, mine = torch.zeros(3), torch.arange(3.0)
    yard.have(x=x)
    yard.names["mine"] = mine
    yard.park("x")
    x.data = mine
    report = yard.unpark("x")
    assert 1 == len(report.refused)
    assert report.refused[0].startswith("x was given memory while it was parked")
    assert ("cpu", "cpu") == (yard.where(x), yard.where(mine))
    assert [0, 0] == sharing([x, mine])


def test_what_the_user_brought_back_alone_is_left_alone(yard):
    x = torch.zeros(3)
    yard.have(x=x)
    yard.park("x")
    moved = torch.ones(3)
    yard.carrier.place(moved, device="cuda:1")
    x.data = moved
    assert [] == yard.parked()
    assert ("nothing is parked: `%gpumem park NAME` moves a model to the CPU",) == (
        yard.unpark("x").refused
    )
    assert "cuda:1" == yard.where(x)


def test_a_numpy_array_made_while_parked_keeps_showing_its_numbers(yard):
    x = torch.arange(1000.0)
    yard.have(x=x)
    yard.park("x")
    array = x.detach().numpy()
    pinned = weakref.ref(x.untyped_storage())
    report = yard.unpark("x")
    assert "cuda:0" == yard.where(x)
    (note,) = report.notes
    assert note.sentence.startswith("3.91 KiB of x stay in main memory too until its tensors go")
    junk = [torch.full((1000,), 9.0) for _ in range(50)]
    assert list(range(1000)) == array.tolist()
    assert pinned() is not None
    yard.names.clear()
    del x, array, junk
    assert pinned() is None


def test_an_array_of_a_weight_that_is_gone_costs_nothing(yard):
    weight = nn.Parameter(torch.arange(1000.0))
    yard.have(weight=weight)
    yard.park("weight")
    pinned = weakref.ref(weight.untyped_storage())
    assert 999 == weight.detach().numpy().max()
    assert () == yard.unpark().notes
    assert pinned() is None


def test_an_array_of_a_weight_keeps_its_numbers_as_long_as_it_lives(yard):
    weight = nn.Parameter(torch.arange(1000.0))
    yard.have(weight=weight)
    yard.park("weight")
    pinned = weakref.ref(weight.untyped_storage())
    array = weight.detach().numpy()
    assert 1 == len(yard.unpark().notes)
    assert list(range(1000)) == array.tolist()
    del array
    assert pinned() is None


def test_a_lone_name_is_no_sequence_of_letters(yard):
    yard.have(xy=torch.zeros(3))
    assert () == park(yard.holdings, yard.lot, "xy").refused
    assert () == unpark(yard.holdings, yard.lot, "xy").refused


class Hostile(torch.Tensor):
    """Its author's code fails whenever it is run."""

    def _fail(self, *args, **kwargs):
        raise AssertionError("code of the user's ran")

    size = stride = storage_offset = untyped_storage = detach = is_conj = is_neg = _fail
    is_inference = resizable = __len__ = __eq__ = __bool__ = __iter__ = _fail
    dtype = device = layout = data = grad = shape = property(_fail)
    __hash__ = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("code of the user's ran")


def test_no_code_of_a_tensors_class_runs(yard):
    plain = torch.arange(6.0)
    hostile = plain[1:].as_subclass(Hostile)
    yard.have(plain=plain)
    yard.names["box"] = [hostile]
    for act, place in ((yard.park, "cpu"), (yard.unpark, "cuda:0")):
        assert () == act("box").refused
        assert place == yard.where(plain)
    with torch._C.DisableTorchFunction():
        shown = torch.Tensor.as_subclass(hostile, torch.Tensor)
    assert [1.0, 2.0, 3.0, 4.0, 5.0] == shown.tolist()
    assert [0, 0] == sharing([plain, shown])


def test_a_copy_of_a_parked_model_is_no_parked_model(yard):
    yard.have(model=make_model())
    yard.park("model")
    twin = copy.deepcopy(yard.names["model"])
    yard.unpark()
    assert {"cpu"} == {yard.where(p) for p in twin.parameters()}
