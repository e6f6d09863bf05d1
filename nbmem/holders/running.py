"""What runs or waits: threads, the code that asks, asyncio's tasks, context variables."""

from __future__ import annotations

import contextvars
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from nbmem.heap.scan import find_instances, with_subclasses
from nbmem.holders.root import (
    DEBUGGERS,
    Root,
    attributes_of,
    is_exactly,
    is_in,
    is_of,
    is_plain,
    names_of,
)
from nbmem.inventory.callables import Held
from nbmem.inventory.frames import namespace_of, read_locals
from nbmem.inventory.natives import SUSPENDED, Pieces, ask_future, is_of_module
from nbmem.inventory.paths import Step

_BELOW = ("ipykernel.", "_pytest.", "pluggy.")
"""The stack is not followed further down than this."""
_NOT_THE_USERS = (
    *("nbmem.", "IPython.", "ipykernel.", "traitlets.", "tornado.", "zmq.", "asyncio."),
    *("threading.", "selectors.", "socketserver.", "jupyter_client.", "anyio.", "runpy."),
    *DEBUGGERS,
)
"""Frames and coroutines of these are the machinery around what the user wrote."""
_OF_THREAD = frozenset(vars(threading.Thread(target=len)))
"""Attributes that every thread has."""
_STARTED_WITH = ("_target", "_args", "_kwargs")
_Frames = list[types.FrameType]


# -- threads -------------------------------------------------------------------------------------


def find_threads() -> list[Root]:
    """Returns each living thread but the caller's: its frames and what it was started with."""
    frames, roots = sys._current_frames(), list[Root]()
    this = threading.get_ident()
    threads = names_of("threading").get("_active", {})
    for ident, thread in list(threads.items()):
        if ident == this or is_of(thread):
            continue
        stack = _users_frames(frames.get(ident))
        held = [*_steps_to(stack), *_started_with(thread)]
        if held:
            name = attributes_of(thread).get("_name", ident)
            roots.append(Root(f"thread {name!r}", "thread", Pieces(held)))
    frames.clear()
    return roots


def _started_with(thread: Any) -> Held:
    attributes = attributes_of(thread)
    started = [(name.lstrip("_"), attributes.get(name)) for name in _STARTED_WITH]
    own = [(n, v) for n, v in list(attributes.items()) if type(n) is str and n not in _OF_THREAD]
    return [
        (Step.ATTRIBUTE, name, value)
        for name, value in (*started, *own)
        if not (is_plain(value) or _is_empty(value) or is_of(value, _NOT_THE_USERS))
    ]


def _is_empty(value: Any) -> bool:
    return is_exactly(value, tuple, dict) and not value


def find_callers() -> list[Root]:
    """Returns the functions that run now, on this thread and outside of the machinery.

    A cell's own variables are the user's names already.
    """
    roots = []
    for frame in _users_frames(sys._getframe(1)):
        held: Held = [(Step.RUNNING, name, value) for name, value in read_locals(frame)]
        roots.append(Root(f"running {frame.f_code.co_name}()", "running", Pieces(held)))
    return roots


def _users_frames(frame: types.FrameType | None) -> _Frames:
    """Returns the frames from the outermost to this one but for those of the machinery."""
    found = _Frames()
    while frame is not None and not is_in(frame, _BELOW):
        if not (is_in(frame, _NOT_THE_USERS) or is_of_module(namespace_of(frame))):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]


def _steps_to(frames: _Frames) -> Held:
    return [(Step.FRAME, frame.f_code.co_name, frame) for frame in frames]


# -- asyncio -------------------------------------------------------------------------------------


def find_tasks() -> list[Root]:
    """Returns the tasks of all event loops that wait in a coroutine of the user's."""
    roots = []
    for task in _all_tasks():
        frame = _frame_of(ask_future(task, "_coro") or attributes_of(task).get("_coro"))
        if frame is not None and not is_in(frame, _NOT_THE_USERS):
            name = _name_of(task)
            roots.append(Root(f"asyncio task {name!r}", "async_task", task))
    return roots


def _all_tasks() -> Iterator[Any]:
    """Goes through the tasks that asyncio knows; those that were never started too."""
    names = names_of("asyncio.tasks")
    seen: set[int] = set()
    for registry in ("_all_tasks", "_scheduled_tasks", "_eager_tasks"):
        known = names.get(registry)
        if type(known) is WeakSet:
            tasks = [reference() for reference in list(known.data)]  # type: ignore[attr-defined]
        else:
            tasks = list(known) if type(known) is set else []
        for task in tasks:
            if task is not None and id(task) not in seen:
                seen.add(id(task))
                yield task
    kind = names_of("_asyncio").get("Task")
    if sys.version_info >= (3, 14) and kind is not None:  # C's tasks are in no registry any more
        yield from (task for task in find_instances(with_subclasses(kind)) if id(task) not in seen)


def _frame_of(coroutine: Any) -> types.FrameType | None:
    """Returns the frame of a coroutine or generator that has not ended."""
    if type(coroutine) not in SUSPENDED:
        return None
    if type(coroutine) is types.CoroutineType:
        return coroutine.cr_frame
    return getattr(coroutine, "gi_frame", None)


def _name_of(task: Any) -> Any:
    kind = names_of("_asyncio").get("Task")
    if kind is not None and issubclass(type(task), kind):
        return vars(kind)["get_name"](task)
    return attributes_of(task).get("_name")


# -- context variables ---------------------------------------------------------------------------


def find_context() -> list[Root]:
    """Returns the current context, where a variable in it holds more than a text or a number.

    The contexts of tasks go with the tasks.
    """
    context = contextvars.copy_context()
    if all(is_plain(value) for value in contextvars.Context.values(context)):
        return []
    return [Root("current context", "context_variable", context)]
