"""Records for tests of rendering and history, written out by hand."""

from nbmem.records import (
    AllocatorBlock,
    CellRecord,
    Copies,
    DeviceDelta,
    DeviceLedger,
    Inventory,
    Ledger,
    LedgerLine,
    LedgerSum,
    Note,
    OutOfMemory,
    ProcessMemory,
    RunTrend,
    StepSummary,
    StorageRecord,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30
CARD = 8514772664
"""7.93 GiB."""


def storage(key, size, category, *names, device="cuda:0", shape=(16,), dtype="float32", **more):
    facts = {"created_by": 7, "created_in": 7, "views": 1, "visible": bool(names)} | more
    return StorageRecord(
        key=key,
        bytes=size,
        device=device,
        dtype=dtype,
        shape=shape,
        category=category,
        names=names,
        **facts,
    )


def delta(device="cuda:0", *, before=0, after=0, peak=0, capacity=CARD, **more):
    change = None if before is None or after is None else after - before
    facts = {"reserved_before": None, "reserved_after": None, "unattributed": 0} | more
    return DeviceDelta(device, before, after, change, peak, capacity=capacity, **facts)


def cell(serial=7, *deltas, count=7, label=None, first_line="x = f(y)", created=(), **more):
    facts = {
        "cell_id": None,
        "run": 1,
        "started_at": 1.7e9 + serial,
        "seconds": 4.2,
        "status": "ok",
        "error": None,
        "freed": {},
        "resized": {},
    } | more
    return CellRecord(
        serial=serial,
        execution_count=count,
        label=label,
        first_line=first_line,
        devices={d.device: d for d in deltas},
        created=tuple(created),
        **facts,
    )


def adam_states(count, each):
    return [
        storage(100 + 2 * n + k, each, "optimizer state", f"opt.state[model.{n}.weight]['{state}']")
        for n in range(count)
        for k, state in enumerate(("exp_avg", "exp_avg_sq"))
    ]


TRAINED = cell(
    7,
    delta(
        before=512 * MIB,
        after=812 * MIB,
        peak=3328599654,
        reserved_before=GIB,
        reserved_after=4 * GIB,
        unattributed=64 * MIB,
    ),
    label="train one epoch",
    created=[
        *adam_states(7, 16 * MIB),
        storage(1, 64 * MIB, "user", "feats", shape=(1024, 16384)),
        storage(2, 12 * MIB, "saved for backward", "loss → graph", shape=(3, 1024, 1024)),
    ],
    freed={"cuda:0": 64 * MIB},
)
QUIET = cell(
    8,
    delta(before=512 * MIB, after=512 * MIB, peak=512 * MIB),
    count=8,
    first_line="feats.shape",
    seconds=0.0012,
)
FAILED = cell(
    9,
    delta(before=512 * MIB, after=600 * MIB, peak=700 * MIB, capacity=8 * GIB),
    count=9,
    first_line="x = make(loader)",
    run=3,
    status="error",
    error="ValueError: batch of 0\nrows",
    created=[storage(3, 88 * MIB, "user", "x", shape=(22, 1048576))],
)
OUT_OF_MEMORY = cell(
    10,
    delta(before=812 * MIB, after=812 * MIB, peak=8267812045),
    count=10,
    label="bigger batch",
    seconds=75.0,
    status="oom",
    error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
)
REFUSED = cell(
    18,
    delta(before=812 * MIB, after=812 * MIB, peak=8267812045),
    count=18,
    first_line="loss = model(batch)",
    status="oom",
    error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    oom=OutOfMemory(
        source="allocator",
        device="cuda:0",
        asked=2 * GIB,
        free=512 * MIB,
        capacity=8514772664,
        allowed=7 * GIB,
        allocated=4 * GIB,
        reserved=4 * GIB + 1228 * MIB,
        private_pools=46 * MIB,
        processes=(
            ProcessMemory(21, None, None),
            ProcessMemory(32777, None, GIB),
            ProcessMemory(4, None, 2 * GIB),
        ),
        notes=(Note("this_process", "not_trusted", "What this process takes is more than can be"),),
    ),
)
UNKNOWN = cell(
    11,
    delta(
        before=None,
        after=812 * MIB,
        peak=None,
        capacity=None,
        unattributed=None,
        notes=(Note("peak", "other_threads", "The peak is that of this thread"),),
    ),
    count=11,
    first_line="y = f(x)",
    notes=(Note("created", "no_scan", "What stayed is not listed: --no-scan was given"),),
)
STEPS = cell(
    12,
    delta(before=512 * MIB, after=512 * MIB + 122880000, peak=3328599654),
    count=None,
    label="forward",
    steps=StepSummary(
        10_000, 42.0, {"cuda:0": 2791728742}, {"cuda:0": 13000}, {"cuda:0": 122880000}
    ),
)
ON_CPU = cell(
    13,
    delta("cpu", before=1245184, after=1785856, peak=12 * MIB, capacity=62 * GIB),
    delta(
        "host",
        before=1288490189,
        after=1610612736,
        peak=1717986918,
        capacity=62 * GIB,
        unattributed=None,
    ),
    count=13,
    label="train one epoch",
    created=[
        *[storage(n, 40_000, "gradient", f"model.{n}.weight.grad", device="cpu") for n in range(5)],
        storage(20, 180_000, "user", "x", device="cpu", shape=(1797, 1, 8, 8)),
        storage(21, 14_376, "user", "y", device="cpu", shape=(1797,), dtype="int64"),
        storage(22, 4, "user", "loss", device="cpu", shape=()),
    ],
)
HOSTILE = cell(
    15,
    delta(before=0, after=64 * MIB, peak=64 * MIB, capacity=8 * GIB),
    count=15,
    first_line="特徴 = f()\x1b[31m\nred\u202e",
    error="<script>\ud800",
    created=[
        storage(1, 40 * MIB, "user", "<img src=x onerror=alert(1)>"),
        storage(2, 20 * MIB, "user", "n" * 10_000),
        storage(3, 4 * MIB, "user", "特徴量" * 30, dtype="<b>"),
    ],
    notes=(Note("x", "y", 'A "quoted" <note>\nof two lines'),),
)
GROWING = cell(
    16,
    delta("cpu", before=34 * MIB, after=46 * MIB, peak=50 * MIB, capacity=62 * GIB),
    count=16,
    first_line="losses.append(model(x).sum())",
    run=3,
    created=[
        *[
            storage(
                n,
                4 * MIB,
                "saved for backward",
                f"losses[2] → graph[{n}] AddmmBackward0.mat1 of model.{n}",
                device="cpu",
                module=f"model.{n}",
                visible=False,
            )
            for n in range(3)
        ],
        storage(9, 4, "user", "losses[2]", device="cpu", shape=()),
        storage(10, 8, "user", "step", device="cpu", shape=(), dtype="int64"),
    ],
    trend=RunTrend(
        runs=3,
        older={"cpu": 24 * MIB + 8},
        growth_per_run={"cpu": 12 * MIB},
        kept={"cpu": (12 * MIB, 24 * MIB, 36 * MIB)},
        by_name=(
            Copies("losses[*]", "cpu", 12 * MIB, 24 * MIB, 4, 8, ("losses[0]", "losses[1]")),
            Copies("opt.state[*]['exp_avg']", "cpu", 0, 20 * MIB, 0, 4, ("opt.state[w]",)),
            Copies("step", "cpu", 8, 0, 1, 0),
        ),
        by_line=(
            Copies("1", "cpu", 12 * MIB, 24 * MIB, 3, 6, (), "losses.append(model(x).sum())"),
        ),
    ),
)
SAMPLES = {
    "trained": TRAINED,
    "quiet": QUIET,
    "failed": FAILED,
    "out_of_memory": OUT_OF_MEMORY,
    "refused": REFUSED,
    "unknown": UNKNOWN,
    "steps": STEPS,
    "on_cpu": ON_CPU,
    "hostile": HOSTILE,
    "growing": GROWING,
}


def line(code, label, size, count=None, **more):
    return LedgerLine(code, label, size, count, **more)


_ALLOCATED = "torch.cuda.memory_allocated(0)"
ON_CARD = DeviceLedger(
    "cuda:0",
    "accelerator",
    "NVIDIA H200",
    (
        LedgerSum(
            "allocated",
            (
                line("parameter", "parameters", 102_228_128, 161),
                line("buffer", "buffers", 223_232, 159),
                line("gradient", "gradients", 102_228_128, 161),
                line("optimizer state", "optimizer state", 204_457_544, 483),
                line("saved for backward", "saved for backward", 851_443_712, 320),
                line("user", "your tensors", 19_267_584, 2),
                line("workspaces", "library workspaces", 8_519_680, 1),
                line("rounding", "rounding to 512-byte blocks", 123_456, derived=True),
            ),
            line("allocated", "in live blocks (allocated)", 1_288_491_464, equals=_ALLOCATED),
        ),
        LedgerSum(
            "reserved",
            (
                line("allocated", "in live blocks (allocated)", 1_288_491_464, equals=_ALLOCATED),
                line("waiting", "waiting for a stream", 0),
                line("fragmented", "fragmented", 125_829_120, part_of="cached"),
                line("cached", "cached, free to be used again", 314_572_800),
            ),
            line(
                "reserved",
                "held by torch's allocator (reserved)",
                1_603_066_312,
                equals="torch.cuda.memory_reserved(0)",
            ),
        ),
        LedgerSum(
            "total",
            (
                line("reserved", "held by torch's allocator (reserved)", 1_603_066_312),
                line("context", "CUDA context and libraries", 536_870_912, derived=True),
                line("other processes", "other processes", 3_221_225_472, 2),
                line("free", "free", 145_393_657_400, equals="nvidia-smi: Free"),
            ),
            line("total", "what the card has", 150_754_820_096, equals="nvidia-smi: Total"),
            (Note("total", "mig", "MIG is off."),),
        ),
    ),
    (
        AllocatorBlock(
            8_519_680,
            8_519_680,
            1,
            0,
            "live",
            "large",
            "library workspace",
            ("/home/me/train.py:31 train_one_epoch", "/home/me/train.py:9 main"),
        ),
        AllocatorBlock(2_097_152, None, 3, 7, "waits for a stream", "small", "freed tensor"),
        AllocatorBlock(512, 500, 1, None, "live", "several", "unknown"),
    ),
    (
        ProcessMemory(99, "/usr/bin/<b>other</b> --x", 3_221_225_472),
        ProcessMemory(4711, "python", 2_139_937_224, own=True),
        ProcessMemory(100, None, None),
    ),
    (Note("processes", "no_bytes", "What process 100 uses is unknown: the driver does not tell."),),
)
"""Its second sum misses 2,048 bytes of its total."""
ON_HOST = DeviceLedger(
    "cpu",
    "cpu",
    None,
    (
        LedgerSum(
            "storages",
            (
                line("parameter", "parameters", 1_000, 4),
                line("user", "your tensors", 24, 1),
                line("unknown", "storages of unknown use", 5, 1),
            ),
            line("storages", "torch's storages", 1_029, equals="the sum of their nbytes()"),
        ),
        LedgerSum(
            "resident",
            (
                line("storages", "torch's storages", 1_029),
                line("other", "Python, libraries and all else", 734_003_200, derived=True),
            ),
            line("resident", "resident memory of this process (RSS)", 734_004_229),
        ),
        LedgerSum(
            "installed",
            (),
            line("installed", "installed memory", None),
            (Note("installed", "failed", "The system does not tell what is installed."),),
        ),
    ),
)
LEDGER = Ledger(
    (ON_CARD, ON_HOST), 1.7e9, (Note("names", "budget", "Names are incomplete: budget."),)
)


PLACED = Inventory(
    (
        storage(1, 64 * MIB, "parameter", "model.fc.weight", module="model.fc", created_by=3),
        storage(2, 4 * MIB, "parameter", "model.fc.bias", module="model.fc", created_by=3),
        storage(3, 8 * MIB, "parameter", "model.body.0.w", module="model.body.0", created_by=3),
        storage(4, 8 * MIB, "gradient", "model.body.0.w.grad", module="model.body.0"),
        storage(5, 2 * MIB, "parameter", "model.body.1.w", module="model.body.1", created_by=3),
        storage(6, 512, "buffer", "model.mean", module="model", created_by=3),
        storage(
            7,
            32 * MIB,
            "optimizer state",
            "opt.state[model.fc.weight]['exp_avg']",
            module="model.fc",
            device="cpu",
            pinned=True,
        ),
        storage(
            8,
            20 * MIB,
            "saved for backward",
            "losses[3] → graph[17] ConvolutionBackward0.input of model.body.0",
            module="model.body.0",
            visible=False,
        ),
        storage(9, 6 * MIB, "user", "Out[3][0]", device="cpu", dtype="int64"),
        storage(10, MIB, "unknown", created_by=None),
    ),
    0.0,
)
"""145 MiB and 512 bytes: 107 MiB and 512 bytes on the card, 6 MiB on the host, 32 MiB pinned."""
