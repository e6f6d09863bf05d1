"""Ways in words: the steps of a chain, where it can be cut, and what that costs."""

from __future__ import annotations

import functools
import queue
import types
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nbmem.holders.ties import ROOT
from nbmem.holders.wanted import is_throwaway
from nbmem.inventory.paths import HOLDERS, Step, write_step
from nbmem.inventory.readers import type_name
from nbmem.records import LEAK_HOLDERS, Chain, PathStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbmem.holders.roots import Root
    from nbmem.holders.ways import Way

_BASE = "\0"
_namespace_of = type.__dict__["__dict__"].__get__
_SUBSCRIPTS = frozenset(
    (
        *(Step.KEY, Step.VALUE_AT, Step.KEY_AT, Step.ITEM),
        *(Step.TUPLE_ITEM, Step.MEMBER_AT, Step.ELEMENT),
    )
)
_CACHE = "function_cache"
_BUFFERS = {"_tee_dataobject": "iterator_buffer", "_tee": "iterator_buffer"} | {
    "cycle": "iterator_buffer",
    "_lru_cache_wrapper": _CACHE,
    "ndarray": "numpy_array",
}
_WAITING = ("queue", "future")
"""Holders that say more than the thread or task that has them."""
HOOK = "hook itself"
"""Holder of a cut that removes a hook, instead of emptying what it has gathered."""
_GATHERING = (list, dict, set, deque)
_SUSPENDED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_CONTAINERS: dict[type, str] = {list: "list", dict: "dict", set: "set", tuple: "tuple"}


_HOLDER_OF = {
    "cycle": "autograd_graph",
    "module": "module_attribute",
    "ipython": "module_attribute",
    "class": "class_attribute",
    "frame": "saved_frame",
    "running": "saved_frame",
    "interpreter": "interpreter_callback",
}
"""Where, by the kind of a root that is none of `LEAK_HOLDERS` itself."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a way can be cut."""

    at: int
    """Index into the way: of the object that is acted upon."""
    holder: str
    text: str


