"""Machines whose driver tells less, or something else: WSL, unified memory, containers, MIG."""

import os
import re
import sys
from types import SimpleNamespace

import psutil
import pytest
from ledger_machine import Machine, closes, lines, sentences, sum_called
from recordings import needs_recordings, nvml_text
from simulated_cuda import block, segment
from simulated_nvml import NotFoundError, card, process

from nbmem.devices import accelerators, namespaces, nvml
from nbmem.devices.namespaces import in_container, own_number

KIB, MIB, GIB = 2**10, 2**20, 2**30
BASE = 0x7F00_0000_0000
UUID = "GPU-00000000-1111-2222-3333-4444"
ELSE, OTHER = 2**30, 2**30 + 1  # numbers that no process of this system can have


@pytest.fixture
def begin(monkeypatch):
    """Starts a machine with one card, on which this process's allocator has reserved bytes."""

    def begin(of_driver, reserved=GIB, **cuda):
        machine = Machine(monkeypatch, cards=[of_driver])
        of_driver.uuid = UUID
        for name, value in cuda.items():
            setattr(machine.cuda, name, value)
        if reserved:
            machine.cuda.devices[0].hold(segment(BASE, block(reserved)))
            machine.find(reserved, BASE)
        return machine

    return begin


def reading(machine):
    return machine.devices.read("cuda:0")[0]


def notes(machine, field="capacity"):
    return {note.code: note.sentence for note in reading(machine).notes if note.field == field}


# --- unified memory -------------------------------------------------------------------------------


def has_memory(monkeypatch, available):
    monkeypatch.setattr(accelerators, "available_memory", lambda: available)


def test_on_unified_memory_torch_can_get_what_the_system_calls_available(begin, monkeypatch):
    """What CUDA calls free leaves out the pages of files, which the system gives up on demand."""
    machine = begin(card("0", total=None), total=120 * GIB, others=80 * GIB, integrated=True)
    has_memory(monkeypatch, available=100 * GIB)  # CUDA says: 120 − 80 − 1 = 39 GiB free
    parts = reading(machine).parts
    assert (101 * GIB, 120 * GIB, None, 19 * GIB) == (
        parts.bytes, parts.total, parts.driver, parts.others,
    )  # fmt: skip
    assert parts.unified
    assert ["unified_memory"] == list(notes(machine))
    assert "do not add them to the host's" in notes(machine)["unified_memory"]


def test_what_anything_else_takes_of_unified_memory_torch_can_not_get(begin, monkeypatch):
    machine = begin(card("0", total=None), total=120 * GIB, integrated=True, others=119 * GIB)
    has_memory(monkeypatch, available=10 * GIB)
    assert 11 * GIB == reading(machine).capacity
    has_memory(monkeypatch, available=4 * GIB)
    assert 5 * GIB == reading(machine).capacity


def test_no_more_than_cuda_can_use_of_main_memory(begin, monkeypatch):
    machine = begin(card("0", total=None), total=45 * GIB, integrated=True, others=0)
    has_memory(monkeypatch, available=100 * GIB)
    assert (45 * GIB, 0) == (reading(machine).capacity, reading(machine).parts.others)


def test_a_part_that_the_driver_sets_aside_is_not_the_device(begin, monkeypatch):
    """An RTX Spark's driver tells 8,128 MiB of 46,477 that CUDA can use."""
    set_aside = card("0", total=8128 * MIB, used=200 * MIB)
    machine = begin(set_aside, total=46477 * MIB, integrated=True, others=20 * GIB)
    has_memory(monkeypatch, available=30 * GIB)
    assert (31 * GIB, 46477 * MIB) == (reading(machine).capacity, reading(machine).parts.total)


def test_the_ledger_of_unified_memory_is_one_sum_that_closes(begin, monkeypatch):
    machine = begin(card("0", total=None), total=120 * GIB, integrated=True, others=80 * GIB)
    has_memory(monkeypatch, available=100 * GIB)
    machine.driver.processes = {"Compute": [process(os.getpid(), GIB + 300 * MIB)]}
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert {
        "reserved": GIB,
        "context": 300 * MIB,
        "other processes": 0,
        "free": 100 * GIB,
        "unlisted": 19 * GIB - 300 * MIB,
    } == lines(total)
    assert closes(total)
    assert "main memory, which the device shares" == total.total.label
    assert "main memory that anything else uses" == total.lines[-1].label
    assert "psutil.virtual_memory().available" == total.lines[3].equals
    assert 101 * GIB == ledger.capacity.bytes


