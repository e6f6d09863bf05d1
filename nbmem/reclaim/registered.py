"""Letting go of what queues, logs, contexts, events and the interpreter keep for their users."""

from __future__ import annotations

import atexit
import contextvars
import gc
import logging
import queue
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbmem.reclaim.outcome import Outcome, count_of, type_name
from nbmem.reclaim.rebinding import instance_dict

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def empty_queue(held: Any, name: str) -> Outcome:
    """Takes out everything that waits in a queue, as `get_nowait()` and `task_done()` do."""
    kind = type(held)
    asyncio_queue = vars(sys.modules["asyncio"]).get("Queue") if "asyncio" in sys.modules else None
    for base in (queue.Queue, asyncio_queue):
        if base is not None and issubclass(kind, base):
            return _taken(_drain(held, base.get_nowait, base.task_done), name)
    if kind is queue.SimpleQueue:
        return _taken(_drain(held, queue.SimpleQueue.get_nowait, None), name)
    reason = f"{name} is a {type_name(held)}, which other processes may read; empty it there"
    return Outcome(refused=[reason])


def _drain(held: Any, take: Callable[[Any], Any], done: Callable[[Any], Any] | None) -> int:
    count = 0
    while True:
        try:
            take(held)
        except Exception as error:  # `queue.Empty`, or asyncio's, which is another class
            if type_name(error) in ("Empty", "QueueEmpty", "ShutDown", "QueueShutDown"):
                return count
            raise
        count += 1
        if done is not None:
            done(held)


def _taken(count: int, name: str) -> Outcome:
    return Outcome([f"take {count_of(count, 'item')} out of {name}"])


def strip_log_record(record: logging.LogRecord, held: Any) -> Outcome:
    """Lets a record of a log keep its message and its traceback as text alone.

    Args:
        record: the record.
        held: the attribute of it that is to go, where it is neither of these.
    """
    attributes = instance_dict(record) or {}
    try:
        message = logging.LogRecord.getMessage(record)
    except Exception as error:  # whatever formatting the user's arguments raises
        reason = f"a log record can't be written out ({type_name(error)}); clear its handler"
        return Outcome(refused=[reason])
    if attributes.get("exc_info") and not attributes.get("exc_text"):
        attributes["exc_text"] = logging.Formatter().formatException(attributes["exc_info"])
    attributes.update(msg=message, args=None, exc_info=None)
    for name in [name for name, value in attributes.items() if value is held is not None]:
        del attributes[name]
    return Outcome(["keep only the text of a log record"])


def reset_variable(value: Any, name: str) -> Outcome:
    """Sets the variable of the current context that holds `value` to None."""
    for variable, held in contextvars.copy_context().items():
        if held is value:
            variable.set(None)
            return Outcome([f"set {name} to None"])
    return Outcome(refused=[f"{name} holds something else by now"])


def unregister_event(shell: InteractiveShell | None, callback: Any, name: str) -> Outcome:
    """Takes a callback out of IPython's events."""
    registered = [] if shell is None else list(shell.events.callbacks.values())
    found = 0
    for callbacks in registered:
        stay = [one for one in callbacks if one is not callback]
        found += len(callbacks) - len(stay)
        callbacks[:] = stay
    return Outcome([f"unregister {name}"]) if found else _gone(name)


def unregister_callback(callback: Any, name: str) -> Outcome:
    """Takes a callback out of `gc.callbacks` and of what `atexit` calls, which tells nobody."""
    before = sys.getrefcount(callback)  # atexit has no function that shows its list
    gc.callbacks[:] = [one for one in gc.callbacks if one is not callback]
    atexit.unregister(callback)
    if sys.getrefcount(callback) < before:
        return Outcome([f"unregister {name}"])
    reason = "neither atexit nor the collector calls it: whoever keeps it has to let go of it"
    return Outcome(refused=[f"{name}: {reason}"])


def detach_finalizer(info: Any, name: str) -> Outcome:
    """Makes `weakref.finalize` forget a call, which is then never made."""
    registry = vars(weakref.finalize)["_registry"]
    for finalizer, known in list(registry.items()):
        if known is info:
            finalizer.detach()
            return Outcome([f"detach {name}"])
    return _gone(name)


def remove_global_hook(function: Any, name: str) -> Outcome:
    """Removes a hook that torch calls for all modules or optimizers."""
    for module in ("torch.nn.modules.module", "torch.optim.optimizer"):
        for table, hooks in list(vars(sys.modules[module]).items()):
            if table.startswith("_global_") and table.endswith("_hooks"):
                for key in [key for key, value in dict.items(hooks) if value is function]:
                    hooks.pop(key)
                    return Outcome([f"remove the {name}"])
    return _gone(name)


def _gone(name: str) -> Outcome:
    return Outcome(refused=[f"{name} is gone already"])
