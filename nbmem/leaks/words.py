"""The sentences: what each kind and holder is, what a finding says, what cutting costs."""

from __future__ import annotations

import re

from nbmem.leaks import graphs
from nbmem.records import ARGUMENTS
from nbmem.units import format_count

KINDS = {
    "stale_output": "IPython still keeps a value that a cell showed, or a name like `_` its last "
    "one, and no variable of yours needs it.",
    "stale_error": "The traceback of an error that is over keeps the variables of all functions "
    "that were running.",
    "retained_graph": "A result keeps its autograd graph, which is everything that backward() "
    "would need, and nobody is going to call backward().",
    "autograd_cycle": "A tensor and its autograd graph hold each other in a circle through C++, "
    "which Python's garbage collector can't break.",
    "unreachable": "Nothing leads to it any more, but Python's garbage collector hasn't freed it.",
    "unused_gradient": "A gradient that no step will use: all zero with no optimizer for it, or of "
    "a frozen parameter.",
    "stale_optimizer_state": "An optimizer keeps parameters and their state that no model of "
    "yours has any more.",
    "stale_copy": "An earlier run of a cell made it, a later run made it anew, and the old one is "
    "still held.",
    "oversized_view": "A small view keeps the whole storage that it was cut from.",
    "growing": "Each run of a cell adds to it, and nothing takes the older parts away.",
    "forgotten_reference": "Something holds it that no value of yours needs: a callback, a cache, "
    "a list inside a function, a thread.",
}
"""Why bytes are a leak, one sentence for each of `LEAK_KINDS`."""

HOLDERS = {
    "output_cache": "IPython's memory of what cells showed: `Out[7]`, `_7`, `_` and hidden copies.",
    "throwaway_name": "A name that says nobody wants the value: `_`, `__`, `___`.",
    "traceback": "The last error, which Python and IPython keep so that `%debug` works.",
    "saved_exception": "An exception kept in a variable or a list; its traceback keeps frames.",
    "ipython_event": "A callback that IPython calls before or after each cell.",
    "autograd_graph": "What autograd saved for backward() hangs on the result.",
    "optimizer": "An optimizer's `param_groups` and `state`.",
    "module_attribute": "An attribute of a module of yours, such as `model.last`.",
    "class_attribute": "A container on a class that no object of the class uses any more.",
    "tensor_attribute": "A tensor: by an attribute put on it, by its gradient, or by its storage.",
    "container": "A list, dict, set or deque.",
    "hook": "A hook on a module or tensor, with what it collected.",
    "closure": "A variable that only a function knows: a closure's list, a function's attribute.",
    "default_argument": "The default value of a function's parameter, made once for all calls.",
    "function_cache": "`functools.lru_cache` or `cache`: every result is remembered.",
    "garbage": "A circle of objects that nothing leads to; `gc.collect()` has not run.",
    "frozen": "`gc.freeze()` took it out of the garbage collector's sight.",
    "finalizer": "`weakref.finalize` keeps the arguments of a call that is still to come.",
    "interpreter_callback": "A function that Python calls later: `atexit`, `sys.excepthook`.",
    "iterator_buffer": "What `itertools.tee` or `cycle` stores until it is asked for.",
    "suspended_frame": "A generator or coroutine that stopped in the middle, with its variables.",
    "saved_frame": "A frame object kept by name; it keeps the function's variables.",
    "thread": "A function that runs in another thread, with its variables.",
    "queue": "A queue that nobody empties.",
    "future": "A future, which keeps its result.",
    "async_task": "An asyncio task, with the variables of the coroutine that it runs.",
    "context_variable": "A value set in a `contextvars.ContextVar`.",
    "log_record": "A log record kept by a handler, with the arguments of the message.",
    "numpy_array": "A numpy array: of objects, or over a tensor's memory.",
    "widget_callback": "A function that a widget calls when it is pressed or changed.",
    "cuda_graph": "A captured CUDA graph keeps its memory for the next replay.",
    "cpp": "Code outside Python; no Python object leads to it.",
    "unknown": "Something that nbmem did not find.",
}
"""Where what holds a leak is, one sentence for each of `LEAK_HOLDERS`."""

