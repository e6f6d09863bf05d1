"""One world for each holder and for each kind, with what is to be said of it, written out."""

from __future__ import annotations

from dataclasses import dataclass

from leak_worlds import MIB, World, chain, held_by, made, storage

from nbmem.leaks import CellRuns
from nbmem.records import (
    GradientFact,
    GraphFact,
    HeldStorage,
    PathStep,
    StateFact,
    SuspendedFact,
    ViewFact,
)


@dataclass(frozen=True)
class Case:
    """A leak, its clean twin, and all that is said."""

    name: str
    kind: str
    holder: str
    world: World
    twin: World
    """Differs in one fact, and nothing in it is a leak."""
    path: str
    reason: str
    remedy: str
    cost: str = ""
    bytes: int = MIB
    on_request: bool = False
    reclaimable: bool = True
    growth: int | None = None


def plain(holder, cut, texts, reason, remedy, cost="", kind="forgotten_reference", **more):
    """A storage that one chain holds; in the twin a value needs it by that chain."""
    cell = more.pop("cell", None)
    world = held_by(holder, cut, *texts, cell=cell)
    twin = held_by(holder, cut, *texts, cell=cell, wanted=True)
    return Case(
        more.pop("name", holder),
        kind,
        holder,
        world,
        twin,
        "".join(texts[:1]) if len(texts) == 1 else world.held[1][0].text,
        reason,
        remedy,
        cost,
        **more,
    )


