"""The single acts of reclaiming: what each takes, and all that it leaves as it was."""

from __future__ import annotations

import asyncio
import collections
import contextvars
import dataclasses
import functools
import gc
import inspect
import logging
import math
import queue
import sys
import traceback
import weakref

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from nbmem.reclaim.arrays import copy_arrays, way_to
from nbmem.reclaim.choosing import Known, choose
from nbmem.reclaim.cycles import cut_cycle
from nbmem.reclaim.detaching import Target, detach_graphs
from nbmem.reclaim.dropping import (
    clear_cache,
    clear_module_attribute,
    close_generator,
    drop_attribute,
    empty_container,
    remove_hook,
)
from nbmem.reclaim.registered import (
    detach_finalizer,
    empty_queue,
    remove_global_hook,
    reset_variable,
    strip_log_record,
    unregister_callback,
)
from nbmem.reclaim.tracebacks import release_error
from nbmem.reclaim.training import drop_gradients, drop_state
from nbmem.reclaim.views import shrink_views, shrunk_bytes
from nbmem.reclaim.work import Work
from nbmem.records import Leak


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


# Views.


def watch(tensor):
    return StorageWeakRef(tensor.untyped_storage())


def named(**tensors):
    return [Target(name, tensor) for name, tensor in tensors.items()]


def test_small_view_gets_a_storage_of_its_own():
    whole = torch.arange(250_000.0)
    part = whole[10:20]
    part.label = "head"
    seen, key, same = watch(whole), id(part), part
    del whole
    assert not seen.expired()
    assert 40 == shrunk_bytes(named(part=part))
    outcome = shrink_views(named(part=part))
    assert seen.expired()
    assert (key, "head", list(range(10, 20))) == (id(same), part.label, same.tolist())
    assert 40 == part.untyped_storage().nbytes()
    assert ["move part from a storage of 977 KiB to 40 B"] == outcome.done


def test_views_that_overlap_stay_tied_and_others_part():
    whole = torch.arange(1000.0)
    a, b, far = whole[0:10], whole[5:15], whole[900:910]
    seen = watch(whole)
    del whole
    shrink_views(named(a=a, b=b, far=far))
    assert seen.expired()
    assert (60, 60, 40) == tuple(t.untyped_storage().nbytes() for t in (a, b, far))
    a[7] = -1.0
    assert -1.0 == b[2].item()
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    assert far.untyped_storage().data_ptr() != a.untyped_storage().data_ptr()
    assert list(range(900, 910)) == far.tolist()


def test_columns_lose_their_gaps_and_stay_tied_where_they_overlap():
    whole = torch.arange(10_000.0).reshape(100, 100)
    one, pair, wide, other = whole[:, 0], whole[:, 3:5], whole[:, 4:6], whole[:, 9]
    expected = [t.tolist() for t in (one, pair, wide, other)]
    seen = watch(whole)
    del whole
    shrink_views(named(one=one, pair=pair, wide=wide, other=other))
    assert seen.expired()
    assert expected == [t.tolist() for t in (one, pair, wide, other)]
    sizes = [t.untyped_storage().nbytes() for t in (one, pair, wide, other)]
    assert [400, 1200, 1200, 400] == sizes
    pair[7, 1] = -5.0
    assert -5.0 == wide[7, 0].item()


def test_expanded_view_is_copied_once():
    whole = torch.arange(1000.0)
    row = whole[3:4].expand(500)
    del whole
    shrink_views(named(row=row))
    assert 4 == row.untyped_storage().nbytes()
    assert ([3.0] * 500, (0,)) == (row.tolist(), row.stride())


def test_strides_of_a_dense_view_stay():
    whole = torch.arange(1000.0)
    part = whole[:60].reshape(3, 4, 5).permute(2, 0, 1)
    expected, strides = part.tolist(), part.stride()
    del whole
    shrink_views(named(part=part))
    assert (expected, strides) == (part.tolist(), part.stride())
    assert 240 == part.untyped_storage().nbytes()