_HELD_BY = {
    "output_cache": "{cut} keeps what a cell showed",
    "throwaway_name": "The name {cut} keeps the last value that it was given",
    "traceback": "The {cut} keeps the variables of the functions that were running",
    "saved_exception": "The exception {cut} keeps the variables of the functions that were running",
    "ipython_event": "{cut} keeps what it needs to be called with every cell",
    "autograd_graph": "{cut} keeps its graph, which is all that backward() would need",
    "optimizer": "The optimizer {cut} keeps parameters and their state",
    "module_attribute": "{cut} is an attribute of a module and keeps what was put there",
    "class_attribute": "{cut} belongs to a class without living objects and keeps what was put "
    "there",
    "tensor_attribute": "{cut} is an attribute that was put on a tensor",
    "container": "{cut} keeps what was put there",
    "hook": "The {cut} keeps what it has collected",
    "closure": "{cut} belongs to a function and keeps what its calls put there",
    "default_argument": "{cut} is a default value, made once, and keeps what all calls put there",
    "function_cache": "The {cut} remembers the result of every call",
    "garbage": "Objects that hold each other wait for the garbage collector",
    "frozen": "gc.freeze() hid objects that hold each other from the garbage collector",
    "finalizer": "A call that is still to come keeps its arguments: {cut}",
    "interpreter_callback": "Python keeps what a later call needs: {cut}",
    "iterator_buffer": "The iterator {cut} stores what it has not given out yet",
    "suspended_frame": "{cut} stopped in the middle and keeps its variables",
    "saved_frame": "The frame {cut} keeps the variables of its function",
    "thread": "The {cut} is still running and keeps its variables",
    "queue": "The queue {cut} keeps what nobody has taken out",
    "future": "{cut} keeps its result",
    "async_task": "The {cut} has not ended and keeps its variables",
    "context_variable": "The context variable {cut} keeps the value that was set",
    "log_record": "A log record keeps the arguments of its message: {cut}",
    "numpy_array": "The numpy array {cut} keeps the memory of tensors",
    "widget_callback": "A widget keeps what its callback needs: {cut}",
    "cuda_graph": "The captured CUDA graph {cut} keeps its memory for the next replay",
    "cpp": "Code outside Python keeps this memory ({cut})",
    "unknown": "nbmem did not find what keeps this memory",
}
"""The first half of a reason."""
_OF_ARGUMENTS = (
    "C code such as atexit keeps it as arguments of a later call "
    "(atexit.unregister(function) takes a call at exit back)"
)
_NUMBERED = re.compile(r"Out\[|_\d")
_CELL = re.compile(r"Out\[(\d+)\]")
LOST = "lost parameters of "
"""Before the name of an optimizer: the cut. The bare name would say that the optimizer goes."""
EACH = "[*]"
"""Stands in a cut's text for every item of a container."""
_SHOWN = "{cut} keeps what cell [{cell}] showed"
_GRAPHS = "Every item of {cut} keeps its graph, which is all that backward() would need"
_GRAPH_OF_ITEM = "An item of {cut} keeps its graph, which is all that backward() would need"
_NEEDED = ", which is all that backward() would need"
_LEADS_TO = " and what that leads to"
"""Stands in its place where backward() has freed what was saved."""
_CYCLE = "A tensor and its autograd graph hold each other"
_MODULE_GRAPH = "A module keeps {cut} with its graph, which is all that backward() would need"

_NEEDLESS = "and no value that you can name needs that"
_WHY = {
    "stale_output": "and no variable of yours needs that",
    "stale_error": "and that error is over",
    "autograd_cycle": "in a circle through C++ that no garbage collector breaks",
    "unreachable": "and nothing that you can name leads there",
    "stale_optimizer_state": "and no model of yours has these parameters",
    "stale_copy": "although a later run of the cell has made it anew",
    "forgotten_reference": _NEEDLESS,
    graphs.FREED: "although backward() has freed what it saved, so that none can come any more",
    graphs.PARTLY: "but backward() has freed a part of that, so it would fail",
    graphs.STEPPED: "but its weights were changed since, so backward() would fail",
    graphs.BACKPROPAGATED: "although backward() has already been called",
    graphs.MANY: "and a collection of results usually needs only their numbers",
    graphs.OLD: "and no cell since has called it",
    graphs.SILENT: "and nothing in it tells whether backward() came: it saved no value",
    graphs.LEFT: "and no cell since has gone on with it",
}
"""The second half, by kind or by what tells that a graph or a generator is left over."""

