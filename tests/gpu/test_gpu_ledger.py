"""The ledger of a real GPU against torch's counters, its snapshot, nvidia-smi and sums by hand."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import nbmem

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU here"),
]

ROOT = Path(__file__).parents[2]
MIB = 2**20


class Attention(nn.Module):
    """Token embeddings, one encoder layer, and a head that is tied to the embeddings."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 64)
        self.encoder = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.head = nn.Linear(64, 500, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


class LastOfLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0][:, -1]


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 15 * 15, 10),
    )  # fmt: skip


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(1000, 500), nn.ReLU(), nn.Linear(500, 10)), (64, 1000)),
    "conv net": (conv_net, (32, 3, 32, 32)),
    "transformer": (Attention, (16, 40)),
    "lstm": (LastOfLstm, (16, 50, 32)),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": torch.optim.Adam,
}


@pytest.fixture(autouse=True)
def fresh_allocator():
    gc.collect()
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()


def ledger_of_gpu():
    (gpu,) = nbmem.take_ledger("cuda:0").devices
    return gpu


def sums(ledger):
    return {one.code: one for one in ledger.sums}


def lines(one):
    return {line.code: line.bytes for line in one.lines}


def added(one):
    return sum(line.bytes for line in one.lines if line.part_of is None)


def in_a_fresh_process(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TOLD = """
def told():
    import json, nbmem
    (gpu,) = nbmem.take_ledger("cuda:0").devices
    print(json.dumps({
        "sums": {one.code: {line.code: line.bytes for line in one.lines} for one in gpu.sums},
        "derived": {one.code: [l.code for l in one.lines if l.derived] for one in gpu.sums},
        "totals": {one.code: one.total.bytes for one in gpu.sums},
        "remainders": {one.code: one.remainder for one in gpu.sums},
        "notes": [note.sentence for note in gpu.notes]
                 + [note.sentence for one in gpu.sums for note in one.notes],
        "blocks": [[b.bytes, b.count, b.kind, b.pool, b.state, b.stack] for b in gpu.blocks],
        "allocated": torch.cuda.memory_allocated(0),
        "reserved": torch.cuda.memory_reserved(0),
    }))
"""


def explained(ledger):
    """Returns the share of `memory_allocated` that has a name: all but what was not found."""
    allocated = sums(ledger)["allocated"]
    truth = torch.cuda.memory_allocated(0)
    assert truth == allocated.total.bytes
    assert 0 == allocated.remainder
    assert truth == added(allocated)
    told = lines(allocated)
    return (truth - told.get("not found", 0) - told.get("unknown", 0)) / truth


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_names_rounding_and_workspaces_are_99_percent_of_what_is_allocated(
    model, optimizer, monkeypatch
):
    make, shape = MODELS[model]
    torch.manual_seed(0)
    net = make().cuda()
    steps = OPTIMIZERS[optimizer](net.parameters())
    tokens = torch.randint(500, shape, device="cuda")
    x = tokens if model == "transformer" else torch.randn(shape, device="cuda")
    main = sys.modules["__main__"]  # in a plain script the names are those of its module
    for name, value in {"net": net, "steps": steps, "tokens": tokens, "x": x}.items():
        monkeypatch.setattr(main, name, value, raising=False)
    for _ in range(2):
        loss = net(x).square().mean()
        monkeypatch.setattr(main, "loss", loss, raising=False)
        assert explained(ledger_of_gpu()) >= 0.99
        loss.backward()
        steps.step()
        assert explained(ledger_of_gpu()) >= 0.99
        steps.zero_grad()
    weights = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in
               net.parameters()}  # fmt: skip
    assert sum(weights.values()) <= lines(sums(ledger_of_gpu())["allocated"])["parameter"]


