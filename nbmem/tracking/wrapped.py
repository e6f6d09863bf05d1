"""The calls that make or resize a storage without an operation, wrapped while somebody listens."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import torch

from nbmem.errors import hide_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

    Listener = Callable[[Any], None]

_MAKERS = (
    "from_buffer",
    "from_file",
    "_new_shared_filename_cpu",
    "_new_shared_fd_cpu",
    "_new_with_file",
)
"""Class methods of a storage that return a new one."""
_RESIZERS = ("resize_", "_set_from_file")
"""Methods of a storage that change its size."""
_ABSENT = object()

_listeners: tuple[Listener, ...] = ()
_replaced: list[tuple[Any, str, Any, Any]] = []
_compiled_calls = 0
_INDUCTOR = "torch._inductor.output_code"


def listen(listener: Listener) -> None:
    """Calls `listener` with each storage or tensor that the wrapped calls make or resize."""
    global _listeners
    if not _listeners:
        _unwrap_all()  # what an interrupt left half done
        _wrap_all()
    _wrap_compiled()
    if listener not in _listeners:
        _listeners = (*_listeners, listener)


def forget(listener: Listener) -> None:
    """Ends `listen`; with the last listener torch is as it was before."""
    global _listeners
    _listeners = tuple(other for other in _listeners if other != listener)
    if not _listeners:
        _unwrap_all()


def compiled_calls() -> int:
    """Returns how many calls of inductor's code were seen so far."""
    return _compiled_calls


def _tell(value: Any) -> None:
    for listener in _listeners:
        listener(value)


def _wrap_all() -> None:
    storage = torch.UntypedStorage
    _replace(storage, "__init__", _init)
    for name in _MAKERS:
        if hasattr(storage, name):
            _replace(storage, name, classmethod(_maker(name)))
    for name in _RESIZERS:
        if hasattr(storage, name):
            _replace(storage, name, _resizer(name))
    _replace(torch, "frombuffer", _factory(torch.frombuffer))
    _replace(torch._C, "_from_dlpack", _factory(torch._C._from_dlpack))
    rng_state = _factory(torch.random.get_rng_state)
    _replace(torch, "get_rng_state", rng_state)
    _replace(torch.random, "get_rng_state", rng_state)


def _wrap_compiled() -> None:
    """Counts the calls of code that inductor compiled, from when there can be any."""
    graph = getattr(sys.modules.get(_INDUCTOR), "CompiledFxGraph", None)
    if graph is None:
        if _awaited not in sys.meta_path:
            sys.meta_path.insert(0, _awaited)
        return
    if any(owner is graph for owner, *_ in _replaced):
        return
    call = graph.__call__

    @functools.wraps(call)
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        global _compiled_calls
        _compiled_calls += 1
        try:
            return call(self, *args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise

    _replace(graph, "__call__", counted)


class _AwaitedImport:
    """Has the calls counted as soon as inductor is imported, and finds no module itself."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        """Returns None, or inductor's spec as the other finders give it."""
        if name != _INDUCTOR:
            return None
        _forget_import()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            with contextlib.suppress(AttributeError, TypeError):  # not of a file of Python's
                _wrap_after(spec.loader)
        return spec


def _wrap_after(loader: Any) -> None:
    """Wraps once `loader` has run its module; the loader is then as it was."""
    run = loader.exec_module

    def run_and_wrap(module: Any) -> None:
        del loader.exec_module
        run(module)
        if _listeners:
            _wrap_compiled()

    loader.exec_module = run_and_wrap


_awaited = _AwaitedImport()


def _forget_import() -> None:
    if _awaited in sys.meta_path:
        sys.meta_path.remove(_awaited)


def _unwrap_all() -> None:
    _forget_import()
    while _replaced:
        owner, name, ours, before = _replaced[-1]
        if vars(owner).get(name) is ours:  # else somebody has wrapped it since: theirs stays
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        _replaced.pop()  # last, so that an interrupt leaves nothing replaced


def _replace(owner: Any, name: str, ours: Any) -> None:
    _replaced.append((owner, name, ours, vars(owner).get(name, _ABSENT)))
    setattr(owner, name, ours)


def _init(self: torch.UntypedStorage, *_: Any, **__: Any) -> None:
    """Enters a storage that Python made; it is complete before `__init__` is called."""
    _tell(self)


def _maker(name: str) -> Callable[..., Any]:
    def make(cls: type[torch.UntypedStorage], *args: Any, **kwargs: Any) -> Any:
        try:
            storage = getattr(super(torch.UntypedStorage, cls), name)(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        _tell(storage)
        return storage

    return make


def _resizer(name: str) -> Callable[..., Any]:
    def resize(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        try:
            result = getattr(super(torch.UntypedStorage, self), name)(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        _tell(self)
        return result

    return resize


def _factory(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            result = make(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        _tell(result)
        return result

    return made