def test_views_of_other_types_share_the_bytes_still():
    whole = torch.zeros(1000, dtype=torch.int32)
    ints, raw = whole[2:6], whole[4:8].view(torch.uint8)
    del whole
    shrink_views(named(ints=ints, raw=raw))
    raw[0] = 7
    assert [0, 0, 7, 0] == ints.tolist()
    assert 24 == ints.untyped_storage().nbytes() == raw.untyped_storage().nbytes()


def test_conjugate_view_stays_conjugate():
    whole = torch.full((1000,), 1 + 2j)
    part, imag = whole[:4].conj().detach(), whole[:4].conj().imag.detach()
    assert imag.is_neg()
    del whole
    shrink_views(named(part=part, imag=imag))
    assert part.is_conj()
    assert ([1 - 2j] * 4, [-2.0] * 4) == (part.tolist(), imag.tolist())
    assert 32 == part.untyped_storage().nbytes()


def test_parameter_that_is_a_view_stays_in_its_optimizer():
    def step(shrink):
        torch.manual_seed(0)
        whole = torch.rand(100_000)
        weight = torch.nn.Parameter(whole[:10])
        optimizer = torch.optim.Adam([weight], lr=0.1)
        weight.pow(2).sum().backward()
        optimizer.step()
        seen = watch(whole)
        del whole
        if shrink:
            assert [] == shrink_views(named(weight=weight)).refused
            assert seen.expired()
        loss = weight.pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.item(), weight.tolist(), weight.grad.tolist()

    assert step(shrink=False) == step(shrink=True)


def test_leaf_that_is_a_view_keeps_gradient_and_hooks():
    whole = torch.ones(1000)
    leaf = whole[:4].requires_grad_()
    called = []
    leaf.register_hook(lambda gradient: called.append("hook"))
    leaf.register_post_accumulate_grad_hook(lambda tensor: called.append("after"))
    (leaf * 2).sum().backward()
    seen = watch(whole)
    del whole
    shrink_views(named(leaf=leaf))
    assert seen.expired()
    assert leaf.is_leaf
    assert [2.0] * 4 == leaf.grad.tolist()
    (leaf * 3).sum().backward()
    assert [5.0] * 4 == leaf.grad.tolist()
    assert ["hook", "after"] * 2 == called


def test_result_that_is_a_view_still_leads_to_its_graph():
    weight = torch.ones(1000, requires_grad=True)
    whole = weight * 3
    part, tied = whole[:4], whole[2:6]
    seen = watch(whole)
    del whole
    outcome = shrink_views(named(part=part, tied=tied))
    assert [] == outcome.refused
    assert seen.expired()
    assert not part.is_leaf
    assert 24 == part.untyped_storage().nbytes()
    (part.sum() + tied.sum()).backward()
    assert [3.0, 3.0, 6.0, 6.0, 3.0, 3.0, 0.0] == weight.grad[:7].tolist()


def shown_by_numpy():
    whole = torch.zeros(1000)
    part = whole[:4]
    return part, part.numpy()


def shown_by_dlpack():
    whole = torch.zeros(1000)
    part = whole[:4]
    return part, torch.utils.dlpack.to_dlpack(whole)


def shown_by_another_tensor():
    whole = torch.zeros(1000)
    return whole[:4], whole[500:]


def shown_by_its_base():
    whole = torch.zeros(1000)
    return whole[:4], whole


def shown_by_a_graph():
    whole = torch.zeros(1000)
    part = whole[:4]
    return part, (part * torch.ones(4, requires_grad=True)).sum()


def shown_by_another_process():
    whole = torch.zeros(1000).share_memory_()
    return whole[:4], None


def shown_from_numpy():
    return torch.from_numpy(numpy.zeros(1000))[:4], None


@pytest.mark.parametrize(
    "make",
    [
        shown_by_numpy,
        shown_by_dlpack,
        shown_by_another_tensor,
        shown_by_its_base,
        shown_by_a_graph,
        shown_by_another_process,
        shown_from_numpy,
    ],
)
def test_storage_that_something_else_may_show_is_left_alone(make):
    part, _other = make()
    address = part.data_ptr()
    outcome = shrink_views(named(part=part))
    assert address == part.data_ptr()
    assert [] == outcome.done
    (sentence,) = outcome.refused
    assert sentence.startswith("part: ")
    assert sentence.endswith("; `part = part.clone()`")
    assert shrunk_bytes(named(part=part)) is None