NEEDLESS = "and no value that you can name needs that."
PLAIN = (
    plain(
        "output_cache",
        "Out[12]",
        ("Out[12]",),
        "Out[12] keeps what cell [12] showed, and no variable of yours needs that.",
        '%gpumem reclaim "Out[12]"',
        "Out[12]",
        "stale_output",
        cell=12,
    ),
    plain(
        "output_cache",
        "_",
        ("_",),
        "_ keeps what a cell showed, and no variable of yours needs that.",
        '%gpumem reclaim "_"',
        "",
        "stale_output",
        name="the last shown value",
    ),
    plain(
        "throwaway_name",
        "_",
        ("_",),
        "The name _ keeps the last value that it was given, and no variable of yours needs that.",
        '%gpumem reclaim "_"',
        "",
        "stale_output",
    ),
    plain(
        "traceback",
        "traceback of cell [7]",
        ("traceback of cell [7]", "train()", "local 'acts'"),
        "The traceback of cell [7] keeps the variables of the functions that were running, and "
        "that error is over.",
        '%gpumem reclaim "traceback of cell [7]"',
        "%debug for the error of [7]",
        "stale_error",
        cell=7,
    ),
    plain(
        "traceback",
        "traceback of the last error",
        ("traceback of the last error", "train()", "local 'acts'"),
        "The traceback of the last error keeps the variables of the functions that were running, "
        "and that error is over.",
        '%gpumem reclaim "traceback of the last error"',
        "%debug for that error",
        "stale_error",
        name="an error of nobody knows which cell",
    ),
    plain(
        "saved_exception",
        "errors[0]",
        ("errors", "[0]", "train()", "local 'acts'"),
        "The exception errors[0] keeps the variables of the functions that were running, and that "
        "error is over.",
        '%gpumem reclaim "errors[0]"',
        "the variables of the frames of errors[0]",
        "stale_error",
    ),
    plain(
        "ipython_event",
        "IPython's post_run_cell callback note()",
        ("IPython's post_run_cell callback note()", "list 'seen'", "[0]"),
        "IPython's post_run_cell callback note() keeps what it needs to be called with every cell, "
        f"{NEEDLESS}",
        '%gpumem reclaim "IPython\'s post_run_cell callback note()"',
        "IPython's post_run_cell callback note()",
        on_request=True,
    ),
    plain(
        "class_attribute",
        "Trainer.seen",
        ("Trainer", ".seen", "[0]"),
        "Trainer.seen belongs to a class without living objects and keeps what was put there, "
        f"{NEEDLESS}",
        "Trainer.seen.clear()",
        "what Trainer.seen holds",
        on_request=True,
    ),
    plain(
        "tensor_attribute",
        "x.cache",
        ("x", ".cache"),
        f"x.cache is an attribute that was put on a tensor, {NEEDLESS}",
        "del x.cache",
        "x.cache",
        on_request=True,
    ),
    plain(
        "container",
        "module colorsys.seen",
        ("module colorsys", ".seen", "['first']"),
        f"module colorsys.seen keeps what was put there, {NEEDLESS}",
        '%gpumem reclaim "module colorsys.seen"',
        "what module colorsys.seen holds",
        on_request=True,
    ),
    plain(
        "hook",
        "hook 'save' on model.layer3 → list 'acts'",
        ("hook 'save' on model.layer3", "list 'acts'", "[0]"),
        "The hook 'save' on model.layer3 → list 'acts' keeps what it has collected, and no value "
        "that you can name needs that; once it is emptied, the hook fills it again with each call, "
        "until it is removed.",
        "%gpumem reclaim \"hook 'save' on model.layer3 → list 'acts'\"",
        "what the hook 'save' on model.layer3 → list 'acts' has collected",
        on_request=True,
    ),
    plain(
        "closure",
        "add → list 'seen'",
        ("add", "list 'seen'", "[0]"),
        f"add → list 'seen' belongs to a function and keeps what its calls put there, {NEEDLESS}",
        "%gpumem reclaim \"add → list 'seen'\"",
        "what add → list 'seen' holds",
        on_request=True,
    ),
    plain(
        "default_argument",
        "add → list 'seen'",
        ("add", "list 'seen'", "[0]"),
        "add → list 'seen' is a default value, made once, and keeps what all calls put there, "
        f"{NEEDLESS}",
        "%gpumem reclaim \"add → list 'seen'\"",
        "what add → list 'seen' holds",
        on_request=True,
    ),
    plain(
        "function_cache",
        "cache of load()",
        ("load", "cached result"),
        f"The cache of load() remembers the result of every call, {NEEDLESS}",
        "load.cache_clear()",
        "the results in the cache of load()",
    ),
    plain(
        "garbage",
        "garbage: Trainer object",
        ("garbage: Trainer object", ".batch"),
        "Objects that hold each other wait for the garbage collector, and nothing that you can "
        "name leads there.",
        "import gc; gc.collect()",
        "",
        "unreachable",
    ),
    plain(
        "frozen",
        "frozen: Trainer object",
        ("frozen: Trainer object", ".batch"),
        "gc.freeze() hid objects that hold each other from the garbage collector, and nothing that "
        "you can name leads there.",
        "import gc; gc.unfreeze(); gc.collect()",
        "gc.freeze()",
        "unreachable",
    ),
    plain(
        "finalizer",
        "finalizer print()",
        ("finalizer print()", "argument 0"),
        f"A call that is still to come keeps its arguments: finalizer print(), {NEEDLESS}",
        '%gpumem reclaim "finalizer print()"',
        "finalizer print()",
        on_request=True,
    ),
    plain(
        "interpreter_callback",
        "C code such as atexit, to call 'save'",
        ("C code such as atexit, to call 'save'", "closure model", ".weight"),
        f"Python keeps what a later call needs: C code such as atexit, to call 'save', {NEEDLESS}",
        "%gpumem reclaim \"C code such as atexit, to call 'save'\"",
        "C code such as atexit, to call 'save'",
        on_request=True,
    ),
    plain(
        "saved_frame",
        "frame",
        ("frame", "trace()", "local 'acts'"),
        f"The frame frame keeps the variables of its function, {NEEDLESS}",
        '%gpumem reclaim "frame"',
        "the variables of frame",
    ),
    plain(
        "thread",
        "thread 'loader'",
        ("thread 'loader'", "work()", "local 'batch'"),
        f"The thread 'loader' is still running and keeps its variables, {NEEDLESS}",
        "",
        reclaimable=False,
    ),
    plain(
        "queue",
        "send → 'jobs'",
        ("send", "'jobs'", "[0]"),
        f"The queue send → 'jobs' keeps what nobody has taken out, {NEEDLESS}",
        "%gpumem reclaim \"send → 'jobs'\"",
        "what waits in send → 'jobs'",
        on_request=True,
    ),
    plain(
        "future",
        "ready → 'done'",
        ("ready", "'done'", "result"),
        f"ready → 'done' keeps its result, {NEEDLESS}",
        "",
        "the result of ready → 'done'",
        reclaimable=False,
    ),
    plain(
        "async_task",
        "task 'evaluate'",
        ("task 'evaluate'", "work()", "local 'batch'"),
        f"The task 'evaluate' has not ended and keeps its variables, {NEEDLESS}",
        "",
        "the rest of task 'evaluate'",
        reclaimable=False,
        on_request=True,
    ),
    plain(
        "context_variable",
        "current",
        ("current",),
        f"The context variable current keeps the value that was set, {NEEDLESS}",
        "current.set(None)",
        "the value of current",
        on_request=True,
    ),
    plain(
        "log_record",
        "handler.buffer[0]",
        ("handler", ".buffer", "[0]", ".args", "[0]"),
        f"A log record keeps the arguments of its message: handler.buffer[0], {NEEDLESS}",
        '%gpumem reclaim "handler.buffer[0]"',
        "the arguments of handler.buffer[0]",
        on_request=True,
    ),
    plain(
        "numpy_array",
        "table",
        ("table", "[0]"),
        f"The numpy array table keeps the memory of tensors, {NEEDLESS}",
        "del table",
        "table",
        reclaimable=False,
    ),
    plain(
        "widget_callback",
        "callback of button",
        ("callback of button", "list 'seen'", "[0]"),
        f"A widget keeps what its callback needs: callback of button, {NEEDLESS}",
        '%gpumem reclaim "callback of button"',
        "callback of button",
        on_request=True,
    ),
    plain(
        "cuda_graph",
        "graph",
        ("graph",),
        f"The captured CUDA graph graph keeps its memory for the next replay, {NEEDLESS}",
        "",
        "replay() of graph",
        reclaimable=False,
    ),
    plain(
        "cpp",
        "C++ code",
        ("C++ code that torch shows nobody",),
        f"Code outside Python keeps this memory (C++ code), {NEEDLESS}",
        "",
        reclaimable=False,
    ),
    plain(
        "unknown",
        "what nbmem did not find",
        ("not found",),
        f"nbmem did not find what keeps this memory, {NEEDLESS}",
        "",
        reclaimable=False,
    ),
)

