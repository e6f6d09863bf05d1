"""What frames, errors, generators, caches and tasks hold: named, and left as it was."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import itertools
import logging
import queue
import sys
import threading
import types
import weakref
from typing import ClassVar

import pytest
import torch
from torch import nn

from nbmem.heap import StorageTable
from nbmem.heap.storages import bare_torch
from nbmem.inventory import resolve_name, take_inventory
from nbmem.inventory.frames import read_locals
from nbmem.inventory.names import write_names
from nbmem.inventory.natives import Pieces
from nbmem.inventory.paths import HOLDERS, Step
from nbmem.inventory.walk import NameWalk


@pytest.fixture(autouse=True)
def nothing_is_collected():
    """What dies must die by itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def walked(variables, outputs=None, others=()):
    """Returns the names of a walk: {name: number of values}."""
    with bare_torch():
        trail = NameWalk().run(variables, outputs or {}, others)
    try:
        texts = write_names(trail).texts
        assert len(texts) == len(trail.links)
        assert [] == trail.notes
        sizes = [trail.tensors[link.tensor].numel() for link in trail.links]
        return dict(zip(texts, sizes, strict=True))
    finally:
        trail.clear()


def lead_back(variables):
    """Returns the names, each of which leads back to a tensor of its size."""
    names = walked(variables)
    assert names == {name: resolve_name(name, variables).numel() for name in names}
    return names


def caught(function, *args):
    """Returns the error that a function raises; its traceback begins in the function."""
    try:
        function(*args)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        del args  # this frame is the caller of those in the traceback
        return error
    raise AssertionError("it did not raise")


# -- errors --------------------------------------------------------------------------------------


def step(batch):
    acts = [batch * 2]
    if acts:
        raise ValueError("too large")


def train(batch):
    kept = torch.ones(5)
    step(kept[:0] if batch is None else batch)


def test_the_frames_of_a_kept_error_are_named_by_their_functions():
    error = caught(train, torch.ones(3))
    assert {
        "err → train() → local 'batch'": 3,
        "err → train() → local 'kept'": 5,
        "err → step() → local 'batch'": 3,
        "err → step() → local 'acts'[0]": 3,
    } == lead_back({"err": error})


def test_a_traceback_and_a_frame_are_read_like_the_error():
    trace = caught(train, torch.ones(3)).__traceback__
    assert 4 == len(lead_back({"tb": trace}))
    assert {"frame → local 'batch'": 3, "frame → local 'kept'": 5} == lead_back(
        {"frame": trace.tb_frame}
    )


def test_a_frame_holds_the_frames_that_called_it():
    def inner():
        return sys._getframe()

    def outer():
        held = torch.ones(3)
        return inner(), held.numel()

    frame = outer()[0]
    assert 3 == lead_back({"f": frame})["f → outer() → local 'held'"]


class Failed(RuntimeError):
    __slots__ = ("batch",)

    @property
    def args(self):
        raise SystemExit("a property of the user's was read")

    @property
    def __cause__(self):
        raise SystemExit("a property of the user's was read")


def test_an_error_holds_its_arguments_attributes_and_the_errors_before_it():
    first = ValueError(torch.ones(1))
    error = Failed(torch.ones(2))
    BaseException.__dict__["__cause__"].__set__(error, first)
    BaseException.__dict__["__context__"].__set__(error, KeyError(torch.ones(3)))
    error.extra, error.batch = torch.ones(4), torch.ones(5)
    assert {
        "e.args[0]": 2,
        "e.extra": 4,
        "e.batch": 5,
        "e.__cause__.args[0]": 1,
        "e.__context__.args[0]": 3,
    } == lead_back({"e": error})


def test_an_attribute_error_holds_the_object_that_was_asked():
    x = torch.ones(3)
    error = caught(lambda: x.no_such_name)
    assert 3 == lead_back({"e": error})["e.obj"]


