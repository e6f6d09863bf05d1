"""The sum of the whole card: this process, others, the driver, and what is free."""

import os

import pytest
from ledger_machine import GIB, MIB, Machine, closes, lines, sentences, sum_called
from simulated_cuda import block, segment
from simulated_nvml import card, process

BASE = 0x7F00_0000_0000
FIRST, SECOND = 2**30, 2**30 + 1  # numbers that no process of this system can have
CARD = {"total": 8 * GIB, "used": 3 * GIB}  # of which the driver keeps 512 MiB beyond `used`
FREE = 8 * GIB - 3 * GIB - 512 * MIB


@pytest.fixture
def machine(monkeypatch):
    """This process has reserved 1 GiB on a card of 8, of which 3 are in use."""
    made = Machine(monkeypatch, cards=[card("0", **CARD)])
    made.driver.cards[0].uuid = "GPU-00000000-1111-2222-3333-4444"  # as torch knows it
    made.cuda.devices[0].hold(segment(BASE, block(GIB)))
    made.find(GIB, BASE)
    return made


def runs(machine, *processes, kind="Compute"):
    machine.driver.processes = {kind: [process(*pair) for pair in processes]}


def test_the_card_is_this_process_others_the_driver_and_free(machine):
    runs(machine, (os.getpid(), GIB + 400 * MIB), (FIRST, GIB), (SECOND, 600 * MIB))
    machine.driver.names = {FIRST: "train.py"}
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert {
        "reserved": GIB,
        "context": 400 * MIB,
        "other processes": GIB + 600 * MIB,
        "driver": 512 * MIB,
        "free": FREE,
        "unlisted": 24 * MIB,  # used 3,072 MiB, of which 3,048 are some process's
    } == lines(total)
    assert 8 * GIB == total.total.bytes
    assert ["unlisted"] == [line.code for line in total.lines if line.derived]
    assert closes(total)
    assert [(FIRST, "train.py", GIB), (SECOND, None, 600 * MIB)] == [
        (row.pid, row.name, row.bytes) for row in ledger.processes[1:] if not row.own
    ]
    assert (os.getpid(), True) == (ledger.processes[0].pid, ledger.processes[0].own)


def test_each_line_names_the_figure_of_nvidia_smi(machine):
    runs(machine, (os.getpid(), GIB + 400 * MIB), (FIRST, GIB))
    total = sum_called(machine.gpu(), "total")
    assert [
        "torch.cuda.memory_reserved(0)",
        "nvidia-smi: GPU Memory of this process − reserved",
        "nvidia-smi: GPU Memory of the other processes",
        "nvidia-smi -i 0 --query-gpu=memory.reserved",
        "nvidia-smi -i 0 --query-gpu=memory.free",
        "nvidia-smi -i 0 --query-gpu=memory.used − the processes",
    ] == [line.equals for line in total.lines]
    assert "nvidia-smi -i 0 --query-gpu=memory.total" == total.total.equals


def test_alone_on_the_card_others_have_nothing(machine):
    runs(machine, (os.getpid(), 3 * GIB))
    total = sum_called(machine.gpu(), "total")
    assert {
        "reserved": GIB,
        "context": 2 * GIB,
        "other processes": 0,
        "driver": 512 * MIB,
        "free": FREE,
    } == lines(total)
    assert closes(total)
    assert 0 == total.remainder


MERGED = {"reserved": GIB, "other use": 2 * GIB, "driver": 512 * MIB, "free": FREE}


def is_merged(total):
    assert MERGED == lines(total)
    assert ["other use"] == [line.code for line in total.lines if line.derived]
    assert closes(total)
    return True


def test_in_a_container_where_this_process_is_not_listed_one_line_is_derived(machine):
    runs(machine, (FIRST, GIB + 400 * MIB), (SECOND, GIB))
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert is_merged(total)
    assert [
        "The driver does not list this process (inside a container its numbers are not the "
        "driver's), so its context can't be told from other processes."
    ] == sentences(total.notes)
    assert [(FIRST, False), (SECOND, False)] == [(row.pid, row.own) for row in ledger.processes]


def test_in_a_container_that_lists_no_process_at_all_one_line_is_derived(machine):
    runs(machine)
    ledger = machine.gpu()
    assert is_merged(sum_called(ledger, "total"))
    assert () == ledger.processes


def test_in_a_container_where_this_number_is_another_process_it_is_not_believed(machine):
    runs(machine, (os.getpid(), 300 * MIB), (SECOND, GIB + 400 * MIB))
    total = sum_called(machine.gpu(), "total")
    assert is_merged(total)
    assert [
        "The driver lists less for this process's number than torch has reserved: that number is "
        "another process's outside the container."
    ] == sentences(total.notes)


def test_under_wsl_where_no_process_has_a_figure_one_line_is_derived(machine):
    runs(machine, (os.getpid(), None), (FIRST, None))
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert is_merged(total)
    assert [
        "The driver does not tell what this process uses (as under WSL and in some containers), "
        "so its context can't be told from other processes.",
        "The driver does not tell what each of the other processes uses.",
    ] == sentences(total.notes)
    assert {None} == {row.bytes for row in ledger.processes}


