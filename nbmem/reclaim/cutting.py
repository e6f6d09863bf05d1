"""From a place where a chain can be cut to the act that cuts it there."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import queue
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.words import HOOK, container_below
from nbmem.inventory.paths import Step
from nbmem.reclaim.detaching import Target
from nbmem.reclaim.dropping import (
    clear_cache,
    drop_attribute,
    empty_container,
    remove_hook,
)
from nbmem.reclaim.loops import IN_USE, Alone, close_idle
from nbmem.reclaim.outcome import Outcome
from nbmem.reclaim.registered import (
    detach_finalizer,
    empty_queue,
    remove_global_hook,
    reset_variable,
    strip_log_record,
    unregister_callback,
    unregister_event,
)
from nbmem.reclaim.tracebacks import keep_text
from nbmem.reclaim.work import Act, Work
from nbmem.records import write_path

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nbmem.holders.web import CutPoint

_LINKS = ("__cause__", "__context__", "exceptions", "obj")
"""Attributes of errors that lead to others, or that go with the variables of the calls."""
_ERRORS = (BaseException, types.TracebackType, types.FrameType)
_QUEUES = (queue.Queue, queue.SimpleQueue, asyncio.Queue)
_namespace_of = type.__dict__["__dict__"].__get__
_CALLABLE = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
LEFT_ALONE = {
    "thread": "it runs: what it holds goes when it ends",
    "async_task": "a task is never ended from here: `task.cancel()` does",
    "future": "its result goes with the future",
    "cpp": "only C++ code holds it, which torch lets nobody see",
    "unknown": "what holds it was not found",
    "numpy_array": "the array shows its memory",
    "cuda_graph": "its replays need the memory: `graph.reset()` ends them",
}
"""Holders that are explained and not touched."""


class Cutter:
    """Adds to `work`, for each place where a chain can be cut, what cuts it there.

    Args:
        work: takes up the objects.
        shell: None in a script.
        names: the dict itself in which the user's variables stand.
    """

    def __init__(self, work: Work, shell: InteractiveShell | None, names: dict[str, Any]) -> None:
        self._work = work
        self._shell = shell
        self._names = names

    def take(self, point: CutPoint, *, graph: bool) -> str:
        """Takes up one place; returns why it can't be cut there, empty where it can.

        Args:
            point: where.
            graph: it is cut by letting go of the graph of the tensor at the end of the way.
        """
        if graph:
            return self._take_graph(point)
        take = _TAKERS.get(point.holder)
        if take is not None:
            return take(self, point)
        return LEFT_ALONE.get(point.holder, "nothing is known of how it could be cut")

    def take_cycle(self, point: CutPoint) -> None:
        """Takes up all tensors of a cycle through C++."""
        for thing in point.way.objects:
            if issubclass(type(thing), torch.Tensor):
                self._work.cyclic[id(thing)] = thing

    def _take_graph(self, point: CutPoint) -> str:
        tensor = point.way.objects[-1]
        if not issubclass(type(tensor), torch.Tensor):
            return self._take_place(point)  # a bare node of a graph
        steps = point.chain.steps
        kinds = [step.kind for step in steps]
        name = write_path(steps[: kinds.index("graph")] if "graph" in kinds else steps)
        way = (self._names, *point.way.objects[:-1])
        self._work.graphs.append(Target(name, tensor, way))
        return ""

    # -- where a name, an output, an error holds ------------------------------------------------

    def _take_errors(self, point: CutPoint) -> str:
        """Also frames: of `%debug`'s, the root itself is no object of the user's."""
        found = [one for one in point.way.objects[point.at :] if issubclass(type(one), _ERRORS)]
        self._work.errors += found[:1]
        self._take_parts_of_error(point)
        return "" if found else "a call that still runs holds it, or no error was found there"

    def _take_parts_of_error(self, point: CutPoint) -> None:
        """Takes up what holds as an attribute of an error: emptying calls lets nothing of it go."""
        ways = point.way
        for at in range(point.at, len(ways.objects) - 1):
            error, tie, held = ways.objects[at], ways.ties[at + 1], ways.objects[at + 1]
            if not issubclass(type(error), BaseException) or tie.step is not Step.ATTRIBUTE:
                continue
            if tie.key == "args":
                self._work.acts["args", id(error)] = partial(keep_text, error)
            elif tie.key not in _LINKS:
                act = partial(drop_attribute, error, tie.key, held)
                self._work.acts["drop", id(held)] = act

    def _take_output(self, point: CutPoint) -> str:
        self._work.outputs[point.cut] = point.way.objects[0]
        return "" if self._shell is not None else "there is no IPython here"

    def _take_throwaway(self, point: CutPoint) -> str:
        key = point.way.ties[0].key
        if self._names.get(key) is not point.way.objects[0]:
            return "the name holds something else by now"
        self._work.throwaways[key] = None
        return ""

    def _take_place(self, point: CutPoint) -> str:
        """Drops what is acted upon from where it is: a variable, an entry, an attribute."""
        ways = point.way
        for at in range(point.at, -1, -1):
            tie, thing = ways.ties[at], ways.objects[at]
            if at == 0:
                if tie.step is not Step.VARIABLE or self._names.get(tie.key) is not thing:
                    return "no variable, entry or attribute of yours holds it"
                self._work.variables[tie.key] = None
                return ""
            act = _dropper(ways.objects[at - 1], tie, thing)
            if act is not None:
                self._work.acts["drop", id(thing)] = act
                return ""
        return ""

    # -- what functions, classes and hooks gather -----------------------------------------------

    def _take_container(self, point: CutPoint) -> str:
        container = _container_below(point)
        if container is not None:
            self._work.acts["empty", id(container)] = partial(empty_container, container, point.cut)
            return ""
        return "it is held directly, by no list or dict that could be emptied"

    def _take_gathered(self, point: CutPoint) -> str:
        """What a function or class has gathered: a container's content, else the attribute."""
        if _container_below(point) is not None:
            return self._take_container(point)
        return self._take_attribute(point)

    def _take_attribute(self, point: CutPoint) -> str:
        at, ways = point.at, point.way
        tie, thing = ways.ties[at], ways.objects[at]
        if at == 0 or tie.step is not Step.ATTRIBUTE:
            return "it is held directly, by no list or dict that could be emptied"
        self._work.acts["drop", id(thing)] = partial(
            drop_attribute, ways.objects[at - 1], tie.key, thing
        )
        return ""

    def _take_hook(self, point: CutPoint) -> str:
        """What the hook has gathered; where that is no container, the hook itself."""
        if _container_below(point) is not None:
            return self._take_container(point)
        return self._take_hook_itself(point)

    def _take_hook_itself(self, point: CutPoint) -> str:
        ways = point.way
        if ways.ties[0].step is Step.ROOT:
            hook = ways.objects[0]
            self._work.acts["hook", id(hook)] = partial(remove_global_hook, hook, point.cut)
            return ""
        for at in range(point.at, 1, -1):
            key = _key_of(ways.objects[at - 1], ways.objects[at], ways.ties[at].key)
            if str(ways.ties[at - 1].key).endswith("_hooks") and key is not None:
                hooks, owner = ways.objects[at - 1], ways.objects[at - 2]
                self._work.acts[f"hook {key}", id(hooks)] = partial(remove_hook, hooks, key, owner)
                return ""
        return "the hook was not found; call `remove()` of its handle"

    def _take_cache(self, point: CutPoint) -> str:
        return self._single(point, clear_cache, point.cut.removeprefix("cache of ").rstrip("()"))

    # -- what waits -----------------------------------------------------------------------------

    def _take_generator(self, point: CutPoint) -> str:
        generator = point.target
        if type(generator) is types.AsyncGeneratorType:
            return f"it can't be ended from here; `await {point.cut}.aclose()`"
        if type(generator) not in (types.GeneratorType, types.CoroutineType):
            return "it ends with what it goes through"
        if getattr(generator, "gi_running", False) or getattr(generator, "cr_running", False):
            return "it is running"
        if point.way.ties[0].kind == "cpp":
            return IN_USE
        held = Alone(generator)
        self._work.waiting.append(held)
        self._work.acts["close", id(generator)] = partial(close_idle, held, point.cut)
        return ""

    def _take_iterator(self, point: CutPoint) -> str:
        self._work.waiting.append(Alone(point.target))
        return self._take_place(point)

    def _take_queue(self, point: CutPoint) -> str:
        kind = type(point.target)
        module = _namespace_of(kind).get("__module__")
        if issubclass(kind, _QUEUES) or module == "multiprocessing.queues":
            return self._single(point, empty_queue, point.cut)
        return "it is no queue of Python's own"

    # -- what is registered somewhere -----------------------------------------------------------

    def _take_event(self, point: CutPoint) -> str:
        callback = point.way.objects[0]
        act = partial(unregister_event, self._shell, callback, point.cut)
        self._work.acts["event", id(callback)] = act
        return ""

    def _take_callback(self, point: CutPoint) -> str:
        callback = point.way.objects[0]
        of_atexit = point.way.ties[0].step is None and type(callback) in _CALLABLE
        if not of_atexit and all(one is not callback for one in gc.callbacks):
            return "its owner has to take it back: `atexit.unregister(function)` for a call at exit"
        act = partial(unregister_callback, callback, point.cut)
        self._work.acts["callback", id(callback)] = act
        return ""

    def _take_finalizer(self, point: CutPoint) -> str:
        info = point.way.objects[0]
        self._work.acts["finalizer", id(info)] = partial(detach_finalizer, info, point.cut)
        return ""

    def _take_log_record(self, point: CutPoint) -> str:
        objects = point.way.objects
        for at, thing in enumerate(objects[:-1]):
            if issubclass(type(thing), logging.LogRecord):
                self._work.acts["log", id(thing)] = partial(
                    strip_log_record, thing, objects[at + 1]
                )
                return ""
        return self._take_container(point)

    def _take_context(self, point: CutPoint) -> str:
        for variable, value in contextvars.copy_context().items():
            if any(thing is value for thing in point.way.objects):
                name = f"context variable {variable.name!r}"
                self._work.acts["context", id(value)] = partial(reset_variable, value, name)
                return ""
        return "the variable was not found"

    def _take_garbage(self, _: CutPoint) -> str:
        self._work.collect = True
        return ""

    def _take_frozen(self, _: CutPoint) -> str:
        self._work.collect = self._work.unfreeze = True
        return ""

    def _single(self, point: CutPoint, act: Callable[[Any, str], Outcome], name: str) -> str:
        self._work.acts[act.__name__, id(point.target)] = partial(act, point.target, name)
        return ""