def test_the_members_of_a_group_of_errors_are_read():
    group = ExceptionGroup("all", [ValueError(torch.ones(1)), caught(train, torch.ones(3))])
    names = lead_back({"g": group})
    assert (1, 5) == (
        names["g.exceptions[0].args[0]"],
        names["g.exceptions[1] → train() → local 'kept'"],
    )


def test_an_error_without_attributes_gets_none_by_being_read():
    error = ValueError("text")
    walked({"e": error})
    assert not [one for one in gc.get_referents(error) if type(one) is dict]


def test_the_same_function_twice_in_a_traceback_gives_two_names():
    def again(n):
        held = torch.ones(n)
        if n == 2:
            raise ValueError
        again(n - 1)
        return held

    names = lead_back({"e": caught(again, 3)})
    assert {3, 2} == {names["e → again() → local 'held'"], names["e → again() → local 'held' #2"]}


def test_the_variables_of_a_module_are_not_named_through_the_frames_of_its_code():
    module = types.ModuleType("made_up_here")
    sys.modules["made_up_here"] = module
    module.x = torch.ones(3)
    try:
        error = caught(exec, "1 / 0", vars(module))
        assert {} == walked({"e": error})
    finally:
        del sys.modules["made_up_here"]
    other = {"x": torch.ones(4)}
    assert {"e → <module>() → local 'x'": 4} == lead_back({"e": caught(exec, "1 / 0", other)})


# -- what waits ----------------------------------------------------------------------------------


def produce():
    kept = torch.ones(3)
    for item in [torch.ones(4), torch.ones(5)]:
        yield item.numel() + kept.numel()


def delegate():
    outer = torch.ones(6)
    yield from produce()
    return outer


def test_a_generator_holds_its_variables_and_what_it_goes_through():
    generator = produce()
    next(generator)
    names = lead_back({"g": generator})
    assert (3, 4) == (names["g → local 'kept'"], names["g → local 'item'"])
    assert {3, 4, 5} == set(names.values())


def test_a_generator_holds_the_one_it_delegates_to():
    generator = delegate()
    next(generator)
    names = lead_back({"g": generator})
    assert (6, 3) == (names["g → local 'outer'"], names["g → produce() → local 'kept'"])


def test_a_generator_that_ended_or_never_began_holds_its_arguments_at_most():
    def generate(x):
        yield x

    fresh, ended = generate(torch.ones(3)), generate(torch.ones(4))
    list(ended)
    assert {"fresh → local 'x'": 3} == lead_back({"fresh": fresh, "ended": ended})


async def wait(future):
    inner = torch.ones(4)
    await future
    return inner


async def work(future):
    acts = torch.ones(3)
    await wait(future)
    return acts


class OwnTask(asyncio.Task):
    @property
    def _coro(self):
        raise SystemExit("a property of the user's was read")


def in_a_loop(function):
    async def run():
        future = asyncio.get_running_loop().create_future()
        try:
            return await function(future)
        finally:
            future.cancel()

    return contextvars.Context().run(asyncio.run, run())  # with no variable of other tests


def test_a_task_holds_the_variables_of_its_coroutines():
    async def run(future):
        task = asyncio.create_task(work(future))
        own = OwnTask(work(future))
        own.extra = torch.ones(9)
        await asyncio.sleep(0)
        return lead_back({"task": task}), lead_back({"own": own})

    plain, own = in_a_loop(run)
    assert (3, 4) == (
        plain["task → work() → local 'acts'"],
        plain["task → work() → wait() → local 'inner'"],
    )
    assert (3, 9) == (own["own → work() → local 'acts'"], own["own.extra"])


def test_a_future_holds_its_result_its_error_and_its_callbacks():
    async def run(future):
        done, failed = (asyncio.get_running_loop().create_future() for _ in range(2))
        done.set_result([torch.ones(1)])
        failed.set_exception(ValueError(torch.ones(2)))
        future.add_done_callback(functools.partial(print, torch.ones(3)))
        names = lead_back({"done": done, "failed": failed, "future": future})
        future._callbacks.clear()
        future.remove_done_callback(print)
        failed.exception()
        return names

    names = in_a_loop(run)
    assert 1 == names["done._result[0]"]
    assert 2 == names["failed._exception.args[0]"]
    assert 3 == names["future → callback 0.args[0]"]


