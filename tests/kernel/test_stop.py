"""Stop in a real kernel while nbmem is at work: the cell ends, and those behind it do not run."""

from __future__ import annotations

import time

import pytest

HEAP = (
    "heap = [{'n': n} for n in range(100_000)]\ntensors = [torch.zeros(10) for _ in range(3_000)]\n"
)
STOPPING = '''
import gc, os, signal, sys, threading
import nbmem

class Stopping:
    """Sends Ctrl-C at the n-th line of nbmem that runs for the cell behind this one."""
    def __init__(self, number):
        self.number, self.count, self.begun, self.place = number, 0, False, None
    def __call__(self, frame, event, arg):
        code = frame.f_code
        if not code.co_filename.startswith(nbmem.__path__[0]):
            return None
        self.begun = self.begun or code.co_name == "pre_run_cell"
        return self.line if self.begun else None
    def line(self, frame, event, arg):
        if event == "line":
            self.count += 1
            if self.count == self.number:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self.line

def alive():
    sizes = {}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor:
            storage = thing.untyped_storage()
            sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
'''
CELL = "%%gpumem\nran.append(1); x = torch.zeros(1000); y = torch.stack([x, x])"
AWAITING = "%%gpumem\nimport asyncio\nawait asyncio.sleep(0)\nran.append(1); x = torch.zeros(1000)"
NEXT = "%%gpumem -q -o rec\nkept = torch.ones(1000); gone = torch.zeros(2000); del gone"


def queue(kernel, *codes):
    """Sends cells without waiting; returns the ids of the requests."""
    return [kernel.client.execute(code) for code in codes]


def stopped(reply):
    return ("error", "KeyboardInterrupt") == (reply["status"], reply.get("ename"))


def check_next_record(kernel):
    kernel.run("rec = None\nkept = None")
    reply, _ = kernel.run("before = alive()")
    assert "ok" == reply["status"]
    reply, _ = kernel.run(NEXT)
    assert "ok" == reply["status"]
    told = "(rec.devices['cpu'].before - before, rec.devices['cpu'].delta, rec.status, rec.notes)"
    assert "(0, 4000, 'ok', ())" == kernel.value(told)
    peak = "rec.devices['cpu'].peak - before, rec.devices['cpu'].unattributed"
    assert "(12000, 0)" == kernel.value(peak)
    assert "True" == kernel.value("alive() == before + 4000")


# The handler that ipykernel has for a cell that awaits is nbmem's only while nbmem is at work.
@pytest.mark.parametrize(
    ("cell", "start"), [(CELL, 5), (AWAITING, 60)], ids=["cell", "awaiting cell"]
)
def test_stop_at_any_line_of_nbmems_own_work(kernel, cell, start):
    kernel.run(STOPPING)
    kernel.run("ran = []")
    kernel.run(cell)
    kernel.run("counting = Stopping(0); sys.settrace(counting)")
    kernel.run(cell)
    kernel.run("sys.settrace(None)")
    total = int(kernel.value("counting.count"))
    for number in range(start, total, total // 9):
        kernel.run(f"ran = []; stopping = Stopping({number}); had = len(nbmem.get_history())")
        kernel.run("sys.settrace(stopping)")
        first, *others = queue(kernel, cell, "ran.append(2)", "ran.append(3)")
        replies = [kernel.reply_to(request) for request in (first, *others)]
        kernel.run("sys.settrace(None)")
        place = kernel.value("stopping.place")
        if place == "None":
            continue  # it ran through fewer lines than the time before
        assert stopped(replies[0]), place
        assert ["aborted", "aborted"] == [reply["status"] for reply in replies[1:]], place
        assert kernel.value("ran") in ("[]", "[1]"), place
        made = "{record.status for record in nbmem.get_history().records()[had:]}"
        assert kernel.value(made) in ("{'interrupted'}", "set()"), place  # none: before it was read
        modes = "torch._C._len_torch_dispatch_stack(), gc.isenabled()"
        assert "(0, True)" == kernel.value(modes), place
        check_next_record(kernel)


def test_the_stop_button_in_a_long_look_on_a_large_heap(kernel):
    kernel.run(STOPPING)
    kernel.run(HEAP)
    kernel.run("%gpumem on")
    # the timer runs out in the look after its cell, or in one of those of the cells behind
    send = "ran = []; threading.Timer({}, os.kill, (os.getpid(), signal.SIGINT)).start()"
    for seconds in (0.05, 0.1, 0.2):
        first, *others = queue(kernel, send.format(seconds), "ran.append(2)", "ran.append(3)")
        replies = [kernel.reply_to(request) for request in (first, *others)]
        at = next(n for n, reply in enumerate(replies) if stopped(reply))
        assert all(reply["status"] == "aborted" for reply in replies[at + 1 :])
        time.sleep(0.3)
        kernel.run("%gpumem off")
        check_next_record(kernel)
        kernel.run("%gpumem on")


def test_a_failing_operation_is_told_as_by_plain_torch(kernel):
    failing = (
        "import traceback\ntry: torch.ones(2, 3) @ torch.ones(2, 3)\n"
        "except RuntimeError: told = traceback.format_exc()\ntorch.empty(1 << 60)"
    )
    plain, outputs = kernel.run(failing)
    shown = next(told["content"] for told in outputs if told["msg_type"] == "error")
    measured, outputs = kernel.run("%%gpumem\n" + failing)
    again = next(told["content"] for told in outputs if told["msg_type"] == "error")
    assert (plain["ename"], plain["evalue"]) == (measured["ename"], measured["evalue"])
    assert len(shown["traceback"]) == len(again["traceback"])
    assert "nbmem" not in "".join(again["traceback"])
    assert "False" == kernel.value("'nbmem' in told")
    kernel.run("import sys, traceback")
    last = "list(traceback.walk_tb(sys.last_value.__traceback__))[-1][0].f_globals is globals()"
    assert "True" == kernel.value(last)