def test_the_ledger_of_main_memory_says_that_the_device_is_a_part_of_it(begin, monkeypatch):
    machine = begin(card("0", total=None), total=120 * GIB, integrated=True)
    has_memory(monkeypatch, available=100 * GIB)
    installed = sum_called(machine.take("cpu").devices[1], "installed")
    assert "unified_memory" in [note.code for note in installed.notes]
    machine.cuda.integrated = False
    plain = begin(card("0", used=2 * GIB))
    installed = sum_called(plain.take("cpu").devices[1], "installed")
    assert "unified_memory" not in [note.code for note in installed.notes]


def test_what_is_available_is_what_the_system_says():
    assert abs(psutil.virtual_memory().available - accelerators.available_memory()) < GIB


def test_before_cuda_starts_nothing_is_made_up(monkeypatch):
    machine = Machine(monkeypatch, started=False, cards=[card("0", total=None)])
    told = reading(machine)
    assert (None, None, None) == (told.capacity, told.parts, told.driver_used)
    assert ["cuda:0 tells its capacity once it has been used."] == list(notes(machine).values())


@pytest.mark.parametrize(
    "told",
    [
        {"total": 0, "used": 0, "free": 0},
        {"total": 8 * GIB, "used": 2**64 - 1, "free": 0},
        {"total": 8 * GIB, "used": -1, "free": 9 * GIB},
    ],
)
def test_figures_that_can_not_be_true_are_not_taken(begin, told):
    machine = begin(card("0", told={"reserved": 0, **told}))
    with pytest.raises(Exception, match=r"^The NVIDIA driver's figures of this GPU can't be true"):
        machine.devices.accelerators()[0].card()
    assert 8 * GIB - 300 * MIB == reading(machine).capacity  # as torch has it


def test_amd_chips_that_share_memory_say_that_their_total_may_be_a_part(begin, monkeypatch):
    machine = begin(card("0"), total=16 * GIB, others=GIB, integrated=True)
    monkeypatch.setattr("torch.version.cuda", None)
    machine.devices = type(machine.devices)(SimpleNamespace(device="cpu", allocated=lambda: 0))
    has_memory(monkeypatch, available=100 * GIB)
    assert (15 * GIB, True) == (reading(machine).capacity, reading(machine).parts.unified)
    assert "rocm-smi" in notes(machine)["unified_memory"]


@needs_recordings
def test_a_recorded_gb10_that_tells_nothing_is_read_by_torch_and_the_system(begin, monkeypatch):
    text = nvml_text("gb10-unified")
    refusals = re.findall(r"-> NVML_ERROR_(\w+)", text)
    installed, available = (
        int(re.search(rf"{name}: +(\d+) kB", text)[1]) * KIB
        for name in ("MemTotal", "MemAvailable")
    )
    assert ["NOT_SUPPORTED", "NOT_SUPPORTED"] == refusals
    machine = begin(card("0", total=None), total=installed, integrated=True, others=60 * GIB)
    has_memory(monkeypatch, available)
    assert min(installed, available + GIB) == reading(machine).capacity
    assert "[N/A], [N/A], [N/A]" in nvml_text("gb10-nvidia-smi")


# --- Windows and WSL ------------------------------------------------------------------------------


def test_under_wddm_more_than_the_card_may_be_had_and_this_is_said(begin):
    machine = begin(card("0", total=6 * GIB, used=2 * GIB), total=6 * GIB)
    machine.driver.model = 0
    assert 4 * GIB + 512 * MIB == reading(machine).capacity  # 1 reserved, 3.5 free
    assert ["lends_main_memory"] == list(notes(machine))
    assert (
        "torch.cuda.set_per_process_memory_fraction(0.95)" in (notes(machine)["lends_main_memory"])
    )


@pytest.mark.parametrize("model", [1, 2, None])
def test_other_drivers_lend_nothing(begin, model):
    machine = begin(card("0", total=6 * GIB, used=2 * GIB), total=6 * GIB)
    machine.driver.model = model
    assert {} == notes(machine)


def test_wsl_is_known_by_its_kernel(begin, monkeypatch):
    monkeypatch.setattr(nvml.platform, "release", lambda: "5.15.137.3-microsoft-standard-WSL2")
    machine = begin(card("0", total=6 * GIB, used=2 * GIB), total=6 * GIB)
    assert ["lends_main_memory"] == list(notes(machine))


