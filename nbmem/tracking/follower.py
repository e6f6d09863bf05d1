"""The dispatch mode that enters what each operation returns into the table.

`__torch_dispatch__` runs once per operation of the user's, so it is written for speed: one look-up
tells what the operation can do to storages, and most results take one line to enter.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbmem.errors import hide_frame
from nbmem.heap.storages import bare_torch, read_storages, untyped_storage
from nbmem.heap.surroundings import function_state, set_function_state
from nbmem.tracking.lines import LARGE
from nbmem.tracking.plans import COMPOSITE, IN_PLACE, MANY, ONE, plan_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nbmem.heap import StorageRef, StorageTable
    from nbmem.tracking.lines import AllocationLines

    NoteStorage = Callable[[torch.UntypedStorage], StorageRef | None]

_Tensor = torch.Tensor
_PLAIN = (torch.Tensor,)
_function_mode_is_on = torch._C._is_torch_function_mode_enabled
_push = torch._C._push_on_torch_dispatch_stack
_pop = torch._C._pop_torch_dispatch_stack
_MODES_OF_TORCH = tuple(torch._C._TorchDispatchModeKey.__members__.values())
"""Fake tensors and tracers: torch keeps them below everybody's."""
# Torch's stubs take these descriptors for the values that they read.
_layout_of = torch._C.TensorBase.layout.__get__  # type: ignore[attr-defined]
_is_nested = torch._C.TensorBase.is_nested.__get__  # type: ignore[attr-defined]
_is_quantized = torch._C.TensorBase.is_quantized.__get__  # type: ignore[attr-defined]
_DEEPEST = 16
"""So deep may subclasses call the same operation again on tensors of their own kind."""
_TRACING = ("torch._subclasses.fake_tensor", "torch._subclasses.functional_tensor")


class Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the operations of one thread into a table while it stands on the mode stack."""

    supports_higher_order_operators = True

    def __init__(self, table: StorageTable, lines: AllocationLines) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note: NoteStorage = table.note
        self._table = table
        self._lines = lines
        self._new_from = table.next_serial
        self._plans: dict[int, tuple[int, Any, Any]] = {}
        self._waiting: Any = None
        self._depth = 0
        self.failure: str | None = None
        """What went wrong in here, in words; the user's call went on."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Returns True: what `torch.compile` compiled stays compiled under this mode."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch would wrap the handler, at the price of a call per operation and of importing
        # dynamo at the first; `hide_from_dynamo` does the same without.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Returns what `func` returns, its storages entered."""
        try:
            plan, call, _ = self._plans[id(func)]
        except KeyError:
            plan, call, _ = self._learn(func)
        try:
            if plan == COMPOSITE or (types and types != _PLAIN):
                return self._call_apart(call, func, types, args, kwargs or {}, plan)
            result = call(*args, **kwargs) if kwargs else call(*args)
        except BaseException as error:
            hide_frame(error)
            raise
        if plan == ONE:
            if type(result) is _Tensor and not _function_mode_is_on():
                try:
                    ref = self._note(untyped_storage(result))
                    if ref is not None and ref.bytes >= LARGE and ref.serial >= self._new_from:
                        self._new_from = ref.serial + 1
                        self._lines.note(ref.serial)
                except Exception:  # sparse, as a rule; nothing may reach the user's call
                    self.note_all(result)
                except KeyboardInterrupt as error:  # the operation is done: it is entered first
                    self.note_all(result)
                    raise error.with_traceback(None) from None
            else:
                self.note_all(result)
        elif plan == MANY or (plan == IN_PLACE and self._table.parts_seen):
            self.note_all(result)
        return result

    def _learn(self, func: Any) -> tuple[int, Any, Any]:
        # An overload's own call only hands on to `_op`. The operation is kept, so that its id is
        # never another's.
        call = func._op if type(func) is torch._ops.OpOverload else func
        try:
            plan = plan_of(func)
        except Exception:  # some callers are C++ that cannot bear an exception
            plan = MANY
        learned = self._plans[id(func)] = (plan, call, func)
        return learned

    def note_all(self, value: Any) -> None:
        """Enters the storages of every tensor in `value`. Raises nothing but an interrupt."""
        state = function_state()
        try:
            self._note_value(value)
        except KeyboardInterrupt as error:
            set_function_state(state)
            self._table.mend()
            self._note_value(value)
            raise error.with_traceback(None) from None

    def _note_value(self, value: Any) -> None:
        try:
            with bare_torch():
                if _note_tensors(value, self._see):
                    self._table.parts_seen = True
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _see(self, storage: torch.UntypedStorage) -> StorageRef | None:
        """Enters a storage, and the line that made it where it is new and large."""
        first_new = self._table.next_serial
        ref = self._note(storage)
        if ref is not None and ref.bytes >= LARGE and ref.serial >= first_new:
            self._lines.note(ref.serial)
        return ref

    def switch_off(self) -> None:
        """Makes the mode enter nothing any more, wherever it still stands."""
        self._note = _ignore

    def switch_on(self, table: StorageTable) -> None:
        """Undoes `switch_off`; what was entered meanwhile is nobody's of this thread."""
        self._note = table.note
        self._new_from = table.next_serial
        self._waiting, self._depth = None, 0

    def _call_apart(
        self, call: Any, func: Any, types: Any, args: Any, kwargs: dict[str, Any], plan: int
    ) -> Any:
        """Calls with this mode on, so that the operations within are seen one by one.

        A tensor subclass does its work in operations on its inner tensors, from its own
        `__torch_dispatch__`. torch calls that next when this mode, asked a second time for the
        same call, answers NotImplemented.
        """
        if self._waiting is func and types:
            self._waiting = None
            return NotImplemented
        if not types and plan == COMPOSITE and _are_dense((*args, *kwargs.values())):
            call = _taken_apart(func)
        before, depth, modes = self._waiting, self._depth, _users_modes()
        try:
            if self._depth >= _DEEPEST or any(kind.__module__ in _TRACING for kind in types):
                return call(*args, **kwargs)
            result = self._call_within(call, func if types else None, args, kwargs)
        except BaseException as error:
            if issubclass(type(error), KeyboardInterrupt):  # maybe in the lines of `_call_within`
                self._waiting, self._depth = before, depth
                _put_modes(modes)
            hide_frame(error)
            raise
        self.note_all(result)
        return result

    def _call_within(self, call: Any, waiting: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Calls with this mode on; `waiting` is what torch asks a second time, if anything."""
        before, self._waiting = self._waiting, waiting
        self._depth += 1
        _push(self)
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        finally:
            self._depth -= 1
            self._waiting = before
            remove_from_stack(self)


def _are_dense(arguments: Iterable[Any]) -> bool:
    """Returns whether torch itself would take the operation apart for these arguments.

    For nested, sparse, quantized and oneDNN tensors it may have a kernel of their own.
    """
    for one in arguments:
        kind = type(one)
        if kind is list or kind is tuple:
            if not _are_dense(one):
                return False
        elif issubclass(kind, _Tensor) and (
            _layout_of(one) is not torch.strided or _is_nested(one) or _is_quantized(one)
        ):
            return False
    return True


def _taken_apart(func: Any) -> Any:
    """Returns the operation's own C++, which torch runs without nbmem too.

    `func.decompose` may take a stand-in in Python, whose frames a traceback would keep.
    """
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def hide_from_dynamo() -> None:
    """Tells dynamo's frame hook to leave the mode's own code, and what it calls, alone."""
    hook = torch._C._dynamo.eval_frame
    skip = hook._FrameExecStrategy(hook._FrameAction.SKIP, hook._FrameAction.SKIP)
    hook.set_code_exec_strategy(Follower.__torch_dispatch__.__code__, skip)


def put_below_users_modes(mode: Follower) -> None:
    """Pushes the mode under those that are on.

    A user's mode is popped by position: with ours at the bottom the user's `__exit__` meets the
    user's own, in whatever cell it comes, and ours sees what the user's modes make of a call.
    """
    _put_modes([mode, *_users_modes()])


def remove_from_stack(mode: Follower) -> bool:
    """Returns whether the mode stood on this thread's stack; takes its topmost place away."""
    modes = _users_modes()
    if modes and modes[-1] is mode:
        _pop(None)
        return True
    for index in range(len(modes) - 2, -1, -1):
        if modes[index] is mode:
            _put_modes([*modes[:index], *modes[index + 1 :]])
            return True
    return False


def _users_modes() -> list[Any]:
    """Returns the modes on this thread's stack, the topmost last, down to torch's own."""
    torchs = sum(torch._C._get_dispatch_mode(key) is not None for key in _MODES_OF_TORCH)
    places = range(torchs, torch._C._len_torch_dispatch_stack())
    return [torch._C._get_dispatch_stack_at(place) for place in places]


def _put_modes(modes: list[Any]) -> None:
    """Makes these the modes that `_users_modes` returns, also where an interrupt comes between."""
    try:
        _replace_modes(modes)
    except KeyboardInterrupt:
        _replace_modes(modes)
        raise


def _replace_modes(modes: list[Any]) -> None:
    present = _users_modes()
    same = 0
    while same < len(present) and same < len(modes) and present[same] is modes[same]:
        same += 1
    for _ in range(len(present) - same):
        _pop(None)
    for mode in modes[same:]:
        _push(mode)


def _note_tensors(value: Any, note: NoteStorage) -> bool:
    """Returns whether a tensor was among them that is made of parts."""
    kind = type(value)
    if issubclass(kind, _Tensor):
        storages = read_storages(value)
        for storage in storages:
            note(storage)
        return len(storages) != 1
    if issubclass(kind, torch.UntypedStorage):
        note(value)
    elif issubclass(kind, tuple | list):
        return any([_note_tensors(item, note) for item in value])  # noqa: C419 - every one
    elif kind is dict:
        return any([_note_tensors(item, note) for item in value.values()])  # noqa: C419
    return False


def _ignore(storage: torch.UntypedStorage) -> StorageRef | None:
    """Enters nothing: a mode that is switched off."""