def test_every_live_block_is_a_storage_or_a_row_to_the_byte():
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 700, 3 * MIB + 1)]
    view = kept[2][1000:2000]
    ledger = ledger_of_gpu()
    owned = set()
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.is_cuda:
            owned.add(thing.untyped_storage().data_ptr())
    live = [
        block
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == 0
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    without = sum(block["size"] for block in live if block["address"] not in owned)
    assert without == sum(row.bytes for row in ledger.blocks if row.state == "live")
    rounding = sum(block["size"] - block["requested_size"] for block in live)
    assert rounding == lines(sums(ledger)["allocated"])["rounding"]
    assert 1000 == view.numel()


def test_a_tensor_that_only_cpp_holds_is_a_block_without_a_tensor():
    before = lines(sums(ledger_of_gpu())["allocated"]).get("not found", 0)
    address = torch.cuda.caching_allocator_alloc(5 * MIB, 0)
    try:
        ledger = ledger_of_gpu()
    finally:
        torch.cuda.caching_allocator_delete(address)
    assert before + 5 * MIB == lines(sums(ledger)["allocated"])["not found"]
    assert 5 * MIB in [row.bytes for row in ledger.blocks]


def test_reserved_closes_with_a_block_that_waits_for_a_stream():
    side = torch.cuda.Stream()
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        torch.cuda._sleep(2_000_000_000)
    x.record_stream(side)
    del x
    stats = torch.cuda.memory_stats(0)
    reserved = sums(ledger_of_gpu())["reserved"]
    torch.cuda.synchronize()
    waiting = stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"]
    assert 4 * MIB <= waiting == lines(reserved)["waiting"]
    assert torch.cuda.memory_reserved(0) == reserved.total.bytes == added(reserved)
    assert stats["inactive_split_bytes.all.current"] == lines(reserved)["fragmented"]


def test_reading_neither_synchronizes_nor_moves_a_counter():
    x = torch.randn(1000, 1000, device="cuda")
    before = torch.cuda.memory_stats(0)
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        nbmem.take_ledger("cuda:0")
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    assert before == torch.cuda.memory_stats(0)
    assert 1_000_000 == x.numel()


def test_reading_starts_no_cuda_and_turns_no_history_on():
    told = in_a_fresh_process("""
import json, torch, nbmem
(gpu,) = nbmem.take_ledger("cuda:0").devices
first = [torch.cuda.is_initialized(), gpu.sums[0].total.bytes]
x = torch.ones(1, device="cuda")
nbmem.take_ledger()
print(json.dumps([*first, torch._C._cuda_isHistoryEnabled()]))
""")
    assert [False, 0, False] == told


FREED_AFTER_EACH_CALL = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)
KEEP_WORKSPACES = {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}  # since 2.15; before, torch kept them


def test_the_workspace_of_a_matrix_product_is_told_by_its_size():
    told = in_a_fresh_process(
        "import torch\nx = torch.randn(512, 512, device='cuda')\ny = x @ x\n" + TOLD + "told()",
        **KEEP_WORKSPACES,
    )
    one = told["sums"]["allocated"]
    assert 2 * 512 * 512 * 4 == one["user"]
    assert one["library workspace"] in (8_519_680, 32 * MIB)
    assert "not found" not in one
    assert told["allocated"] == sum(one.values())


def test_what_two_libraries_work_in_leaves_no_block_unknown():
    told = in_a_fresh_process(
        "import torch\n"
        "x, b = torch.randn(512, 512, device='cuda'), torch.zeros(512, device='cuda')\n"
        "y, z = x @ x, torch.addmm(b, x, x)\n" + TOLD + "told()"
    )
    one = told["sums"]["allocated"]
    assert 3 * 512 * 512 * 4 + 512 * 4 == one["user"]
    assert FREED_AFTER_EACH_CALL == ("library workspace" not in one)
    assert "not found" not in one
    assert told["allocated"] == sum(one.values())


