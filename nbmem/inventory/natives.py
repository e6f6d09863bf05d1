"""What objects of Python's own C code hold, by name: exceptions, frames, generators, caches, tasks.

They are read by the accessors of the C types, whatever a class of the user's puts in front of them,
and by what the garbage collector sees in them. Nothing is called, and a frame stays as it was.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from nbmem.inventory.callables import Held
from nbmem.inventory.frames import (
    copies_of_variables,
    is_finished,
    namespace_of,
    read_locals,
)
from nbmem.inventory.paths import Step, prints_itself

if TYPE_CHECKING:
    from nbmem.inventory.readers import Reader

Hold = Callable[[Any], Held]
_HEAP_TYPE = 1 << 9
_mro_of = type.__dict__["__mro__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_names_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_OF_EXCEPTION = vars(BaseException)
_LINKS = tuple((name, _OF_EXCEPTION[name].__get__) for name in ("args", "__cause__", "__context__"))
traceback_of: Callable[[BaseException], types.TracebackType | None]
traceback_of = _OF_EXCEPTION["__traceback__"].__get__
_AROUND = ("IPython.", "ipykernel.", "asyncio.", "tornado.")
"""Who calls what the user wrote: the way back from a frame to its callers ends there."""
_NO_HOLDERS = frozenset(map(id, (types.CellType, types.CodeType, str)))


class Pieces:
    """Something that has no object of its own: a thread's frames with what it was started with."""

    __slots__ = ("held",)

    def __init__(self, held: Held) -> None:
        self.held = held


# -- errors and frames ---------------------------------------------------------------------------


def held_by_exception(error: BaseException) -> Held:
    """Returns the frames of its traceback, its arguments and members, and the errors before it."""
    trace = traceback_of(error)
    held = [] if trace is None else held_by_traceback(trace)
    held += ((Step.ATTRIBUTE, name, read(error)) for name, read in _LINKS)
    for base in _mro_of(type(error)):
        if not _flags_of(base) & _HEAP_TYPE:  # one of Python's own: `AttributeError.obj`
            members = list(_namespace_of(base).items())
            held += _slots_of(error, [(n, m) for n, m in members if _is_member(n, m)])
    return held


def _slots_of(thing: Any, slots: Iterable[tuple[str, Any]]) -> Held:
    held = Held()
    for name, slot in slots:
        try:
            held.append((Step.ATTRIBUTE, name, slot.__get__(thing)))
        except AttributeError:  # declared and never set
            continue
    return held


def _is_member(name: str, member: Any) -> bool:
    return type(member) is types.MemberDescriptorType and not name.startswith("__")


def held_by_traceback(trace: types.TracebackType) -> Held:
    """Returns the frames of a traceback, the outermost first."""
    held = Held()
    one: types.TracebackType | None = trace
    while one is not None:
        held.append((Step.FRAME, one.tb_frame.f_code.co_name, one.tb_frame))
        one = one.tb_next
    return held


def held_by_frame(frame: types.FrameType) -> Held:
    """Returns the variables of a frame; of one that ran to its end, its function and callers too.

    The variables of a module's own code are names elsewhere; nbmem's own frames hold nothing.
    """
    if _runs_in(frame, ("nbmem.",)):
        return []
    held = Held()
    if not is_of_module(namespace_of(frame)):
        held += ((Step.LOCAL, name, value) for name, value in read_locals(frame))
    referents = gc.get_referents(frame)
    back = frame.f_back if is_finished(referents) else None
    if back is not None and not _runs_in(back, _AROUND) and is_finished(gc.get_referents(back)):
        held.append((Step.FRAME, back.f_code.co_name, back))
    apart = [frame, back, frame.f_globals, frame.f_builtins]
    apart += copies_of_variables(frame, referents)
    return held + _rest(referents, held, apart)


def is_of_module(names: dict[str, Any] | None) -> bool:
    """Returns whether these are the names of a module that is loaded."""
    if names is None:
        return False
    name = dict.get(names, "__name__")
    found = [sys.modules.get(one) for one in (name, "__main__") if type(one) is str]
    return any(
        issubclass(type(module), types.ModuleType) and _names_of_module(module) is names
        for module in found
    )


def _runs_in(frame: types.FrameType, packages: tuple[str, ...]) -> bool:
    module = dict.get(frame.f_globals, "__name__")
    return type(module) is str and f"{module}.".startswith(packages)


def _rest(referents: list[Any], held: Held, apart: Iterable[Any] = ()) -> Held:
    """Returns what is held besides, by its position: values on the stack, the function itself."""
    told = {id(child) for _, _, child in held}
    told.update(map(id, apart))
    return [
        (Step.INSIDE_AT, at, child)
        for at, child in enumerate(referents)
        if id(child) not in told and id(type(child)) not in _NO_HOLDERS
    ]


# -- what waits ----------------------------------------------------------------------------------


def held_by_generator(generator: types.GeneratorType[Any, Any, Any]) -> Held:
    """Returns the variables of a generator, and the one that it waits for."""
    return _held_by_suspended(generator, generator.gi_frame, "gi_yieldfrom")


