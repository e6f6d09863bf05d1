"""What acts are going to touch, gathered while a web is open and let go of after the act."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nbmem.reclaim.cycles import cut_cycle
from nbmem.reclaim.detaching import Target, detach_graphs
from nbmem.reclaim.loops import Alone, why_not_close
from nbmem.reclaim.names import drop_output, drop_throwaway, drop_variable
from nbmem.reclaim.outcome import Outcome, list_of, type_name
from nbmem.reclaim.tracebacks import release_error
from nbmem.reclaim.training import drop_gradients, drop_state
from nbmem.reclaim.views import shrink_views

if TYPE_CHECKING:
    import torch
    from IPython.core.interactiveshell import InteractiveShell

Act = Callable[[], Outcome]


@dataclass(slots=True, eq=False)
class Work:
    """Live objects by what is to be done with them. Holds them strongly until `clear`."""

    errors: list[Any] = field(default_factory=list)
    """Errors, tracebacks, frames."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """Shown values by the expression that reads each."""
    throwaways: dict[str, None] = field(default_factory=dict)
    variables: dict[str, None] = field(default_factory=dict)
    graphs: list[Target] = field(default_factory=list)
    views: list[Target] = field(default_factory=list)
    gradients: list[torch.Tensor] = field(default_factory=list)
    """Whose gradients go."""
    states: list[tuple[Any, list[torch.Tensor]]] = field(default_factory=list)
    """Optimizers and the parameters that left."""
    waiting: list[Alone] = field(default_factory=list)
    """Generators and iterators that are to go."""
    acts: dict[tuple[str, int], Act] = field(default_factory=dict)
    """Single acts by their name and the `id` of what they are about: each is done once."""
    cyclic: dict[int, torch.Tensor] = field(default_factory=dict)
    """By `id`: tensors in cycles through C++, to which no name leads."""
    collect: bool = False
    unfreeze: bool = False

    def clear(self) -> None:
        """Lets go of everything."""
        for held in self._lists():
            held.clear()
        for names in self._dicts():
            names.clear()

    def merge(self, other: Work) -> None:
        """Takes over everything of another."""
        for mine, theirs in zip(self._lists(), other._lists(), strict=True):
            mine += theirs
        for names, others in zip(self._dicts(), other._dicts(), strict=True):
            names.update(others)
        self.collect |= other.collect
        self.unfreeze |= other.unfreeze

    def _lists(self) -> tuple[list[Any], ...]:
        return (self.errors, self.graphs, self.views, self.gradients, self.states, self.waiting)

    def _dicts(self) -> tuple[dict[Any, Any], ...]:
        return (self.outputs, self.throwaways, self.variables, self.acts, self.cyclic)

    def why_not(self) -> str:
        """Returns why some of it is to be left alone, as something uses it; empty otherwise."""
        return next(filter(None, map(why_not_close, self.waiting)), "")

    def run(self, shell: InteractiveShell | None) -> Outcome:
        """Does everything, lets go of it, and returns what was done and what was refused."""
        outcome = Outcome()
        try:
            self._release(shell, outcome)
            self._reduce(outcome)
        finally:
            self.clear()
        self._collect(outcome)
        return outcome

    def _release(self, shell: InteractiveShell | None, outcome: Outcome) -> None:
        if self.errors:
            _do(partial(release_error, *self.errors), outcome)
        if self.outputs and shell is not None:
            _do(partial(_drop_outputs, shell, self.outputs), outcome)
        for name in self.throwaways:
            _do(partial(_said, drop_throwaway, shell, name, f"let go of {name}"), outcome)
        for name in self.variables:
            _do(partial(_said, drop_variable, shell, name, f"del {name}"), outcome)
        for act in self.acts.values():
            _do(act, outcome)

    def _reduce(self, outcome: Outcome) -> None:
        for optimizer, parameters in self.states:
            _do(partial(drop_state, optimizer, parameters), outcome)
        if self.gradients:
            _do(partial(drop_gradients, self.gradients), outcome)
        if self.graphs:
            _do(partial(detach_graphs, self.graphs), outcome)
        if self.cyclic:
            _do(partial(cut_cycle, list(self.cyclic.values())), outcome)
        views = list(self.views)
        self.clear()  # what is held here would count as someone who shows the storage
        if views:
            _do(partial(shrink_views, views), outcome)

    def _collect(self, outcome: Outcome) -> None:
        if self.unfreeze:
            gc.unfreeze()
            outcome.done.append("gc.unfreeze()")
        if self.collect:
            gc.collect()
            outcome.done.append("gc.collect()")


def _drop_outputs(shell: InteractiveShell, outputs: dict[str, Any]) -> Outcome:
    drop_output(shell, outputs.values())
    return Outcome([f"drop {list_of(outputs)}"])


def _said(drop: Callable[..., None], shell: Any, name: str, words: str) -> Outcome:
    drop(shell, name)
    return Outcome([words])


def _do(act: Act, outcome: Outcome) -> None:
    """Does one act; whatever the user's own code raises in it, the others go on."""
    try:
        outcome.add(act())
    except BaseException as error:  # of a `__hash__`, a `__set__`, a `finally` of the user's
        said = _message_of(error)
        outcome.refused.append(f"one act failed with {type_name(error)}{said}; the rest went on")


def _message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # a `__str__` of the user's
        return ""
    return f": {text}" if text else ""


class Interrupts:
    """Notes that the user interrupts the kernel while acts run, to raise it after the proof.

    What runs is interrupted at once, as ever; only the acts after it are still done.
    """

    def __init__(self) -> None:
        self.met = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
        if callable(self._before):
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: Any) -> None:
        self.met = True
        self._before(number, frame)