def _dropper(holder: Any, tie: Any, thing: Any) -> Act | None:
    if tie.step is Step.ATTRIBUTE:
        return partial(drop_attribute, holder, tie.key, thing)
    if tie.step is Step.KEY and type(holder) is dict:
        return partial(_drop_entry, holder, tie.key, thing)
    return None


def _drop_entry(holder: dict[Any, Any], key: Any, held: Any) -> Outcome:
    if holder.get(key) is not held:
        return Outcome(refused=[f"[{key!r}] holds something else by now"])
    del holder[key]
    return Outcome([f"delete [{key!r}]"])


def _container_below(point: CutPoint) -> Any:
    """Returns the first container from the cut downwards; None where there is none."""
    at = container_below(point.way, point.at)
    return None if at is None else point.way.objects[at]


def _key_of(table: Any, held: Any, told: Any) -> Any:
    """Returns the key of an entry: the one that was told, unless it is another's by now."""
    if not issubclass(type(table), dict):
        return None
    if type(told) is int and dict.get(table, told) is held:
        return told
    return next((key for key, value in dict.items(table) if value is held), None)


_Take = Callable[[Cutter, "CutPoint"], str]
_TAKERS: Mapping[str, _Take] = {
    "traceback": Cutter._take_errors,
    "saved_exception": Cutter._take_errors,
    "saved_frame": Cutter._take_errors,
    "output_cache": Cutter._take_output,
    "throwaway_name": Cutter._take_throwaway,
    "iterator_buffer": Cutter._take_iterator,
    "container": Cutter._take_container,
    "closure": Cutter._take_gathered,
    "default_argument": Cutter._take_container,
    "class_attribute": Cutter._take_gathered,
    "module_attribute": Cutter._take_gathered,
    "tensor_attribute": Cutter._take_attribute,
    "hook": Cutter._take_hook,
    HOOK: Cutter._take_hook_itself,
    "function_cache": Cutter._take_cache,
    "suspended_frame": Cutter._take_generator,
    "queue": Cutter._take_queue,
    "ipython_event": Cutter._take_event,
    "interpreter_callback": Cutter._take_callback,
    "widget_callback": Cutter._take_container,
    "finalizer": Cutter._take_finalizer,
    "log_record": Cutter._take_log_record,
    "context_variable": Cutter._take_context,
    "garbage": Cutter._take_garbage,
    "frozen": Cutter._take_frozen,
}
_WORDS = {
    "traceback": "empty the variables of the calls in the {cut}",
    "saved_exception": "empty the variables of the calls in the traceback of {cut}",
    "saved_frame": "empty the variables of {cut}",
    "output_cache": "drop {cut}",
    "throwaway_name": "let go of what {cut} holds",
    "iterator_buffer": "drop {cut}",
    "tensor_attribute": "delete {cut}",
    "hook": "empty {cut}; the hook stays",
    HOOK: "remove the {cut}",
    "function_cache": "clear the {cut}",
    "suspended_frame": "close {cut}, whose `finally` blocks run",
    "ipython_event": "unregister {cut}",
    "interpreter_callback": "unregister {cut}",
    "finalizer": "detach {cut}, which is never called then",
    "log_record": "keep only the text of what {cut} logged",
    "context_variable": "set {cut} to None",
    "queue": "take everything out of {cut}",
    "garbage": "gc.collect()",
    "frozen": "gc.unfreeze() and gc.collect()",
}


def words_of(point: CutPoint, *, graph: bool) -> str:
    """Returns in words what cutting there does."""
    if point.holder == "hook" and _container_below(point) is None:
        return _WORDS[HOOK].format(cut=point.cut)
    if graph:
        return f"detach {point.cut}, whose numbers stay"
    return _WORDS.get(point.holder, "empty {cut}").format(cut=point.cut)