# -- what waits: graphs, generators ---------------------------------------------------------------

OLD, NEW = {1: made(3)}, {1: made(9)}
"""The storage was made by cell `[3]`, or by `[9]`, the last one that ran."""


def waiting(holder, cut, texts, reason, remedy, cost):
    """A generator or iterator of an older cell; in the twin it was at work in the last cell."""
    fact = SuspendedFact(cut, holder, (1,), 1)
    old = held_by(holder, cut, *texts).but(facts={"suspended": (fact,)}, origins=OLD)
    told = old.held[1][0].text
    twin = old.but(origins=NEW)
    kind = "forgotten_reference"
    said = (told, reason, remedy, cost)
    return Case(holder, kind, holder, old, twin, *said, on_request=True)


WAITING = (
    waiting(
        "suspended_frame",
        "steps",
        ("steps", "local 'data'"),
        "steps stopped in the middle and keeps its variables, and no cell since has gone on with "
        "it.",
        "steps.close()",
        "next() on steps",
    ),
    waiting(
        "iterator_buffer",
        "second → inside 0",
        ("second", "inside 0", "inside 1"),
        "The iterator second stores what it has not given out yet, and no cell since has gone on "
        "with it.",
        "del second",
        "next() on second",
    ),
)


def graph_world(cut="loss", holder="autograd_graph", texts=("loss",), origins=NEW, **facts):
    """A storage that only the graph of a named tensor keeps."""
    places = facts.pop("places", (PathStep("variable", cut.removesuffix("[*]")),))
    fact = GraphFact(cut, holder, facts.pop("roots", 1), (1,), 1, **facts, places=places)
    world = held_by(holder, cut, *texts, "graph", "saved by ExpBackward0")
    return world.but(facts={"graphs": (fact,)}, origins=origins)


