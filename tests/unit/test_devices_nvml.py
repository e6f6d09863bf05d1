"""Which card of the driver's is torch's device, and how full it is."""

import os
import sys

import psutil
import pytest
from simulated_nvml import FakeDriver, NotFoundError, card, process

from nbmem.devices.nvml import Nvml
from nbmem.devices.protocols import CounterUnavailableError

GIB = 2**30
MIB = 2**20
ONE, TWO, THREE, FOUR = range(2**30, 2**30 + 4)
"""Numbers that no process of this system can have."""


@pytest.fixture
def start(monkeypatch):
    """Gives NVML over the cards of a test, under the CUDA_VISIBLE_DEVICES of a test."""

    def start(*cards, visible=None, **more):
        driver = FakeDriver(*cards, **more)
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return Nvml(), driver

    return start


def refusal(nvml, index=0, uuid=None):
    with pytest.raises(CounterUnavailableError) as refused:
        nvml.memory(index, uuid)
    return str(refused.value)


def test_the_uuid_that_torch_knows_finds_the_card_whatever_its_number(start):
    nvml, _ = start(card("a", used=1), card("b", used=2))
    assert 2 == nvml.memory(0, "bbbbbbbb-1").used


def test_used_is_what_nvidia_smi_says_without_what_the_driver_keeps(start):
    nvml, _ = start(card("a", total=8 * GIB, used=3 * GIB))
    memory = nvml.memory(0, None)
    assert (3 * GIB, 8 * GIB) == (memory.used, memory.total)


@pytest.mark.parametrize(
    ("visible", "index", "used"),
    [("1", 0, 2), ("2,0", 0, 3), ("2,0", 1, 1), ("GPU-bb", 0, 2), ("GPU-cc,GPU-aa", 1, 1)],
)
def test_before_cuda_starts_the_environment_says_which_card_it_is(start, visible, index, used):
    cards = [card(letter, used=number) for number, letter in enumerate("abc", 1)]
    nvml, _ = start(*cards, visible=visible)
    assert used == nvml.memory(index, None).used


def test_a_mig_instance_is_read_and_not_its_whole_card(start):
    nvml, _ = start(card("a", mig=True), mig={"77": 2 * GIB}, visible="MIG-77")
    assert 2 * GIB == nvml.memory(0, "aaaaaaaa-1").total


def test_a_divided_card_is_never_taken_for_one_of_its_instances(start):
    nvml, _ = start(card("a", mig=True))
    assert (
        "This GPU is divided into MIG instances: "
        "name one by its UUID in CUDA_VISIBLE_DEVICES." == refusal(nvml)
    )


def test_unlike_cards_are_told_apart_only_once_cuda_has_started(start, monkeypatch):
    nvml, _ = start(card("a", used=1, name="NVIDIA A"), card("b", used=2, name="NVIDIA B"))
    assert "Which card this is will be known once CUDA has started: " in refusal(nvml)
    assert 2 == nvml.memory(0, "bbbbbbbb-1").used
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert 1 == nvml.memory(0, None).used


@pytest.mark.parametrize(
    ("visible", "index", "sentence"),
    [
        ("0", 1, "CUDA_VISIBLE_DEVICES has no entry for cuda:1."),
        ("5", 0, "The NVIDIA driver knows no card number 5."),
        ("GPU-", 0, "2 cards have a UUID that begins with the entry in CUDA_VISIBLE_DEVICES."),
        ("-1", 0, "The entry for cuda:0 in CUDA_VISIBLE_DEVICES is no number and no UUID."),
    ],
)
def test_an_entry_that_names_no_single_card_gives_no_figure(start, visible, index, sentence):
    nvml, _ = start(card("a"), card("b"), visible=visible)
    assert sentence == refusal(nvml, index)


def test_a_card_without_its_own_memory_has_no_figure_but_a_reason(start):
    nvml, _ = start(card("a", total=None))
    assert "The NVIDIA driver does not say how full this GPU is: Not Supported." == refusal(nvml)


def test_without_the_package_the_line_that_installs_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "Whole-GPU figures need NVIDIA's package: pip install nvidia-ml-py" == refusal(Nvml())


