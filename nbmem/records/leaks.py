"""What keeps storages alive, and which of them nobody would expect to be alive."""

from __future__ import annotations

from dataclasses import dataclass

from nbmem.records.notes import Note

LEAK_KINDS = (
    "stale_output",
    "stale_error",
    "retained_graph",
    "autograd_cycle",
    "unreachable",
    "unused_gradient",
    "stale_optimizer_state",
    "stale_copy",
    "oversized_view",
    "growing",
    "forgotten_reference",
)
"""Why bytes are a leak."""

LEAK_HOLDERS = (
    "output_cache",
    "throwaway_name",
    "traceback",
    "saved_exception",
    "ipython_event",
    "autograd_graph",
    "optimizer",
    "module_attribute",
    "class_attribute",
    "tensor_attribute",
    "container",
    "hook",
    "closure",
    "default_argument",
    "function_cache",
    "garbage",
    "frozen",
    "finalizer",
    "interpreter_callback",
    "iterator_buffer",
    "suspended_frame",
    "saved_frame",
    "thread",
    "queue",
    "future",
    "async_task",
    "context_variable",
    "log_record",
    "numpy_array",
    "widget_callback",
    "cuda_graph",
    "cpp",
    "unknown",
)
"""Where what holds them is."""


ARGUMENTS = "C code such as atexit, as arguments"
"""Cut of a tuple of arguments that only C code keeps: nobody can take a call back by these."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step on the way from a root to a tensor."""

    kind: str
    """`variable`, `output`, `traceback`, `frame`, `local`, `list item`, `hook`, `closure`,
    `graph`, …: what the step is taken in, in words. A root of kind `cycle` is an autograd graph
    and Python objects that hold each other, which no collector breaks."""
    text: str
    """`Out[12]`, `train()`, `local 'acts'`, `[3]`, `saved by MulBackward0`."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One way from a root to a storage; plain facts, nothing is kept alive."""

    steps: tuple[PathStep, ...]
    """From the root to the tensor; the first one is the root."""
    holder: str
    """Where: one of `LEAK_HOLDERS`, or `variable` for a way by which a value of the user's needs
    the storage."""
    wanted: bool
    """A value that the user can name needs the storage by this way."""
    cut: str
    """What must go so that this chain holds nothing more, as text: `Out[12]`,
    `traceback of cell [7]`, `losses[*]`, `cache of load()`. Chains with one text go at once."""
    cell: int | None = None
    """Execution count of the cell that the cut belongs to: of the error, of the shown output."""
    remedy: str = ""
    """The line of code that cuts it; empty where no line does."""
    cost: str = ""
    """What the user loses with it: `%debug for the error of [7]`; empty where it is nothing."""

    @property
    def text(self) -> str:
        """The steps as a sentence: `traceback of cell [7] → train() → local 'acts'`."""
        return write_path(self.steps)


def write_path(steps: tuple[PathStep, ...]) -> str:
    """Returns steps as one text; what is only a subscript or an attribute follows unparted."""
    text = ""
    for step in steps:
        joined = step.text.startswith(("[", "."))
        text += step.text if joined or not text else f" → {step.text}"
    return text


@dataclass(frozen=True, slots=True)
class HeldStorage:
    """Why one storage is alive."""

    key: int
    """Serial of the storage, as in `StorageRecord.key`."""
    bytes: int
    chains: tuple[Chain, ...]
    """Every way that holds it, shortest first; empty where none was found."""
    more: int = 0
    """Further chains that are not listed."""
    wanted: bool = False
    """A value that the user can name needs it."""


@dataclass(frozen=True, slots=True)
class GraphFact:
    """What graphs keep that hang on one variable, or on the items of one container."""

    cut: str
    """As in `Chain.cut`: `loss`, `losses[*]`, `model.last`."""
    holder: str
    """`autograd_graph` for one tensor, `container`, `module_attribute`, …"""
    roots: int
    """Tensors whose graphs these are; results of one forward pass, such as the loss and the logits
    that it was made from, count as one. Those that backward has freed count only where all are."""
    keys: tuple[int, ...]
    """Storages that go when all these tensors are detached."""
    newest: int
    """Highest serial among what the graphs keep: the newest was made then."""
    stepped: bool = False
    """Weights were changed in place since: backward would raise an error."""
    backpropagated: bool = False
    """The gradients of the graphs' leaves are newer than the graphs (`retain_graph=True`), or
    backward went through Functions that saved nothing."""
    freed: bool = False
    """Backward has freed what all of them saved: no other can come. Weights, gradients and what
    Functions put on their `ctx` are still kept."""
    partly: bool = False
    """Backward has freed a part of what they saved, as where two losses share a trunk: through all
    of it none can come, through the rest one may."""
    silent: bool = False
    """They saved nothing, so that nothing tells whether backward came."""
    places: tuple[PathStep, ...] = ()
    """Where these tensors stand, each with all steps as its text: kind `variable`, `attribute`,
    `list item`, `dict entry`; `list` or `dict` for all items of one; `node` for a bare node of a
    graph. Empty where one of them stands in several places, or in one that takes no other."""