def graph(name, reason, remedy, cost="", *, twin=None, on_request=False, **facts):
    """A graph that nobody goes back through; in the twin it may still be."""
    world = graph_world(**facts)
    told = world.held[1][0].text
    twin = twin or graph_world(
        **{k: v for k, v in facts.items() if k in ("cut", "texts", "holder")}
    )
    holder = facts.get("holder", "autograd_graph")
    said = (told, reason, remedy, cost)
    return Case(name, "retained_graph", holder, world, twin, *said, on_request=on_request)


NEEDED_BY_BACKWARD = "which is all that backward() would need"
GRAPHS = (
    graph(
        "a loss after the step",
        f"loss keeps its graph, {NEEDED_BY_BACKWARD}, but its weights were changed since, so "
        "backward() would fail.",
        "loss = loss.detach()",
        stepped=True,
    ),
    graph(
        "a loss after its backward()",
        "loss keeps its graph and what that leads to, although backward() has freed what it saved, "
        "so that none can come any more.",
        "loss = loss.detach()",
        freed=True,
    ),
    graph(
        "losses in a list after their backward()",
        "Every item of losses keeps its graph and what that leads to, although backward() has "
        "freed what it saved, so that none can come any more.",
        "losses[:] = [x.detach() for x in losses]",
        cut="losses[*]",
        holder="container",
        texts=("losses", "[3]"),
        roots=4,
        places=(PathStep("list", "losses"),),
        freed=True,
    ),
    graph(
        "a loss whose trunk another backward() has freed",
        f"loss keeps its graph, {NEEDED_BY_BACKWARD}, but backward() has freed a part of that, so "
        "it would fail.",
        "loss = loss.detach()",
        "gradients through the rest of loss",
        partly=True,
    ),
    graph(
        "a loss of some cells ago that saved nothing",
        f"loss keeps its graph, {NEEDED_BY_BACKWARD}, and nothing in it tells whether backward() "
        "came: it saved no value.",
        "loss = loss.detach()",
        "backward() through loss",
        origins=OLD,
        silent=True,
        on_request=True,
    ),
    graph(
        "a loss after backward(retain_graph=True)",
        f"loss keeps its graph, {NEEDED_BY_BACKWARD}, although backward() has already been called.",
        "loss = loss.detach()",
        "another backward() through loss",
        backpropagated=True,
    ),
    graph(
        "a loss of some cells ago",
        f"loss keeps its graph, {NEEDED_BY_BACKWARD}, and no cell since has called it.",
        "loss = loss.detach()",
        "backward() through loss",
        origins=OLD,
        on_request=True,
    ),
    graph(
        "container",
        f"Every item of losses keeps its graph, {NEEDED_BY_BACKWARD}, and a collection of results "
        "usually needs only their numbers.",
        "losses[:] = [x.detach() for x in losses]",
        "backward() through losses",
        cut="losses[*]",
        holder="container",
        texts=("losses", "[3]"),
        roots=4,
        places=(PathStep("list", "losses"),),
    ),
    graph(
        "losses in a list after the step",
        f"Every item of losses keeps its graph, {NEEDED_BY_BACKWARD}, but its weights were changed "
        "since, so backward() would fail.",
        "losses[:] = [x.detach() for x in losses]",
        cut="losses[*]",
        holder="container",
        texts=("losses", "[3]"),
        roots=4,
        places=(PathStep("list", "losses"),),
        stepped=True,
    ),
    graph(
        "one loss in a list",
        f"An item of losses keeps its graph, {NEEDED_BY_BACKWARD}, and no cell since has called "
        "it.",
        "losses[3] = losses[3].detach()",
        "backward() through losses",
        cut="losses[*]",
        holder="container",
        texts=("losses", "[3]"),
        places=(PathStep("list item", "losses[3]"),),
        origins=OLD,
        on_request=True,
    ),
    graph(
        "module_attribute",
        f"A module keeps model.last with its graph, {NEEDED_BY_BACKWARD}, and no cell since has "
        "called it.",
        "model.last = model.last.detach()",
        "backward() through model.last",
        cut="model.last",
        holder="module_attribute",
        texts=("model", ".last"),
        origins=OLD,
        on_request=True,
    ),
)