def held_by_coroutine(coroutine: types.CoroutineType[Any, Any, Any]) -> Held:
    """Returns the variables of a coroutine, and what it awaits."""
    return _held_by_suspended(coroutine, coroutine.cr_frame, "cr_await")


def held_by_async_generator(generator: types.AsyncGeneratorType[Any, Any]) -> Held:
    """Returns the variables of an async generator, and what it awaits."""
    return _held_by_suspended(generator, generator.ag_frame, "ag_await")


def _held_by_suspended(waiting: Any, frame: types.FrameType | None, awaited: str) -> Held:
    held = Held()
    if frame is not None:
        held += ((Step.LOCAL, name, value) for name, value in read_locals(frame))
    inner = getattr(waiting, awaited)
    if type(inner) in SUSPENDED:
        held.append((Step.FRAME, inner.__name__, inner))
    elif inner is not None:
        held.append((Step.ATTRIBUTE, awaited, inner))
    return held + _rest(gc.get_referents(waiting), held, (frame,))


SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def held_by_future(future: Any) -> Held:
    """Returns the coroutine of a task, and a future's result, error and callbacks."""
    held = Held()
    for name in ("_coro", "_result", "_exception"):
        value = ask_future(future, name)
        if type(value) in SUSPENDED:
            held.append((Step.FRAME, value.__name__, value))
        else:
            held.append((Step.ATTRIBUTE, name, value))
    callbacks = ask_future(future, "_callbacks") or []
    held += ((Step.CALLBACK, at, pair[0]) for at, pair in enumerate(callbacks))
    told = {id(child) for _, _, child in held}
    attributes: dict[Any, Any] = {}  # there is no `__dict__`
    if _place_of_dict(type(future)) < 0:  # nor a dict, until somebody asks for it
        attributes = _dict_of(future, None)
    for one in gc.get_referents(future):
        if type(one) is Context:
            held.append((Step.ATTRIBUTE, "context", one))
        elif type(one) is dict and id(one) not in told:
            attributes = one
    held += ((Step.ATTRIBUTE, n, v) for n, v in list(dict.items(attributes)) if type(n) is str)
    return held


_place_of_dict = vars(type)["__dictoffset__"].__get__
_dict_of: Any = ctypes.pythonapi.PyObject_GenericGetDict
_dict_of.argtypes, _dict_of.restype = (ctypes.py_object, ctypes.c_void_p), ctypes.py_object


def ask_future(future: Any, name: str) -> Any:
    """Returns what C keeps under a name, whatever a class of the user's has under it."""
    for base in _mro_of(type(future)):
        accessor = _namespace_of(base).get(name)
        if type(accessor) is types.GetSetDescriptorType:
            try:
                return accessor.__get__(future)
            except RuntimeError:  # `__init__` was not called
                return None
    return None


# -- the others ----------------------------------------------------------------------------------


def held_by_cached(function: Any) -> Held:
    """Returns the results that `lru_cache` keeps for a function, its attributes, and the rest."""
    referents = gc.get_referents(function)
    attributes = _attributes_of_cached(function)
    named = [(n, child) for n, child in list(dict.items(attributes)) if type(n) is str]
    held: Held = [(Step.ATTRIBUTE, name, child) for name, child in named]
    links = [at for at, one in enumerate(referents) if _is_link_type(one)]
    table = referents[links[-1] - 3] if links and links[-1] >= 3 else None
    if type(table) is not dict:  # not as in the Pythons that are known
        return held + _rest(referents, held, (attributes,))
    results = [referents[at - 1] for at in links[:-1]]
    if not results:  # a cache without bound has no links
        results = list(dict.values(table))
        keys = enumerate(dict.keys(table), len(referents))
        held += ((Step.INSIDE_AT, at, key) for at, key in keys if type(key) is not str)
    held += ((Step.CACHED, at, value) for at, value in enumerate(results))
    return held + _rest(referents, held, (attributes, table))


_CACHED_TYPE: Any = type(functools.cache(len))
_attributes_of_cached = vars(_CACHED_TYPE)["__dict__"].__get__


def _is_link_type(thing: Any) -> bool:
    return type(thing) is type and thing.__name__ == "_lru_list_elem"


def held_by_context(context: Context) -> Held:
    """Returns the values of a context by the names of their variables."""
    return [(Step.CONTEXT, str.__str__(var.name), value) for var, value in Context.items(context)]


def held_by_local(local: Any) -> Held:
    """Returns what a `threading.local` keeps for each thread, by name for the one that made it.

    Asking the object for its attributes would make a dict for this thread, and run the `__init__`
    of a user's class.
    """
    first, *others = names_by_thread(local) or [{}]
    held: Held = [(Step.ATTRIBUTE, n, v) for n, v in list(dict.items(first)) if type(n) is str]
    return held + [(Step.THREAD, at, names) for at, names in enumerate(others, 1)]


