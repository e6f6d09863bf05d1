"""The lines of code that free, for each place where a chain can be cut.

Each remedy can be pasted into a cell as it stands: it frees what its leak promises, keeps every
value, and leaves no variable behind. Where plain code could not do that whole, nbmem does it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbmem.leaks.words import name_of_cut
from nbmem.records import PathStep, write_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EXPRESSION = re.compile(r"""[^\W\d]\w*(?:\.[^\W\d]\w*|\[\d+\]|\[(['"])[^'"\\\[\]]*\1\])*""")
"""A variable, with attributes and constant subscripts: what can stand in pasted code."""
_ENTRY = re.compile(r"""\[(\d+|(['"])[^'"\\\[\]]*\2)\]""")
"""The first entry of a container that a name leads through."""
_MOST_KEYS = 20
_CACHED = re.compile(r"cache of (.+)\(\)")
MOST_LINES = 6
"""Lines of one remedy; where it would have more, nbmem cuts all of it."""

_LINES = {
    "class_attribute": "{cut}.clear()",
    "tensor_attribute": "del {cut}",
    "container": "{cut}.clear()",
    "iterator_buffer": "del {cut}",
    "suspended_frame": "{cut}.close()",
    "numpy_array": "del {cut}",
    "async_task": "{cut}.cancel()",
    "context_variable": "{cut}.set(None)",
    "cuda_graph": "{cut}.reset()",
}
"""Where the cut's text is an expression."""
_OF_VARIABLES = frozenset({"iterator_buffer", "numpy_array"})
"""Of these only a variable is deleted: from a list, other items would move up."""
_EMPTIED = frozenset({"class_attribute", "container"})
"""Only what the chain goes on from is a container."""
_ITEMS = frozenset({"list item", "dict entry", "dict value", "dict key", "set member"})
_ALWAYS = {
    "garbage": "import gc; gc.collect()",
    "frozen": "import gc; gc.unfreeze(); gc.collect()",
}
EXPLAINED = frozenset(
    {"thread", "cpp", "unknown", "future", "async_task", "numpy_array", "cuda_graph"}
)
"""Holders that nbmem leaves alone: no line of its own frees what they hold."""
_BY_NBMEM = ("%gpumem reclaim ", "import nbmem;")


def is_expression(text: str) -> bool:
    """Returns whether a text can be pasted as it stands: `model.last`, `kept[3]`, `logs['a']`."""
    return _EXPRESSION.fullmatch(text) is not None


def reclaim(*texts: str) -> str:
    """Returns the line that has nbmem cut something that no line of plain code cuts whole.

    It takes every leak that is cut there, with all its cuts.
    """
    if set('"\n{}$').isdisjoint("".join(texts)):
        return " ".join(["%gpumem reclaim", *(f'"{text}"' for text in texts)])
    listed = repr(texts[0]) if len(texts) == 1 else repr(list(texts))
    return (
        f"import nbmem; nbmem.reclaim_memory({listed});"  # a magic's line has values for {} and $
    )


def cut_line(holder: str, cut: str, steps: Sequence[PathStep] = ()) -> str:
    """Returns the code that cuts a chain there; empty where nothing can be done but wait.

    Args:
        holder: where it is cut.
        cut: the text of the cut.
        steps: the chain; where it begins with a variable of the user's, plain code may do.
    """
    named = bool(steps) and steps[0].kind == "variable"
    whole = name_of_cut(holder, cut)
    if holder in _LINES and named and is_expression(whole) and _fits(holder, whole, steps):
        return _LINES[holder].format(cut=whole)
    cached = _CACHED.fullmatch(cut) if holder == "function_cache" and named else None
    if cached is not None and is_expression(cached[1]):
        return f"{cached[1]}.cache_clear()"
    if holder in EXPLAINED:
        return ""
    return _ALWAYS[holder] if holder in _ALWAYS else reclaim(cut)


def _fits(holder: str, whole: str, steps: Sequence[PathStep]) -> bool:
    """Returns whether the plain line works on what stands there."""
    if holder in _OF_VARIABLES:
        return whole.isidentifier()
    if holder not in _EMPTIED:
        return True
    texts = [write_path(tuple(steps[: at + 1])) for at in range(len(steps))]
    at = texts.index(whole) + 1 if whole in texts else len(steps)
    return at < len(steps) and steps[at].kind in _ITEMS


def detach_lines(cut: str, places: Sequence[PathStep]) -> str:
    """Returns the code that lets go of the graphs of all tensors there and keeps the numbers.

    Args:
        cut: `loss`, or `losses[*]` for all items of a list.
        places: where the tensors stand, as in `GraphFact.places`.
    """
    return replace_lines(places, lambda x: f"{x}.detach()") or reclaim(cut)


def replace_lines(places: Sequence[PathStep], call: Callable[[str], str]) -> str:
    """Returns the code that puts something else where tensors stand; empty where none can.

    Containers stay the same objects, whatever other names they have.

    Args:
        places: as in `GraphFact.places`.
        call: what stands there then, of the expression for what stands there now.
    """
    if not 0 < len(places) <= MOST_LINES or not all(is_expression(one.text) for one in places):
        return ""
    return "\n".join(_replace_line(one.kind, one.text, call) for one in places)


def _replace_line(kind: str, text: str, call: Callable[[str], str]) -> str:
    if kind == "list":
        return f"{text}[:] = [{call('x')} for x in {text}]"
    if kind == "dict":
        return f"{text}.update({{key: {call('x')} for key, x in {text}.items()}})"
    return f"del {text}" if kind == "node" else f"{text} = {call(text)}"


def copy_call(*, arrays: bool, attached: bool) -> str:
    """Returns the method that gives a view memory of its own; see `clone_lines`."""
    return "copy" if arrays else "detach().clone" if attached else "clone"


def clone_lines(
    cut: str, places: Sequence[PathStep], *, arrays: bool = False, attached: bool = False
) -> str:
    """Returns the code that gives each of these views memory of its own.

    Args:
        cut: the name of one of them.
        places: where they stand, as in `GraphFact.places`.
        arrays: they are numpy's.
        attached: their graphs keep what they were cut from as well.
    """
    call = copy_call(arrays=arrays, attached=attached)
    return replace_lines(places, lambda x: f"{x}.{call}()") or reclaim(cut)


def take_out(container: str, first: Sequence[str], rest: Sequence[str]) -> str:
    """Returns the code that takes entries out of a container and leaves the others there.

    Empty where an entry holds some of both, or there are too many keys to be written.

    Args:
        container: its expression.
        first: names of what goes, which lie within the entries.
        rest: names of what stays.
    """
    gone, kept = (
        {match[1] for name in names if (match := _ENTRY.match(name.removeprefix(container)))}
        for names in (first, rest)
    )
    numbers = sorted((int(key) for key in gone if key.isdecimal()), reverse=True)
    keys = [*map(str, numbers), *sorted(key for key in gone if not key.isdecimal())]
    if not gone or gone & kept:
        return ""
    listed = f"[{', '.join(keys)}]"
    if len(numbers) == len(gone) == 1 + numbers[0] - numbers[-1] and len(numbers) > 1:
        listed = f"range({numbers[0]}, {numbers[-1] - 1}, -1)"  # the last first: others move up
    elif len(gone) > _MOST_KEYS:
        return ""
    return f"[{container}.__delitem__(key) for key in {listed}];"


def join_lines(lines: Sequence[str], *, reclaimable: bool = True) -> str:
    """Returns all lines, each once; nothing where one is missing: the others free nothing.

    Args:
        lines: one or more of each cut.
        reclaimable: nbmem may cut all of them: then one line of its own does, where it has any.
    """
    if not all(lines):
        return ""
    told = list(dict.fromkeys(line for each in lines for line in each.splitlines()))
    ours = [line for line in told if line.startswith(_BY_NBMEM)]
    if not ours:
        return "\n".join(told)
    return ours[0] if reclaimable else ""