CYCLE = "a cycle through an autograd graph"


def cycle(holder, *texts):
    """An autograd graph that holds its own tensor; in the twin the collector can free it."""
    world = held_by(holder, CYCLE, *texts)
    told = world.held[1][0].text
    twin = held_by(holder, CYCLE, *texts, wanted=True)
    return Case(
        f"a cycle by {holder}",
        "autograd_cycle",
        holder,
        world,
        twin,
        told,
        "A tensor and its autograd graph hold each other in a circle through C++ that no garbage "
        "collector breaks.",
        f'%gpumem reclaim "{CYCLE}"',
    )


CYCLES = (cycle("autograd_graph", CYCLE, "graph"), cycle("hook", CYCLE, "hook of type function"))

# -- more than a value needs ----------------------------------------------------------------------


def gradient(name, key=1, *, zero=True, frozen=False, optimizer=None, held_by=None):
    module = name.partition(".")[0]
    return GradientFact(key, MIB, name, zero, frozen, optimizer, held_by, module)


def gradients(*facts, others=()):
    """Gradients with their facts; `others` are gradients of the same model that are in use."""
    mine = tuple(
        storage(f.key, f.name, category="gradient", module=f.name.rpartition(".grad")[0])
        for f in facts
    )
    return World((*mine, *others), facts={"gradients": facts})


WEIGHT, BIAS = "model.fc.weight.grad", "model.fc.bias.grad"
OTHER = storage(9, "model.head.weight.grad", category="gradient", module="model.head")


def unused(name, world, twin, reason, remedy, path=WEIGHT, **more):
    return Case(
        name, "unused_gradient", "tensor_attribute", world, twin, path, reason, remedy, **more
    )


