"""Leaks, holders and acts for tests of rendering, written out by hand."""

from nbmem.records import (
    Chain,
    HeldStorage,
    Holders,
    Leak,
    LeakReport,
    Note,
    PathStep,
    ReclaimReport,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30
THRESHOLD = 262_144


def path(*texts):
    return tuple(PathStep("step", text) for text in texts)


def leak(size, kind, holder, *texts, **more):
    facts = {
        "count": 1,
        "created_by": 7,
        "reason": "",
        "remedy": "",
        "cost": "",
        "storages": (size,),
    } | more
    return Leak(bytes=size, kind=kind, holder=holder, path=path(*texts), **facts)


def report(*leaks, threshold=THRESHOLD, **more):
    return LeakReport(tuple(leaks), 1.7e9, threshold, **more)


TRACEBACK = leak(
    1_224_065_679,
    "stale_error",
    "traceback",
    "traceback of cell [9]",
    "train()",
    "local 'acts'",
    count=3,
    created_by=9,
    reason="The error of [9] keeps what train() was working on.",
    remedy='%gpumem reclaim "traceback of cell [9]"',
    cost="%debug for the error of [9]",
    cuts=("traceback of cell [9]",),
)
LOSSES = leak(
    96 * MIB,
    "retained_graph",
    "container",
    "losses",
    "[41]",
    "graph",
    "saved by MulBackward0",
    count=41,
    created_by=12,
    reason="The graphs of 41 items of losses are kept, and the weights have changed since.",
    remedy="losses[:] = [x.detach() for x in losses]",
    cuts=("losses[*]",),
    growth_per_run=12 * MIB,
)
SHOWN = leak(
    64 * MIB,
    "stale_output",
    "output_cache",
    "Out[4]",
    created_by=4,
    reason="It was shown by [4], and no variable of yours leads to it.",
    remedy='%gpumem reclaim "Out[4]"',
    cost="Out[4]",
    cuts=("Out[4]",),
)
HOOKED = leak(
    8 * MIB,
    "forgotten_reference",
    "hook",
    "closure of hook 'save' on model.layer3",
    "list 'acts'",
    "[3]",
    created_by=6,
    count=2,
    reason="A hook adds to a list at each forward(), and nothing reads it.",
    remedy="%gpumem reclaim \"closure of hook 'save' on model.layer3\"",
    instead="%gpumem reclaim \"hook 'save' on model.layer3\"",
    sources=("hook 'save' on model.layer3",),
    cuts=("closure of hook 'save' on model.layer3",),
    on_request=True,
)
THREAD = leak(
    2 * MIB,
    "forgotten_reference",
    "thread",
    "thread 'loader'",
    "fetch()",
    "local 'batch'",
    created_by=None,
    reason="A thread that still runs works on it.",
    cuts=("thread 'loader'",),
    reclaimable=False,
)
LEAKS = report(TRACEBACK, LOSSES, SHOWN, HOOKED, THREAD, below=12 * KIB)
"""1.30 GiB: 1.14 GiB and 64 MiB cost something, 96 MiB nothing, 10 MiB are not taken unasked."""
EVIL = "<img src=x onerror=alert(1)>\x1b[31m\nred\u202e\ud800"
HOSTILE = report(
    leak(
        MIB,
        "a new kind",
        "a new holder",
        EVIL,
        "n" * 9_000,
        reason=EVIL,
        remedy="特徴量 = None; " * 30,
        cost=EVIL,
        device="<b>",
    ),
    leak(MIB, "growing", "container", reason="", device="cpu", growth_per_run=5),
    notes=(Note("leaks", "x", EVIL),),
)


def chain(*texts, wanted=False, cut=None, **more):
    holder = "variable" if wanted else more.pop("holder", "container")
    return Chain(path(*texts), holder, wanted, cut or texts[0], **more)


FEATS = HeldStorage(
    3,
    64 * MIB,
    (
        chain("feats", wanted=True, remedy="del feats", cost="feats"),
        chain("Out[12]", "[3]", cell=12, remedy='%gpumem reclaim "Out[12]"', cost="Out[12]"),
        chain(
            "traceback of cell [7]",
            "train()",
            "local 'acts'",
            cell=7,
            remedy='%gpumem reclaim "traceback of cell [7]"',
            cost="%debug for the error of [7]",
        ),
        chain("traceback of cell [7]", "main()", "local 'batch'", "['x']"),
    ),
    wanted=True,
)
ONE = Holders((FEATS,))
NAMES = {3: "feats", 5: "model.fc.weight", 6: "model.fc.bias", 7: "model.body.w"}
MODEL = Holders(
    (
        HeldStorage(
            5,
            900 * MIB,
            (
                chain("model", ".fc", ".weight", wanted=True, cut="model"),
                chain("closure of hook 'save' on model.fc", "list 'acts'", "[0]"),
            ),
            wanted=True,
        ),
        HeldStorage(
            7, 300 * MIB, (chain("model", ".body", ".w", wanted=True, cut="model"),), wanted=True
        ),
        HeldStorage(
            6,
            4 * MIB,
            (chain("model", ".fc", ".bias", wanted=True, cut="model"),),
            more=2,
            wanted=True,
        ),
    ),
    complete=False,
    notes=(Note("holders", "budget", "The search for holders was cut short after 2 s."),),
)
"""model alone frees 300 MiB: a hook holds 900 MiB too, and further ways lead to 4 MiB."""

_COUNTS = "torch storages on cpu"
PLAN = ReclaimReport(
    act="reclaim",
    planned=(
        "clear the frames of the traceback of cell [9]: 1.14 GiB",
        "detach the 41 items of losses: 96.0 MiB",
    ),
    dropped=(),
    refused=("thread 'loader' still runs: it lets go of its batch when it ends",),
    bytes_before=3_113_851_290,
    bytes_after=1_789_122_315,
    counts=_COUNTS,
    costs=("%debug for the error of [9]",),
    promised=1_324_728_975,
)
DONE = ReclaimReport(
    act="reclaim",
    planned=PLAN.planned,
    dropped=(
        "empty the variables of 3 calls of ValueError",
        "detach 41 tensors: losses[0] and 40 more",
    ),
    refused=("Out[4] was shown again since: run %gpumem leaks",),
    bytes_before=3_113_851_290,
    bytes_after=1_889_785_611,
    counts=_COUNTS,
    still_held=("96.0 MiB live on: closure of hook 'save' on model.layer3 holds them",),
    costs=("%debug for the error of [9]",),
    promised=1_324_728_975,
)