def test_array_of_numpy_still_reads_the_tensor():
    part, array = shown_by_numpy()
    shrink_views(named(part=part))
    array[0] = 7
    assert 7.0 == part[0].item()


def test_tensor_that_shows_everything_is_left():
    whole = torch.zeros(1000)
    outcome = shrink_views(named(whole=whole))
    assert ["whole: shows all of its 3.91 KiB"] == outcome.refused


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_views_keep_their_numbers_and_their_ties(data):
    """Writing through one view is seen through the same others as before."""
    size = 240
    views = data.draw(st.lists(strided(size), min_size=1, max_size=4))
    moved, still = torch.arange(float(size)), torch.arange(float(size))
    seen = watch(moved)
    mine = [moved.as_strided(*view) for view in views]
    theirs = [still.as_strided(*view) for view in views]
    address = moved.data_ptr()
    del moved
    shrink_views([Target(f"v{i}", view) for i, view in enumerate(mine)])
    for one, other in zip(mine, theirs, strict=True):
        assert one.shape == other.shape
        assert one.tolist() == other.tolist()
        if one.numel():
            one[(0,) * one.dim()] = -1.0
            other[(0,) * other.dim()] = -1.0
    assert [t.tolist() for t in mine] == [t.tolist() for t in theirs]
    assert seen.expired() or mine[0].data_ptr() >= address


@st.composite
def strided(draw, size):
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    strides = [draw(st.sampled_from([0, 1, 2, 3, 10, 16])) for _ in shape]
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n)
    return shape, strides, draw(st.integers(0, size - reach - 1))


# Training.


def trained(optimizer, drop=None, steps=3, **settings):
    """Steps two weights, drops the first one's state on the way; returns the second's values."""
    weights = [torch.nn.Parameter(torch.linspace(0.1, 1, 5)) for _ in range(2)]
    groups = [{"params": [weights[0]]}, {"params": [weights[1]], "lr": 0.02}]
    made = optimizer(groups, lr=0.05, **settings)
    for step in range(steps):
        made.zero_grad()
        sum(w.pow(2).sum() for w in weights).backward()
        made.step()
        if step == 0 and drop is not None:
            drop(made, weights[0])
    return weights[1].tolist(), made, weights[0]


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.RMSprop, {"momentum": 0.5}),
        (torch.optim.Adagrad, {}),
        (torch.optim.NAdam, {}),
    ],
)
def test_other_parameters_step_as_if_nothing_was_dropped(optimizer, options):
    dropped = []

    def drop(made, weight):
        refs = [watch(value) for value in made.state[weight].values() if torch.is_tensor(value)]
        dropped.append((drop_state(made, [weight]), refs))

    expected, _, _ = trained(optimizer, **options)
    values, made, weight = trained(optimizer, drop, **options)
    assert expected == values
    ((outcome, refs),) = dropped
    assert refs
    assert all(gone(refs))
    assert [] == outcome.refused
    assert weight not in made.state
    assert [0, 1] == [len(group["params"]) for group in made.param_groups]


def test_names_of_parameters_leave_the_groups_with_them():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.named_parameters(), lr=0.1)
    drop_state(optimizer, [model.weight])
    (group,) = optimizer.param_groups
    assert ["bias"] == group["param_names"]
    assert [model.bias] == group["params"]


def test_optimizer_without_parameters_still_steps():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight])
    drop_state(optimizer, [weight])
    optimizer.step()
    optimizer.zero_grad()
    assert [] == optimizer.state_dict()["param_groups"][0]["params"]


def test_one_state_for_all_parameters_is_refused():
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.LBFGS(weights)
    outcome = drop_state(optimizer, weights[:1])
    assert 2 == len(optimizer.param_groups[0]["params"])
    assert [
        "LBFGS keeps one state for all of its parameters; make a new LBFGS of the rest"
    ] == outcome.refused


