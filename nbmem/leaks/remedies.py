"""The line of code that frees, for each place where a chain can be cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbmem.leaks.words import name_of_cut
from nbmem.records import PathStep, write_path

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXPRESSION = re.compile(r"""[^\W\d]\w*(?:\.[^\W\d]\w*|\[\d+\]|\[(['"])[^'"\\\[\]]*\1\])*""")
"""A variable, with attributes and constant subscripts: what can stand in pasted code."""
_EACH = "[*]"
_CACHED = re.compile(r"cache of (.+)\(\)")

_LINES = {
    "saved_exception": "{cut}.__traceback__ = None",
    "class_attribute": "{cut}.clear()",
    "tensor_attribute": "del {cut}",
    "container": "{cut}.clear()",
    "iterator_buffer": "del {cut}",
    "suspended_frame": "{cut}.close()",
    "saved_frame": "{cut}.clear()",
    "numpy_array": "del {cut}",
    "queue": "{cut}.queue.clear()",
    "async_task": "{cut}.cancel()",
    "context_variable": "{cut}.set(None)",
    "cuda_graph": "{cut}.reset()",
    "thread": "{cut}.join()",
}
"""Where the cut's text is an expression."""
_ALWAYS = {
    "garbage": "import gc; gc.collect()",
    "frozen": "import gc; gc.unfreeze(); gc.collect()",
    "thread": "",
    "cpp": "",
    "unknown": "",
}


def is_expression(text: str) -> bool:
    """Returns whether a text can be pasted as it stands: `model.last`, `kept[3]`, `logs['a']`."""
    return _EXPRESSION.fullmatch(text) is not None


def reclaim(text: str) -> str:
    """Returns the line that has nbmem cut something that no line of plain code cuts whole."""
    if '"' in text or "\n" in text:
        return f"nbmem.reclaim_memory({text!r})"
    return f'%gpumem reclaim "{text}"'


def cut_line(holder: str, cut: str, *, named: bool) -> str:
    """Returns the code that cuts a chain there; empty where nothing can be done but wait.

    Args:
        holder: where it is cut.
        cut: the text of the cut.
        named: it begins with a variable of the user's.
    """
    whole = name_of_cut(holder, cut)
    if holder in _LINES and named and is_expression(whole):
        return _LINES[holder].format(cut=whole)
    cached = _CACHED.fullmatch(cut) if holder == "function_cache" and named else None
    if cached is not None and is_expression(cached[1]):
        return f"{cached[1]}.cache_clear()"
    return _ALWAYS[holder] if holder in _ALWAYS else reclaim(cut)


def detach_line(cut: str, steps: Sequence[PathStep] = ()) -> str:
    """Returns the code that lets go of graphs and keeps the numbers.

    Args:
        cut: `loss`, or `losses[*]` for all items of a list.
        steps: the chain, whose steps before the graph tell what kind of container it is.
    """
    if is_expression(cut):
        return f"{cut} = {cut}.detach()"
    whole = cut.removesuffix(_EACH)
    last = _before_graph(steps)[-1:]
    if whole != cut and is_expression(whole) and all(step.kind == "list item" for step in last):
        return f"{whole} = [x.detach() for x in {whole}]"
    return reclaim(cut)


def item_line(steps: Sequence[PathStep]) -> str:
    """Returns the code that lets go of the one graph in a container; empty where none can."""
    way = _before_graph(steps)
    text = write_path(tuple(way))
    if way and way[-1].kind in ("list item", "dict entry") and is_expression(text):
        return f"{text} = {text}.detach()"
    return ""


def _before_graph(steps: Sequence[PathStep]) -> Sequence[PathStep]:
    kinds = [step.kind for step in steps]
    return steps[: kinds.index("graph")] if "graph" in kinds else ()


def copy_call(*, arrays: bool, attached: bool) -> str:
    """Returns the method that gives a view memory of its own; see `clone_line`."""
    return "copy" if arrays else "detach().clone" if attached else "clone"


def clone_line(names: Sequence[str], *, arrays: bool = False, attached: bool = False) -> str:
    """Returns the code that gives each of these views memory of its own.

    Args:
        names: of the views.
        arrays: they are numpy's.
        attached: their graphs keep what they were cut from as well.
    """
    call = copy_call(arrays=arrays, attached=attached)
    if all(map(is_expression, names)):
        return "\n".join(f"{name} = {name}.{call}()" for name in names)
    return reclaim(names[0])


def join_lines(lines: Sequence[str]) -> str:
    """Returns all lines, each once; nothing where one is missing: the others free nothing."""
    return "\n".join(dict.fromkeys(lines)) if all(lines) else ""