def test_looking_at_a_failed_future_does_not_mark_its_error_as_seen():
    async def run(future):
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ValueError())
        walked({"f": failed})
        seen = not failed._log_traceback
        failed.exception()
        return seen

    assert in_a_loop(run) is False


def test_futures_written_in_python_are_read_too():
    loop = asyncio.new_event_loop()
    try:
        future = asyncio.futures._PyFuture(loop=loop)
        future.set_result(torch.ones(3))
        assert 3 == walked({"f": future})["f._result"]
    finally:
        loop.close()


def test_an_async_generator_holds_its_variables():
    async def run(future):
        async def generate():
            kept = torch.ones(3)
            yield kept.numel()

        generator = generate()
        await anext(generator)
        names = lead_back({"g": generator})
        await generator.aclose()
        return names

    assert {"g → local 'kept'": 3} == in_a_loop(run)


# -- caches, queues and other objects of C -------------------------------------------------------


@pytest.mark.parametrize("size", [None, 8])
def test_a_cached_function_holds_its_results(size):
    @functools.lru_cache(size)
    def load(n):
        return {"data": torch.ones(n)}

    load(3), load(4)
    names = lead_back({"load": load})
    assert {"load → cached result 0['data']": 3, "load → cached result 1['data']": 4} == names
    load.cache_clear()
    assert {} == walked({"load": load})


def test_a_cached_function_holds_the_arguments_it_was_called_with():
    @functools.cache
    def total(x):
        return 1

    x = torch.ones(3)
    total(x)
    del x
    assert [3] == list(lead_back({"total": total}).values())


def test_a_cached_function_holds_what_its_closure_and_attributes_hold():
    held = torch.ones(3)

    @functools.lru_cache
    def load(n):
        return held.numel() + n

    load.extra = torch.ones(4)
    names = lead_back({"load": load})
    assert (3, 4) == (names["load.__wrapped__ → closure held"], names["load.extra"])


def test_what_waits_in_a_simple_queue_is_counted_from_the_next():
    waiting = queue.SimpleQueue()
    for n in (1, 2, 3):
        waiting.put(torch.ones(n))
    waiting.get()
    assert {"q → queued item 0": 2, "q → queued item 1": 3} == lead_back({"q": waiting})


class WithInit(threading.local):
    made_in: ClassVar[list[str]] = []

    def __init__(self):
        self.made_in.append(threading.current_thread().name)
        self.own = torch.ones(4)


def test_what_a_thread_local_keeps_is_named_for_its_own_thread_and_counted_for_others():
    plain, with_init = threading.local(), WithInit()
    plain.acts, plain.deep = torch.ones(1), {"k": torch.ones(2)}
    ready, done = threading.Event(), threading.Event()

    def work():
        plain.acts = torch.ones(3)
        ready.set()
        done.wait()

    worker = threading.Thread(target=work)
    worker.start()
    assert ready.wait(60)
    names = {"t.acts": 1, "t.deep['k']": 2, "t → thread 1['acts']": 3, "u.own": 4}
    assert names == lead_back({"t": plain, "u": with_init})
    seen = []
    other = threading.Thread(target=lambda: seen.append(lead_back({"t": plain, "u": with_init})))
    other.start()
    other.join()
    assert [names] == seen  # looking from a thread makes nothing for it
    assert [threading.current_thread().name] == WithInit.made_in
    done.set()
    worker.join()


def test_buffers_of_iterators_are_found():
    round_and_round = itertools.cycle(iter([torch.ones(3)]))
    next(round_and_round)
    one, other = itertools.tee(iter([torch.ones(4), torch.ones(5)]))
    next(one)
    names = lead_back({"c": round_and_round, "one": one, "other": other})
    assert {3, 4, 5} == set(names.values())