def names_by_thread(local: Any) -> list[dict[Any, Any]]:
    """Returns the dicts of a `threading.local`, that of the thread that made it first."""
    tables = [one for one in gc.get_referents(local) if type(one) is dict]
    pairs = (pair for table in tables for pair in list(dict.items(table)))
    return [names for key, names in pairs if type(key) is not str and type(names) is dict]


def held_by_queue(queue: Any) -> Held:
    """Returns what waits in a `SimpleQueue`, in its order."""
    waiting = [one for one in gc.get_referents(queue) if one is not type(queue)]
    if sys.version_info < (3, 13):  # in a list; what was taken out left None there
        waiting = [item for one in waiting if type(one) is list for item in one if item is not None]
    return [(Step.QUEUED, at, one) for at, one in enumerate(waiting)]


def held_by_finalizer(finalizer: weakref.finalize[Any, Any]) -> Held:
    """Returns the function that a finalizer calls, and the arguments."""
    registry = _namespace_of(weakref.finalize)["_registry"]
    info = next((i for f, i in list(dict.items(registry)) if f is finalizer), None)
    return held_by_finalizer_info(info) if info is not None else []


def held_by_finalizer_info(info: Any) -> Held:
    """Returns the same from an entry of the registry of finalizers."""
    members = _namespace_of(type(info))
    names = (name for name in ("func", "args", "kwargs") if name in members)
    return [(Step.ATTRIBUTE, name, members[name].__get__(info)) for name in names]


def held_by_proxy(proxy: Any) -> Held:
    """Returns the entries of the dict behind a read-only proxy."""
    referents = gc.get_referents(proxy)
    if not (referents and issubclass(type(referents[0]), dict)):
        return _rest(referents, [])
    pairs = list(dict.items(referents[0]))
    return [
        (Step.KEY, key, value) if prints_itself(key) else (Step.VALUE_AT, at, value)
        for at, (key, value) in enumerate(pairs)
    ]


def _held_in(name: str) -> Hold:
    """Returns how to read objects that hold one thing, under this attribute."""

    def hold(value: Any) -> Held:
        try:
            return [(Step.ATTRIBUTE, name, getattr(value, name))]
        except ValueError:  # an empty cell, a released view
            return []

    return hold


_EXACT: tuple[tuple[type, Hold], ...] = (
    (Pieces, lambda pieces: pieces.held),
    (types.TracebackType, held_by_traceback),
    (types.FrameType, held_by_frame),
    (types.GeneratorType, held_by_generator),
    (types.CoroutineType, held_by_coroutine),
    (types.AsyncGeneratorType, held_by_async_generator),
    (_CACHED_TYPE, held_by_cached),
    (Context, held_by_context),
    (weakref.finalize, held_by_finalizer),
    (weakref.finalize._Info, held_by_finalizer_info),  # type: ignore[attr-defined]
    (weakref.ref, _held_in("__callback__")),
    (types.MappingProxyType, held_by_proxy),
    (types.CellType, _held_in("cell_contents")),
    (types.BuiltinFunctionType, _held_in("__self__")),
    (types.MethodWrapperType, _held_in("__self__")),
    (memoryview, _held_in("obj")),
)
_BY_BASE: tuple[tuple[str, str, Hold], ...] = (
    ("_asyncio", "Future", held_by_future),
    ("_asyncio", "Task", held_by_future),
    ("_queue", "SimpleQueue", held_by_queue),
)
"""Module, class and reader of those that may have been loaded."""


def hold_of(cls: type) -> tuple[Hold | None, bool]:
    """Returns how to read what instances of a class hold, None where it is none of these.

    The second value says whether instances may have slots and attributes of their own.
    """
    for exact, hold in _EXACT:
        if cls is exact:
            return hold, False
    if issubclass(cls, BaseException):
        return held_by_exception, True
    if issubclass(cls, threading.local):
        return held_by_local, False
    for module, name, hold in _BY_BASE:
        found = sys.modules.get(module)
        base = None if found is None else _names_of_module(found).get(name)
        if base is not None and issubclass(cls, base):
            return hold, True
    return None, False


def may_hold(value: Any) -> bool:
    """Returns whether there can be anything in it: most weak references have no callback."""
    kind = type(value)
    if kind is weakref.ref:
        return value.__callback__ is not None
    if kind is types.BuiltinFunctionType:
        return value.__self__ is not None and type(value.__self__) is not types.ModuleType
    return True


def held_by_native(value: Any, reader: Reader) -> Held:
    """Returns all that an object holds: what its C type keeps, its slots and its attributes."""
    held: Held = [*reader.hold(value), *_slots_of(value, reader.slots)]
    if reader.dict_of is None or not _has_attributes(value):
        return held
    attributes = reader.dict_of.__get__(value)
    held = [one for one in held if one[2] is not attributes]
    for at, (name, child) in enumerate(list(dict.items(attributes))):
        named = type(name) is str
        held.append((Step.ATTRIBUTE, name, child) if named else (Step.ATTRIBUTE_AT, at, child))
    return held


def _has_attributes(value: Any) -> bool:
    """Returns whether there is a `__dict__` already: reading it makes Python build one."""
    return any(type(one) is dict for one in gc.get_referents(value))