def test_without_a_driver_the_reason_is_told(start):
    nvml, driver = start()

    def no_driver():
        raise NotFoundError("Driver Not Loaded")

    driver.nvmlInit = no_driver
    assert "The NVIDIA driver could not be asked: Driver Not Loaded." == refusal(nvml)


def test_the_driver_is_asked_to_start_once_and_let_go_at_the_end(start):
    nvml, driver = start(card("a"))
    nvml.memory(0, None)
    nvml.memory(0, None)
    nvml.close()
    nvml.close()
    assert ["init", "shutdown"] == driver.calls


def test_a_forked_child_starts_the_driver_for_itself(start, monkeypatch):
    nvml, driver = start(card("a"))
    nvml.memory(0, None)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    nvml.memory(0, None)
    assert ["init", "init"] == driver.calls


def test_the_card_is_used_kept_by_the_driver_and_free_bytes(start):
    nvml, _ = start(card("a", total=8 * GIB, used=3 * GIB))
    memory = nvml.memory(0, None)
    assert 3 * GIB + GIB // 2 + memory.free == 8 * GIB
    assert (GIB // 2, "0", False) == (memory.reserved, memory.selector, memory.instance)


def test_an_old_driver_counts_what_it_keeps_as_used(start):
    nvml, driver = start(card("a", total=8 * GIB, used=3 * GIB))
    driver.old = True
    memory = nvml.memory(0, None)
    assert (3 * GIB + GIB // 2, None) == (memory.used, memory.reserved)
    assert 4 * GIB + GIB // 2 == memory.free


def test_a_mig_instance_says_that_it_is_one(start):
    nvml, _ = start(card("a", mig=True), mig={"77": 2 * GIB}, visible="MIG-77")
    memory = nvml.memory(0, None)
    assert (True, "MIG-77") == (memory.instance, memory.selector)


def test_processes_are_listed_once_largest_first_with_the_drivers_names(start):
    nvml, driver = start(card("a"))
    driver.processes = {
        "Compute": [process(ONE, 5 * MIB), process(TWO, 7 * MIB)],
        "Graphics": [process(THREE, 6 * MIB), process(TWO, 7 * MIB)],
        "MPSCompute": [process(FOUR, 1)],
    }
    driver.names = {ONE: b"python", TWO: "train --large", THREE: b"/usr/bin/Xorg"}
    assert [
        (TWO, "train --large", 7 * MIB, False),
        (THREE, "/usr/bin/Xorg", 6 * MIB, False),
        (ONE, "python", 5 * MIB, False),
        (FOUR, None, 1, False),
    ] == [(row.pid, row.name, row.bytes, row.own) for row in nvml.processes(0, None)]


def test_this_process_is_marked_and_named_by_the_system_where_the_driver_is_silent(start):
    nvml, driver = start(card("a"))
    driver.processes = {"Compute": [process(os.getpid(), 5 * MIB), process(ONE, MIB)]}
    own, other = nvml.processes(0, None)
    assert (os.getpid(), True) == (own.pid, own.own)
    assert psutil.Process().name() == own.name
    assert not other.own


def test_a_number_of_another_pid_namespace_is_never_named_by_this_one(start):
    nvml, driver = start(card("a"))
    parent = os.getppid()  # a process here; outside the container that number is another one
    driver.processes = {"Compute": [process(parent, MIB)]}
    (row,) = nvml.processes(0, None)
    assert (parent, None) == (row.pid, row.name)


def test_a_process_whose_memory_is_not_told_has_none_and_stands_last(start):
    nvml, driver = start(card("a"))
    driver.processes = {"Compute": [process(ONE, None), process(TWO, 1)]}
    assert [(TWO, 1), (ONE, None)] == [(row.pid, row.bytes) for row in nvml.processes(0, None)]


def test_a_card_that_lists_no_processes_says_so(start):
    nvml, driver = start(card("a"))
    driver.processes = {}
    with pytest.raises(CounterUnavailableError) as refused:
        nvml.processes(0, None)
    assert "The NVIDIA driver does not list the processes on this GPU: Not Supported." == str(
        refused.value
    )