def test_objects_that_hold_one_thing_say_so():
    held = [torch.ones(1)]
    held_by_callback, owner = torch.ones(2), nn.Identity()
    reference = weakref.ref(owner, lambda _: held_by_callback)
    variables = {
        "append": held.append,
        "view": memoryview(torch.ones(3).numpy()),
        "proxy": types.MappingProxyType({"x": torch.ones(4), object(): torch.ones(5)}),
        "cell": types.CellType(torch.ones(6)),
        "empty": types.CellType(),
        "reference": reference,
        "partial": [functools.partial(print, torch.ones(7))],
    }
    assert {
        "append.__self__[0]": 1,
        "view.obj.base": 3,
        "proxy['x']": 4,
        "cell.cell_contents": 6,
        "reference.__callback__ → closure held_by_callback": 2,
        "partial[0].args[0]": 7,
    }.items() <= lead_back(variables).items()


def test_a_released_view_is_no_trouble():
    view = memoryview(bytearray(3))
    view.release()
    assert {"x": 3} == walked({"view": view, "x": torch.ones(3)})


def test_a_finalizer_holds_its_arguments():
    owner = nn.Identity()
    finalizer = weakref.finalize(owner, dict, [("a", torch.ones(3))], k=torch.ones(4))
    assert {"fin.args[0][0][1]": 3, "fin.kwargs['k']": 4} == lead_back({"fin": finalizer})
    finalizer.detach()
    assert {} == walked({"fin": finalizer})


def test_a_log_record_holds_its_arguments():
    record = logging.LogRecord("n", 10, "p", 1, "%s %s", (torch.ones(3), 1), None)
    assert {"r.args[0]": 3} == lead_back({"r": record})


def test_a_context_holds_values_by_the_names_of_their_variables():
    variable = contextvars.ContextVar("state")
    context = contextvars.Context()
    context.run(variable.set, [torch.ones(3)])
    assert {"c → context variable 'state'[0]": 3} == lead_back({"c": context})


def test_a_context_variable_holds_its_default_and_a_token_the_value_before():
    variable = contextvars.ContextVar("state", default=torch.ones(3))  # noqa: B039
    context = contextvars.Context()
    token = context.run(lambda: (variable.set(torch.ones(4)), variable.set(torch.ones(5)))[1])
    names = lead_back({"v": variable, "t": token})
    assert {3, 4, 5} == set(names.values())


# -- other roots ---------------------------------------------------------------------------------


def test_other_roots_are_walked_last_and_named_by_their_texts():
    error = caught(train, torch.ones(3))
    names = walked(
        {"x": torch.ones(1)}, {"Out[1]": torch.ones(2)}, [("traceback of cell [7]", error)]
    )
    assert ["x", "Out[1]", "traceback of cell [7] → train() → local 'batch'"] == list(names)[:3]
    assert "traceback of cell [7] → step() → local 'acts'[0]" in names


def test_a_tensor_may_be_such_a_root_itself():
    assert {"gc.garbage[0]": 3} == walked({}, {}, [("gc.garbage[0]", torch.ones(3))])


def test_a_variable_with_many_names_still_shows_who_else_holds_it():
    x = torch.ones(3)
    names = walked({f"n{n}": x for n in range(40)}, {}, [("traceback of cell [7]", [x])])
    assert "traceback of cell [7][0]" in names


def test_pieces_stand_for_what_has_no_object_of_its_own():
    error = caught(train, torch.ones(3))
    pieces = Pieces([(Step.FRAME, "train", error.__traceback__.tb_frame), (Step.ATTRIBUTE, "n", 1)])
    names = walked({}, {}, [("thread 'loader'", pieces)])
    assert 5 == names["thread 'loader' → train() → local 'kept'"]


def test_each_kind_of_step_has_words():
    assert set(Step) == set(HOLDERS)
    assert ("frame", "local") == (HOLDERS[Step.FRAME], HOLDERS[Step.LOCAL])