class WordWriter:
    """Writes ways as chains.

    Args:
        outputs: IPython's copies of shown values, by the expression that reads each.
        roots: the roots that are no names, by their texts.
    """

    def __init__(self, outputs: Mapping[str, object], roots: Mapping[str, Root]) -> None:
        self._roots = roots
        self._shown: dict[int, str] = {}
        self._hooks: dict[tuple[int, int], str] = {}
        """Texts by the ids of a dict of hooks and of the hook."""
        for text, value in outputs.items():  # `Out[3]` comes before `_`
            self._shown.setdefault(id(value), text)

    def name_hooks(self, ways: Sequence[Way]) -> None:
        """Names each hook on these ways, shortest first: by what its owner is called in a model."""
        hooked = (way for way in ways if _through_hook(way, len(way.ties)))
        for way in sorted(hooked, key=_says_little):
            self.steps(way)

    def write(self, way: Way, cut: Cut, *, wanted: bool) -> Chain:
        """Returns the way as a chain that is cut there."""
        root = self._roots.get(way.ties[0].key) if way.ties[0].step is Step.ROOT else None
        cell = root.cell if root is not None else _cell_of_output(cut)
        return Chain(self.steps(way), cut.holder, wanted, cut.text, cell)

    def steps(self, way: Way) -> tuple[PathStep, ...]:
        """Returns the steps of a way in words."""
        steps: list[PathStep] = []
        for index in range(len(way.ties)):
            self._add_step(steps, way, index)
        return tuple(steps)

    def _add_step(self, steps: list[PathStep], way: Way, index: int) -> None:
        tie = way.ties[index]
        if tie.step is None:
            steps.append(PathStep(tie.kind, tie.text))
        elif index == 0:
            steps.append(self._first(way))
        elif _is_hook_entry(way, index):
            hook = f"hook {_called(way.objects[index])} on {''.join(s.text for s in steps[:-1])}"
            known = self._hooks.setdefault(_ids_of_hook(way, index), hook)
            steps[:] = [PathStep("hook", known)]
        else:
            _add_plain_step(steps, way, index)

    def _first(self, way: Way) -> PathStep:
        tie = way.ties[0]
        if tie.step is None:
            return PathStep(tie.kind, tie.text)
        if tie.step is Step.ROOT:
            root = self._roots.get(tie.key)
            return PathStep(root.kind if root is not None else "root", str(tie.key))
        if tie.step is Step.OUTPUT:
            text = self._shown.get(id(way.objects[0]), str(tie.key))
            return PathStep("output", text)
        assert tie.step is not None
        return PathStep(HOLDERS[tie.step], write_step("", tie.step, tie.key))

    # -- where to cut ------------------------------------------------------------------------

    def find_cut(self, way: Way, *, wanted: bool) -> Cut:
        """Returns where the way can be cut so that it holds nothing more."""
        first = way.ties[0]
        if wanted:
            return Cut(len(way.ties) - 1, "variable", self._text(way, len(way.ties)))
        if first.step is Step.ROOT and self._kind_of(first) == "traceback":
            return Cut(0, "traceback", str(first.key))
        if first.kind == "garbage":
            return Cut(0, "garbage", first.text)
        error = _first_of(way, BaseException, types.TracebackType)
        if error is not None:
            return Cut(error, "saved_exception", self._text(way, error + 1))
        if first.step is Step.OUTPUT:
            return Cut(0, "output_cache", self._first(way).text)
        inner = self._inner_cut(way)
        if inner is not None and inner.holder == "hook":
            inner = self._gathered(way, inner)
        if inner is not None and (first.step is not Step.ROOT or inner.holder in _WAITING):
            return inner
        if first.step is Step.VARIABLE and is_throwaway(first.key):
            return Cut(0, "throwaway_name", str(first.key))
        frame = _first_of(way, types.FrameType)
        if frame is not None and first.step is not Step.ROOT and first.step is not None:
            return Cut(frame, "saved_frame", self._text(way, frame + 1))
        kind = self._kind_of(first) or "unknown"
        if kind == "cycle" and first.key == "hook":
            return Cut(0, "hook", self._first(way).text)
        if kind == "module" and len(way.ties) > 2:
            return Cut(1, "container", self._text(way, 2))
        if kind == "hook":
            return self._gathered(way, Cut(0, "hook", self._first(way).text))
        holder = _HOLDER_OF.get(kind, kind)
        return Cut(0, holder if holder in LEAK_HOLDERS else "unknown", self._first(way).text)

    def _gathered(self, way: Way, cut: Cut) -> Cut:
        """Returns the cut at the container that a hook fills; the hook itself where it has none."""
        at = container_below(way, cut.at)
        return cut if at is None else Cut(at, cut.holder, self._text(way, at + 1))

    def hook_on(self, way: Way) -> Cut | None:
        """Returns the cut at the hook through which a way leads: the hook itself is to go."""
        at = next((at for at in range(len(way.ties)) if _is_hook_entry(way, at)), None)
        if at is None and self._kind_of(way.ties[0]) == "hook":
            at = 0
        return None if at is None else Cut(at, HOOK, self._text(way, at + 1))

    def _kind_of(self, tie: Any) -> str:
        root = self._roots.get(tie.key) if tie.step is Step.ROOT else None
        return str(root.kind if root is not None else tie.kind)

    def _inner_cut(self, way: Way) -> Cut | None:
        """Returns the cut at what hides things from the user, the nearest to the tensor first."""
        for index in range(len(way.ties) - 1, -1, -1):
            holder = _hides(way, index)
            if holder:
                text = self._text(way, index + 1)
                return Cut(index, holder, f"cache of {text}()" if holder == _CACHE else text)
        return None

    def _text(self, way: Way, length: int) -> str:
        part = type(way)(way.ties[:length], way.objects[:length])
        return Chain(self.steps(part), "", False, "").text


def _hides(way: Way, index: int) -> str:
    """Returns which kind of holder the object at this place of the way is; empty: none special."""
    tie, thing = way.ties[index], way.objects[index]
    kind = type(thing)
    name, module = type_name(kind), _namespace_of(kind).get("__module__")
    if name in _BUFFERS:
        return _BUFFERS[name]
    if issubclass(kind, _SUSPENDED):
        return "suspended_frame"
    if module in ("queue", "_queue", "multiprocessing.queues") or kind is queue.SimpleQueue:
        return "queue"
    if name in ("Future", "_GatheringFuture"):
        return "future"
    if module == "logging" and name == "LogRecord":
        return "log_record"
    if tie.step is Step.CLOSURE and index + 1 < len(way.ties):
        return "hook" if _through_hook(way, index) else "closure"
    if tie.step is Step.DEFAULT and index + 1 < len(way.ties):
        return "default_argument"
    return _hides_as_part(way, index)