def test_gradients_are_set_to_none():
    weight = torch.ones(1000, requires_grad=True)
    weight.sum().backward()
    seen = watch(weight.grad)
    outcome = drop_gradients([weight, torch.ones(3)])
    assert weight.grad is None
    assert seen.expired()
    assert ["set 1 gradient to None"] == outcome.done


# Cycles through C++.


class KeepsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * 2
        ctx.out = out
        return out

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def gradient_with_a_graph():
    weight = torch.ones(1000, requires_grad=True)
    (weight * weight * 3).sum().backward(create_graph=True)
    return [weight], []


def hook_over_its_result():
    result = torch.ones(1000, requires_grad=True) * 2
    result.register_hook(lambda gradient: result.sum())
    return [result], []


def hook_of_a_leaf_over_the_result():
    leaf = torch.ones(1000, requires_grad=True)
    result = leaf * 2
    leaf.register_hook(lambda gradient: result)
    return [leaf, result], []


def hook_of_a_node():
    result = torch.ones(1000, requires_grad=True) * 2
    result.grad_fn.register_hook(lambda inputs, outputs: result)
    return [result], []


def bare_node_in_its_metadata():
    leaf = torch.ones(1000, requires_grad=True)
    node = (leaf * 2).grad_fn
    node.metadata["self"] = node
    return [leaf], [node]


def hook_after_the_gradient():
    leaf = torch.ones(1000, requires_grad=True)
    leaf.register_post_accumulate_grad_hook(lambda tensor: leaf)
    return [leaf], []


def attribute_of_a_leaf():
    leaf = torch.ones(1000, requires_grad=True)
    leaf.result = leaf * 2
    return [leaf, leaf.result], []


def metadata_of_a_node():
    result = torch.ones(1000, requires_grad=True) * 2
    result.grad_fn.metadata["result"] = result
    return [result], []


def context_that_holds_its_node():
    leaf = torch.ones(1000, requires_grad=True)
    node = KeepsResult.apply(leaf).grad_fn
    node.register_hook(lambda inputs, outputs: node.out)
    return [leaf], [node]


def saved_by_hooks_that_hold_the_result():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (x, kept), lambda packed: packed[0]):
        result = torch.ones(1000, requires_grad=True).exp()
    kept.append(result)
    return [result], []


def view_with_a_hook():
    result = (torch.ones(1000, requires_grad=True) * 2)[1:]
    result.register_hook(lambda gradient: result)
    return [result], []


CYCLES = [
    gradient_with_a_graph,
    hook_over_its_result,
    hook_of_a_leaf_over_the_result,
    hook_of_a_node,
    bare_node_in_its_metadata,
    hook_after_the_gradient,
    attribute_of_a_leaf,
    metadata_of_a_node,
    context_that_holds_its_node,
    saved_by_hooks_that_hold_the_result,
    view_with_a_hook,
]


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
@pytest.mark.parametrize("make", CYCLES)
def test_cycle_that_no_collector_breaks_is_cut(make):
    tensors, nodes = make()
    seen = [watch(tensor) for tensor in tensors]
    refs = [weakref.ref(tensor) for tensor in tensors]
    ids = {id(node) for node in nodes}  # a node takes no weak reference
    del tensors, nodes
    gc.collect()
    assert not any(gone(seen)), "gc.collect() alone would free it"
    outcome = cut_cycle(
        [ref() for ref in refs], [item for item in gc.get_objects() if id(item) in ids]
    )
    gc.collect()
    assert all(gone(seen))
    assert [None] * len(refs) == [ref() for ref in refs]
    assert 1 == len(outcome.done)


# What caches, containers, generators, hooks and attributes hold.


def test_cache_of_a_function_is_cleared_and_works_on():
    calls = []

    @functools.lru_cache
    def load(size):
        calls.append(size)
        return torch.ones(size)

    seen = watch(load(1000))
    assert not seen.expired()
    outcome = clear_cache(load)
    assert seen.expired()
    assert ["clear 1 result from the cache of load()"] == outcome.done
    assert [1.0] * 3 == load(3).tolist()
    assert [1000, 3] == calls