def test_the_frame_of_a_running_thread_is_read_while_it_runs():
    started, go_on = threading.Event(), threading.Event()
    died = []

    def load(batch):
        held = torch.ones(4)
        weakref.finalize(held, died.append, "held")
        started.set()
        go_on.wait()
        del held
        died.append("after del")
        go_on.wait()

    thread = threading.Thread(target=load, args=(torch.ones(3),))
    thread.start()
    started.wait()
    frame = sys._current_frames()[thread.ident]
    while frame.f_code is not load.__code__:
        frame = frame.f_back
    names = walked({"f": frame})
    del frame
    go_on.set()
    thread.join()
    assert {"f → local 'batch'": 3, "f → local 'held'": 4} == {
        name: size for name, size in names.items() if "closure" not in name and "inside" not in name
    }
    assert ["held", "after del"] == died


# -- looking changes nothing ---------------------------------------------------------------------


class Thing:
    pass


def look():
    return walked({"f": sys._getframe(1)})


def asked_for(more):
    kept = [torch.ones(3)]
    names = locals()
    if more:
        names["other"] = torch.ones(4)
    del names
    return kept and sys._getframe()


def test_the_copy_that_python_3_11_keeps_of_variables_is_told_only_where_it_has_more():
    plain = asked_for(more=False)
    assert {"f → local 'kept'[0]": 3} == walked({"f": plain})
    frame = asked_for(more=True)
    told = walked({"f": frame})
    assert 3 == told.pop("f → local 'kept'[0]")
    is_kept = sys.version_info < (3, 13)
    assert is_kept == any(name.endswith("['other']") for name in told)


def test_a_variable_deleted_after_a_look_dies_at_once():
    held = torch.ones(3)
    alive = weakref.ref(held)
    assert 3 == look()["f → local 'held'"]
    del held
    assert alive() is None


def test_a_variable_that_a_cell_shares_dies_at_once_too():
    held = torch.ones(3)
    alive = weakref.ref(held)

    def shares():
        return held

    assert 3 == look()["f → local 'held'"]
    held = None
    assert alive() is None
    assert shares is not None


def test_the_users_own_locals_are_as_they_were():
    first = Thing()
    mine = locals()
    mine["added"] = 1
    late = torch.ones(3)
    alive = weakref.ref(late)
    before = dict(mine)
    assert 3 == look()["f → local 'late'"]
    assert list(before) == list(mine)
    assert all(before[name] is mine[name] for name in before)
    del late, before
    assert alive() is None
    assert first is not None


def test_a_debuggers_dict_of_a_finished_frame_is_as_it_was():
    def fail():
        mine = locals()
        late = torch.ones(3)
        raise ValueError(mine, late.numel())

    error = caught(fail)
    mine = error.args[0]
    assert 3 == lead_back({"e": error})["e → fail() → local 'late'"]
    assert {} == mine


def test_the_variables_of_a_generator_die_with_it():
    generator = produce()
    next(generator)
    alive = [
        weakref.ref(value)
        for _, value in read_locals(generator.gi_frame)
        if issubclass(type(value), torch.Tensor)
    ]
    assert 2 == len(alive)
    walked({"g": generator})
    generator.close()
    assert [None, None] == [one() for one in alive]


def test_clearing_the_frames_of_an_error_after_a_look_frees_what_they_held():
    error = caught(train, torch.ones(3))
    alive = weakref.ref(dict(read_locals(error.__traceback__.tb_frame))["kept"])
    walked({"e": error})
    trace = error.__traceback__
    while trace is not None:
        trace.tb_frame.clear()
        trace = trace.tb_next
    assert alive() is None
    assert {} == walked({"e": error})


def test_the_namespace_of_a_class_body_is_as_it_was():
    class Body:
        x = torch.ones(3)
        frame = sys._getframe()
        before = len(frame.f_locals)

        def method(self):
            return __class__

    namespace = next(one for one in gc.get_referents(Body.frame) if type(one) is dict)
    kept = dict(namespace)
    names = lead_back({"f": Body.frame})
    assert 3 in names.values()
    assert kept.items() == namespace.items()


def test_unbound_variables_are_left_out():
    def body():
        gone = torch.ones(3)
        del gone
        here = torch.ones(4)
        return dict(read_locals(sys._getframe())), here

    assert ["here"] == list(body()[0])