def _hides_as_part(way: Way, index: int) -> str:
    tie = way.ties[index]
    if _is_hook_entry(way, index):
        return "hook"
    if index == 0 or tie.step is not Step.ATTRIBUTE:
        return ""
    holder = type(way.objects[index - 1])
    if issubclass(holder, type):
        return "class_attribute"
    if holder in (torch.Tensor, torch.nn.Parameter):
        return "tensor_attribute"
    if holder is types.FunctionType:
        return "closure"
    return ""


def _through_hook(way: Way, index: int) -> bool:
    return any(_is_hook_entry(way, before) for before in range(1, index))


def _is_hook_entry(way: Way, index: int) -> bool:
    """Returns whether this step leads from a dict of hooks to one of them."""
    if index < 2 or way.ties[index].step not in _SUBSCRIPTS:
        return False
    before = way.ties[index - 1]
    return before.step is Step.ATTRIBUTE and str(before.key).endswith("_hooks")


def _ids_of_hook(way: Way, index: int) -> tuple[int, int]:
    return id(way.objects[index - 1]), id(way.objects[index])


def _says_little(way: Way) -> tuple[bool, bool]:
    """Returns a key that puts public variables before others, and models before optimizers."""
    first = way.ties[0]
    named = first.step is Step.VARIABLE and not str(first.key).startswith("_")
    return not named, _first_of(way, torch.optim.Optimizer) is not None


def _called(thing: Any) -> str:
    kind = type(thing)
    if kind is types.FunctionType:
        return repr(thing.__name__)
    if kind is types.MethodType and type(thing.__func__) is types.FunctionType:
        return repr(thing.__func__.__name__)
    return f"of type {type_name(kind)}"


def _add_plain_step(steps: list[PathStep], way: Way, index: int) -> None:
    tie = way.ties[index]
    assert tie.step is not None
    if tie.step is Step.CLOSURE or tie.step is Step.DEFAULT:
        what = _CONTAINERS.get(type(way.objects[index]), HOLDERS[tie.step])
        steps.append(PathStep(HOLDERS[tie.step], f"{what} {tie.key!r}"))
        return
    kind = HOLDERS.get(tie.step, "")
    written = write_step(_BASE, tie.step, tie.key)
    suffix = written.removeprefix(_BASE)
    if suffix != written:
        steps.append(PathStep(kind, suffix.removeprefix(" → ")))
    else:
        whole = written.replace(_BASE, steps[-1].text, 1)
        steps[-1] = PathStep(kind, whole)


def _first_of(way: Way, *kinds: type) -> int | None:
    for index, thing in enumerate(way.objects):
        if issubclass(type(thing), kinds):
            return index
    return None


def _cell_of_output(cut: Cut) -> int | None:
    if cut.holder != "output_cache" or not cut.text.startswith("Out["):
        return None
    number = cut.text[len("Out[") :].partition("]")[0]
    return int(number) if number.isdecimal() else None


def container_below(way: Way, at: int) -> int | None:
    """Returns where the first container is from a place of a way downwards, before its end.

    The keywords of a `functools.partial` are what a call gets, and none has been gathered there.
    """
    for index in range(at, len(way.objects) - 1):
        given = index > 0 and type(way.objects[index - 1]) is functools.partial
        if issubclass(type(way.objects[index]), _GATHERING) and not given:
            return index
    return None


def pattern_of_way(way: Way) -> tuple[str, bool]:
    """Returns the way's first expression with `[*]` for subscripts, and whether there are any."""
    text, many = "", False
    for tie in way.ties:
        if tie.step in _SUBSCRIPTS:
            many = True
            text += "[*]"
        elif tie.step is not None and tie.holder != ROOT:
            text = write_step(text, tie.step, tie.key)
        else:
            text += str(tie.key)
    return text, many
