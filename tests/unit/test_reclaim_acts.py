"""The single acts of reclaiming: what each takes, and all that it leaves as it was."""

from __future__ import annotations

import collections
import dataclasses
import gc
import inspect
import math
import sys
import traceback
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from nbmem.reclaim.detaching import Target, detach_graphs
from nbmem.reclaim.tracebacks import release_error


class Canary:
    """Stands for what a failed call had in a variable; its death is seen by a weak reference."""


def fail(make=ValueError, *args):
    """Returns the error of a call that had a canary in a variable, and that canary's weakref."""
    alive = []

    def train():
        held = Canary()
        alive.append(weakref.ref(held))
        raise make(*(args or ("loss is nan",)))

    try:
        train()
    except BaseException as error:
        return error, alive[0]


# Errors.


def test_released_error_loses_variables_and_keeps_everything_else():
    error, alive = fail(ValueError, "loss is nan", 7)
    error.add_note("step 12")
    before = "".join(traceback.format_exception(error))
    outcome = release_error(error)
    assert alive() is None
    assert ("loss is nan", 7) == error.args
    assert ["step 12"] == error.__notes__
    assert before == "".join(traceback.format_exception(error))
    assert "in train" in before
    assert [] == outcome.refused
    assert ["empty the variables of 2 calls of ValueError"] == outcome.done


def test_causes_contexts_and_members_of_a_group_go_along():
    cause, of_cause = fail(KeyError)
    context, of_context = fail(TypeError)
    member, of_member = fail(RuntimeError)
    error, own = fail()
    member.__context__ = context
    error.__cause__ = BaseExceptionGroup("two workers", [member])
    member.__cause__ = cause
    release_error(error)
    assert [None] * 4 == [ref() for ref in (own, of_cause, of_context, of_member)]
    assert error.__cause__.exceptions == (member,)


def test_errors_that_chain_in_a_circle_are_gone_through_once():
    error, alive = fail()
    other, _ = fail()
    object.__setattr__(error, "__context__", other)
    object.__setattr__(other, "__cause__", error)
    release_error(error)
    assert alive() is None


def test_bare_traceback_is_released():
    error, alive = fail()
    bare = error.__traceback__
    del error
    release_error(bare)
    assert alive() is None
    assert "train" in "".join(traceback.format_tb(bare))


def test_callers_that_are_over_are_released_too():
    """A frame that outlives its call keeps its caller's, which no traceback lists."""
    refs = []

    def load():
        inner = Canary()
        refs.append(weakref.ref(inner))
        try:
            raise OSError("no such file")
        except OSError as error:
            return error

    def epoch():
        outer = Canary()
        refs.append(weakref.ref(outer))
        return load()

    error = epoch()
    gc.collect()
    assert [True, True] == [ref() is not None for ref in refs]
    release_error(error)
    assert [None, None] == [ref() for ref in refs]


def test_variables_that_somebody_looked_at_go_too():
    """Until Python 3.13 a frame keeps the dict that `f_locals` made."""
    error, alive = fail()
    looked = inspect.getinnerframes(error.__traceback__)[-1].frame.f_locals
    assert "held" in looked
    del looked
    release_error(error)
    assert alive() is None


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="locals() hands out a copy there")
def test_what_locals_handed_to_the_user_stays():
    def build(width):
        config = locals()
        saved.append(config)
        raise ValueError(width)

    saved = []
    try:
        build(64)
    except ValueError as error:
        release_error(error)
    assert 64 == saved[0]["width"]


def test_globals_of_a_script_stay():
    names = {"model": 3}
    try:
        exec("batch = 5\nraise ValueError(batch)", names)
    except ValueError as error:
        release_error(error)
    assert (3, 5) == (names["model"], names["batch"])


def test_class_body_that_failed_is_released():
    refs = []

    def define():
        class Broken:
            weights = Canary()
            refs.append(weakref.ref(weights))
            raise ValueError("no")

        return Broken

    try:
        define()
    except ValueError as caught:
        error = caught
    assert refs[0]() is not None
    release_error(error)
    assert refs[0]() is None


def test_frame_that_runs_keeps_its_variables():
    mine = Canary()
    try:
        raise ValueError("caught here")
    except ValueError as error:
        outcome = release_error(error)
    assert isinstance(mine, Canary)
    (sentence,) = outcome.refused
    assert sentence == (
        "test_frame_that_runs_keeps_its_variables() still runs or waits: its variables stay"
    )