def test_every_kind_of_variable_has_its_own_value():
    outer = "free"

    def body(a, /, b, *args, c="c", **kwargs):
        shared, local = "shared", "local"

        def inner():
            return shared, outer, a

        return dict(read_locals(sys._getframe())), inner, local

    found = body("a", "b", "d", e="e")[0]
    inner = found.pop("inner")
    assert types.FunctionType is type(inner)
    expected = {"a": "a", "b": "b", "c": "c", "args": ("d",), "kwargs": {"e": "e"}}
    assert expected | {"shared": "shared", "local": "local", "outer": "free"} == found


# -- asked again ---------------------------------------------------------------------------------


def make_generator():
    first = torch.ones(3)
    yield 1
    second = first
    del first
    yield 2
    return second


def cached():
    @functools.lru_cache
    def load(n):
        return torch.ones(n)

    load(3)
    return load


def error_with_attributes():
    error = ValueError()
    error.one = torch.ones(3)
    return error


def rename_attribute(error):
    error.two = error.one
    del error.one


def a_queue():
    waiting = queue.SimpleQueue()
    waiting.put(1)
    waiting.put(torch.ones(3))
    return waiting


CHANGES = {
    "a generator went on": (make_generator, next, next),
    "a cache got one more": (cached, lambda load: load(4), None),
    "a cache was cleared": (cached, lambda load: load.cache_clear(), None),
    "an attribute of an error": (error_with_attributes, rename_attribute, None),
    "an error got a cause": (
        error_with_attributes,
        lambda error: setattr(error, "__cause__", ValueError(error.one)),
        None,
    ),
    "an error lost its frames": (
        lambda: caught(train, torch.ones(3)),
        lambda error: setattr(error, "__traceback__", None),
        None,
    ),
    "frames were cleared": (
        lambda: caught(train, torch.ones(3)),
        lambda error: error.__traceback__.tb_frame.clear(),
        None,
    ),
    "the queue moved on": (a_queue, lambda waiting: waiting.get(), None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_inventory_asked_again_sees_the_change(change):
    make, act, prepare = CHANGES[change]
    thing = make()
    if prepare is not None:
        prepare(thing)
    names, table = {"thing": thing}, StorageTable()
    keep = torch.ones(3)  # something is always there
    first = take_inventory(table, names, budget=60, now=0.0)
    assert first.storages is take_inventory(table, names, budget=60, now=0.0).storages
    act(thing)
    now = take_inventory(table, names, budget=60, now=0.0)
    told, before = now.storages, first.storages
    del now, first
    anew = take_inventory(table, names, budget=60, now=0.0)  # nobody holds the last one
    assert sorted(map(repr, anew.storages)) == sorted(map(repr, told))
    assert sorted(map(repr, before)) != sorted(map(repr, told))
    assert keep is not None


def test_the_event_loop_is_no_way_from_one_task_to_another():
    async def run(future):
        other = asyncio.create_task(work(future))
        await asyncio.sleep(0)
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        names = walked({"task": task})
        task.cancel()
        return names, other

    assert {} == in_a_loop(run)[0]


def test_many_weak_references_and_functions_of_c_are_no_containers():
    owner = nn.Identity()
    held = {"refs": [weakref.ref(owner) for _ in range(5)], "functions": [len, print, [].append]}
    with bare_torch():
        trail = NameWalk().run(held, {})
    nodes = len(trail.nodes)
    trail.clear()
    assert 4 == nodes  # both lists, the bound function and the list that it is bound to


def test_what_breaks_the_mark_is_listed_and_not_remembered(monkeypatch):
    from nbmem.inventory import again

    def refuse(*_):
        raise RuntimeError

    monkeypatch.setattr(again, "held_by_native", refuse)
    names, table = {"e": ValueError(torch.ones(3))}, StorageTable()
    first = take_inventory(table, names, budget=60, now=0.0)
    assert [("e.args[0]",)] == [r.names for r in first.storages if r.names]
    assert first.storages is not take_inventory(table, names, budget=60, now=0.0).storages
