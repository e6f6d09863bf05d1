"""Parking on a real GPU: the allocator's bytes, pinned memory, and training that goes on."""

import copy
import gc

import pytest
import torch
from torch import nn

from nbmem.session import current_session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

MIB = 2**20


class Gpt(nn.Module):
    """A decoder of one block whose head is tied to its embeddings, as GPT-2's is."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(512, 128)
        self.block = nn.TransformerEncoderLayer(128, 4, 256, dropout=0, batch_first=True)
        self.head = nn.Linear(128, 512, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.block(self.embed(tokens)))


@pytest.fixture(autouse=True)
def fresh_allocator():
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def session(shell):
    shell.run_line_magic("load_ext", "nbmem")
    return current_session()


def make():
    torch.manual_seed(0)
    model = Gpt().cuda()
    return model, torch.optim.Adam(model.parameters(), lr=1e-3)


def step(model, optimizer, number):
    generator = torch.Generator(device="cuda").manual_seed(number)
    tokens = torch.randint(512, (8, 32), device="cuda", generator=generator)
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def tensors_of(model, optimizer):
    state = [t for kept in optimizer.state.values() for t in kept.values() if torch.is_tensor(t)]
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*model.parameters(), *model.buffers(), *gradients, *state]


def test_a_parked_model_and_its_adam_state_come_back_and_training_goes_on(session):
    model, optimizer = make()
    twin, other = make()
    for number in range(2):
        assert step(model, optimizer, number) == step(twin, other, number)
    session.shell.user_ns.update(model=model, opt=optimizer)
    before = tensors_of(model, optimizer)
    on_gpu = [tensor for tensor in before if tensor.is_cuda]
    values = [tensor.detach().cpu().clone() for tensor in before]
    report = session.park(["model", "opt"])
    assert () == report.refused
    after = tensors_of(model, optimizer)
    assert all(a is b for a, b in zip(after, before, strict=True))
    assert {"cpu"} == {tensor.device.type for tensor in after}
    assert all(tensor.is_pinned() for tensor in on_gpu)
    assert model.head.weight is model.embed.weight
    assert all(torch.equal(a.detach(), b) for a, b in zip(after, values, strict=True))
    assert () == session.unpark([]).refused
    assert all(tensor.is_cuda for tensor in on_gpu)
    assert all(torch.equal(a.detach().cpu(), b) for a, b in zip(before, values, strict=True))
    assert [step(twin, other, n) for n in (2, 3)] == [step(model, optimizer, n) for n in (2, 3)]


def test_the_allocators_bytes_come_back_to_the_byte(session):
    start = torch.cuda.memory_allocated()
    model, optimizer = make()
    step(model, optimizer, 0)
    gc.collect()
    session.shell.user_ns.update(model=model, opt=optimizer)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    report = session.park(["model", "opt"])
    parked = torch.cuda.memory_allocated()
    assert (before, parked) == (report.bytes_before, report.bytes_after)
    assert "allocated on cuda:0" == report.counts
    # What cuBLAS keeps for itself is all that is left of it.
    assert parked - start <= 40 * MIB
    assert report.promised <= report.freed
    assert before == torch.cuda.max_memory_allocated()
    session.unpark([])
    assert before == torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated()


def test_only_a_captured_graph_forbids_parking(session):
    x = torch.ones(1000, device="cuda")
    session.shell.user_ns["x"] = x
    graph = torch.cuda.CUDAGraph()
    assert () == session.park(["x"], dry_run=True).refused
    with torch.cuda.graph(graph):
        y = x + 1
    (sentence,) = session.park(["x"], dry_run=True).refused
    assert sentence.startswith("a captured CUDA graph is alive")
    graph.reset()
    assert () == session.park(["x"], dry_run=True).refused
    del y


def test_views_and_ties_share_one_storage_on_both_sides(session):
    base = torch.arange(1000.0, device="cuda")
    views = [base, base[10:], base.view(10, 100).t(), base[::2]]
    shapes = [(v.shape, v.stride(), v.storage_offset()) for v in views]
    session.shell.user_ns["views"] = views
    del base
    for act, kind in ((session.park, "cpu"), (session.unpark, "cuda")):
        assert () == act(["views"]).refused
        assert {kind} == {view.device.type for view in views}
        assert 1 == len({view.untyped_storage().data_ptr() for view in views})
        assert shapes == [(v.shape, v.stride(), v.storage_offset()) for v in views]
        assert list(range(0, 1000, 2)) == views[3].tolist()


def test_a_pending_backward_pass_runs_after_a_round_trip(session):
    model, _ = make()
    tokens = torch.arange(64, device="cuda").view(2, 32)
    twin = copy.deepcopy(model)
    losses = [net(tokens).square().mean() for net in (model, twin)]
    session.shell.user_ns["model"] = model
    assert () == session.park(["model"]).refused
    assert () == session.unpark([]).refused
    for loss in losses:
        loss.backward()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert a.grad.is_cuda
        assert torch.equal(a.grad, b.grad)


def test_backward_while_the_weights_are_parked_raises_and_harms_nothing(session):
    weight = nn.Parameter(torch.randn(64, 64, device="cuda"))
    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    loss = (x @ weight).square().sum()
    session.shell.user_ns["weight"] = weight
    session.park(["weight"])
    with pytest.raises(RuntimeError):
        loss.backward(retain_graph=True)
    assert weight.grad is None or weight.grad.device == weight.device
    session.unpark([])
    weight.grad = x.grad = None
    loss.backward()
    assert (weight.grad.is_cuda, x.grad.is_cuda) == (True, True)


def test_hooks_of_parameters_still_run_after_a_round_trip(session):
    model, optimizer = make()
    step(model, optimizer, 0)
    seen = []
    model.head.weight.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    model.head.weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    session.shell.user_ns["model"] = model
    session.park(["model"])
    session.unpark([])
    step(model, optimizer, 1)
    assert ["cuda", "accumulated"] == seen


def test_unparking_without_room_leaves_it_parked(session):
    x = torch.arange(64 * MIB // 4, dtype=torch.float32, device="cuda")
    session.shell.user_ns["x"] = x
    session.park(["x"])
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total + 1e-4)
    try:
        report = session.unpark(["x"])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    (sentence,) = report.refused
    assert sentence.startswith("cuda:0 has no room for 64.0 MiB: nothing was moved")
    assert ("cpu", True) == (x.device.type, x.is_pinned())
    assert 0 < free
    assert () == session.unpark(["x"]).refused
    assert (True, 12_345.0) == (x.is_cuda, x[12_345].item())


def test_a_side_stream_is_waited_for(session):
    x = torch.zeros(MIB, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(500_000_000)
        x.fill_(7)
    session.shell.user_ns["x"] = x
    session.park(["x"])
    assert 7.0 * MIB == x.sum().item()


def test_weights_that_a_captured_graph_replays_on_are_refused(session):
    x = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    session.shell.user_ns["x"] = x
    (sentence,) = session.park(["x"]).refused
    assert sentence.startswith("a captured CUDA graph is alive")
    graph.replay()
    assert (True, 2000.0) == (x.is_cuda, y.sum().item())


def test_an_export_by_dlpack_is_refused(session):
    x = torch.arange(4.0, device="cuda")
    other = torch.from_dlpack(x)
    session.shell.user_ns["x"] = x
    assert 1 == len(session.park(["x"]).refused)
    assert (True, [0.0, 1.0, 2.0, 3.0]) == (x.is_cuda, other.tolist())


@pytest.mark.skipif(not torch.backends.cudnn.enabled, reason="cuDNN is off, as on emulated cards")
def test_cudnns_flat_weights_of_an_lstm_stay_one_block(session):
    lstm = nn.LSTM(32, 64, num_layers=2).cuda()
    x = torch.randn(5, 3, 32, device="cuda")
    before = lstm(x)[0]
    session.shell.user_ns["lstm"] = lstm
    session.park(["lstm"])
    session.unpark([])
    assert 1 == len({p.untyped_storage().data_ptr() for p in lstm.parameters()})
    assert torch.equal(before, lstm(x)[0])
