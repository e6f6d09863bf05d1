"""What registers callbacks and keeps them: Python, IPython, torch, logging, widgets, figures."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the other one hashes handlers
import gc
import logging
import signal
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nbmem.holders.root import (
    MACHINERY,
    Root,
    attributes_of,
    called,
    is_exactly,
    is_of,
    is_plain,
    names_of,
    traits_of,
    type_of,
)
from nbmem.inventory.callables import Held
from nbmem.inventory.natives import Pieces
from nbmem.inventory.paths import Step

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_HOOKS_OF_PYTHON = ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
_HOOKS_OF_TORCH = ("torch.nn.modules.module", "torch.optim.optimizer")
_MANY = 1_000
_FINALIZED = (*MACHINERY, "torch.library.", "torch._", "multiprocessing.", "tempfile.")
"""Finalizers of these are many, and not the user's."""
_OF_WIDGETS = ("ipywidgets.", "anywidget.", "traitlets.", "nbmem.", "comm.", "ipykernel.")
_UNTOLD = frozenset(("comm", "keys", "layout", "style", "parent", "children"))
"""What a widget has that leads to other widgets, or to the page."""


def _callback(text: str, kind: str, function: Any) -> list[Root]:
    """Returns the root, where the function is not the machinery's own."""
    if function is None or is_plain(function) or is_of(function):
        return []
    if type(function) is types.BuiltinFunctionType and _is_of_module(function):
        return []
    return [Root(text, kind, function)]


def _is_of_module(function: Any) -> bool:
    bound = function.__self__
    return bound is None or issubclass(type(bound), types.ModuleType)


def find_events(shell: InteractiveShell | None) -> list[Root]:
    """Returns what was registered for IPython's events, but for IPython's and nbmem's own."""
    roots: list[Root] = []
    if shell is None:
        return roots
    events = attributes_of(attributes_of(shell).get("events"))
    for event, callbacks in list(events.get("callbacks", {}).items()):
        for function in list(callbacks):
            text = f"IPython's {event} callback {called(function)}"
            roots += _callback(text, "ipython_event", function)
    return roots


def find_interpreter_callbacks() -> list[Root]:
    """Returns what the user gave Python to call: hooks, tracers, gc callbacks, signal handlers."""
    given = [(f"sys.{name}", vars(sys).get(name)) for name in _HOOKS_OF_PYTHON]
    given.append(("threading.excepthook", vars(threading).get("excepthook")))
    given += (("sys.settrace", sys.gettrace()), ("sys.setprofile", sys.getprofile()))
    given += (("gc.callbacks", function) for function in gc.callbacks)
    given += ((f"{one.name} handler", _signal.getsignal(one)) for one in signal.Signals)
    roots: list[Root] = []
    for where, function in given:
        if type(function) is not signal.Handlers:
            roots += _callback(f"{where} {called(function)}", "interpreter_callback", function)
    return roots


def find_finalizers() -> list[Root]:
    """Returns what `weakref.finalize` is going to call, with its arguments."""
    registry = vars(weakref.finalize)["_registry"]
    return [
        Root(f"finalizer {called(info.func)}", "finalizer", info)
        for info in list(registry.values())
        if not is_of(info.func, _FINALIZED)
    ]


def find_log_handlers() -> list[Root]:
    """Returns handlers of `logging` that keep records."""
    roots = []
    for reference in list(vars(logging)["_handlerList"]):
        handler = reference()
        if handler is None:
            continue
        kept = [v for n, v in list(attributes_of(handler).items()) if n != "filters"]
        if any(_keeps(value) for value in kept):
            roots.append(Root(f"logging handler {type_of(handler)}", "log_record", handler))
    return roots


def _keeps(value: Any) -> bool:
    if issubclass(type(value), (list, deque, dict, set)):
        return bool(gc.get_referents(value))
    return is_of(value, ("queue.", "_queue.", "multiprocessing.queues."))


# -- torch ---------------------------------------------------------------------------------------


def find_global_hooks() -> list[Root]:
    """Returns hooks that torch calls for every module or optimizer."""
    roots: list[Root] = []
    for module in _HOOKS_OF_TORCH:
        for name, hooks in list(names_of(module).items()):
            if (
                name.startswith("_global_")
                and name.endswith("_hooks")
                and issubclass(type(hooks), dict)
            ):
                what = name.strip("_").removesuffix("s").replace("_", " ")
                for function in list(dict.values(hooks)):
                    roots += _callback(f"{what} {called(function)}", "hook", function)
    return roots


# -- the rest ------------------------------------------------------------------------------------


def find_garbage() -> list[Root]:
    """Returns what the collector found and could not free."""
    return [Root("gc.garbage", "garbage", gc.garbage)] if gc.garbage else []


def find_figures() -> list[Root]:
    """Returns the figures that pyplot keeps until they are closed."""
    pyplot = names_of("matplotlib._pylab_helpers").get("Gcf")
    figures = vars(pyplot).get("figs") if type(pyplot) is type else None
    if figures is None or not issubclass(type(figures), dict):
        return []
    managers = list(dict.items(figures))
    return [Root(f"matplotlib figure {number}", "container", each) for number, each in managers]


def find_widgets() -> list[Root]:
    """Returns living widgets with what the user gave them: callbacks, traits, attributes."""
    roots = []
    for widget in _living_widgets():
        if not is_of(widget, ("nbmem.",)):
            held = [*_callbacks_of(widget), *_values_of(widget)]
            if held:
                roots.append(Root(_widget_name(widget), "widget_callback", Pieces(held)))
    return roots


def _living_widgets() -> list[Any]:
    names = names_of("ipywidgets.widgets.widget")
    registry = names.get("_instances")
    return list(registry.values()) if type(registry) is dict else []


def _widget_name(widget: Any) -> str:
    description = traits_of(widget).get("description")
    label = f" {description!r}" if type(description) is str and description else ""
    return f"{type_of(widget)} widget{label}"


def _callbacks_of(widget: Any) -> Held:
    attributes = attributes_of(widget)
    found = list(_observers(attributes.get("_trait_notifiers")))
    for value in (*attributes.values(), *traits_of(widget).values()):
        if type_of(value) == "CallbackDispatcher":
            found += traits_of(value).get("callbacks", ())
    users = [function for function in found if not is_of(function, _OF_WIDGETS)]
    return [(Step.CALLBACK, at, function) for at, function in enumerate(users)]


def _observers(notifiers: Any) -> Iterator[Any]:
    for by_type in list(notifiers.values()) if type(notifiers) is dict else []:
        for functions in list(by_type.values()) if type(by_type) is dict else []:
            yield from list(functions) if type(functions) is list else []


def _values_of(widget: Any) -> Held:
    own = is_of(widget, _OF_WIDGETS)
    pairs = [*traits_of(widget).items(), *attributes_of(widget).items()]
    return [
        (Step.ATTRIBUTE, name, value)
        for name, value in pairs
        if name not in _UNTOLD
        and not name.startswith("_" if own else "_trait")
        and _may_hold(value)
    ]


def _may_hold(value: Any, deep: int = 3) -> bool:
    """Returns whether there may be more in it than texts and numbers."""
    if is_plain(value) or is_of(value, _OF_WIDGETS):
        return False
    if not is_exactly(value, list, tuple, dict, set):
        return True
    held = gc.get_referents(value)
    return deep == 0 or len(held) > _MANY or any(_may_hold(one, deep - 1) for one in held)