_COSTS = {
    "output_cache": "{cut}",
    "traceback": "%debug for the error of [{cell}]",
    "saved_exception": "the variables of the frames of {cut}",
    "ipython_event": "{cut}",
    "class_attribute": "what {cut} holds",
    "tensor_attribute": "{cut}",
    "container": "what {cut} holds",
    "hook": "what the {cut} has collected",
    "closure": "what {cut} holds",
    "default_argument": "what {cut} holds",
    "frozen": "gc.freeze()",
    "function_cache": "the results in the {cut}",
    "finalizer": "{cut}",
    "interpreter_callback": "{cut}",
    "iterator_buffer": "next() on {cut}",
    "suspended_frame": "next() on {cut}",
    "saved_frame": "the variables of {cut}",
    "queue": "what waits in {cut}",
    "future": "the result of {cut}",
    "async_task": "the rest of {cut}",
    "context_variable": "the value of {cut}",
    "log_record": "the arguments of {cut}",
    "numpy_array": "{cut}",
    "widget_callback": "{cut}",
    "cuda_graph": "replay() of {cut}",
}
_GRAPH_COSTS = {
    graphs.BACKPROPAGATED: "another backward() through {cut}",
    graphs.PARTLY: "gradients through the rest of {cut}",
    graphs.OLD: "backward() through {cut}",
    graphs.SILENT: "backward() through {cut}",
    graphs.MANY: "backward() through {cut}",
}
_ERROR_WITHOUT_CELL = "%debug for that error"


def explain_kind(kind: str) -> str:
    """Returns one sentence that says why such bytes are a leak."""
    return KINDS.get(kind, KINDS["forgotten_reference"])


def explain_holder(holder: str) -> str:
    """Returns one sentence that says what such a holder is."""
    return HOLDERS.get(holder, HOLDERS["unknown"])


def say_held(
    kind: str,
    holder: str,
    cut: str,
    cell: int | None,
    *,
    many: bool = False,
    freed: bool = False,
) -> str:
    """Returns the first half of a reason: what holds it.

    Args:
        kind: why it is a leak, seen from this holder.
        holder: where it is.
        cut: its text.
        cell: of the shown output.
        many: graphs of several tensors go with this cut.
        freed: backward() has freed what the graph saved.
    """
    phrase = _HELD_BY.get(holder, _HELD_BY["unknown"])
    cut = name_of_cut(holder, cut)
    if kind == "autograd_cycle":
        phrase = _CYCLE
    elif cut == ARGUMENTS:
        phrase = _OF_ARGUMENTS
    elif holder == "output_cache" and (number := _cell_of(cut, cell)) is not None:
        phrase, cell = _SHOWN, number
    elif kind == "retained_graph" and holder == "module_attribute":
        phrase = _MODULE_GRAPH
    elif kind == "retained_graph":
        one = _HELD_BY["autograd_graph"] if cut == cut.removesuffix(EACH) else _GRAPH_OF_ITEM
        phrase, cut = _GRAPHS if many else one, cut.removesuffix(EACH)
    if freed:
        phrase = phrase.replace(_NEEDED, _LEADS_TO)
    return phrase.format(cut=cut, cell=cell)


def _cell_of(cut: str, cell: int | None) -> int | None:
    match = _CELL.match(cut) if cell is None else None
    return cell if match is None else int(match[1])


