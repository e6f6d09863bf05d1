"""What is told of a cell while it runs, by a thread that only reads counters."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch
from simulated_cuda import SimulatedCuda

from nbmem.session import current_session
from nbmem.session.sampling import FIRST, PERIOD

MIB = 2**20
NOT_MEASURED = "not measured: %gpumem on records every cell"
PATIENCE = 30


class Ear:
    """Keeps what it is told; `wait` returns once something true of it is."""

    def __init__(self):
        self.heard = []
        self.threads = set()
        self._news = threading.Condition()

    def __call__(self, reading):
        with self._news:
            self.heard.append(reading)
            self.threads.add(threading.current_thread().name)
            self._news.notify_all()

    def wait(self, number):
        """Waits for `number` more readings, all made after this call began but the first."""
        with self._news:
            until = len(self.heard) + number
            assert self._news.wait_for(lambda: len(self.heard) >= until, PATIENCE)
            return self.heard[-1]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", lambda: None)


@pytest.fixture
def session(shell):
    shell.run_line_magic("load_ext", "nbmem")
    return current_session()


@pytest.fixture
def ear(session, shell):
    made = Ear()
    end = session.sampler.subscribe(made)
    shell.user_ns["ear"] = made
    yield made
    end()


def run(shell, *lines, **options):
    result = shell.run_cell("\n".join(lines), store_history=True, **options)
    assert result.success, result.error_in_exec
    return result


def wait_for_the_last_thread():
    for thread in threading.enumerate():
        if thread.name == "nbmem-sampler":
            thread.join(PATIENCE)


def sampler_threads():
    return [t.name for t in threading.enumerate() if t.name == "nbmem-sampler"]


def test_figures_follow_what_the_running_cell_makes_and_frees(shell, ear):
    run(
        shell,
        "%%gpumem fill it up",
        "import torch",
        "base = ear.wait(2).allocated",
        "kept = torch.zeros(3 * 2**20, dtype=torch.uint8)",
        "first = ear.wait(2)",
        "more = torch.zeros(5 * 2**20, dtype=torch.uint8)",
        "del more",
        "second = ear.wait(2)",
    )
    base, first, second = (shell.user_ns[name] for name in ("base", "first", "second"))
    assert base + 3 * MIB == first.allocated == first.peak
    assert base + 3 * MIB == second.allocated
    assert base + 8 * MIB == second.peak
    assert "cpu" == first.device
    assert first.capacity > 64 * MIB
    assert "" == first.note


def test_what_is_read_meanwhile_changes_nothing_in_the_record(shell, session, ear):
    run(
        shell,
        "%%gpumem",
        "import torch",
        "old = torch.zeros(2 * 2**20, dtype=torch.uint8)",
        "passing = torch.zeros(4 * 2**20, dtype=torch.uint8)",
        "del passing",
        "ear.wait(3)",
        "kept = torch.zeros(2**20, dtype=torch.uint8)",
    )
    cpu = session.history.last().devices["cpu"]
    assert 3 * MIB == cpu.delta
    assert cpu.before + 6 * MIB == cpu.peak
    assert 0 == cpu.unattributed


def test_a_cell_is_told_by_number_id_and_label_and_its_end_comes_last_and_once(shell, ear):
    number = shell.execution_count
    run(shell, "%%gpumem train one epoch", "ear.wait(3)", cell_id="c7")
    told = {(r.number, r.cell_id, r.title) for r in ear.heard}
    assert {(number, "c7", "train one epoch")} == told
    assert [False] == [r.running for r in ear.heard if not r.running]
    assert not ear.heard[-1].running
    assert ear.heard[0].seconds >= FIRST
    assert ear.heard[-1].seconds >= ear.heard[-2].seconds


def test_there_are_at_most_five_readings_a_second(shell, ear):
    run(shell, "ear.wait(6)")
    times = [reading.seconds for reading in ear.heard if reading.running]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) >= 5
    assert min(gaps) >= PERIOD - 0.005


def test_of_a_cell_that_nobody_measures_the_cpu_is_not_known_and_why(shell, ear):
    run(shell, "# count", "import torch", "x = torch.zeros(2**20)", "ear.wait(2)")
    for reading in ear.heard:
        assert (None, None, NOT_MEASURED) == (reading.allocated, reading.peak, reading.note)
        assert "# count" == reading.title


def test_of_a_cell_that_nobody_measures_an_accelerator_still_tells_its_bytes(shell, monkeypatch):
    cuda = SimulatedCuda(monkeypatch, count=1)
    shell.run_line_magic("load_ext", "nbmem")
    ear = Ear()
    end = current_session().sampler.subscribe(ear)
    shell.user_ns.update(ear=ear, cuda=cuda)
    run(shell, "cuda.devices[0].allocate(64 * 2**20)", "ear.wait(2)")
    end()
    reading = ear.heard[-1]
    assert ("cuda:0", 64 * MIB, None) == (reading.device, reading.allocated, reading.peak)
    assert f"peak {NOT_MEASURED}" == reading.note


def test_a_short_cell_is_not_told_of(shell, ear):
    run(shell, "%%gpumem", "x = 1")
    assert [] == ear.heard


def test_without_a_listener_there_is_no_thread(shell, session):
    shell.user_ns["threads"] = sampler_threads
    run(shell, "found = threads()")
    assert [] == shell.user_ns["found"]
    end = session.sampler.subscribe(Ear())
    run(shell, "found = threads()")
    assert ["nbmem-sampler"] == shell.user_ns["found"]
    wait_for_the_last_thread()
    end()
    run(shell, "found = threads()")
    assert [] == shell.user_ns["found"]


def test_the_thread_is_the_samplers_own_and_goes_with_the_cell(shell, ear):
    run(shell, "import threading", "ear.wait(1)")
    assert {"nbmem-sampler", threading.current_thread().name} == ear.threads
    assert not ear.heard[-1].running


def test_who_listens_from_the_middle_of_a_cell_is_told_at_once(shell, session):
    ear = Ear()
    ends = []

    def listen():
        thread = threading.Thread(target=lambda: ends.append(session.sampler.subscribe(ear)))
        thread.start()
        thread.join()

    shell.user_ns.update(listen=listen, ear=ear)
    run(shell, "%%gpumem", "listen()", "ear.wait(2)")
    assert 3 <= len(ear.heard)
    ends[0]()


def test_who_listens_and_fails_hears_no_more_until_the_end_and_disturbs_nobody(shell, session, ear):
    heard = []

    def fail(reading):
        heard.append(reading.running)
        raise ZeroDivisionError("mine")

    end = session.sampler.subscribe(fail)
    run(shell, "ear.wait(3)", "x = 5")
    end()
    assert 5 == shell.user_ns["x"]
    assert [True, False] == heard
    assert ["ZeroDivisionError: mine"] * 2 == [t.summary for t in session.troubles.all()]


def test_counters_that_fail_are_one_line_and_are_tried_again(shell, session, ear):
    table, glance = session.table, session.table.glance
    failures = []

    def broken(device):
        if len(failures) < 2:
            failures.append(device)
            raise OSError("no counters today")
        return glance(device)

    table.glance = broken
    run(shell, "%%gpumem", "import torch", "x = torch.zeros(2**20)", "ear.wait(3)")
    del table.glance
    assert ["cpu", "cpu"] == failures
    for reading in ear.heard[:2]:
        assert (None, None, "") == (reading.allocated, reading.peak, reading.device)
        assert "its counters cannot be read" == reading.note
    base = session.history.last().devices["cpu"].before
    assert (base + 4 * MIB, "") == (ear.heard[2].peak, ear.heard[2].note)
    assert ["OSError: no counters today"] == [t.summary for t in session.troubles.all()]


def test_unloading_in_the_middle_of_a_cell_ends_the_thread(shell, session):
    ear = Ear()
    session.sampler.subscribe(ear)
    shell.user_ns.update(ear=ear, threads=sampler_threads)
    run(shell, "%%gpumem", "ear.wait(2)", "%unload_ext nbmem", "left = threads()")
    assert [] == shell.user_ns["left"]
    assert all(reading.running for reading in ear.heard)


def test_asked_between_cells_there_is_nothing_to_read(session):
    assert session.sampler.read() is None


def test_asked_in_a_cell_the_counters_are_read_at_once(shell, session):
    run(
        shell,
        "%%gpumem",
        "import torch; from nbmem.session import current_session",
        "before = current_session().sampler.read()",
        "x = torch.zeros(2**20)",
        "after = current_session().sampler.read()",
    )
    before, after = shell.user_ns["before"], shell.user_ns["after"]
    assert before.allocated + 4 * MIB == after.allocated == after.peak


def test_who_asked_in_a_short_cell_hears_of_its_end(shell, session, ear):
    run(
        shell,
        "%%gpumem",
        "from nbmem.session import current_session",
        "asked = current_session().sampler.read()",
    )
    assert shell.user_ns["asked"].running
    assert [False] == [reading.running for reading in ear.heard]