def test_with_history_on_the_workspace_has_the_stack_that_made_it(tmp_path):
    script = tmp_path / "multiply.py"
    script.write_text(
        "import torch\n"
        "torch.cuda.memory._record_memory_history(stacks='python')\n"
        "x = torch.randn(512, 512, device='cuda')\n"
        "def multiply():\n"
        "    return x @ x\n"
        "y = multiply()\n" + TOLD + "told()"
    )
    told = in_a_fresh_process(f"import runpy; runpy.run_path({str(script)!r})", **KEEP_WORKSPACES)
    (row,) = [row for row in told["blocks"] if row[2] == "library workspace"]
    assert f"{script}:5 multiply" in row[5]


def test_expandable_segments_close():
    setting = "expandable_segments:True"
    told = in_a_fresh_process(
        "import torch\n"
        "kept = [torch.empty(size, dtype=torch.uint8, device='cuda')"
        " for size in (1, 3 << 20, 50 << 20)]\n"
        "del kept[1]\n" + TOLD + "told()",
        PYTORCH_CUDA_ALLOC_CONF=setting,
        PYTORCH_ALLOC_CONF=setting,
    )
    assert {"user": 50 * MIB + 1, "rounding": 511} == told["sums"]["allocated"]
    assert told["allocated"] == told["totals"]["allocated"] == 50 * MIB + 512
    assert told["reserved"] == told["totals"]["reserved"]
    assert 0 == told["remainders"]["allocated"] == told["remainders"]["reserved"]
    assert any("expandable segments" in sentence for sentence in told["notes"])


def test_cuda_malloc_async_is_named_as_not_understood_and_its_sums_close():
    setting = "backend:cudaMallocAsync"
    told = in_a_fresh_process(
        "import torch\n"
        "kept = torch.empty(50 << 20, dtype=torch.uint8, device='cuda')\n" + TOLD + "told()",
        PYTORCH_CUDA_ALLOC_CONF=setting,
        PYTORCH_ALLOC_CONF=setting,
    )
    assert 50 * MIB == told["sums"]["allocated"]["user"]
    assert told["allocated"] == sum(told["sums"]["allocated"].values())
    assert told["reserved"] == sum(told["sums"]["reserved"].values())
    assert [["not found"], ["cached"]] == [
        told["derived"][code] for code in ("allocated", "reserved")
    ]
    assert any("cudaMallocAsync" in sentence for sentence in told["notes"])


def test_the_private_pool_of_a_cuda_graph_is_told_apart():
    told = in_a_fresh_process(
        "import torch\n"
        "x = torch.zeros(4 << 20, device='cuda')\n"
        "graph = torch.cuda.CUDAGraph()\n"
        "with torch.cuda.graph(graph):\n"
        "    y = (x + 1) * 2\n"
        "del y\n" + TOLD + "told()"
    )
    assert 0 < told["sums"]["reserved"]["private"]
    assert 0 == told["remainders"]["allocated"] == told["remainders"]["reserved"]


def test_the_card_adds_up_to_what_nvidia_smi_says():
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    query = ["nvidia-smi", "-i", uuid, "--format=csv,noheader,nounits"]
    try:
        card = subprocess.check_output(
            [*query, "--query-gpu=memory.total,memory.free,memory.reserved"], text=True
        )
        apps = subprocess.check_output([*query, "--query-compute-apps=pid,used_memory"], text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("nvidia-smi can't be run here")
    total, free, reserved = (int(figure) for figure in card.split(","))
    one = sums(ledger_of_gpu())["total"]
    told = lines(one)
    assert total == one.total.bytes // MIB
    assert abs(free - told["free"] // MIB) <= 64  # other processes come and go
    assert abs(reserved - told["driver"] // MIB) <= 1
    assert one.total.bytes == added(one)
    rows = [row.split(",") for row in apps.splitlines() if row.strip()]
    own = [int(size) for pid, size in rows if int(pid) == os.getpid() and size.strip().isdecimal()]
    if own:
        assert abs(own[0] - (told["reserved"] + told["context"]) // MIB) <= 2
    else:
        assert ["other use"] == [line.code for line in one.lines if line.derived]
