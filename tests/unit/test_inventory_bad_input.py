"""What users have in their notebooks: each model and tensor is listed whole, and no code runs."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from storage_truth import Look, MadeStorages, collected, nothing_of_ours_runs
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.testing._internal.two_tensor import TwoTensor

N = 300


@pytest.fixture(autouse=True, scope="module")
def only_what_is_new():
    """What other tests left is kept from the collector, so that each look is quick."""
    collected()
    gc.freeze()
    yield
    gc.unfreeze()


def quiet_look(namespace, **options):
    """Returns an inventory during which no function of this file ran."""
    with nothing_of_ours_runs(__file__):
        return Look(namespace, **options)


def categories(look):
    return {name: record.category for record in look.inventory.storages for name in record.names}


def assert_bears(namespace, made, expected):
    """Every storage that lives is found once; these names are printed; each name leads back."""
    look = quiet_look(namespace)
    alive = made.alive()
    assert alive == look.sizes(alive)
    found = categories(look)
    assert expected == {name: found.get(name) for name in expected}
    assert [] == look.lost_names()
    assert [] == look.nameless(alive)
    return look


# -- models that are not plain -------------------------------------------------------------------


def lazy_before():
    return {"model": nn.Sequential(nn.LazyLinear(N), nn.LazyBatchNorm1d(), nn.Linear(N, 2))}, {
        "model.2.weight": "parameter",
        "model.2.bias": "parameter",
    }


def lazy_after():
    model = nn.Sequential(nn.LazyLinear(N), nn.LazyBatchNorm1d())
    model(torch.ones(4, 5))
    return {"model": model}, {
        "model.0.weight": "parameter",
        "model.1.running_mean": "buffer",
        "model.1.weight": "parameter",
    }


def uninitialized():
    buffer = nn.parameter.UninitializedBuffer()
    return {"p": nn.UninitializedParameter(), "b": [buffer], "x": torch.ones(N)}, {"x": "user"}


def compiled():
    model = nn.Sequential(nn.Linear(N, 2), nn.ReLU())
    fast = torch.compile(model, backend="eager")
    return {"fast": fast}, {"fast._orig_mod.0.weight": "parameter"}


def compiled_and_run():
    fast = torch.compile(nn.Sequential(nn.Linear(N, 2), nn.ReLU()), backend="eager")
    loss = fast(torch.ones(4, N)).sum()
    return {"fast": fast, "loss": loss}, {"fast._orig_mod.0.weight": "parameter"}


def weight_norm():
    model = parametrizations.weight_norm(nn.Linear(N, 5))
    return {"model": model}, {
        "model.parametrizations.weight.original0": "parameter",
        "model.parametrizations.weight.original1": "parameter",
        "model.bias": "parameter",
    }


def spectral_norm():
    model = parametrizations.spectral_norm(nn.Linear(N, N))
    return {"model": model}, {
        "model.parametrizations.weight.original": "parameter",
        "model.parametrizations.weight.0._u": "buffer",
        "model.parametrizations.weight.0._v": "buffer",
    }


def orthogonal():
    model = parametrizations.orthogonal(nn.Linear(N, 5))
    return {"model": model}, {"model.parametrizations.weight.original": "parameter"}


def old_weight_norm():
    with pytest.warns(FutureWarning):
        model = nn.utils.weight_norm(nn.Linear(N, 5))
    return {"model": model}, {
        "model.weight_g": "parameter",
        "model.weight_v": "parameter",
        "model.weight": "user",
    }


def old_spectral_norm():
    model = nn.utils.spectral_norm(nn.Linear(N, N))
    model(torch.ones(1, N))
    return {"model": model}, {"model.weight_orig": "parameter", "model.weight_u": "buffer"}


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def own_parametrization():
    model = nn.Linear(N, 5)
    parametrize.register_parametrization(model, "weight", Doubled())
    with parametrize.cached():
        model(torch.ones(1, N))
    return {"model": model}, {"model.parametrizations.weight.original": "parameter"}


def pruned():
    model = prune.l1_unstructured(nn.Linear(N, 5), "weight", 0.5)
    return {"model": model}, {
        "model.weight_orig": "parameter",
        "model.weight_mask": "buffer",
        "model.weight": "user",
    }


def shared_submodules():
    block = nn.Linear(N, N)
    return {"model": nn.Sequential(block, nn.ReLU(), block, nn.Sequential(block))}, {
        "model.0.weight": "parameter",
        "model.0.bias": "parameter",
    }


def containers_of_modules():
    model = nn.ModuleDict(
        {
            "a": nn.ParameterList([nn.Parameter(torch.ones(N)), torch.ones(N)]),
            "b": nn.ModuleList([nn.Linear(N, 2)]),
            "c d": nn.ParameterDict({"k k": nn.Parameter(torch.ones(N))}),
        }
    )
    return {"model": model}, {
        "model.a.0": "parameter",
        "model.a.1": "parameter",
        "model.b.0.weight": "parameter",
    }


def buffers():
    model = nn.Module()
    model.register_buffer("lasting", torch.ones(N))
    model.register_buffer("passing", torch.ones(N), persistent=False)
    model.third = nn.Buffer(torch.ones(N))
    model.register_buffer("none", None)
    model.plain = torch.ones(N)
    return {"model": model}, {
        "model.lasting": "buffer",
        "model.passing": "buffer",
        "model.third": "buffer",
        "model.plain": "user",
    }


def deep_copied():
    model = nn.Sequential(nn.Linear(N, N))
    model(torch.ones(1, N)).sum().backward()
    return {"model": model, "copied": copy.deepcopy(model)}, {
        "model.0.weight": "parameter",
        "copied.0.weight": "parameter",
        "model.0.weight.grad": "gradient",
    }


def averaged():
    model = nn.Sequential(nn.Linear(N, N), nn.BatchNorm1d(N))
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    ema.update_parameters(model)
    return {"model": model, "ema": ema}, {
        "model.0.weight": "parameter",
        "ema.module.0.weight": "parameter",
        "ema.module.1.running_mean": "buffer",
    }


class LowRank(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.ones(4, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))
        for parameter in base.parameters():
            parameter.requires_grad_(False)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base, name)

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def low_rank():
    model = nn.Sequential(LowRank(nn.Linear(N, N)), nn.ReLU())
    loss = model(torch.ones(4, N)).sum()
    loss.backward(retain_graph=True)
    return {"model": model, "loss": loss}, {
        "model.0.base.weight": "parameter",
        "model.0.down": "parameter",
        "model.0.up.grad": "gradient",
    }


def tied():
    model = nn.Module()
    model.embed, model.head = nn.Embedding(N, 8), nn.Linear(8, N, bias=False)
    model.head.weight = model.embed.weight
    return {"model": model}, {"model.embed.weight": "parameter", "model.head.weight": "parameter"}


def replicated():
    return {"model": nn.DataParallel(nn.Linear(N, 2))}, {"model.module.weight": "parameter"}


def scripted():
    model = torch.jit.script(nn.Sequential(nn.Linear(N, 2), nn.BatchNorm1d(2)))
    return {"model": model}, {}


def traced():
    model = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(N, 2), nn.ReLU()))
    return {"model": model}, {"model.0.weight": "parameter"}


# -- tensors that are not plain ------------------------------------------------------------------


def sparse_weights():
    model = nn.Linear(N, 4)
    model.weight = nn.Parameter(torch.eye(N).to_sparse())
    model.rows = nn.Parameter(torch.eye(N).to_sparse_csr())
    model.register_buffer("columns", torch.eye(N).to_sparse_csc())
    model.blocks = torch.ones(N, N).to_sparse_bsr((10, 10))
    return {"model": model}, {
        "model.weight (indices)": "parameter",
        "model.weight (values)": "parameter",
        "model.rows (crow_indices)": "parameter",
        "model.rows (col_indices)": "parameter",
        "model.columns (ccol_indices)": "buffer",
        "model.blocks (values)": "user",
    }


def sparse_gradient():
    model = nn.Embedding(N, 8, sparse=True)
    model(torch.arange(100)).sum().backward()
    return {"model": model}, {
        "model.weight": "parameter",
        "model.weight.grad (indices)": "gradient",
        "model.weight.grad (values)": "gradient",
    }


def complex_and_odd_types():
    x = torch.ones(N, dtype=torch.complex64)
    return {
        "x": x,
        "conjugate": x.conj(),
        "negative": x.conj().imag,
        "real": torch.view_as_real(x),
        "eight": torch.ones(N).to(torch.float8_e4m3fn),
        "other": torch.ones(N).to(torch.float8_e5m2),
        "flags": torch.ones(N, dtype=torch.bool),
        "wide": torch.ones(N, dtype=torch.uint16),
        "brain": torch.ones(N, dtype=torch.bfloat16),
    }, {"x": "user", "eight": "user", "real": "user", "conjugate": "user", "wide": "user"}


def masked():
    data, mask = torch.ones(N), torch.ones(N, dtype=torch.bool)
    with pytest.warns(UserWarning, match="prototype"):
        return {"m": torch.masked.masked_tensor(data, mask)}, {}


def jagged():
    parts = [torch.ones(N), torch.ones(2 * N)]
    return {
        "ragged": torch.nested.nested_tensor(parts, layout=torch.jagged),
        "nested": torch.nested.nested_tensor(parts),
    }, {}


def two_in_one():
    return {"two": TwoTensor(torch.ones(N), torch.ones(N))}, {"two.a": "user", "two.b": "user"}


def of_two_in_one():
    inner = TwoTensor(torch.ones(N), torch.ones(N))
    model = nn.Module()
    model.weight = nn.Parameter(TwoTensor(inner, TwoTensor(torch.ones(N), torch.ones(N))))
    return {"model": model}, {"model.weight.a.a": "parameter", "model.weight.b.b": "parameter"}


def views_of_views():
    base = torch.ones(N, N)
    return {
        "base": base,
        "flipped": base.T[3:],
        "one": base.as_strided((1,), (1,), 7),
        "many": base[0, 0].expand(10**9),
        "windows": base.unfold(0, 2, 1),
    }, {"base": "user", "one": "user", "many": "user"}


def empty_and_emptied():
    emptied = torch.ones(N)
    emptied.untyped_storage().resize_(0)
    grown = torch.ones(N)
    grown.untyped_storage().resize_(10_000)
    return {
        "empty": torch.empty(0),
        "emptied": emptied,
        "grown": grown,
        "scalar": torch.ones(()),
    }, {
        "emptied": "user",
        "grown": "user",
        "scalar": "user",
    }


SCENES = [
    lazy_before,
    lazy_after,
    uninitialized,
    compiled,
    compiled_and_run,
    weight_norm,
    spectral_norm,
    orthogonal,
    old_weight_norm,
    old_spectral_norm,
    own_parametrization,
    pruned,
    shared_submodules,
    containers_of_modules,
    buffers,
    deep_copied,
    averaged,
    low_rank,
    tied,
    replicated,
    scripted,
    traced,
    sparse_weights,
    sparse_gradient,
    complex_and_odd_types,
    masked,
    jagged,
    two_in_one,
    of_two_in_one,
    views_of_views,
    empty_and_emptied,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_model_or_tensor_that_is_not_plain_is_listed_whole(scene):
    made = MadeStorages()
    with made:
        namespace, expected = scene()
        made.add(namespace)
    collected()
    assert_bears(namespace, made, expected)


@pytest.mark.filterwarnings("ignore")
def test_what_compiled_code_saved_is_named_after_its_model():
    model = nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, 2))
    torch._dynamo.reset()  # else it still skips what another test ran under a mode
    fast = torch.compile(model, backend="aot_eager")
    namespace = {"fast": fast, "x": torch.ones(64, N)}
    namespace["loss"] = fast(namespace["x"]).sum()
    collected()
    look = quiet_look(namespace)
    # of all between the layers only ReLU's result is saved: 64 x 300 values
    (saved,) = [r for r in look.inventory.storages if r.saved_by and r.names and r.bytes > 1024]
    assert (76_800, "saved for backward") == (saved.bytes, saved.category)
    assert saved.module.startswith("fast._orig_mod")
    assert "CompiledFunctionBackward.tensors" == saved.saved_by
    assert [] == look.lost_names()


def test_quantized_tensors_are_listed_with_their_scales():
    x = torch.ones(4, N)
    namespace = {
        "tensor": torch.quantize_per_tensor(x, 0.1, 10, torch.qint8),
        "channel": torch.quantize_per_channel(x, torch.ones(4), torch.zeros(4), 0, torch.quint8),
    }
    look = quiet_look(namespace)
    sizes = {n: r.bytes for r in look.inventory.storages for n in r.names}
    # 4 x 300 values of one byte; scales and zero points are 4 of 4 bytes each
    assert 1200 == sizes["tensor"]
    assert {"channel": 1200, "channel (scales)": 16, "channel (zero points)": 16} == {
        name: size for name, size in sizes.items() if name.startswith("channel")
    }
    assert [] == look.lost_names()


# -- DTensor and FSDP ----------------------------------------------------------------------------


@pytest.fixture
def one_rank():
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield dist.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_a_dtensors_local_shard_is_named_after_it(one_rank):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x = distribute_tensor(torch.ones(N, 2), one_rank, [Shard(0)])
    model = nn.Linear(N, 2)
    model.weight = nn.Parameter(distribute_tensor(model.weight.detach(), one_rank, [Replicate()]))
    look = quiet_look({"x": x, "model": model})
    found = categories(look)
    assert N * 2 * 4 == look.record_of(x._local_tensor).bytes
    (name,) = look.names_of(x._local_tensor)
    assert name.startswith("x")
    (name,) = look.names_of(model.weight._local_tensor)
    assert name.startswith("model.weight")
    assert "parameter" == look.record_of(model.weight._local_tensor).category
    assert "parameter" == found["model.bias"]
    assert [] == look.lost_names()


def test_a_fully_sharded_model_is_listed_with_gradients_and_state(one_rank):
    from torch.distributed.fsdp import fully_shard

    before = Look({}).by_address
    model = nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, 2))
    fully_shard(model, mesh=one_rank)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, N)).sum().backward()
    optimizer.step()
    look = quiet_look({"model": model, "opt": optimizer})
    for parameter in model.parameters():
        assert "parameter" == look.record_of(parameter._local_tensor).category
        assert "gradient" == look.record_of(parameter.grad._local_tensor).category
        for key in ("exp_avg", "exp_avg_sq"):
            state = optimizer.state[parameter][key]
            assert "optimizer state" == look.record_of(state._local_tensor).category
    assert [] == look.lost_names()
    assert [] == look.nameless(look.by_address.keys() - before.keys())


def test_ddp_is_listed_with_its_buckets(one_rank):
    model = nn.parallel.DistributedDataParallel(nn.Linear(N, N))
    model(torch.ones(4, N)).sum().backward()
    look = quiet_look({"model": model})
    assert "parameter" == categories(look)["model.module.weight"]
    assert "gradient" == categories(look)["model.module.weight.grad"]
    assert [] == look.lost_names()


@pytest.mark.filterwarnings("ignore")
def test_the_packed_weights_of_a_quantized_model_are_told():
    model = nn.Sequential(nn.Linear(N, N), nn.ReLU(), nn.Linear(N, 2))
    packed = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    look = quiet_look({"model": packed, "x": torch.ones(N)})
    assert "user" == categories(look)["x"]
    assert (
        "Packed weights, as those of dynamically quantized modules, are not counted: torch keeps "
        "their bytes out of Python's sight."
    ) in look.sentences()


@pytest.mark.filterwarnings("ignore")
def test_the_weights_of_a_loaded_script_are_told_to_be_out_of_sight(tmp_path):
    torch.jit.save(torch.jit.script(nn.Linear(N, N)), tmp_path / "m.pt")
    look = quiet_look({"model": torch.jit.load(tmp_path / "m.pt")})
    assert "What TorchScript modules hold is not all counted" in look.sentences()


def test_one_memory_under_two_storages_is_told():
    x = torch.ones(N)
    again = torch.from_numpy(x.numpy())
    look = quiet_look({"x": x, "again": again})
    assert x.data_ptr() == again.data_ptr()
    assert (
        "x and again share one memory, as from_numpy, DLPack, safetensors and "
        "torch.load(mmap=True) make it: 1,200 bytes that several of them have are counted once."
    ) in look.sentences()


def test_tensors_in_a_mapped_file_are_told_to_lie_in_one_memory(tmp_path):
    torch.save({"w": torch.zeros(5000), "v": torch.zeros(3000)}, tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", mmap=True)
    look = quiet_look({"loaded": loaded})
    assert (
        "loaded['w'], loaded['v'] and a storage without a name share one memory, as from_numpy, "
        "DLPack, safetensors and torch.load(mmap=True) make it: 32,000 bytes that several of them "
        "have are counted once."
    ) in look.sentences()