GRADIENTS = (
    unused(
        "a gradient of zeros",
        gradients(gradient(WEIGHT)),
        gradients(gradient(WEIGHT, zero=False)),
        "model.fc.weight.grad is all zero, and no optimizer has its parameter.",
        "model.fc.weight.grad = None",
        cost=WEIGHT,
    ),
    unused(
        "the zero gradient of a tensor that no module has",
        gradients(gradient("w.grad")).but(storages=(storage(1, "w.grad", category="gradient"),)),
        gradients(gradient("w.grad", zero=False)),
        "w.grad is all zero, and no optimizer has its parameter.",
        "w.grad = None",
        path="w.grad",
        cost="w.grad",
    ),
    unused(
        "all gradients of a model",
        gradients(gradient(WEIGHT), gradient(BIAS, 2)),
        gradients(gradient(WEIGHT, optimizer="opt"), gradient(BIAS, 2, optimizer="opt")),
        "2 gradients of model are all zero, and no optimizer has their parameters.",
        "model.zero_grad(set_to_none=True)",
        cost="2 gradients of model",
        bytes=2 * MIB,
    ),
    unused(
        "some gradients of a model",
        gradients(gradient(WEIGHT), gradient(BIAS, 2), others=(OTHER,)),
        gradients(gradient(WEIGHT, zero=None), gradient(BIAS, 2, zero=None), others=(OTHER,)),
        "2 gradients of model are all zero, and no optimizer has their parameters.",
        "model.fc.bias.grad = None\nmodel.fc.weight.grad = None",
        cost="2 gradients of model",
        bytes=2 * MIB,
    ),
    unused(
        "gradients of frozen parameters",
        gradients(gradient(WEIGHT, zero=False, frozen=True), gradient(BIAS, 2, frozen=True)),
        gradients(gradient(WEIGHT, zero=False), gradient(BIAS, 2, zero=False)),
        "2 gradients of model belong to parameters with requires_grad=False, which no training "
        "changes.",
        '[setattr(p, "grad", None) for p in model.parameters() if not p.requires_grad];',
        bytes=2 * MIB,
    ),
    unused(
        "zeros that an optimizer which is none of torch's may step with",
        gradients(gradient(WEIGHT, held_by="sgd.params"), gradient(BIAS, 2, held_by="sgd.params")),
        gradients(gradient(WEIGHT, zero=False), gradient(BIAS, 2, zero=False)),
        "2 gradients of model are all zero; no optimizer of torch's has their parameters, but "
        "sgd.params has the parameters and may step with them.",
        "model.zero_grad(set_to_none=True)",
        cost="another step of sgd.params",
        on_request=True,
        bytes=2 * MIB,
    ),
    unused(
        "the gradient of a frozen parameter that something else has",
        gradients(gradient(WEIGHT, frozen=True, held_by="sgd.params")),
        gradients(gradient(WEIGHT, zero=False, held_by="sgd.params")),
        "model.fc.weight.grad belongs to a parameter with requires_grad=False, which no training "
        "changes; sgd.params has the parameter and may step with it all the same.",
        "model.fc.weight.grad = None",
        cost="another step of sgd.params",
        on_request=True,
    ),
    unused(
        "the gradient of a frozen parameter that an optimizer would still step with",
        gradients(gradient(WEIGHT, zero=False, frozen=True, optimizer="opt")),
        gradients(gradient(WEIGHT, zero=False, optimizer="opt")),
        "model.fc.weight.grad belongs to a parameter with requires_grad=False, which no training "
        "changes.",
        "model.fc.weight.grad = None",
        cost="another step of opt",
        on_request=True,
    ),
)


def states(*names, category="optimizer state", parameters=1, **fact):
    facts = {"in_groups": True, "all_of_it": False} | fact
    keys = tuple(range(1, 1 + len(names)))
    listed = tuple(storage(key, n, category=category) for key, n in zip(keys, names, strict=True))
    return World(listed, facts={"states": (StateFact("opt", parameters, keys, **facts),)})


STATE = "opt.state[opt.param_groups[0]['params'][2]]['exp_avg']"
LEFT = "opt.param_groups[0]['params'][0]"
OLD_MODEL = states(LEFT, category="parameter", all_of_it=True)
AGAIN = storage(5, "model.weight", category="parameter")
RUNS_OF_MODEL = {1: made(3, run=1, name="model.weight"), 5: made(6, run=2, name="model.weight")}
TWICE = (CellRuns(1, 2),)

LOSS_TOO = chain("autograd_graph", "loss", "loss", "graph", "saved by AccumulateGrad")
ERROR_TOO = chain("traceback", "traceback of cell [7]", "traceback of cell [7]", "local", cell=7)


def with_others(*chains, **graph):
    """A weight that an optimizer and something else keep; nothing, where it is in use."""
    others = (HeldStorage(1, MIB, chains),) if chains else ()
    fact = StateFact("opt", 1, (1,) if chains else (), True, True, others)
    facts = {"states": (fact,)}
    if chains and chains[0].cut == "loss":
        facts["graphs"] = (GraphFact("loss", "autograd_graph", 1, (1,), 1, **graph),)
    return World((storage(1, LEFT, category="parameter"),), facts=facts)