def test_what_is_no_cache_is_refused():
    assert ["len is no function with a cache"] == clear_cache(len, "len").refused


@pytest.mark.parametrize(
    "make",
    [
        lambda one: [one],
        lambda one: {"acts": one},
        lambda one: {one},
        lambda one: collections.deque([one]),
        lambda one: collections.OrderedDict(acts=one),
        lambda one: collections.defaultdict(list, acts=one),
    ],
)
def test_container_is_emptied_and_stays_the_same_object(make):
    held = make(torch.zeros(10))
    outcome = empty_container(held, "acts")
    assert 0 == len(held)
    assert ["empty acts: 1 item"] == outcome.done


def test_container_with_code_of_its_own_is_emptied_without_calling_it():
    class Strict(list):
        def clear(self):
            raise AssertionError("called")

        __len__ = clear

    held = Strict([1, 2])
    assert ["empty acts: 2 items"] == empty_container(held, "acts").done


def test_tuple_is_not_emptied():
    (sentence,) = empty_container((1,), "pair").refused
    assert sentence == "pair is no list, dict, set or deque: only its own code empties it"


def test_generator_is_closed_and_runs_its_finally():
    ended = []

    def batches():
        held = torch.zeros(1000)
        try:
            yield watch(held)
        finally:
            ended.append(held.numel())

    waiting = batches()
    seen = next(waiting)
    outcome = close_generator(waiting)
    assert seen.expired()
    assert [1000] == ended
    assert ["close batches()"] == outcome.done


def test_generator_that_fails_on_its_way_out_is_told():
    def batches():
        try:
            yield 1
        finally:
            raise OSError("disk")

    waiting = batches()
    next(waiting)
    assert ["close batches(); on its way out it raised OSError"] == close_generator(waiting).done


def test_running_generator_is_left():
    def batches():
        yield close_generator(waiting, "batches")

    waiting = batches()
    assert ["batches is running: wait for its end"] == next(waiting).refused


def test_hook_is_removed_as_its_handle_would():
    model, called = torch.nn.Linear(2, 2), []
    kept = model.register_forward_hook(lambda *_: called.append("kept"))
    handle = model.register_forward_hook(
        lambda module, args, kwargs, out: called.append("gone"), with_kwargs=True
    )
    remove_hook(model._forward_hooks, handle.id, model)
    model(torch.ones(1, 2))
    assert ["kept"] == called
    assert {} == model._forward_hooks_with_kwargs
    assert ["the hook is gone already"] == remove_hook(model._forward_hooks, handle.id).refused
    handle.remove()
    kept.remove()


def test_attribute_is_deleted_only_while_it_holds_the_same():
    class Slotted:
        __slots__ = ("acts",)

    class Plain:
        pass

    things = [Slotted(), Plain(), lambda: None, torch.zeros(2), Plain]
    for thing in things:
        held = torch.zeros(10)
        thing.acts = held
        assert "else by now" in drop_attribute(thing, "acts", torch.zeros(10)).refused[0]
        assert thing.acts is held
        assert [] == drop_attribute(thing, "acts", held).refused
        assert not hasattr(thing, "acts")


def test_attribute_of_a_module_becomes_none_and_its_parameters_stay():
    model = torch.nn.Linear(2, 2)
    model.last = torch.zeros(5)
    outcome = clear_module_attribute(model, "last", model.last)
    assert model.last is None
    assert ["set Linear.last to None"] == outcome.done
    assert 1 == len(clear_module_attribute(model, "weight", model.weight).refused)
    assert model.weight is not None


# What is registered somewhere.


@pytest.mark.parametrize("make", [queue.Queue, queue.LifoQueue, queue.SimpleQueue, asyncio.Queue])
def test_queue_is_emptied_and_whoever_joins_it_goes_on(make):
    jobs = make()
    for _ in range(3):
        (jobs.put_nowait if make is asyncio.Queue else jobs.put)(torch.zeros(4))
    outcome = empty_queue(jobs, "jobs")
    assert ["take 3 items out of jobs"] == outcome.done
    assert jobs.empty()
    if make in (queue.Queue, queue.LifoQueue):
        jobs.join()