def test_generator_that_caught_an_error_goes_on():
    """Clearing the frame of a generator that waits would end it (Python 3.11 and 3.12)."""

    def batches():
        size = 8
        try:
            raise OSError("shard 3")
        except OSError as error:
            yield error
        yield size

    running = batches()
    error = next(running)
    outcome = release_error(error)
    assert 8 == next(running)
    assert ["batches() still runs or waits: its variables stay"] == outcome.refused


def test_generator_that_failed_is_released():
    refs = []

    def batches():
        held = Canary()
        refs.append(weakref.ref(held))
        yield 1
        raise OSError("shard 3")

    try:
        list(batches())
    except OSError as caught:
        error = caught
    assert refs[0]() is not None
    release_error(error)
    assert refs[0]() is None


def test_failed_coroutine_is_released_and_one_that_waits_is_not():
    refs = []

    class Later:
        def __await__(self):
            yield

    async def load(fails):
        held = Canary()
        refs.append(weakref.ref(held))
        try:
            raise OSError("shard 3")
        except OSError as error:
            errors.append(error)
            if fails:
                raise
        await Later()
        return held

    errors = []
    waiting = load(fails=False)
    waiting.send(None)
    with pytest.raises(OSError, match="shard"):
        load(fails=True).send(None)
    release_error(*errors)
    assert [True, False] == [ref() is not None for ref in refs]
    with pytest.raises(StopIteration) as stopped:
        waiting.send(None)
    assert refs[0]() is stopped.value.value


def test_object_without_the_attribute_is_let_go():
    """An AttributeError holds the object itself, for its hint `Did you mean`."""
    held = Canary()
    alive = weakref.ref(held)
    try:
        held.weigth
    except AttributeError as caught:
        error = caught
    del held
    assert alive() is not None
    release_error(error)
    assert alive() is None
    assert "'Canary' object has no attribute 'weigth'" == str(error)


def test_attributes_of_the_users_on_an_error_stay():
    error, _ = fail()
    error.batch = torch.ones(3)
    release_error(error)
    assert 3.0 == error.batch.sum().item()


# Graphs.


def lossy(count=3, size=1000):
    """Returns losses whose graphs each keep `size` floats, and what sees those storages."""
    weight = torch.ones(size, requires_grad=True)
    losses = [(weight * (step + 1.0)).exp().mean() for step in range(count)]
    refs = [StorageWeakRef(saved(loss).untyped_storage()) for loss in losses]
    return losses, refs


def saved(loss):
    """What the exp in a loss's graph saved: its result."""
    return loss.grad_fn.next_functions[0][0]._raw_saved_result.data


def gone(refs):
    return [ref.expired() for ref in refs]


def test_list_of_losses_keeps_its_objects_and_numbers():
    losses, refs = lossy()
    objects, numbers = [id(loss) for loss in losses], [loss.item() for loss in losses]
    outcome = detach_graphs([Target(f"losses[{i}]", loss) for i, loss in enumerate(losses)])
    assert [True] * 3 == gone(refs)
    assert objects == [id(loss) for loss in losses]
    assert numbers == [loss.item() for loss in losses]
    assert [(False, None)] * 3 == [(loss.requires_grad, loss.grad_fn) for loss in losses]
    assert ["detach 3 tensors: losses[0], losses[1], losses[2]"] == outcome.done


def test_view_with_a_graph_is_detached_in_place_though_torch_refuses():
    weight = torch.ones(1000, requires_grad=True)
    whole = weight.exp()
    seen = StorageWeakRef(whole.grad_fn._raw_saved_result.data.untyped_storage())
    part = torch.stack([whole.sum(), whole.mean()])[1]
    del whole
    with pytest.raises(RuntimeError, match="detach views in-place"):
        part.detach_()
    part.label, same = "mean", part
    before = part.item()
    detach_graphs([Target("part", part)])
    assert seen.expired()
    assert (before, "mean", None) == (same.item(), same.label, same.grad_fn)


def test_tensor_in_a_tuple_is_detached_where_it_is():
    (loss, other), refs = lossy(2)
    pair = (loss, "train")
    detach_graphs([Target("pair[0]", pair[0], ({"pair": pair}, pair))])
    assert [True, False] == gone(refs)
    assert pair[0] is loss
    assert other.requires_grad