def test_what_was_lent_already_is_proof_enough(begin):
    """8 GiB in all, 19.15 of them reserved: as an error's text had it."""
    machine = begin(card("0", total=8 * GIB, used=7 * GIB), reserved=19 * GIB)
    parts = reading(machine).parts
    assert (8 * GIB - 512 * MIB, 0) == (parts.bytes, parts.others)
    assert ["lends_main_memory"] == list(notes(machine))
    assert closes(sum_called(machine.gpu(), "total"))


@pytest.mark.parametrize("size", [None, 2**64 - 1, 2**63])
def test_a_process_without_a_figure_is_one_whichever_way_it_is_written(begin, size):
    machine = begin(card("0", total=8 * GIB, used=3 * GIB))
    machine.driver.processes = {"Compute": [process(os.getpid(), size), process(ELSE, size)]}
    ledger = machine.gpu()
    assert {None} == {row.bytes for row in ledger.processes}
    total = sum_called(ledger, "total")
    assert (2 * GIB, True) == (lines(total)["other use"], closes(total))


@needs_recordings
def test_a_recorded_card_of_windows_lends(begin):
    text = nvml_text("windows-wddm")
    used, total = (int(size) * MIB for size in re.search(r"(\d+)MiB / +(\d+)MiB", text).groups())
    assert "WDDM" in text
    told = {"total": total, "used": used, "free": total - used}  # a driver of its time, version 1
    machine = begin(card("0", told=told), reserved=256 * MIB, total=total)
    machine.driver.model = 0
    assert 256 * MIB + total - used == reading(machine).capacity
    assert ["lends_main_memory"] == list(notes(machine))


# --- containers -----------------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """What Linux tells of this process: its numbers, and whether they are the machine's."""

    def proc(*numbers, apart=True):
        (tmp_path / "ns").mkdir(exist_ok=True)
        (tmp_path / "ns" / "pid").write_text("")
        told = "\t".join(str(number) for number in numbers)
        (tmp_path / "status").write_text(f"Name:\tpython\nNSpid:\t{told}\nThreads:\t1\n")
        inode = (tmp_path / "ns" / "pid").stat().st_ino
        monkeypatch.setattr(namespaces, "_OF_THE_MACHINE", inode + apart)
        return tmp_path

    return proc


def test_on_the_machine_itself_this_process_is_its_number(proc):
    folder = proc(os.getpid(), apart=False)
    assert not in_container(folder)
    assert os.getpid() == own_number([os.getpid(), unused_number()], folder)
    assert own_number([unused_number()], folder) is None


def unused_number():
    return next(n for n in range(2**22, 2, -1) if not psutil.pid_exists(n))


def test_in_a_container_the_same_number_is_somebody_else_where_others_are_the_machines(proc):
    folder = proc(os.getpid())
    assert in_container(folder)
    assert own_number([os.getpid(), unused_number()], folder) is None


def test_newer_drivers_number_processes_as_the_container_does(proc):
    folder = proc(os.getpid())
    assert os.getpid() == own_number([os.getpid(), os.getppid()], folder)
    assert os.getpid() == own_number([os.getpid()], folder)


def test_a_number_outside_that_linux_shows_is_this_process(proc):
    assert 4321 == own_number([4321, os.getpid()], proc(4321, os.getpid()))
    assert os.getpid() == own_number([os.getpid()], proc(4321, os.getpid()))


def test_where_linux_tells_nothing_the_number_is_taken(tmp_path):
    assert not in_container(tmp_path)
    assert os.getpid() == own_number([os.getpid()], tmp_path)


def in_a_container(monkeypatch, folder):
    monkeypatch.setattr(namespaces.own_number, "__defaults__", (folder,))
    monkeypatch.setattr(namespaces.in_container, "__defaults__", (folder,))


def test_the_ledger_does_not_take_another_process_for_this_one(begin, proc, monkeypatch):
    machine = begin(card("0", total=8 * GIB, used=3 * GIB))
    in_a_container(monkeypatch, proc(os.getpid()))
    # The machine's process of this number has more than torch reserved: its bytes are no sign.
    machine.driver.processes = {
        "Compute": [process(os.getpid(), 2 * GIB), process(unused_number(), GIB + 100 * MIB)]
    }
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert {False} == {row.own for row in ledger.processes}
    assert (2 * GIB, True) == (lines(total)["other use"], closes(total))


