"""The single acts of reclaiming: what each takes, and all that it leaves as it was."""

from __future__ import annotations

import gc
import inspect
import sys
import traceback
import weakref

import pytest
import torch

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