def test_kept_gradient_of_a_detached_tensor_stays():
    weight = torch.ones(4, requires_grad=True)
    hidden = weight * 2
    hidden.retain_grad()
    hidden.sum().backward()
    view = (weight * 3)[1:]
    view.retain_grad()
    view.sum().backward()
    names = {"view": view}
    outcome = detach_graphs([Target("hidden", hidden), Target("view", view, (names,))])
    assert [] == outcome.refused
    assert [1.0] * 4 == hidden.grad.tolist()
    assert ([1.0] * 3, None) == (names["view"].grad.tolist(), names["view"].grad_fn)


def hidden_states():
    """A state that the graph of a later result saved, and that result."""
    weight = torch.ones(1000, requires_grad=True)
    state = weight * 2
    return weight, state, state.sin().sum()


@pytest.mark.parametrize("keep", [list, tuple, "dict", "attribute", "slot", "deque", "named"])
def test_state_that_a_pending_graph_saved_is_replaced_and_that_graph_works_on(keep):
    class Held:
        pass

    class Slotted:
        __slots__ = ("state",)

    weight, state, pending = hidden_states()
    names = {}
    if keep in ("attribute", "slot"):
        held = Held() if keep == "attribute" else Slotted()
        held.state = state
        read = lambda: names["held"].state  # noqa: E731
    else:
        make = {
            "dict": lambda one: {0: one},
            "deque": lambda one: collections.deque([one]),
            "named": lambda one: Pair(one, 5),
        }.get(keep, lambda one: keep([one]))
        held = make(state)
        read = lambda: names["held"][0]  # noqa: E731
    names["held"] = held
    outcome = detach_graphs([Target("held[0]", state, (names, held))])
    assert [] == outcome.refused
    assert read().grad_fn is None
    assert type(held) is type(names["held"])
    assert [2.0] * 1000 == read().tolist()
    del state, held
    pending.backward()
    assert weight.grad[0].item() == pytest.approx(2 * math.cos(2))


Pair = collections.namedtuple("Pair", "state step")


def test_frozen_dataclass_is_refused_with_the_line_of_code():
    @dataclasses.dataclass(frozen=True)
    class Result:
        state: torch.Tensor

    _, state, pending = hidden_states()
    result = Result(state)
    outcome = detach_graphs([Target("result.state", state, ({"result": result}, result))])
    assert [] == outcome.done
    assert [
        "result.state keeps its graph: Result is frozen; `result.state = result.state.detach()`"
    ] == outcome.refused
    assert state.requires_grad
    assert pending.requires_grad


def test_states_that_save_one_another_go_from_the_last_to_the_first():
    weight = torch.ones(100, requires_grad=True)
    states = [weight * 2]
    for _ in range(3):
        states.append(states[-1].sin())
    objects = list(map(id, states))
    outcome = detach_graphs([Target(f"states[{i}]", s) for i, s in enumerate(states)])
    assert [] == outcome.refused
    assert objects == list(map(id, states))
    assert [None] * 4 == [state.grad_fn for state in states]


def test_leaves_and_tensors_without_a_graph_are_not_touched():
    weight = torch.ones(3, requires_grad=True)
    outcome = detach_graphs([Target("weight", weight), Target("x", torch.ones(2))])
    assert ([], []) == (outcome.done, outcome.refused)
    assert weight.requires_grad


def test_module_keeps_its_attribute_and_its_parameters():
    model = torch.nn.Linear(4, 4)
    model.last = model(torch.ones(2, 4))[0]
    expected = model.last.tolist()
    detach_graphs([Target("model.last", model.last, ({"model": model}, model))])
    assert (expected, None) == (model.last.tolist(), model.last.grad_fn)
    assert all(p.requires_grad for p in model.parameters())


def test_subclass_of_tensor_stays_what_it_is():
    class Labelled(torch.Tensor):
        pass

    weight = torch.ones(5, requires_grad=True)
    plain = (weight * 2).as_subclass(Labelled)
    view = plain[1:]
    detach_graphs([Target("view", view), Target("plain", plain)])
    assert [Labelled] * 2 == [type(view), type(plain)]
    assert [None] * 2 == [view.grad_fn, plain.grad_fn]