def say_reason(
    held: str,
    why: str,
    others: tuple[str, ...] = (),
    *,
    litter: bool = False,
    more: bool = False,
    fills: bool = False,
) -> str:
    """Returns the whole sentence.

    Args:
        held: what `say_held` said.
        why: the kind, or what tells that a graph or generator is left over.
        others: texts of further cuts: cutting one of all frees nothing.
        litter: garbage holds some of it as well.
        more: there are holders beyond those that are listed.
        fills: a hook has put it there.
    """
    joint = "" if why == "autograd_cycle" else ","
    text = f"{held}{joint} {_WHY.get(why, _NEEDLESS)}"
    if others:
        verb = "holds" if len(others) == 1 else "hold"
        text += f"; {join_words(others)} {verb} it too, so cutting one alone frees nothing"
    if litter:
        text += "; objects that wait for the garbage collector hold some of it as well"
    if fills:
        text += "; once it is emptied, the hook fills it again with each call, until it is removed"
    if more:
        text += "; more holders exist than are listed here"
    return text + "."


def say_cost(holder: str, cut: str, cell: int | None, why: str | None = None) -> str:
    """Returns what the user loses when a chain is cut there; empty where it is nothing."""
    if why in graphs.GRAPH_REASONS:
        template, cut = _GRAPH_COSTS.get(why, ""), cut.removesuffix(EACH)
    elif holder == "output_cache" and not _NUMBERED.match(cut):
        template = ""  # `_` and its copies: the next value that is shown takes their place
    elif holder == "traceback" and cell is None:
        template = _ERROR_WITHOUT_CELL
    else:
        template = _COSTS.get(holder, "")
    return template.format(cut=name_of_cut(holder, cut), cell=cell)


def name_of_cut(holder: str, cut: str) -> str:
    """Returns a cut as people call it: an iterator by its own name, without what is inside."""
    if holder == "optimizer":
        return cut.removeprefix(LOST)
    return cut.partition(" → ")[0] if holder == "iterator_buffer" else cut


def say_gradients(gradients: str, *, many: bool, frozen: bool, held_by: str = "") -> str:
    """Returns the reason for gradients that nobody uses.

    Args:
        gradients: `2 gradients of model`.
        many: more than one.
        frozen: of parameters with `requires_grad=False`.
        held_by: what else has the parameters and may step: `sgd.params`.
    """
    them, they = ("them", "parameters") if many else ("it", "parameter")
    may_step = f"{held_by} has the {they} and may step with {them}" if held_by else ""
    if frozen:
        rest = "belong to parameters" if many else "belongs to a parameter"
        told = f"{gradients} {rest} with requires_grad=False, which no training changes"
        return f"{told}; {may_step} all the same." if held_by else f"{told}."
    are, whose = ("are", "their parameters") if many else ("is", "its parameter")
    if held_by:
        return f"{gradients} {are} all zero; no optimizer of torch's has {whose}, but {may_step}."
    return f"{gradients} {are} all zero, and no optimizer has {whose}."


def say_cost_of_gradients(optimizer: str, held_by: str) -> str:
    """Returns what is lost with gradients that somebody may still step with."""
    return f"another step of {optimizer or held_by}"


def say_state(optimizer: str, parameters: int, *, all_of_it: bool, in_groups: bool) -> str:
    """Returns the reason for what an optimizer keeps for parameters that no model has."""
    count = format_count(parameters, "parameter")
    if all_of_it:
        own, them = ("its", "it") if parameters == 1 else ("their", "them")
        return f"{optimizer} keeps {count} and {own} state, and no model of yours has {them}."
    where = "parameters and state" if in_groups else "state"
    return f"{optimizer} keeps {where} of {count} that no model of yours has any more."


def say_copy(optimizer: str, parameters: int) -> str:
    """Returns the reason for an older model that only an optimizer still has."""
    count = format_count(parameters, "parameter")
    return (
        f"{optimizer} keeps {count} that an earlier run of the cell made, although a later run has "
        f"made {'it' if parameters == 1 else 'them'} anew."
    )


def say_view(shown: str, used: str, whole: str, count: int) -> str:
    """Returns the reason for small views of a large storage."""
    show, keep = ("show", "keep") if count > 1 else ("shows", "keeps")
    were = "they were" if count > 1 else "it was"
    return f"{shown} {show} {used} and {keep} the whole {whole} that {were} cut from."


def say_growing(name: str) -> str:
    """Returns the reason for what grows from run to run."""
    return (
        f"Each run of the cell adds to {name}, and nothing takes out what earlier runs put there."
    )


def join_words(words: tuple[str, ...]) -> str:
    """Returns `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