def test_in_a_container_processes_outside_are_said_not_to_be_listed(begin, proc, monkeypatch):
    machine = begin(card("0", total=8 * GIB, used=6 * GIB))
    in_a_container(monkeypatch, proc(os.getpid()))
    machine.driver.processes = {"Compute": [process(os.getpid(), GIB + 300 * MIB)]}
    ledger = machine.gpu()
    total = sum_called(ledger, "total")
    assert (300 * MIB, 5 * GIB - 300 * MIB) == (lines(total)["context"], lines(total)["unlisted"])
    assert closes(total)
    assert [note.sentence for note in ledger.notes if note.code == "container"] == [
        "In this container the driver lists the container's own processes only: what others use is "
        "in the line of no listed process; start the container with --pid=host to see them."
    ]
    assert 3 * GIB - 512 * MIB == ledger.capacity.bytes  # 1 reserved, 1.5 free: no list is needed


def test_a_driver_that_lists_this_process_with_nothing_tells_nothing(begin):
    """Some drivers number processes as the container does, and then find no figure for them."""
    machine = begin(card("0", total=8 * GIB, used=3 * GIB))
    machine.driver.processes = {"Compute": [process(os.getpid(), 0)]}
    total = sum_called(machine.gpu(), "total")
    assert (2 * GIB, True) == (lines(total)["other use"], closes(total))
    assert any("does not tell what this process uses" in text for text in sentences(total.notes))


# --- MIG ------------------------------------------------------------------------------------------


def mig(begin, monkeypatch, instances, visible=None, **more):
    machine = begin(card("0", total=80 * GIB, used=40 * GIB, mig=True), **more)
    machine.driver.mig = {f"MIG-{name}": told for name, told in instances.items()}
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    return machine


def test_of_a_divided_card_the_only_instance_is_this_processes(begin, monkeypatch):
    machine = mig(begin, monkeypatch, {"a": (20 * GIB, 3 * GIB)}, total=20 * GIB)
    parts = reading(machine).parts
    assert (20 * GIB - 512 * MIB - 2 * GIB, 20 * GIB, True) == (
        parts.bytes, parts.total, parts.instance,
    )  # fmt: skip


def test_of_several_instances_none_is_guessed_and_the_cards_total_is_never_shown(
    begin, monkeypatch
):
    two = {"a": (20 * GIB, GIB), "b": (20 * GIB, 9 * GIB)}
    machine = mig(begin, monkeypatch, two, total=20 * GIB)
    told = reading(machine)
    assert (20 * GIB - 300 * MIB, 20 * GIB) == (told.capacity, told.parts.total)  # torch's figures
    assert 80 * GIB not in (told.capacity, told.parts.total, told.driver_used)


def test_an_instance_that_is_named_is_read_by_itself(begin, monkeypatch):
    two = {"a": (20 * GIB, GIB), "b": (10 * GIB, 4 * GIB)}
    machine = mig(begin, monkeypatch, two, visible="MIG-b", total=10 * GIB)
    parts = reading(machine).parts
    assert (10 * GIB - 512 * MIB - 3 * GIB, 10 * GIB) == (parts.bytes, parts.total)


def test_a_card_that_does_not_say_it_is_divided_is_known_by_its_size(begin):
    """Where the mode can't be asked, torch sees 20 GiB of a card of 80."""
    machine = begin(card("0", total=80 * GIB, used=40 * GIB), total=20 * GIB)
    told = reading(machine)
    assert (20 * GIB - 300 * MIB, 20 * GIB) == (told.capacity, told.parts.total)
    assert ["not_trusted"] == list(notes(machine))
    total = sum_called(machine.gpu(), "total")
    assert (20 * GIB, True) == (total.total.bytes, closes(total))


@needs_recordings
def test_recorded_instances_are_each_read_by_themselves(begin, monkeypatch):
    found = re.findall(r"(\d+)MiB / (\d+)MiB \|\s*\d", nvml_text("mig"))
    sizes = [(int(total) * MIB, int(used) * MIB) for used, total in found]
    assert [(19968 * MIB, 14366 * MIB), (19968 * MIB, 9880 * MIB)] == sizes
    instances = dict(zip("ab", sizes, strict=True))
    for name, (total, used) in instances.items():
        machine = mig(begin, monkeypatch, instances, visible=f"MIG-{name}", total=total)
        parts = reading(machine).parts
        assert (total - 512 * MIB - used + GIB, total) == (parts.bytes, parts.total)


def test_a_package_that_knows_no_instances_refuses_the_divided_card(begin, monkeypatch):
    machine = mig(begin, monkeypatch, {"a": (20 * GIB, GIB)}, total=20 * GIB)

    def unknown(*_):
        raise NotFoundError("Function Not Found")

    monkeypatch.setattr(sys.modules["pynvml"], "nvmlDeviceGetMaxMigDeviceCount", unknown)
    assert 20 * GIB == reading(machine).parts.total