def test_log_record_keeps_its_text(caplog):
    held = torch.ones(2)
    seen = watch(held)
    with caplog.at_level(logging.WARNING):
        logging.getLogger("train").warning("batch %s", held, extra={"logits": held})
    (record,) = caplog.records
    text = "batch tensor([1., 1.])"
    strip_log_record(record, held)
    del held
    assert seen.expired()
    assert text == record.getMessage()
    assert not hasattr(record, "logits")


def test_log_record_keeps_its_traceback_as_text(caplog):
    error, alive = fail()
    logging.getLogger("train").error("failed", exc_info=error)
    (record,) = caplog.records
    del error
    caplog.clear()
    caplog.handler.reset()
    strip_log_record(record, None)
    gc.collect()
    assert alive() is None
    assert "in train" in logging.Formatter().format(record)


def test_log_record_that_cannot_be_written_out_is_left():
    record = logging.LogRecord("train", 30, "f.py", 1, "%d items", ("many",), None)
    (sentence,) = strip_log_record(record, None).refused
    assert sentence == "a log record can't be written out (TypeError); clear its handler"
    assert ("many",) == record.args


def test_context_variable_is_set_to_none():
    current, other = contextvars.ContextVar("current"), contextvars.ContextVar("other")
    value = torch.zeros(3)
    current.set(value)
    other.set(5)
    assert ["set current to None"] == reset_variable(value, "current").done
    assert (None, 5) == (current.get(), other.get())
    assert ["current holds something else by now"] == reset_variable(value, "current").refused


def test_finalizer_is_detached_and_never_called():
    called, thing = [], Canary()
    weakref.finalize(thing, called.append, 1)
    registry = vars(weakref.finalize)["_registry"]
    (info,) = [one for one in registry.values() if one.args == (1,) and one.func == called.append]
    assert ["detach the call"] == detach_finalizer(info, "the call").done
    del thing
    assert [] == called
    assert ["the call is gone already"] == detach_finalizer(info, "the call").refused


def test_callback_of_the_collector_is_unregistered():
    def note(phase, info):
        pass

    gc.callbacks.append(note)
    unregister_callback(note, "gc.callbacks note()")
    assert all(one is not note for one in gc.callbacks)


def test_hook_of_all_modules_is_removed():
    called = []

    def save(*_):
        called.append(1)

    handle = torch.nn.modules.module.register_module_forward_hook(save)
    assert ["remove the hook"] == remove_global_hook(save, "hook").done
    torch.nn.Linear(2, 2)(torch.ones(1, 2))
    handle.remove()
    assert [] == called


# Which leaks are meant.


def leak(cuts=("x",), storages=(1,), cost="", **others):
    facts = {
        "bytes": 4096,
        "count": 1,
        "kind": "forgotten_reference",
        "holder": "closure",
        "path": (),
        "created_by": None,
        "reason": "It is held.",
        "remedy": "del x",
    }
    return Leak(**(facts | {"cost": cost, "storages": storages, "cuts": cuts} | others))


def known(*leaks, variables=(), outputs=(), cuts=()):
    return Known(leaks, {1, 2, 3}, variables, outputs, cuts)


FREE, COSTLY = leak(("a",)), leak(("b",), (2,), "Out[3]")
NAMED, RUNNING = (
    leak(("c",), (3,), on_request=True),
    leak(("d",), (3,), reclaimable=False),
)


def test_unasked_only_what_costs_nothing_is_taken():
    choice = choose(known(FREE, COSTLY, NAMED, RUNNING), None, everything=False)
    assert ([FREE], []) == (choice.leaks, choice.refused)


def test_everything_takes_what_costs_and_explains_the_rest():
    choice = choose(known(FREE, COSTLY, NAMED, RUNNING), None, everything=True)
    assert [FREE, COSTLY] == choice.leaks
    assert [
        "4.00 KiB of c may still be wanted; reclaim 'c' by name to take it",
        "4.00 KiB of d is only explained: It is held; what frees it: del x",
    ] == choice.refused