STATES = (
    Case(
        "optimizer",
        "stale_optimizer_state",
        "optimizer",
        states(STATE),
        states(STATE).but(facts={}),
        STATE,
        "opt keeps parameters and state of 1 parameter that no model of yours has any more.",
        '%gpumem reclaim "lost parameters of opt"',
    ),
    Case(
        "state of a parameter that left its group",
        "stale_optimizer_state",
        "optimizer",
        states(STATE, STATE.replace("avg", "avg_sq"), parameters=2, in_groups=False),
        states(STATE, STATE.replace("avg", "avg_sq"), parameters=2).but(facts={}),
        STATE,
        "opt keeps state of 2 parameters that no model of yours has any more.",
        '%gpumem reclaim "lost parameters of opt"',
        bytes=2 * MIB,
    ),
    Case(
        "what an optimizer and a graph keep",
        "stale_optimizer_state",
        "optimizer",
        with_others(LOSS_TOO, stepped=True),
        with_others(LOSS_TOO),
        "opt",
        "The optimizer opt keeps parameters and their state, and no model of yours has these "
        "parameters; loss holds it too, so cutting one alone frees nothing.",
        '%gpumem reclaim "lost parameters of opt"',
    ),
    Case(
        "what an optimizer and an error keep",
        "stale_optimizer_state",
        "optimizer",
        with_others(ERROR_TOO),
        with_others(),
        "opt",
        "The optimizer opt keeps parameters and their state, and no model of yours has these "
        "parameters; traceback of cell [7] holds it too, so cutting one alone frees nothing.",
        '%gpumem reclaim "lost parameters of opt"',
        cost="%debug for the error of [7]",
    ),
    Case(
        "an optimizer of nothing",
        "stale_optimizer_state",
        "optimizer",
        states(LEFT, STATE, all_of_it=True),
        states(LEFT, STATE).but(facts={}),
        LEFT,
        "opt keeps 1 parameter and its state, and no model of yours has it.",
        '%gpumem reclaim "lost parameters of opt"',
        bytes=2 * MIB,
    ),
)

COPIES = (
    Case(
        "an old model in an optimizer",
        "stale_copy",
        "optimizer",
        OLD_MODEL.but(storages=(*OLD_MODEL.storages, AGAIN), origins=RUNS_OF_MODEL, runs=TWICE),
        OLD_MODEL.but(
            storages=(*OLD_MODEL.storages, AGAIN), origins=RUNS_OF_MODEL, runs=TWICE, facts={}
        ),
        LEFT,
        "opt keeps 1 parameter that an earlier run of the cell made, although a later run has made "
        "it anew.",
        '%gpumem reclaim "lost parameters of opt"',
    ),
)


def shown(*, category="parameter", wanted=False):
    """A model that was shown by a cell which ran again and made a new one."""
    old = storage(1, "Out[3].weight", category=category)
    way = chain("output_cache", "Out[3]", "Out[3]", ".weight", cell=3, wanted=wanted)
    return World((old, AGAIN), {1: [way]}, origins=RUNS_OF_MODEL, runs=TWICE)


COPIES += (
    Case(
        "an old model that was shown",
        "stale_copy",
        "output_cache",
        shown(),
        shown(wanted=True),
        "Out[3].weight",
        "Out[3] keeps what cell [3] showed, although a later run of the cell has made it anew.",
        '%gpumem reclaim "Out[3]"',
        "Out[3]",
    ),
)


def view(*names, used=4096, size=64 * MIB, **more):
    kinds = ["list item" if "[" in name else "variable" for name in names]
    places = tuple(map(PathStep, kinds, names))
    fact = ViewFact(1, size, used, names, places=places, siblings=3, **more)
    return World((storage(1, *names, size=size),), facts={"views": (fact,)})


VIEWS = (
    Case(
        "a small view",
        "oversized_view",
        "tensor_attribute",
        view("first"),
        view("first", used=32 * MIB),
        "first",
        "first shows 4.00 KiB and keeps the whole 64.0 MiB that it was cut from.",
        "first = first.clone()",
        bytes=64 * MIB - 4096,
    ),
    Case(
        "a small view with a graph",
        "oversized_view",
        "tensor_attribute",
        view("first", attached=True),
        view("first", used=32 * MIB, attached=True),
        "first",
        "first shows 4.00 KiB and keeps the whole 64.0 MiB that it was cut from.",
        "first = first.detach().clone()",
        "backward() through first",
        bytes=64 * MIB - 4096,
    ),
    Case(
        "a row of an array over a tensor",
        "oversized_view",
        "numpy_array",
        view("row", arrays=True),
        view("row", arrays=True, used=32 * MIB),
        "row",
        "row shows 4.00 KiB and keeps the whole 64.0 MiB that it was cut from.",
        "row = row.copy()",
        bytes=64 * MIB,
    ),
    Case(
        "two small views in a list",
        "oversized_view",
        "container",
        view("rows[0]", "rows[1]", used=8192),
        view("rows[0]", "rows[1]", used=64 * MIB),
        "rows[0]",
        "rows[0] and rows[1] show 8.00 KiB and keep the whole 64.0 MiB that they were cut from.",
        "rows[0] = rows[0].clone()\nrows[1] = rows[1].clone()",
        bytes=64 * MIB - 8192,
    ),
)