@dataclass(frozen=True, slots=True)
class ViewFact:
    """A storage of which the tensors alive show only a part."""

    key: int
    bytes: int
    used: int
    """Bytes from the first to the last that any tensor shows, gaps counted out."""
    names: tuple[str, ...]
    """Of the tensors that show it; empty where one of them cannot be moved to a smaller one."""
    arrays: bool = False
    """They are numpy arrays, whose copies are no storages of torch's."""
    attached: bool = False
    """The graph of one of them ends at what it was cut from; a copy would have that graph too."""
    places: tuple[PathStep, ...] = ()
    """Where each of them stands; see `GraphFact.places`."""
    siblings: int = 0
    """Items of the list that they are items of, themselves included."""
    stays: str = ""
    """Why nbmem can't move them: `shared`, an array shows the same memory as others of them, so
    that copies would part them; `read`, something in C++ reads it, which copies would not change;
    `copied`, only a copy has other memory. Empty where it can."""


@dataclass(frozen=True, slots=True)
class GradientFact:
    """A gradient, and who would step with it."""

    key: int
    bytes: int
    name: str
    """`model.fc.weight.grad`."""
    zero: bool | None
    """All its numbers are zero; None where nobody looked, as on an accelerator."""
    frozen: bool
    """Its parameter has `requires_grad=False`."""
    optimizer: str | None
    """An optimizer of torch's that lives and has the parameter; None: none has."""
    held_by: str | None = None
    """What else has the parameter in a list or an attribute, and so may step: `sgd.params`."""
    module: str = ""
    """The outermost module that has the parameter, as the user comes to it: `trainer.model`."""


@dataclass(frozen=True, slots=True)
class StateFact:
    """What an optimizer holds for parameters that no model of the user's has any more."""

    optimizer: str
    """Its name."""
    parameters: int
    keys: tuple[int, ...]
    """Storages of state, parameters and gradients that would go with it."""
    in_groups: bool
    """The parameters still stand in `param_groups`."""
    all_of_it: bool
    """The optimizer has no other parameters."""
    others: tuple[HeldStorage, ...] = ()
    """Those of the storages that something else holds as well (a graph, an error, another
    optimizer), with these chains alone."""


@dataclass(frozen=True, slots=True)
class SuspendedFact:
    """A generator or iterator of the user's that waits in the middle."""

    cut: str
    """Its name."""
    holder: str
    """`suspended_frame` or `iterator_buffer`."""
    keys: tuple[int, ...]
    """Storages that go with it."""
    newest: int
    """Highest serial among them."""
    awaited: bool = False
    """It is an asynchronous generator, whose end has to be awaited."""


@dataclass(frozen=True, slots=True)
class Holders:
    """Why storages are alive, at the moment of one inventory."""

    held: tuple[HeldStorage, ...]
    """Storages that no value of the user's needs, and those that were asked for; by bytes."""
    graphs: tuple[GraphFact, ...] = ()
    views: tuple[ViewFact, ...] = ()
    gradients: tuple[GradientFact, ...] = ()
    states: tuple[StateFact, ...] = ()
    suspended: tuple[SuspendedFact, ...] = ()
    complete: bool = True
    """False where a budget cut the search: then nothing is said to be unneeded for want of a
    name."""
    notes: tuple[Note, ...] = ()
    bounded: tuple[int, ...] = ()
    """Storages in a deque with `maxlen`, which lets go of the oldest by itself."""


@dataclass(frozen=True, slots=True)
class Leak:
    """Bytes alive beyond what the values that the user can name need."""

    bytes: int
    """That come back when `remedy` is followed: the sum over `storages`, less what the copy of a
    small view takes."""
    count: int
    """Storages."""
    kind: str
    """Why: one of `LEAK_KINDS`."""
    holder: str
    """Where: one of `LEAK_HOLDERS`."""
    path: tuple[PathStep, ...]
    """The shortest chain to the largest of the storages."""
    created_by: int | None
    """Execution count of the cell that made most of it."""
    reason: str
    """One sentence."""
    remedy: str
    """Code that the user could paste; empty where nothing can be done but wait."""
    cost: str
    """What the user loses with it; empty where it is nothing."""
    storages: tuple[int, ...]
    """Keys, as in `StorageRecord.key`."""
    device: str = "cpu"
    """Of most of the bytes."""
    cuts: tuple[str, ...] = ()
    """All that holds it, as in `Chain.cut`: with two of them, cutting one frees nothing."""
    growth_per_run: int | None = None
    """Bytes that each run of the cell adds; None where it does not grow by runs."""
    reclaimable: bool = True
    """False where `reclaim_memory` explains and does nothing, as for a running thread's frame."""
    on_request: bool = False
    """`reclaim_memory` takes it only as a target by name, not by `everything=True`."""
    sources: tuple[str, ...] = ()
    """What will fill it again, as targets of `reclaim_memory` that take this away too:
    `hook 'save' on net`."""
    instead: str = ""
    """Code in place of `remedy` that takes away the sources as well."""

    @property
    def path_text(self) -> str:
        """The path as a sentence: `traceback of cell [7] → train() → local 'acts'`."""
        return write_path(self.path)


@dataclass(frozen=True, slots=True)
class LeakReport:
    """All leaks of one moment, largest first."""

    leaks: tuple[Leak, ...]
    taken_at: float
    """Seconds since the epoch."""
    threshold: int
    """Bytes below which nothing is reported."""
    below: int = 0
    """Bytes of leaks that are smaller than that."""
    notes: tuple[Note, ...] = ()
