"""Letting go of what caches, containers, generators, hooks and attributes hold."""

from __future__ import annotations

import functools
import types
from collections import OrderedDict, deque
from collections.abc import MutableMapping
from typing import Any

import torch

from nbmem.reclaim.outcome import Outcome, count_of, type_name
from nbmem.reclaim.rebinding import instance_dict

_CACHE: Any = type(functools.lru_cache(len))
_EMPTY_BY: tuple[tuple[type, Any, Any], ...] = (
    (OrderedDict, OrderedDict.clear, OrderedDict.__len__),
    (dict, dict.clear, dict.__len__),
    (list, list.clear, list.__len__),
    (set, set.clear, set.__len__),
    (deque, deque.clear, deque.__len__),
)
_BESIDE_HOOKS = {
    "_forward_hooks": ("_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    "_forward_pre_hooks": ("_forward_pre_hooks_with_kwargs",),
}
"""Dicts of a module that say of a hook how it is to be called."""
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__


def clear_cache(function: Any, name: str = "") -> Outcome:
    """Empties the cache of a function decorated with `functools.lru_cache` or `cache`."""
    if type(function) is not _CACHE:
        return Outcome(refused=[f"{name or type_name(function)} is no function with a cache"])
    count = _CACHE.cache_info(function).currsize
    _CACHE.cache_clear(function)
    name = name or _called(function)
    return Outcome([f"clear {count_of(count, 'result')} from the cache of {name}()"])


def empty_container(container: Any, name: str = "") -> Outcome:
    """Empties a list, dict, set or deque, which stays the same object."""
    name = name or f"the {type_name(container)}"
    for base, clear, length in _EMPTY_BY:
        if issubclass(type(container), base):
            count = length(container)
            clear(container)
            return Outcome([f"empty {name}: {count_of(count, 'item')}"])
    return Outcome(refused=[f"{name} is no list, dict, set or deque: only its own code empties it"])


def close_generator(generator: Any, name: str = "") -> Outcome:
    """Ends a generator or coroutine that waits: its `finally` blocks run now.

    What they raise is told, in words, and goes no further.
    """
    name = name or f"{generator.__name__}()"
    if type(generator) not in (types.GeneratorType, types.CoroutineType):
        return Outcome(refused=[f"{name} can't be closed from here; `await {name}.aclose()`"])
    running = getattr(generator, "gi_running", False) or getattr(generator, "cr_running", False)
    if running:
        return Outcome(refused=[f"{name} is running: wait for its end"])
    try:
        generator.close()
    except BaseException as error:  # whatever the user's `finally` raises, `SystemExit` too
        if generator_waits(generator):
            return Outcome(refused=[f"{name} caught its end and goes on; `del` lets go of it"])
        return Outcome([f"close {name}; on its way out it raised {type_name(error)}"])
    return Outcome([f"close {name}"])


def generator_waits(generator: Any) -> bool:
    """Returns whether a generator or coroutine could still go on."""
    if type(generator) is types.GeneratorType:
        return generator.gi_frame is not None
    return generator.cr_frame is not None


def remove_hook(hooks: MutableMapping[int, Any], key: int, owner: Any = None) -> Outcome:
    """Removes one hook, as the `remove()` of its handle does.

    Args:
        hooks: the dict that has it, such as `module._forward_hooks`.
        key: the hook's number in it.
        owner: the module whose dict that is, so that what it notes of the hook goes along.
    """
    hook = hooks.pop(key, None)
    if hook is None:
        return Outcome(refused=["the hook is gone already"])
    attributes = (instance_dict(owner) if owner is not None else None) or {}
    for name, beside in _BESIDE_HOOKS.items():
        if attributes.get(name) is hooks:
            for other in beside:
                attributes.get(other, {}).pop(key, None)
    return Outcome([f"remove the hook {_called(hook)!r}"])


def drop_attribute(thing: Any, name: str, held: Any) -> Outcome:
    """Deletes an attribute of an object, a class, a function or a tensor.

    Args:
        thing: whose attribute it is.
        name: the attribute.
        held: what it holds; where it holds something else by now, nothing is done.
    """
    whose = f"{type_name(thing)}.{name}"
    if issubclass(type(thing), type):
        return _drop_from_class(thing, name, held)
    attributes = instance_dict(thing)
    if attributes is not None and attributes.get(name) is held and held is not None:
        dict.pop(attributes, name)
        return Outcome([f"delete {whose}"])
    slot = _slot_of(type(thing), name)
    if slot is not None and slot.__get__(thing) is held:
        slot.__delete__(thing)
        return Outcome([f"delete {whose}"])
    return Outcome(refused=[f"{whose} holds something else by now"])


def clear_module_attribute(module: torch.nn.Module, name: str, held: Any) -> Outcome:
    """Sets an attribute of a module to None: code that reads it goes on.

    Not a parameter, buffer or submodule: these are what the module is.
    """
    attributes = instance_dict(module) or {}
    if attributes.get(name) is not held or held is None:
        return Outcome(refused=[f"{type_name(module)}.{name} holds something else by now"])
    attributes[name] = None
    return Outcome([f"set {type_name(module)}.{name} to None"])


def _drop_from_class(cls: type, name: str, held: Any) -> Outcome:
    if _namespace_of(cls).get(name) is not held or held is None:
        return Outcome(refused=[f"the class's {name} holds something else by now"])
    type.__delattr__(cls, name)
    return Outcome([f"delete the class attribute {name}"])


def _called(function: Any) -> str:
    """Returns a function's name, of anything else its type's: no code of the user's is asked."""
    if type(function) is types.MethodType:
        return _called(function.__func__)
    if type(function) in _FUNCTIONS:
        return str(function.__name__)
    name = (instance_dict(function) or {}).get("__name__")
    return name if type(name) is str else type_name(function)


def _slot_of(kind: type, name: str) -> Any:
    for base in _mro_of(kind):
        found = _namespace_of(base).get(name)
        if type(found) is types.MemberDescriptorType:
            return found
    return None