def test_what_is_asked_for_is_taken_whatever_it_costs():
    choice = choose(known(FREE, COSTLY, NAMED, RUNNING), ["b", NAMED, "d"], everything=False)
    assert [COSTLY, NAMED] == choice.leaks
    assert 1 == len(choice.refused)


def test_leak_is_matched_by_kind_cuts_and_storages():
    older = leak(("a",), (1, 9))
    choice = choose(known(FREE), [older, leak(("a",), (9,))], everything=False)
    assert [] == choice.leaks
    assert [
        "4.00 KiB of a changed since it was found; look again with `%gpumem leaks`",
        "4.00 KiB of a is gone already",
    ] == choice.refused


def test_text_is_first_what_holds_a_leak_then_a_name():
    everything = known(FREE, variables=("a", "v"), outputs=("Out[1]",), cuts=("small",))
    choice = choose(everything, ["a", "v", "Out[1]", "small", "a"], everything=False)
    assert ([FREE], ["v"], ["Out[1]"], ["small"]) == (
        choice.leaks,
        choice.variables,
        choice.outputs,
        choice.cuts,
    )


def test_act_that_fails_does_not_stop_the_others():
    def explode():
        raise RuntimeError("a lock of the user's")

    held, work = [1, 2], Work()
    work.acts["a", 1] = explode
    work.acts["b", 2] = lambda: empty_container(held, "acts")
    outcome = work.run(None)
    assert [] == held
    assert ["empty acts: 2 items"] == outcome.done
    assert [
        "one act failed with RuntimeError: a lock of the user's; the rest went on"
    ] == outcome.refused
    assert {} == work.acts


# Arrays of numpy's over large tensors.


class Holding:
    """Something with an attribute."""


def test_small_array_over_a_large_tensor_is_replaced_by_a_copy_wherever_it_stands():
    whole = torch.arange(2000.0).reshape(2, 1000)
    seen = watch(whole)
    thing, names, rows = Holding(), {"row": whole.numpy()[1:].T}, []
    names["row"].flags.writeable = False
    thing.row = names["row"]
    rows.append(names["row"])
    del whole
    outcome = copy_arrays([Target("row", names["row"], way_to("row", names))])
    assert seen.expired()
    assert names["row"] is thing.row is rows[0]
    assert list(range(1000, 2000)) == names["row"][:, 0].tolist()
    assert not names["row"].flags.writeable
    assert ["replace row by a copy"] == outcome.done


def test_arrays_that_share_memory_or_stand_in_a_tuple_are_left():
    whole = torch.arange(1000.0).numpy()
    names = {"a": whole[:10], "b": whole[5:15], "pair": (whole[20:30], "kept")}
    gc.collect()  # it does not track this tuple; Python 3.14 never did
    tied = copy_arrays([Target("a", names["a"]), Target("b", names["b"])])
    stands = Target("pair[0]", names["pair"][0], way=way_to("pair[0]", names))
    fixed = copy_arrays([stands])
    assert ["a, b: they share memory, and copies would not; `a.copy()`"] == tied.refused
    assert ["pair[0]: tuple holds it and can't be changed; `pair[0].copy()`"] == fixed.refused
    tracked = (whole[40:50], [])
    listed = copy_arrays([Target("tracked[0]", tracked[0])])
    assert [
        "tracked[0]: tuple holds it and can't be changed; `tracked[0].copy()`"
    ] == listed.refused
    names["a"][7] = -1
    assert -1 == names["b"][2]


def test_array_in_a_dict_that_the_collector_does_not_know_is_found_by_its_name():
    whole = torch.arange(1000.0).numpy()
    names = {"parts": {"first": whole[:10]}}
    del whole
    target = Target("parts['first']", names["parts"]["first"])
    if sys.version_info < (3, 14):  # which tracks every dict
        assert not gc.is_tracked(names["parts"])
        assert 1 == len(copy_arrays([target]).refused)
    target = dataclasses.replace(target, way=way_to(target.name, names))
    assert [] == copy_arrays([target]).refused
    assert names["parts"]["first"].base is None
    assert () == way_to("parts[f()]", names)
