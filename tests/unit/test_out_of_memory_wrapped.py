"""Errors around an out-of-memory error, and errors that are hard to read."""

import contextlib
import gc
import weakref

import pytest
import torch

from nbmem.session.endings import ending_of, failure_of

MIB = 2**20
TEXT = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1.00 GiB of "
    "which 2.00 MiB is free."
)


def run_out():
    raise torch.OutOfMemoryError(TEXT)


def error_of(function):
    try:
        function()
    except BaseException as error:
        return error


def read(function):
    error = error_of(function)
    return failure_of(type(error), error)


def from_cause():
    try:
        run_out()
    except RuntimeError as error:
        raise ValueError("step 7 failed") from error


def from_cause_twice():
    try:
        from_cause()
    except ValueError as error:
        raise KeyError("epoch") from error


def in_a_group():
    raise ExceptionGroup("workers", [ValueError("no"), ExceptionGroup("0", [error_of(run_out)])])


def raised_in_the_handler():
    try:
        run_out()
    except RuntimeError:
        raise LookupError("use a smaller batch")  # noqa: B904 - as many people write it


def raised_in_a_with_of_the_handler():
    try:
        run_out()
    except RuntimeError:
        with torch.no_grad():
            raise LookupError("use a smaller batch")  # noqa: B904


@pytest.mark.parametrize(
    "function",
    [
        from_cause,
        from_cause_twice,
        in_a_group,
        raised_in_the_handler,
        raised_in_a_with_of_the_handler,
    ],
)
def test_an_error_around_one_is_out_of_memory_with_its_figures(function):
    ending = read(function)
    assert ("oom", 20 * MIB, 2 * MIB) == (ending.status, ending.oom.asked, ending.oom.free)
    assert ending.error.startswith(type(error_of(function)).__name__)


def test_a_wrapper_that_repeats_the_words_without_figures_gets_those_of_its_cause():
    def function():
        try:
            run_out()
        except RuntimeError as error:
            raise RuntimeError("worker 3: CUDA out of memory.") from error

    assert 20 * MIB == read(function).oom.asked


def test_what_a_worker_sent_back_as_text_is_out_of_memory():
    def function():
        raise RuntimeError(
            "Caught OutOfMemoryError in replica 0 on device 0.\nOriginal Traceback (most recent "
            f'call last):\n  File "x.py", line 1\ntorch.OutOfMemoryError: {TEXT}\n'
        )

    assert ("oom", 20 * MIB) == (read(function).status, read(function).oom.asked)


def test_a_traceback_sent_as_text_counts_by_the_error_that_ended_it():
    caught = f"Traceback (most recent call last):\nRuntimeError: {TEXT}\n\n{{}}\n\nTraceback (most "
    caught += "recent call last):\nNameError: name 'undefined' is not defined"
    ended = {
        "During handling of the above exception, another exception occurred:": "error",
        "The above exception was the direct cause of the following exception:": "oom",
    }
    for words, status in ended.items():
        error = NameError("name 'undefined' is not defined")
        error.__cause__ = type("_RemoteTraceback", (Exception,), {})(caught.format(words))
        assert status == failure_of(NameError, error).status


def failing_print():
    try:
        run_out()
    except RuntimeError as error:
        print(error, undefined)  # noqa: F821, T201


def failing_retry():
    def retry():
        raise ValueError("batch of 0 items")

    try:
        run_out()
    except RuntimeError:
        retry()


def from_none():
    try:
        run_out()
    except RuntimeError:
        raise ValueError("pick another model") from None


def after_it_was_handled():
    with contextlib.suppress(RuntimeError):
        run_out()
    raise ValueError("something else")


@pytest.mark.parametrize(
    "function", [failing_print, failing_retry, from_none, after_it_was_handled]
)
def test_an_error_of_its_own_while_one_is_handled_is_that_error(function):
    assert ("error", None) == read(function)[::2]


def test_an_interrupt_while_one_is_handled_is_an_interrupt():
    def function():
        try:
            run_out()
        except RuntimeError:
            raise KeyboardInterrupt  # noqa: B904

    assert "interrupted" == read(function).status


def test_a_chain_that_goes_in_circles_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert "error" == failure_of(ValueError, one).status
    two.__cause__ = None
    two.__context__ = one
    assert "error" == failure_of(ValueError, one).status


def test_a_chain_of_thousands_is_not_followed_to_its_end():
    first = last = ValueError("0")
    for number in range(5000):
        last.__cause__ = ValueError(str(number))
        last = last.__cause__
    assert "error" == failure_of(ValueError, first).status
    while first is not None:  # taken apart by hand: freeing a long chain at once would recurse
        following, first.__cause__ = first.__cause__, None
        first = following


def test_numpys_error_as_a_cause_tells_its_size():
    numpy = pytest.importorskip("numpy")

    def function():
        try:
            numpy.empty((2**40, 3), dtype="float32")
        except MemoryError as error:
            raise RuntimeError("no room for the table") from error

    ending = read(function)
    assert ("oom", 3 * 2**42) == (ending.status, ending.oom.asked)


# Errors that run code when they are read.


class Told(RuntimeError):
    asked = 0

    def __str__(self):
        type(self).asked += 1
        return TEXT


class Silent(Told):
    def __str__(self):
        type(self).asked += 1
        raise LookupError("no text")


class False_(RuntimeError):
    def __bool__(self):
        raise LookupError("neither true nor false")


def test_an_error_is_asked_for_its_text_once():
    Told.asked = 0
    assert "oom" == failure_of(Told, Told()).status
    assert 1 == Told.asked


def test_errors_behind_it_are_not_asked_at_all():
    def function():
        raise ValueError("step") from Told()

    Told.asked = 0
    assert "error" == read(function).status  # its arguments say nothing
    assert 0 == Told.asked


def test_an_error_whose_text_raises_is_told_by_its_type():
    assert ("error", "Silent") == failure_of(Silent, Silent())[:2]
    kind = type("OutOfMemoryError", (Silent,), {})
    assert ("oom", "OutOfMemoryError") == failure_of(kind, kind())[:2]


def test_an_error_that_is_neither_true_nor_false_is_an_error():
    result = type("Result", (), {"error_before_exec": None, "error_in_exec": False_(TEXT)})()
    assert "oom" == ending_of(result).status


def test_a_huge_text_is_read_at_both_ends_and_kept_short():
    text = "x " * 5_000_000 + "9" * 5_000 + " " + TEXT
    ending = failure_of(RuntimeError, RuntimeError(text))
    assert ("oom", 20 * MIB) == (ending.status, ending.oom.asked)
    assert len(ending.error) < 600
    assert len(ending.oom.text) < 2000


def test_nothing_of_the_error_is_kept():
    class Held:
        pass

    def function():
        held = Held()
        references.append(weakref.ref(held))
        raise torch.OutOfMemoryError(TEXT)

    references = []
    error = error_of(function)
    ending = failure_of(type(error), error)
    del error
    gc.collect()
    assert references[0]() is None
    assert "oom" == ending.status