def test_where_processes_are_not_listed_at_all_the_sum_still_closes(machine):
    machine.driver.processes = {}
    total = sum_called(machine.gpu(), "total")
    assert is_merged(total)
    assert [
        "The NVIDIA driver does not list the processes on this GPU: Not Supported."
    ] == sentences(total.notes)


def test_where_only_this_process_has_a_figure_the_others_are_derived(machine):
    runs(machine, (os.getpid(), GIB + 400 * MIB), (FIRST, None))
    total = sum_called(machine.gpu(), "total")
    assert {
        "reserved": GIB,
        "context": 400 * MIB,
        "other processes": GIB + 624 * MIB,
        "driver": 512 * MIB,
        "free": FREE,
    } == lines(total)
    assert ["other processes"] == [line.code for line in total.lines if line.derived]
    assert closes(total)


def test_before_this_process_uses_the_card_it_says_who_does(monkeypatch):
    machine = Machine(monkeypatch, started=False, cards=[card("0", **CARD)])
    machine.cuda.contexts = set()
    runs(machine, (FIRST, 3 * GIB))
    total = sum_called(machine.gpu(), "total")
    assert {
        "reserved": 0,
        "context": 0,
        "other processes": 3 * GIB,
        "driver": 512 * MIB,
        "free": FREE,
    } == lines(total)
    assert closes(total)
    assert 0 == machine.cuda.early_calls


def test_an_old_driver_counts_what_it_keeps_as_used_and_this_is_said(machine):
    machine.driver.old = True
    runs(machine, (os.getpid(), 3 * GIB))
    total = sum_called(machine.gpu(), "total")
    assert {
        "reserved": GIB,
        "context": 2 * GIB,
        "other processes": 0,
        "free": FREE,
        "unlisted": 512 * MIB,
    } == lines(total)
    assert [
        "This driver counts what it keeps for itself as used: it has no line of its own."
    ] == sentences(total.notes)


def test_on_a_mig_instance_the_sum_is_the_instances(monkeypatch):
    machine = Machine(monkeypatch, cards=[card("0", mig=True)])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-77")
    machine.driver.mig = {"MIG-77": 2 * GIB}  # of which 1 GiB is in use, 512 MiB kept
    machine.cuda.devices[0].hold(segment(BASE, block(256 * MIB)))
    machine.find(256 * MIB, BASE)
    runs(machine, (os.getpid(), 600 * MIB), (FIRST, 424 * MIB))
    total = sum_called(machine.gpu(), "total")
    assert {
        "reserved": 256 * MIB,
        "context": 344 * MIB,
        "other processes": 424 * MIB,
        "driver": 512 * MIB,
        "free": 512 * MIB,
    } == lines(total)
    assert closes(total)
    assert ("the MIG instance's total", 2 * GIB) == (total.total.label, total.total.bytes)
    figure = "nvidia-smi: Memory-Usage of MIG-77, under MIG devices"
    assert figure == total.total.equals
    assert [figure, figure] == [line.equals for line in total.lines[3:]]


def test_a_card_named_by_its_uuid_is_that_card(monkeypatch):
    cards = [card("a", used=GIB), card("b", used=2 * GIB)]
    machine = Machine(monkeypatch, started=False, cards=cards)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bb")
    machine.cuda.contexts = set()
    runs(machine, (FIRST, 2 * GIB))
    total = sum_called(machine.gpu(), "total")
    assert 8 * GIB - 2 * GIB - 512 * MIB == lines(total)["free"]
    assert "nvidia-smi -i 1 --query-gpu=memory.total" == total.total.equals


def test_without_nvidias_package_the_ledger_ends_at_reserved_and_says_how_to_go_on(monkeypatch):
    machine = Machine(monkeypatch)
    machine.cuda.devices[0].hold(segment(BASE, block(GIB)))
    ledger = machine.gpu()
    assert ["allocated", "reserved"] == [one.code for one in ledger.sums]
    assert [
        "The ledger ends at reserved. Whole-GPU figures need NVIDIA's package: "
        "pip install nvidia-ml-py"
    ] == sentences(ledger.notes)
    assert () == ledger.processes


def test_without_a_driver_the_ledger_ends_at_reserved_and_says_why(machine):
    def no_driver():
        raise RuntimeError("Driver Not Loaded")

    machine.driver.nvmlInit = no_driver
    ledger = machine.gpu()
    assert ["allocated", "reserved"] == [one.code for one in ledger.sums]
    assert [
        "The ledger ends at reserved. The NVIDIA driver could not be asked: Driver Not Loaded."
    ] == sentences(ledger.notes)


def test_processes_that_come_while_reading_leave_less_than_nothing_and_it_is_shown(machine):
    runs(machine, (os.getpid(), GIB + 400 * MIB), (FIRST, 4 * GIB))
    total = sum_called(machine.gpu(), "total")
    assert 3 * GIB - (5 * GIB + 400 * MIB) == lines(total)["unlisted"]
    assert closes(total)
