"""Which card of the driver's is torch's device, and how full it is."""

import os
import sys
from types import SimpleNamespace

import pytest

from nbmem.devices.nvml import Nvml
from nbmem.devices.protocols import CounterUnavailableError

GIB = 2**30


class NotFoundError(Exception):
    """What NVML raises for a card or function that it does not have."""


class FakeDriver:
    """The part of pynvml that nbmem calls, over cards that a test describes."""

    nvmlMemory_v2 = 0x02000028

    def __init__(self, *cards, mig=()):
        self.cards = list(cards)
        self.mig = {f"MIG-{name}": total for name, total in dict(mig).items()}
        self.calls = []

    def nvmlInit(self):
        self.calls.append("init")

    def nvmlShutdown(self):
        self.calls.append("shutdown")

    def nvmlDeviceGetCount(self):
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for card in self.cards:
            if card.uuid == uuid:
                return card
        if uuid in self.mig:
            return SimpleNamespace(uuid=uuid, total=self.mig[uuid], used=GIB, instance=True)
        raise NotFoundError("Not Found")

    def nvmlDeviceGetUUID(self, card):
        return card.uuid

    def nvmlDeviceGetName(self, card):
        return card.name

    def nvmlDeviceIsMigDeviceHandle(self, card):
        return SimpleNamespace(value=int(getattr(card, "instance", False)))

    def nvmlDeviceGetMigMode(self, card):
        if not hasattr(card, "mig"):
            raise NotFoundError("Not Supported")
        return [int(card.mig), 0]

    def nvmlDeviceGetMemoryInfo(self, card, version=None):
        if card.total is None:
            raise NotFoundError("Not Supported")
        kept_by_the_driver = 0 if version else GIB // 2
        return SimpleNamespace(total=card.total, used=card.used + kept_by_the_driver)


def card(letter, total=8 * GIB, used=GIB, name="NVIDIA A", **more):
    return SimpleNamespace(uuid=f"GPU-{letter * 8}-1", total=total, used=used, name=name, **more)


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