def rows(count, used=4096):
    """A list of rows, each cut from 64 KiB of its own."""
    steps = [PathStep("list item", f"rows[{n}]") for n in range(count)]
    facts = tuple(
        ViewFact(n, 65536, used, (step.text,), places=(step,), siblings=count)
        for n, step in enumerate(steps, 1)
    )
    listed = tuple(storage(fact.key, *fact.names, size=65536) for fact in facts)
    return World(listed, facts={"views": facts})


VIEWS += (
    Case(
        "many small views in a list",
        "oversized_view",
        "container",
        rows(16),
        rows(16, used=32768),
        "rows[0]",
        "16 items of rows show 64.0 KiB and keep the whole 1.00 MiB that they were cut from.",
        "rows[:] = [x.clone() for x in rows]",
        bytes=MIB - 65536,
    ),
)


def grown(growth=MIB, runs=4, name="kept[{}]"):
    """A cell ran four times and put 1 MiB into a list each time."""
    listed = tuple(storage(n, name.format(n - 1), made_by=n) for n in range(1, runs + 1))
    origins = {n: made(n, run=n, name="kept[*]") for n in range(1, runs + 1)}
    return World(listed, origins=origins, runs=(CellRuns(1, runs, {"cpu": growth}),))


GROWN = "Each run of the cell adds to kept, and nothing takes out what earlier runs put there."
GROWING = (
    Case(
        "a list that each run adds to",
        "growing",
        "container",
        grown(),
        grown(growth=0),
        "kept[0]",
        GROWN,
        "[kept.__delitem__(key) for key in range(2, -1, -1)];",
        "what earlier runs put into kept",
        bytes=3 * MIB,
        reclaimable=False,
        growth=MIB,
    ),
    Case(
        "an object's list that each run adds to",
        "growing",
        "container",
        grown(name="buffer.items[{}][0]"),
        grown(growth=0, name="buffer.items[{}][0]"),
        "buffer.items[0][0]",
        "Each run of the cell adds to buffer.items, and nothing takes out what earlier runs put "
        "there.",
        "[buffer.items.__delitem__(key) for key in range(2, -1, -1)];",
        "what earlier runs put into buffer.items",
        bytes=3 * MIB,
        reclaimable=False,
        growth=MIB,
    ),
    Case(
        "objects that lead from one to the next",
        "growing",
        "container",
        grown(runs=3, name="node.{}.x"),
        grown(runs=2, name="node.{}.x"),
        "node.0.x",
        "Each run of the cell adds to node, and nothing takes out what earlier runs put there.",
        "",
        "what earlier runs put into node",
        bytes=2 * MIB,
        reclaimable=False,
        growth=MIB,
    ),
    Case(
        "a dict that each of three runs adds to",
        "growing",
        "container",
        grown(runs=3, name="kept['run {}']"),
        grown(runs=2, name="kept['run {}']"),
        "kept['run 0']",
        GROWN,
        "[kept.__delitem__(key) for key in ['run 0', 'run 1']];",
        "what earlier runs put into kept",
        bytes=2 * MIB,
        reclaimable=False,
        growth=MIB,
    ),
)

CASES = (
    *(PLAIN + WAITING + GRAPHS + CYCLES),
    *(GRADIENTS + STATES + COPIES + VIEWS + GROWING),
)
